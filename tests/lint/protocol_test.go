package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/node/anywhere"
	"github.com/cauce-stream/cauce/services/broker"
)

var protocolRow = regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \| (\d+)(?:–(\d+))? \|`)

// TestProtocolPageListsWhatIsServed compares docs/protocol.md with the APIs and
// versions that a broker registers.
func TestProtocolPageListsWhatIsServed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[int16]string{}
	for _, row := range protocolRow.FindAllStringSubmatch(string(page), -1) {
		key, err := strconv.ParseInt(row[1], 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		last := row[4]
		if last == "" {
			last = row[3]
		}
		documented[int16(key)] = fmt.Sprintf("%s %s–%s", row[2], row[3], last)
	}
	for _, api := range served(t) {
		want := fmt.Sprintf("%s %d–%d", kmsg.NameForKey(api.ApiKey), api.MinVersion, api.MaxVersion)
		if !strings.EqualFold(documented[api.ApiKey], want) {
			t.Errorf("docs/protocol.md says %q of key %d, served is %s", documented[api.ApiKey], api.ApiKey, want)
		}
		delete(documented, api.ApiKey)
	}
	for key, row := range documented {
		t.Errorf("docs/protocol.md lists key %d (%s), which is not served", key, row)
	}
}

func served(t *testing.T) []kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	static := configkeys.Broker().Defaults()
	b, err := broker.New(t.Context(), broker.Config{NodeID: 1, LogDirs: []string{t.TempDir()}, Static: static}, broker.Deps{Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := node.New(node.Config{ID: 1, Static: static}, node.Deps{Log: zap.NewNop()})
	router := server.NewRouter()
	anywhere.Register(router, n, anywhere.Options{OwnLogDirs: true})
	b.Serve(n, router)
	return router.Versions()
}
