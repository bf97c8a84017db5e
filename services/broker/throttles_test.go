package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// exhaust sets a limit and takes all of it.
func (c *testCluster) exhaust(key string, node int32) {
	c.setBrokerConfig(key, "0")
	m := c.members[node]
	m.throttles.leader.Record(1, nowMs())
	m.throttles.follower.Record(1, nowMs())
}

// A leader that has sent what it may sends nothing more of throttled replicas, but to those in sync.
func TestLeaderThrottle(t *testing.T) {
	c := startMembers(t, 2)
	id := c.create("t", 1, "leader.replication.throttled.replicas", "0:1,7:2")
	free := c.create("free", 1, "leader.replication.throttled.replicas", "0:2")
	c.stop(2)
	for _, topic := range [][16]byte{id, free} {
		c.elect(topic, 1, 1)
		if err := c.produce(1, topic, 1, "v"); err != nil {
			t.Fatal(err)
		}
	}
	conn := c.dial(1)
	fetched := func(topic [16]byte) int {
		q := fetchRequest(17, 20, 1, fetchPartition{"", topic, 0, 0})
		q.SessionEpoch, q.ReplicaState.ID, q.ReplicaState.Epoch = -1, 2, -1
		return len(ask[*kmsg.FetchResponse](conn, q).Topics[0].Partitions[0].RecordBatches)
	}
	if fetched(id) == 0 {
		t.Error("nothing comes without a limit")
	}
	c.exhaust("leader.replication.throttled.rate", 1)
	if n := fetched(id); n != 0 {
		t.Errorf("%d bytes come beyond the limit", n)
	}
	if fetched(free) == 0 {
		t.Error("the limit holds for a replica that is not named")
	}
	c.elect(id, 1, 1, 2)
	if fetched(id) == 0 {
		t.Error("the limit holds for a replica in sync")
	}
	c.elect(id, 1, 1)
	c.setBrokerConfig("leader.replication.throttled.rate", "9223372036854775807")
	if fetched(id) == 0 {
		t.Error("nothing comes after the limit has gone")
	}
}

// A follower that has fetched what it may leaves throttled replicas that lag for later, and fetches the others.
func TestFollowerThrottle(t *testing.T) {
	c := startMembers(t, 2, "replica.fetch.max.bytes", "1")
	id := c.create("t", 1, "follower.replication.throttled.replicas", "*")
	free := c.create("free", 1)
	c.stop(2)
	const n = 30
	for _, topic := range [][16]byte{id, free} {
		c.elect(topic, 1, 1)
		for i := range n {
			if err := c.produce(1, topic, 1, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.setBrokerConfig("follower.replication.throttled.rate", "0")
	c.start(2)
	c.awaitISR(free, 1, 2)
	end := func() int64 {
		p, err := c.members[2].parts.Lookup("", id, 0)
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Log()
		if err != nil {
			t.Fatal(err)
		}
		return l.EndOffset()
	}
	for limit := time.Now().Add(10 * time.Second); end() == 0 && time.Now().Before(limit); {
	}
	if got := end(); got == 0 || got == n {
		t.Errorf("%d of %d records came beyond the limit", got, n)
	}
	c.setBrokerConfig("follower.replication.throttled.rate", "1000000")
	c.awaitISR(id, 1, 2)
}
