package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/libs/tracing"
)

// testCluster is brokers that replicate from each other over real connections, with the test in the controller's place.
type testCluster struct {
	t       *testing.T
	given   map[string]string
	tracer  *tracing.Tracer // of all members; nil for none
	mu      sync.Mutex      // one change of the metadata at a time
	image   *metadata.Image
	members map[int32]*member // those that run
	dirs    map[int32]string
	second  map[int32]string // another log directory of some
	changed chan struct{}    // closed and replaced with each change of the metadata
	// deaf is set while no controller can be told of log directories that fail.
	deaf atomic.Bool
}

// member is one broker that runs.
type member struct {
	*Service
	addr   string
	failed <-chan error // what ended the watch of its log directories
	stop   func()
}

func startMembers(t *testing.T, n int32, pairs ...string) *testCluster {
	t.Helper()
	return startTracedMembers(t, nil, n, pairs...)
}

func startTracedMembers(t *testing.T, tracer *tracing.Tracer, n int32, pairs ...string) *testCluster {
	t.Helper()
	c := &testCluster{
		t: t, tracer: tracer, given: map[string]string{"replica.fetch.wait.max.ms": "50"}, image: metadata.Empty(),
		members: map[int32]*member{}, dirs: map[int32]string{}, second: map[int32]string{}, changed: make(chan struct{}),
	}
	for i := 0; i < len(pairs); i += 2 {
		c.given[pairs[i]] = pairs[i+1]
	}
	for id := int32(1); id <= n; id++ {
		c.dirs[id] = t.TempDir()
		c.start(id)
	}
	t.Cleanup(func() {
		for id := range c.dirs {
			c.stop(id)
		}
	})
	return c
}

// start runs a broker, registered anew.
func (c *testCluster) start(id int32) {
	c.t.Helper()
	static, err := config.FromMap(configkeys.Broker(), c.given)
	if err != nil {
		c.t.Fatal(err)
	}
	logger := zaptest.NewLogger(c.t, zaptest.Level(zap.WarnLevel)).With(zap.Int32("node", id))
	s, err := New(c.t.Context(), Config{NodeID: id, LogDirs: c.logDirs(id), Static: static}, Deps{Log: logger, Tracer: c.tracer})
	if err != nil {
		c.t.Fatal(err)
	}
	router := server.NewRouter()
	s.register(router)
	router.Register(server.API{Key: int16(kmsg.ApiVersions), MinVersion: 0, MaxVersion: 4, Handle: func(r *server.Request) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ApiKeys = router.Versions()
		r.Reply(resp)
	}})
	srv := server.New(server.Config{ListenerName: "PLAINTEXT", Address: "127.0.0.1:0"}, server.Deps{Router: router, Log: logger, Tracer: c.tracer})
	if err := srv.Listen(); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	failed := make(chan error, 1)
	running.Go(func() {
		if err := srv.Run(ctx); err != nil {
			c.t.Errorf("server: %v", err)
		}
	})
	running.Go(func() { s.wishes.Run(ctx, c.alter) })
	running.Go(func() { s.checkISR(ctx) })
	running.Go(func() { s.moves.Run(ctx) })
	m := &member{Service: s, addr: srv.Addr().String(), failed: failed, stop: func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			c.t.Errorf("close: %v", err)
		}
	}}
	c.mu.Lock()
	defer c.mu.Unlock()
	epoch := c.image.Offset() + 1
	s.epoch = func() int64 { return epoch }
	node := metadata.Node{ID: id, Epoch: epoch, Incarnation: [16]byte{byte(epoch)}, Listeners: []metadata.Listener{
		{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(srv.Addr().(*net.TCPAddr).Port)}}}
	c.commit(append(c.restored(id), &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}})...)
	s.apply(c.image, metadata.Diff(metadata.Empty(), c.image))
	s.settle()
	c.members[id] = m
	running.Go(func() {
		failed <- s.watchLogDirs(ctx, func(_ context.Context, replicas []*controlpb.FailReplicasRequest_Topic) error {
			if c.deaf.Load() {
				return kerr.RequestTimedOut
			}
			c.failReplicas(id, replicas)
			return nil
		})
	})
}

func (c *testCluster) stop(id int32) {
	c.mu.Lock()
	m := c.members[id]
	delete(c.members, id)
	c.mu.Unlock()
	if m != nil {
		m.stop()
	}
}

// commit has everybody follow a change of the metadata. mu is held.
func (c *testCluster) commit(records ...*metadatapb.Record) {
	im, delta, err := c.image.Apply(c.image.Offset()+1, records)
	if err != nil {
		c.t.Errorf("metadata: %v", err)
		return
	}
	c.image = im
	for _, m := range c.members {
		m.apply(im, delta)
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// alter decides leaders' wishes as the controller does.
func (c *testCluster) alter(_ context.Context, wishes []*controlpb.AlterPartitionRequest_Topic) ([]*controlpb.AlterPartitionResponse_Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answers []*controlpb.AlterPartitionResponse_Topic
	for _, t := range wishes {
		out := &controlpb.AlterPartitionResponse_Topic{TopicId: t.GetTopicId()}
		for _, w := range t.GetPartitions() {
			p, _ := c.image.Partition(metadata.TopicID(t.GetTopicId()), w.GetPartition())
			answer := &controlpb.AlterPartitionResponse_Partition{Partition: w.GetPartition()}
			out.Partitions = append(out.Partitions, answer)
			switch {
			case w.GetLeaderEpoch() != p.LeaderEpoch:
				answer.ErrorCode = int32(kerr.FencedLeaderEpoch.Code)
				continue
			case w.GetPartitionEpoch() != p.PartitionEpoch:
				answer.ErrorCode = int32(kerr.InvalidUpdateVersion.Code)
				continue
			}
			var isr []int32
			for _, r := range w.GetIsr() {
				isr = append(isr, r.GetNodeId())
			}
			c.commit(&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
				TopicId: t.GetTopicId(), PartitionId: w.GetPartition(), Isr: &metadatapb.Replicas{Ids: isr}}}})
			answer.Leader, answer.LeaderEpoch, answer.PartitionEpoch, answer.Isr = p.Leader, p.LeaderEpoch, p.PartitionEpoch+1, isr
		}
		answers = append(answers, out)
	}
	return answers, nil
}

// create makes a topic of one partition with all nodes as replicas in sync.
func (c *testCluster) create(name string, leader int32, configs ...string) metadata.TopicID {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	id := metadata.TopicID{0: 0xcb, 15: byte(c.image.TopicCount() + 1)}
	p := &metadata.Partition{Leader: leader}
	for node := range c.image.Nodes() {
		p.Replicas = append(p.Replicas, node.ID)
	}
	p.ISR = p.Replicas
	records := []*metadatapb.Record{
		{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}},
		{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}},
	}
	for i := 0; i < len(configs); i += 2 {
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
			ResourceType: int32(metadata.TopicConfig), ResourceName: name, Name: configs[i], Value: proto.String(configs[i+1]),
		}}})
	}
	c.commit(records...)
	return id
}

// elect makes a node the leader, with these in sync.
func (c *testCluster) elect(id metadata.TopicID, leader int32, isr ...int32) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commit(&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
		TopicId: id[:], Leader: proto.Int32(leader), Isr: &metadatapb.Replicas{Ids: isr}}}})
}

// awaitISR waits until exactly these replicas are in sync.
func (c *testCluster) awaitISR(id metadata.TopicID, want ...int32) {
	c.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		p, _ := c.image.Partition(id, 0)
		changed := c.changed
		c.mu.Unlock()
		if slices.Equal(slices.Sorted(slices.Values(p.ISR)), want) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			c.t.Fatalf("in sync are %v, want %v", p.ISR, want)
		}
	}
}

func (c *testCluster) dial(id int32) *client {
	c.t.Helper()
	return (&testBroker{t: c.t, addr: c.members[id].addr}).dial()
}

// produce appends a batch at the leader and returns the error.
func (c *testCluster) produce(leader int32, id metadata.TopicID, acks int16, value string) error {
	c.t.Helper()
	q := produceRequest(13, acks, "", id, 0, batch(record.None, value))
	p := ask[*kmsg.ProduceResponse](c.dial(leader), q).Topics[0].Partitions[0]
	return kerr.ErrorForCode(p.ErrorCode)
}

// segments are the bytes of partition 0 of a topic on a node.
func (c *testCluster) segments(topic string, node int32) []byte {
	c.t.Helper()
	var names []string
	for _, dir := range c.logDirs(node) {
		found, err := filepath.Glob(filepath.Join(dir, topic+"-0", "*.log"))
		if err != nil {
			c.t.Fatal(err)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	var all []byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// awaitCommitted waits until the nodes know that everything below offset is committed.
func (c *testCluster) awaitCommitted(id metadata.TopicID, offset int64, nodes ...int32) {
	c.t.Helper()
	for _, node := range nodes {
		conn := c.dial(node)
		for limit := time.Now().Add(20 * time.Second); ; {
			q := fetchRequest(17, 100, 1<<20, fetchPartition{"", id, 0, 0})
			q.SessionEpoch = -1
			p := conn.fetchOne(q)
			if p.ErrorCode == 0 && p.HighWatermark >= offset {
				break
			}
			if time.Now().After(limit) {
				c.t.Fatalf("node %d: high watermark %d, want %d (error %v)", node, p.HighWatermark, offset, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
}

// sameLogs demands that the nodes have the same bytes.
func (c *testCluster) sameLogs(topic string, nodes ...int32) {
	c.t.Helper()
	first := c.segments(topic, nodes[0])
	for _, node := range nodes[1:] {
		if other := c.segments(topic, node); !bytes.Equal(first, other) {
			c.t.Errorf("the logs of node %d (%d bytes) and node %d (%d bytes) differ", nodes[0], len(first), node, len(other))
		}
	}
}

func TestReplicasHaveTheSameBytesThroughFailover(t *testing.T) {
	c := startMembers(t, 3)
	id := c.create("orders", 1, "min.insync.replicas", "2", "segment.bytes", "1048576")
	var acked []string
	produce := func(leader int32, n int) {
		for range n {
			value := fmt.Sprint("value ", len(acked))
			if err := c.produce(leader, id, -1, value); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			acked = append(acked, value)
		}
	}
	produce(1, 50)
	c.stop(1)
	c.elect(id, 2, 2, 3)
	produce(2, 50)
	c.start(1)
	c.awaitISR(id, 1, 2, 3)
	produce(2, 20)
	c.stop(2)
	c.elect(id, 3, 1, 3)
	produce(3, 20)
	c.start(2)
	c.awaitISR(id, 1, 2, 3)
	c.elect(id, 1, 1, 2, 3)
	produce(1, 10)
	c.awaitCommitted(id, int64(len(acked)), 1, 2, 3)
	c.sameLogs("orders", 1, 2, 3)
	q := fetchRequest(17, 0, 1, fetchPartition{"", id, 0, 0})
	q.SessionEpoch = -1
	for node := range c.members {
		if got := values(t, c.dial(node).fetchOne(q).RecordBatches, 0); !slices.Equal(got, acked) {
			t.Errorf("node %d has %d values, %d are acknowledged", node, len(got), len(acked))
		}
	}
}

// A leader that nobody followed any more comes back with records that the others do not have.
func TestWhatDivergesIsTruncated(t *testing.T) {
	for _, slots := range []string{"1000", "0"} {
		t.Run(slots+" sessions", func(t *testing.T) {
			divergence(t, startMembers(t, 3, "max.incremental.fetch.session.cache.slots", slots))
		})
	}
}

func divergence(t *testing.T, c *testCluster) {
	id := c.create("split", 1)
	for i := range 10 {
		if err := c.produce(1, id, -1, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.stop(2)
	c.stop(3)
	for range 5 {
		if err := c.produce(1, id, 1, "only node 1 has this"); err != nil {
			t.Fatal(err)
		}
	}
	c.stop(1)
	c.start(2)
	c.elect(id, 2, 2, 3)
	c.start(3)
	for i := range 3 {
		if err := c.produce(2, id, -1, fmt.Sprint("second history ", i)); err != nil {
			t.Fatal(err)
		}
	}
	c.start(1)
	c.awaitISR(id, 1, 2, 3)
	if err := c.produce(2, id, -1, "all"); err != nil {
		t.Fatal(err)
	}
	c.awaitCommitted(id, 14, 1, 2, 3)
	c.sameLogs("split", 1, 2, 3)
	if bytes.Contains(c.segments("split", 1), []byte("only node 1")) {
		t.Error("what diverged is still there")
	}
}

func TestAFollowerThatLagsLeavesAndComesBack(t *testing.T) {
	c := startMembers(t, 2, "replica.lag.time.max.ms", "300")
	id := c.create("lag", 1)
	c.stop(2)
	if err := c.produce(1, id, -1, "waits for the shrinking"); err != nil {
		t.Errorf("acks=all while the follower leaves: %v", err)
	}
	c.awaitISR(id, 1)
	c.start(2)
	c.awaitISR(id, 1, 2)
	c.stop(2)
	if err := c.produce(1, id, 1, "x"); err != nil {
		t.Fatal(err)
	}
	c.awaitISR(id, 1)
	if expands, shrinks := c.members[1].parts.ISRChanges(); expands != 1 || shrinks != 2 {
		t.Errorf("%d expansions and %d shrinkings, want 1 and 2", expands, shrinks)
	}
}

// DeleteRecords is answered when the followers have moved their starts, and one that missed it begins where the leader does.
func TestDeleteRecordsReachesTheFollowers(t *testing.T) {
	c := startMembers(t, 2, "log.retention.check.interval.ms", "1")
	id := c.create("delete", 1, "segment.bytes", "1048576")
	for range 4 {
		if err := c.produce(1, id, -1, string(bytes.Repeat([]byte("x"), 600<<10))); err != nil {
			t.Fatal(err)
		}
	}
	conn := c.dial(1)
	remove := func(offset int64, timeoutMs int32) error {
		q := kmsg.NewPtrDeleteRecordsRequest()
		q.SetVersion(2)
		q.TimeoutMillis = timeoutMs
		q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "delete", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
		return kerr.ErrorForCode(ask[*kmsg.DeleteRecordsResponse](conn, q).Topics[0].Partitions[0].ErrorCode)
	}
	if err := remove(2, 20_000); err != nil {
		t.Fatal(err)
	}
	c.wantRange(2, id, 2, 4)
	c.stop(2)
	if err := remove(3, 50); !errors.Is(err, kerr.RequestTimedOut) {
		t.Errorf("without the follower: %v", err)
	}
	c.elect(id, 1, 1)
	if err := c.produce(1, id, -1, "later"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.dirs[2], "delete-0")); err != nil {
		t.Fatal(err)
	}
	c.start(2) // with nothing, below the leader's start
	c.awaitISR(id, 1, 2)
	c.wantRange(2, id, 3, 5)
}

// wantRange demands that the log of partition 0 begins at start and ends at end.
func (c *testCluster) wantRange(node int32, id metadata.TopicID, start, end int64) {
	c.t.Helper()
	p, err := c.members[node].parts.Lookup("", id, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	l, err := p.Log()
	if err != nil || l.StartOffset() != start || l.EndOffset() != end {
		c.t.Errorf("node %d has [%d, %d), want [%d, %d): %v", node, l.StartOffset(), l.EndOffset(), start, end, err)
	}
}
