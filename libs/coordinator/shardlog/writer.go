package shardlog

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator/fence"
	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
)

const (
	// lanes is how many requests of appends to one leader are under way at most, each on a connection of its own. A request waits
	// for the slowest of its partitions: with more lanes fewer shards wait for one that is slow, with fewer lanes more appends
	// share a request.
	lanes = 3
	// maxShared bounds the batches that share a request, and maxSharedBytes those beside the first.
	maxShared      = 64
	maxSharedBytes = 4 << 20
)

// write is one append that waits for its answer.
type write struct {
	ctx      context.Context
	shard    int32
	topic    metadata.TopicID
	fence    fence.Token
	batch    record.Batch
	answered chan answer // takes one
}

type answer struct {
	offset int64
	err    error
}

// writer sends the appends of all shards to one leader. An append leaves at once while a lane is free; those that come while
// all lanes are in use share the next request, whichever lane is free first.
type writer struct {
	log  *Log
	addr string

	mu      sync.Mutex
	waiting []*write // oldest first
	free    []*client.Pool
}

func (w *writer) append(ctx context.Context, a *write) (int64, error) {
	a.ctx, a.answered = ctx, make(chan answer, 1)
	w.mu.Lock()
	w.waiting = append(w.waiting, a)
	var lane *client.Pool
	if last := len(w.free) - 1; last >= 0 {
		lane, w.free = w.free[last], w.free[:last]
	}
	w.mu.Unlock()
	if lane != nil {
		w.fly(lane)
		if w.land(lane) { // for others from here on
			w.log.running.Go(func() {
				for again := true; again; again = w.land(lane) {
					w.fly(lane)
				}
			})
		}
	}
	select {
	case got := <-a.answered:
		return got.offset, got.err
	case <-ctx.Done():
	}
	if w.withdraw(a) {
		return 0, ctx.Err()
	}
	got := <-a.answered // its batch is in use until then
	return got.offset, got.err
}

// land frees the lane unless something waits for it.
func (w *writer) land(lane *client.Pool) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 {
		return true
	}
	w.free = append(w.free, lane)
	return false
}

func (w *writer) withdraw(a *write) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, a)
	if i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	return i >= 0
}

// board takes what shares the next request: the oldest, and with it whatever is of the same topic and of other shards.
func (w *writer) board() []*write {
	w.mu.Lock()
	defer w.mu.Unlock()
	var taken []*write
	bytes := 0
	kept := w.waiting[:0]
	for _, a := range w.waiting {
		fits := len(taken) == 0 || len(taken) < maxShared && bytes+len(a.batch) <= maxSharedBytes && a.topic == taken[0].topic &&
			!slices.ContainsFunc(taken, func(t *write) bool { return t.shard == a.shard })
		if !fits {
			kept = append(kept, a)
			continue
		}
		if len(taken) > 0 {
			bytes += len(a.batch)
		}
		taken = append(taken, a)
	}
	clear(w.waiting[len(kept):])
	w.waiting = kept
	return taken
}

// fly sends one request and gives everyone in it their answer. It is given up once none of them waits any more.
func (w *writer) fly(lane *client.Pool) {
	taken := w.board()
	if len(taken) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(w.log.ctx)
	defer cancel()
	var interested atomic.Int32
	interested.Store(int32(len(taken)))
	for _, a := range taken {
		stop := context.AfterFunc(a.ctx, func() {
			if interested.Add(-1) == 0 {
				cancel()
			}
		})
		defer stop()
	}
	resp, err := ask[*kmsg.ProduceResponse](ctx, w.log, lane, w.addr, w.request(taken))
	for _, a := range taken {
		got := answer{err: err}
		if err == nil {
			got = find(resp, a.shard)
		}
		a.answered <- got
	}
}

func (w *writer) request(taken []*write) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acksAll, int32(w.log.cfg.Timeout/time.Millisecond)
	partitions := make([]kmsg.ProduceRequestTopicPartition, len(taken))
	for i, a := range taken {
		p := &partitions[i]
		p.Default()
		p.Partition, p.Records = a.shard, a.batch
		a.fence.Put(&p.UnknownTags)
	}
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: w.log.cfg.Topic, TopicID: taken[0].topic, Partitions: partitions}}
	return req
}

func find(resp *kmsg.ProduceResponse, shard int32) answer {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.Partition == shard {
				return answer{p.BaseOffset, fault(p.ErrorCode, p.ErrorMessage)}
			}
		}
	}
	return answer{err: errUnasked}
}
