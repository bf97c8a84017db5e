package shardlog

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// leaderThatHolds serves Produce: it says which partitions a request has, and answers when told to. A partition's base offset
// is ten times its number; partition 9 is refused.
type leaderThatHolds struct {
	asked  chan []int32
	answer chan struct{}
	over   chan struct{} // closed at the end of the test
}

func (h *leaderThatHolds) handle(r *server.Request) {
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
	select {
	case h.asked <- shards:
	case <-h.over:
	}
	select {
	case <-h.answer:
	case <-h.over:
	}
	r.Reply(resp)
}

func versions(r *server.Request) {
	req, resp := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrApiVersionsResponse()
	if err := r.Decode(req); err != nil {
		r.Fail(err)
		return
	}
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(kmsg.Produce), MinVersion: 3, MaxVersion: 13}}
	resp.SetVersion(req.Version)
	r.Reply(resp)
}

// next is what the leader is asked next.
func (h *leaderThatHolds) next(t *testing.T) []int32 {
	t.Helper()
	select {
	case shards := <-h.asked:
		return shards
	case <-time.After(20 * time.Second):
		t.Fatal("the leader is not asked")
		return nil
	}
}

func held(t *testing.T) (*leaderThatHolds, *Log) {
	t.Helper()
	h := &leaderThatHolds{asked: make(chan []int32), answer: make(chan struct{}), over: make(chan struct{})}
	router := server.NewRouter()
	router.Register(
		server.API{Key: int16(kmsg.ApiVersions), MaxVersion: 3, Handle: versions},
		server.API{Key: int16(kmsg.Produce), MinVersion: 3, MaxVersion: 13, Handle: h.handle},
	)
	s := server.New(server.Config{ListenerName: "PLAINTEXT", Address: "127.0.0.1:0"}, server.Deps{Router: router, Log: zap.NewNop()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	_, port, _ := net.SplitHostPort(s.Addr().String())
	number, _ := strconv.ParseUint(port, 10, 16)
	id := metadata.TopicID{1}
	node := metadata.Node{ID: 4, Incarnation: [16]byte{1}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(number)}}}
	recs := []*metadatapb.Record{
		{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}},
		{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: "shards", TopicId: id[:]}}},
	}
	for shard := range int32(20) {
		p := metadata.Partition{ID: shard, Leader: 4}
		recs = append(recs, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}})
	}
	im := image(t, recs...)
	l := New(Config{Topic: "shards"}, func() *metadata.Image { return im })
	t.Cleanup(func() {
		close(h.over)
		l.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h, l
}

// waits returns once n appends wait for a lane.
func waits(t *testing.T, l *Log, n int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		l.mu.Lock()
		for _, w := range l.writers {
			w.mu.Lock()
			got := len(w.waiting)
			w.mu.Unlock()
			if got == n {
				l.mu.Unlock()
				return
			}
		}
		l.mu.Unlock()
		runtime.Gosched()
	}
	t.Fatalf("there are never %d appends that wait", n)
}

func TestAppendsShareRequestsOnceLanesAreInUse(t *testing.T) {
	h, l := held(t)
	var appends sync.WaitGroup
	appendTo := func(ctx context.Context, shard int32, check func(int64, error)) {
		appends.Go(func() { check(l.Append(ctx, shard, 1, 1, []byte("batch"))) })
	}
	succeeds := func(shard int32) {
		appendTo(t.Context(), shard, func(offset int64, err error) {
			if err != nil || offset != int64(shard)*10 {
				t.Errorf("shard %d: offset %d, %v", shard, offset, err)
			}
		})
	}
	for shard := range int32(lanes) {
		succeeds(shard)
		if got := h.next(t); !slices.Equal(got, []int32{shard}) {
			t.Errorf("shards %v in a request, want only %d", got, shard)
		}
	}
	for i, shard := range []int32{10, 11, 9, 12, 10} { // the second of shard 10 has to wait for the first
		if shard == 9 {
			appendTo(t.Context(), 9, func(_ int64, err error) {
				if !errors.Is(err, kerr.NotLeaderForPartition) {
					t.Errorf("shard 9: %v", err)
				}
			})
		} else {
			succeeds(shard)
		}
		waits(t, l, i+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	withdrawn := make(chan error)
	go func() {
		_, err := l.Append(ctx, 13, 1, 1, []byte("batch"))
		withdrawn <- err
	}()
	waits(t, l, 6)
	cancel()
	if err := <-withdrawn; !errors.Is(err, context.Canceled) {
		t.Errorf("an append that is withdrawn: %v", err)
	}
	h.answer <- struct{}{}
	if got := h.next(t); !slices.Equal(got, []int32{10, 11, 9, 12}) {
		t.Errorf("shards %v share a request", got)
	}
	h.answer <- struct{}{}
	if got := h.next(t); !slices.Equal(got, []int32{10}) {
		t.Errorf("shards %v are left", got)
	}
	for range lanes {
		h.answer <- struct{}{}
	}
	appends.Wait()
}

func TestRequestIsGivenUpOnceNobodyWaitsForIt(t *testing.T) {
	h, l := held(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := l.Append(ctx, 1, 1, 1, []byte("batch"))
		failed <- err
	}()
	h.next(t)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}
