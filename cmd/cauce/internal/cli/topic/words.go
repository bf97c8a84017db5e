package topic

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// uuid words a topic id as Kafka does: base64 for URLs, no padding. The zero id is unknown.
func uuid(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// count words a number that the cluster may not have told.
func count(n int32) string { return known(int64(n)) }

func known(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func ids(nodes []int32) string {
	texts := make([]string, len(nodes))
	for i, id := range nodes {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}

func sorted(configs map[string]string) string {
	texts := make([]string, 0, len(configs))
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		texts = append(texts, key+"="+configs[key])
	}
	return strings.Join(texts, " ")
}
