package broker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

func (c *testCluster) logDirs(id int32) []string {
	if second, ok := c.second[id]; ok {
		return []string{c.dirs[id], second}
	}
	return []string{c.dirs[id]}
}

// failReplicas takes replicas out of service as the controller does: the next in sync leads.
func (c *testCluster) failReplicas(node int32, failed []*controlpb.FailReplicasRequest_Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var records []*metadatapb.Record
	for _, t := range failed {
		for _, id := range t.GetPartitions() {
			p, _ := c.image.Partition(metadata.TopicID(t.GetTopicId()), id)
			change := &metadatapb.PartitionChangeRecord{TopicId: t.GetTopicId(), PartitionId: id, OfflineReplicas: &metadatapb.Replicas{Ids: append(slices.Clone(p.Offline), node)}}
			if isr := slices.DeleteFunc(slices.Clone(p.ISR), func(r int32) bool { return r == node }); len(isr) > 0 {
				change.Isr = &metadatapb.Replicas{Ids: isr}
				if p.Leader == node {
					change.Leader = proto.Int32(isr[0])
				}
			} else {
				change.Leader = proto.Int32(metadata.NoLeader)
			}
			records = append(records, &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: change}})
		}
	}
	c.commit(records...)
}

// restored are the records by which a node's replicas count again as it registers. mu is held.
func (c *testCluster) restored(node int32) []*metadatapb.Record {
	var records []*metadatapb.Record
	for t := range c.image.Topics() {
		for _, p := range t.Partitions {
			if p.IsOffline(node) {
				left := slices.DeleteFunc(slices.Clone(p.Offline), func(r int32) bool { return r == node })
				records = append(records, &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
					TopicId: t.ID[:], PartitionId: p.ID, OfflineReplicas: &metadatapb.Replicas{Ids: left}}}})
			}
		}
	}
	return records
}

// awaitOffline waits until the metadata has the node's replica as offline.
func (c *testCluster) awaitOffline(id metadata.TopicID, node int32) *metadata.Partition {
	c.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		p, _ := c.image.Partition(id, 0)
		changed := c.changed
		c.mu.Unlock()
		if p.IsOffline(node) {
			return p
		}
		select {
		case <-changed:
		case <-limit:
			c.t.Fatalf("the replica of node %d is not offline: %+v", node, *p)
		}
	}
}

// dirOf is the log directory in which a node has partition 0 of a topic.
func (c *testCluster) dirOf(node int32, topic string) string {
	c.t.Helper()
	l, ok := c.members[node].logs.Log(topic, 0)
	if !ok {
		c.t.Fatalf("node %d has no log of %s", node, topic)
	}
	return filepath.Dir(l.Dir())
}

// breakDir takes a log directory of a node away.
func (c *testCluster) breakDir(node int32, dir string) {
	c.t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		c.t.Fatal(err)
	}
	if err := c.members[node].logs.CheckpointHighWatermarks(); !errors.Is(err, kerr.KafkaStorageError) {
		c.t.Fatalf("checkpoint in a directory that is gone: %v", err)
	}
}

// describeDirs are the error codes of a node's log directories, and the topics in them.
func (c *testCluster) describeDirs(node int32) (codes map[string]int16, topics map[string][]string) {
	q := kmsg.NewPtrDescribeLogDirsRequest()
	q.SetVersion(4)
	codes, topics = map[string]int16{}, map[string][]string{}
	for _, dir := range ask[*kmsg.DescribeLogDirsResponse](c.dial(node), q).Dirs {
		codes[dir.Dir] = dir.ErrorCode
		for _, t := range dir.Topics {
			topics[dir.Dir] = append(topics[dir.Dir], t.Topic)
		}
	}
	return codes, topics
}

// twoDirs is two nodes, the first with two log directories and a topic in each, both led by it.
func twoDirs(t *testing.T, pairs ...string) (c *testCluster, a, b metadata.TopicID) {
	c = startMembers(t, 2, pairs...)
	c.stop(1)
	c.second[1] = t.TempDir()
	c.start(1)
	a, b = c.create("a", 1), c.create("b", 1)
	if c.dirOf(1, "a") == c.dirOf(1, "b") {
		t.Fatal("both topics are in one directory")
	}
	for _, id := range []metadata.TopicID{a, b} {
		if err := c.produce(1, id, -1, "before"); err != nil {
			t.Fatal(err)
		}
	}
	return c, a, b
}

// A broker that can tell no controller of a failed log directory ends, after a while.
func TestAFailedLogDirectoryThatNobodyIsToldOf(t *testing.T) {
	c, _, _ := twoDirs(t, "log.dir.failure.timeout.ms", "300")
	c.deaf.Store(true)
	began := time.Now()
	c.breakDir(1, c.dirOf(1, "a"))
	err := <-c.members[1].failed
	if !errors.Is(err, kerr.RequestTimedOut) || !strings.Contains(err.Error(), "log.dir.failure.timeout.ms") || time.Since(began) < 300*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// A log directory that fails takes its replicas out of service and nothing else. Once it is repaired, and empty, they come back
// and catch up.
func TestAFailedLogDirectoryTakesOnlyItsReplicas(t *testing.T) {
	c, a, b := twoDirs(t)
	broken, whole := c.dirOf(1, "a"), c.dirOf(1, "b")
	c.breakDir(1, broken)
	if p := c.awaitOffline(a, 1); p.Leader != 2 {
		t.Errorf("after the failure: %+v", *p)
	}
	c.awaitISR(a, 2)
	if err := c.produce(1, a, -1, "x"); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("produce to the replica that failed: %v", err)
	}
	for leader, id := range map[int32]metadata.TopicID{1: b, 2: a} {
		if err := c.produce(leader, id, -1, "after"); err != nil {
			t.Errorf("produce to node %d: %v", leader, err)
		}
	}
	c.awaitISR(b, 1, 2)
	late := c.create("late", 1)
	if err := c.produce(1, late, -1, "v"); err != nil || c.dirOf(1, "late") != whole {
		t.Errorf("a new topic lies in %s: %v", c.dirOf(1, "late"), err)
	}
	codes, topics := c.describeDirs(1)
	if codes[broken] != kerr.KafkaStorageError.Code || codes[whole] != 0 || len(topics[broken]) > 0 || !slices.Equal(topics[whole], []string{"b", "late"}) {
		t.Errorf("DescribeLogDirs: %v %v", codes, topics)
	}
	c.stop(1)
	c.start(1) // makes the directory anew
	c.awaitISR(a, 1, 2)
	c.awaitISR(b, 1, 2)
	c.awaitCommitted(a, 2, 1, 2)
	c.sameLogs("a", 1, 2)
	if codes, _ := c.describeDirs(1); codes[broken] != 0 {
		t.Errorf("DescribeLogDirs after the repair: %v", codes)
	}
}

// A node starts without a directory that is broken. What lay there is not made anew elsewhere, and what is new goes elsewhere.
func TestStartWithABrokenLogDirectory(t *testing.T) {
	c, a, b := twoDirs(t)
	broken, whole := c.dirOf(1, "a"), c.dirOf(1, "b")
	c.stop(1)
	c.elect(a, 2, 2)
	if err := errors.Join(os.RemoveAll(broken), os.WriteFile(broken, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	c.start(1)
	c.awaitOffline(a, 1)
	c.elect(b, 1, 1, 2)
	if err := c.produce(1, b, -1, "after"); err != nil {
		t.Error(err)
	}
	late := c.create("late", 1)
	if err := c.produce(1, late, -1, "v"); err != nil || c.dirOf(1, "late") != whole {
		t.Errorf("a new topic: %v", err)
	}
	if p, _ := c.image.Partition(b, 0); p.IsOffline(1) {
		t.Errorf("a replica in the directory that is left is offline: %+v", *p)
	}
}

// A node whose log directories have all failed ends.
func TestTheLastLogDirectoryEndsTheNode(t *testing.T) {
	c, _, _ := twoDirs(t)
	for _, dir := range c.logDirs(1) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.members[1].logs.CheckpointHighWatermarks()
	select {
	case err := <-c.members[1].failed:
		if !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still running")
	}
}
