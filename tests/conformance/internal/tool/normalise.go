package tool

import (
	"regexp"
	"strconv"
	"strings"
)

// Site is what differs between two servers, or two runs on one, although both do the same.
type Site struct {
	Bootstrap string
	LogDir    string
	NodeID    int32
	Run       string
}

// Expand puts the site's values in place of $BOOTSTRAP, $LOGDIR, $NODE, $RUN and $SHARD, the partition of __consumer_offsets
// that holds the group g-$RUN.
func (s Site) Expand(text string) string {
	return strings.NewReplacer(
		"$BOOTSTRAP", s.Bootstrap, "$LOGDIR", s.LogDir, "$NODE", strconv.Itoa(int(s.NodeID)), "$RUN", s.Run,
		"$SHARD", strconv.Itoa(shard("g-"+s.Run)),
	).Replace(text)
}

// shard is the partition of a group: Java's hash of its id, without the sign, over the 50 partitions that are the default of
// offsets.topic.num.partitions.
func shard(group string) int {
	var hash int32
	for _, c := range []byte(group) {
		hash = 31*hash + int32(c)
	}
	return max(int(hash), -int(hash)) % 50
}

// recentMs is a time in milliseconds after which a number is taken for the time of the run, not of the test's data.
const recentMs = 1_750_000_000_000

var (
	milliseconds = regexp.MustCompile(`\b\d{13}\b`)
	labelledID   = regexp.MustCompile(`(TopicId: |ClusterId: +|Cluster ID: |topic_id: )[A-Za-z0-9_-]{22}`)
	labelledNode = regexp.MustCompile(`(Leader: |Replicas: |Isr: |brokers |broker |"broker":|\(id: |Broker: |--entity-name )(\d+)`)
)

// Normalise puts placeholders in place of the site's values, generated ids and times of the run.
func (s Site) Normalise(lines []string) []string {
	pairs := []string{s.Bootstrap, "$BOOTSTRAP", s.Run, "$RUN"}
	if s.LogDir != "" {
		pairs = append(pairs, s.LogDir, "$LOGDIR")
	}
	site, node := strings.NewReplacer(pairs...), strconv.Itoa(int(s.NodeID))
	for i, line := range lines {
		line = labelledID.ReplaceAllString(site.Replace(line), "${1}ID")
		line = labelledNode.ReplaceAllStringFunc(line, func(match string) string {
			if label, ok := strings.CutSuffix(match, node); ok && !endsInDigit(label) {
				return label + "$NODE"
			}
			return match
		})
		lines[i] = milliseconds.ReplaceAllStringFunc(line, func(n string) string {
			if ms, err := strconv.ParseInt(n, 10, 64); err == nil && ms >= recentMs {
				return "MS"
			}
			return n
		})
	}
	return lines
}

func endsInDigit(s string) bool {
	return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9'
}
