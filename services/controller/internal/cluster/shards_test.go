package cluster

import (
	"maps"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// checkShards is what holds of the shards of every image, and of each next to its
// predecessor.
func checkShards(t testing.TB, old, next *metadata.Image) {
	t.Helper()
	for _, s := range shardTopics {
		topic, ok := next.Topic(s.topic)
		if !ok {
			continue
		}
		active := map[int32]int{} // shards by active node of the role
		for n := range next.Nodes() {
			if n.Active() && n.HasRole(s.role) {
				active[n.ID] = 0
			}
		}
		for p, shard := range next.Shards(s.topic) {
			if _, ok := active[shard.Owner]; ok != (len(active) > 0) {
				t.Fatalf("%s-%d belongs to %d; active are %v", s.topic, p, shard.Owner, active)
			}
			active[shard.Owner]++
		}
		counts := slices.Sorted(maps.Values(active))
		if len(counts) > 1 && counts[len(counts)-1]-counts[0] > 1 {
			t.Fatalf("%s is not balanced: %v", s.topic, active)
		}
		if was, ok := old.Topic(s.topic); ok && was.ID == topic.ID {
			checkMoves(t, old, next, s.topic, active)
		}
	}
}

// checkMoves holds the shards of one topic to their epochs, and counts those that
// moved.
func checkMoves(t testing.TB, old, next *metadata.Image, topic string, active map[int32]int) {
	t.Helper()
	stayed, had := 0, map[int32]int{}
	total := 0
	for p, now := range next.Shards(topic) {
		total++
		was, ok := old.Shard(topic, p)
		if !ok {
			was = metadata.Shard{Owner: metadata.NoOwner}
		}
		had[was.Owner]++
		before, _ := old.Node(was.Owner)
		after, _ := next.Node(now.Owner)
		switch {
		case was == now:
			stayed++
			if before != nil && before.Epoch != after.Epoch {
				t.Fatalf("%s-%d: another process of node %d has epoch %d too", topic, p, now.Owner, now.Epoch)
			}
		case now.Owner == was.Owner || now.Epoch != was.Epoch+1:
			t.Fatalf("%s-%d: %+v follows %+v", topic, p, now, was)
		}
	}
	if len(active) == 0 || active[metadata.NoOwner] > 0 {
		return
	}
	// A node keeps what it had, up to its share; the larger shares are for those
	// that had more.
	share, larger, most := total/len(active), total%len(active), 0
	for id := range active {
		most += min(had[id], share)
		if had[id] > share && larger > 0 {
			most, larger = most+1, larger-1
		}
	}
	if stayed != most {
		t.Fatalf("%s: %d shards stayed, %d could have: %v to %v", topic, stayed, most, had, active)
	}
}

func TestNodesWithoutTheRoleOwnNothing(t *testing.T) {
	h := oneBroker(t)
	im, delta, err := h.im.Apply(h.im.Offset()+1, Handle(h.im, h.env, newTopicRequest("plain", 3), anyone).Records)
	if err != nil {
		t.Fatal(err)
	}
	if recs := PlaceShards(im, delta); recs != nil {
		t.Errorf("a topic of clients has shards: %v", recs)
	}
}

// Nothing that leaves nodes and the coordinators' topics alone costs anything.
func TestPlaceShardsIsCheap(t *testing.T) {
	h := oneBroker(t)
	if got := testing.AllocsPerRun(10, func() { PlaceShards(h.im, &metadata.Delta{}) }); got > 0 {
		t.Errorf("%v allocations", got)
	}
}
