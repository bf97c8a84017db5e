package shardlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// fakeLeader serves Produce: a partition's base offset is ten times its number, partition 9 is refused, and a request that has partition 8
// gets no answer before the end of the test. It keeps which partitions each request has.
type fakeLeader struct {
	over chan struct{}

	mu    sync.Mutex
	asked [][]int32
}

func (f *fakeLeader) handle(r *server.Request) {
	req := kmsg.NewPtrProduceRequest()
	if err := r.Decode(req); err != nil {
		r.Fail(err)
		return
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	topic := kmsg.ProduceResponseTopic{Topic: req.Topics[0].Topic, TopicID: req.Topics[0].TopicID}
	var shards []int32
	for _, p := range req.Topics[0].Partitions {
		got := kmsg.NewProduceResponseTopicPartition()
		got.Partition, got.BaseOffset = p.Partition, int64(p.Partition)*10
		if p.Partition == 9 {
			got.ErrorCode = kerr.NotLeaderForPartition.Code
		}
		topic.Partitions = append(topic.Partitions, got)
		shards = append(shards, p.Partition)
	}
	resp.Topics = append(resp.Topics, topic)
	f.mu.Lock()
	f.asked = append(f.asked, shards)
	f.mu.Unlock()
	if slices.Contains(shards, 8) {
		<-f.over
	}
	r.Reply(resp)
}

func (f *fakeLeader) requests() [][]int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func logOf(t *testing.T, linger time.Duration) (*fakeLeader, *Log) {
	t.Helper()
	f := &fakeLeader{over: make(chan struct{})}
	router := server.NewRouter()
	router.Register(server.API{Key: int16(kmsg.Produce), MinVersion: 3, MaxVersion: 13, Handle: f.handle})
	addr := servertest.Serve(t, router, zap.NewNop())
	id := metadata.TopicID{1}
	node := metadata.Node{ID: 4, Incarnation: [16]byte{1}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(addr.Port)}}}
	recs := []*metadatapb.Record{
		{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}},
		{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: "shards", TopicId: id[:]}}},
	}
	for shard := range int32(20) {
		p := metadata.Partition{ID: shard, Leader: 4}
		recs = append(recs, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}})
	}
	im := image(t, recs...)
	l := New(Config{Topic: "shards", Linger: linger}, func() *metadata.Image { return im })
	t.Cleanup(func() {
		close(f.over)
		l.Close()
	})
	return f, l
}

func TestAppendsThatGatherShareARequest(t *testing.T) {
	f, l := logOf(t, time.Hour)
	to, err := l.leader(0)
	if err != nil {
		t.Fatal(err)
	}
	w := l.writer(to.addr)
	writes := map[int32]*write{}
	var all *gathering
	for i, shard := range []int32{3, 9, 5} {
		writes[shard] = &write{ctx: t.Context(), shard: shard, topic: to.topic, batch: []byte("batch")}
		g, first, linger := w.join(writes[shard])
		if all == nil {
			all = g
		}
		if g != all || first != (i == 0) || first && linger != time.Hour {
			t.Fatalf("shard %d: the same request %t, first %t, linger %v", shard, g == all, first, linger)
		}
	}
	again := &write{ctx: t.Context(), shard: 5, topic: to.topic}
	if g, first, _ := w.join(again); g == all || !first {
		t.Error("a shard's second batch joins the request of its first")
	}
	w.send(all.writes)
	if got := f.requests(); len(got) != 1 || !slices.Equal(got[0], []int32{3, 9, 5}) {
		t.Errorf("requests %v", got)
	}
	for shard, a := range writes {
		if shard == 9 && !errors.Is(a.err, kerr.NotLeaderForPartition) || shard != 9 && (a.err != nil || a.offset != int64(shard)*10) {
			t.Errorf("shard %d: offset %d, %v", shard, a.offset, a.err)
		}
	}
	if g, first, linger := w.join(writes[9]); len(g.writes) != 1 || !first || linger != 0 {
		t.Errorf("an append after one that failed shares with %d and lingers %v", len(g.writes)-1, linger)
	}
}

func TestManyAppendAtOnce(t *testing.T) {
	f, l := logOf(t, -1)
	var appends sync.WaitGroup
	for shard := range int32(8) {
		appends.Go(func() {
			for sequence := range int64(30) {
				if offset, err := l.Append(t.Context(), shard, 1, sequence+1, []byte("batch")); err != nil || offset != int64(shard)*10 {
					t.Errorf("shard %d: offset %d, %v", shard, offset, err)
				}
			}
		})
	}
	appends.Wait()
	batches := 0
	for _, shards := range f.requests() {
		batches += len(shards)
	}
	if batches != 8*30 {
		t.Errorf("%d batches were appended", batches)
	}
}

func TestRequestIsGivenUpOnceNobodyWaitsForIt(t *testing.T) {
	_, l := logOf(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := l.Append(ctx, 8, 1, 1, []byte("batch"))
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

func TestLingerEndsWithTheShard(t *testing.T) {
	_, l := logOf(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := l.Append(ctx, 1, 1, 1, []byte("batch"))
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		name   string
		shards int32
		every  time.Duration
		want   bool
	}{
		{"many shards", 50, time.Millisecond, true},
		{"just enough shards", crowdShards, time.Millisecond, true},
		{"few shards, one append after the other", crowdShards - 1, 100 * time.Microsecond, false},
		{"many shards, now and then", 50, 2 * time.Millisecond, false},
	} {
		var crowd crowd
		now, got := time.UnixMilli(1_000_000), false
		for i := range int32(100) {
			now = now.Add(c.every)
			if got = crowd.note(i%c.shards, now); got && i < crowdSize-2 {
				t.Errorf("%s: %d appends are a crowd", c.name, i+1)
			}
		}
		if got != c.want {
			t.Errorf("%s: a crowd is %t", c.name, got)
		}
	}
}
