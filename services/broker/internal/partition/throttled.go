package partition

import (
	"strconv"
	"strings"
)

// Throttled says of which partitions of a topic this broker's replica is throttled (KIP-73).
type Throttled struct {
	all        bool
	partitions map[int32]struct{}
}

// ParseThrottled reads leader.replication.throttled.replicas or follower.replication.throttled.replicas, a list of
// partition:node pairs or *, for one node. What is malformed is left out: the controller has refused it.
func ParseThrottled(list string, node int32) Throttled {
	var t Throttled
	for pair := range strings.SplitSeq(list, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "*" {
			return Throttled{all: true}
		}
		id, of, _ := strings.Cut(pair, ":")
		partition, err := strconv.ParseInt(id, 10, 32)
		if err != nil || of != strconv.Itoa(int(node)) {
			continue
		}
		if t.partitions == nil {
			t.partitions = map[int32]struct{}{}
		}
		t.partitions[int32(partition)] = struct{}{}
	}
	return t
}

func (t *Throttled) has(id int32) bool {
	if t == nil {
		return false
	}
	_, ok := t.partitions[id]
	return ok || t.all
}

// ThrottledAsLeader says whether what followers fetch here counts against the leader's limit.
func (p *Partition) ThrottledAsLeader() bool { return p.Topic.leaderThrottled.Load().has(p.ID) }

// ThrottledAsFollower says whether what is fetched here counts against the follower's limit.
func (p *Partition) ThrottledAsFollower() bool { return p.Topic.followerThrottled.Load().has(p.ID) }
