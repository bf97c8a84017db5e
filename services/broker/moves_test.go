package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// move asks a node to move partition 0 of a topic to another log directory.
func (c *testCluster) move(node int32, topic, dir string) error {
	c.t.Helper()
	q := kmsg.NewPtrAlterReplicaLogDirsRequest()
	q.SetVersion(2)
	q.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}}}}
	resp := ask[*kmsg.AlterReplicaLogDirsResponse](c.dial(node), q)
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// place is where DescribeLogDirs says that a partition lies.
type place struct {
	dir    string
	future bool
	lag    int64
}

func (c *testCluster) places(node int32, topic string) (places []place) {
	c.t.Helper()
	q := kmsg.NewPtrDescribeLogDirsRequest()
	q.SetVersion(4)
	for _, dir := range ask[*kmsg.DescribeLogDirsResponse](c.dial(node), q).Dirs {
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic {
					places = append(places, place{dir.Dir, p.IsFuture, p.OffsetLag})
				}
			}
		}
	}
	return places
}

// awaitPlaces waits until a partition lies in one directory alone.
func (c *testCluster) awaitPlace(node int32, topic, dir string) {
	c.t.Helper()
	var places []place
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); {
		if places = c.places(node, topic); len(places) == 1 && places[0].dir == dir && !places[0].future {
			return
		}
	}
	c.t.Fatalf("%s lies at %+v, want %s", topic, places, dir)
}

// setBrokerConfig sets a key of all nodes.
func (c *testCluster) setBrokerConfig(key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commit(&metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
		ResourceType: int32(metadata.BrokerConfig), Name: key, Value: proto.String(value)}}})
}

// Replicas that lead and that follow move while records are written.
func TestReplicasMoveBetweenLogDirectories(t *testing.T) {
	c, a, b := twoDirs(t)
	c.elect(b, 2, 2, 1)
	dirA, dirB := c.dirOf(1, "a"), c.dirOf(1, "b")
	const n = 150
	var writers sync.WaitGroup
	for leader, id := range map[int32]metadata.TopicID{1: a, 2: b} {
		writers.Go(func() {
			for i := range n {
				if err := c.produce(leader, id, -1, fmt.Sprint(i)); err != nil {
					t.Errorf("write %d to node %d: %v", i, leader, err)
				}
			}
		})
	}
	for range 3 {
		for _, err := range []error{c.move(1, "a", dirB), c.move(1, "b", dirA)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		c.awaitPlace(1, "a", dirB)
		c.awaitPlace(1, "b", dirA)
		dirA, dirB = dirB, dirA
	}
	writers.Wait()
	for topic, id := range map[string]metadata.TopicID{"a": a, "b": b} {
		c.awaitCommitted(id, n+1, 1, 2)
		c.awaitISR(id, 1, 2)
		c.sameLogs(topic, 1, 2)
	}
	c.stop(1)
	c.elect(a, 2, 2)
	c.start(1)
	c.awaitISR(a, 1, 2)
	c.sameLogs("a", 1, 2)
}

// A move that the limit holds up shows its lag, is called off by a move to where the replica is, and goes on after a restart.
func TestAMoveIsHeldUpCalledOffAndTakenUp(t *testing.T) {
	c, a, _ := twoDirs(t)
	dirA, dirB := c.dirOf(1, "a"), c.dirOf(1, "b")
	hold := func() {
		c.setBrokerConfig("replica.alter.log.dirs.io.max.bytes.per.second", "0")
		c.members[1].throttles.moves.Record(1, nowMs())
	}
	hold()
	moving := func(want ...place) {
		t.Helper()
		got := c.places(1, "a")
		slices.SortFunc(got, func(a, b place) int { return int(a.lag - b.lag) })
		if !slices.Equal(got, want) {
			t.Errorf("a lies at %+v, want %+v", got, want)
		}
	}
	if err := c.move(1, "a", dirB); err != nil {
		t.Fatal(err)
	}
	moving(place{dir: dirA}, place{dirB, true, 1})
	if err := c.move(1, "a", dirA); err != nil {
		t.Fatal(err)
	}
	moving(place{dir: dirA})
	if err := c.move(1, "a", dirB); err != nil {
		t.Fatal(err)
	}
	c.stop(1)
	c.elect(a, 2, 2)
	c.setBrokerConfig("replica.alter.log.dirs.io.max.bytes.per.second", "1000000")
	c.start(1)
	c.awaitPlace(1, "a", dirB)
	c.awaitISR(a, 1, 2)
	c.sameLogs("a", 1, 2)
}

func TestMovesThatAreRefused(t *testing.T) {
	c, _, _ := twoDirs(t)
	broken, whole := c.dirOf(1, "a"), c.dirOf(1, "b")
	for topic, want := range map[string]error{"a": kerr.LogDirNotFound, "unknown": kerr.LogDirNotFound} {
		if err := c.move(1, topic, "/nowhere"); !errors.Is(err, want) {
			t.Errorf("%s to a directory of others: %v", topic, err)
		}
	}
	if err := c.move(1, "unknown", whole); !errors.Is(err, kerr.ReplicaNotAvailable) {
		t.Errorf("a partition that is not here: %v", err)
	}
	c.create("unknown", 1)
	if dir := c.dirOf(1, "unknown"); dir != whole {
		t.Errorf("it was made in %s later, not where it was asked to be", dir)
	}
	c.breakDir(1, broken)
	for topic, dir := range map[string]string{"a": whole, "b": broken} {
		if err := c.move(1, topic, dir); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("%s to %s: %v", topic, dir, err)
		}
	}
}
