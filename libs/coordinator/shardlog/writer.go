package shardlog

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator/fence"
	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
)

const (
	// writeConnections is how many connections to one leader the appends of all shards share. Answers come in the order of the
	// requests, so an append that waits for its replicas holds up those behind it.
	writeConnections = 8
	// maxShared and maxSharedBytes bound the batches of one request.
	maxShared      = 64
	maxSharedBytes = 1 << 20
	// crowdLinger is how long appends gather where no time is set, while many shards append.
	crowdLinger = 2 * time.Millisecond
	// sharedTimeout is how long a request of several shards waits for replicas. Whoever is held up longer goes on alone: a shard
	// whose replicas are slow holds up those that share its request once, and not for long.
	sharedTimeout = 500 * time.Millisecond
	slow          = 100 * time.Millisecond
)

// write is one append that waits for its answer.
type write struct {
	ctx    context.Context
	shard  int32
	topic  metadata.TopicID
	fence  fence.Token
	batch  record.Batch
	offset int64
	err    error
}

// writer sends the appends of all shards to one leader. While few shards append each batch leaves at once; while many do, those
// that come within a moment share a request: most of what an append costs is the request.
type writer struct {
	log  *Log
	addr string

	mu    sync.Mutex
	crowd crowd
	alone map[int32]bool // shards whose last append was slow or failed
	open  *gathering     // nil for none
	turn  int
}

// gathering is appends that will share a request. Who opened it sends it.
type gathering struct {
	writes []*write
	bytes  int
	sent   chan struct{} // closed when all have their answers
}

func (g *gathering) takes(a *write) bool {
	return len(g.writes) < maxShared && g.bytes+len(a.batch) <= maxSharedBytes && g.writes[0].topic == a.topic &&
		!slices.ContainsFunc(g.writes, func(b *write) bool { return b.shard == a.shard })
}

func (w *writer) append(a *write) (int64, error) {
	g, first, linger := w.join(a)
	switch {
	case !first:
		<-g.sent // the batch is in use until then
		return a.offset, a.err
	case linger > 0:
		gathered := time.NewTimer(linger)
		select {
		case <-gathered.C:
		case <-a.ctx.Done(): // whoever gives the shard up does not wait for others
			gathered.Stop()
		}
		w.mu.Lock()
		if w.open == g {
			w.open = nil
		}
		w.mu.Unlock()
	}
	w.send(g.writes)
	close(g.sent)
	return a.offset, a.err
}

// join says with whom an append shares its request, whether it is the first of them, and for how long it is to wait for others then.
func (w *writer) join(a *write) (g *gathering, first bool, linger time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	linger = w.log.cfg.Linger
	if crowded := w.crowd.note(a.shard, time.Now()); linger < 0 && crowded {
		linger = crowdLinger
	}
	if linger <= 0 || w.alone[a.shard] {
		return &gathering{writes: []*write{a}, sent: make(chan struct{})}, true, 0
	}
	if w.open != nil && w.open.takes(a) {
		w.open.writes = append(w.open.writes, a)
		w.open.bytes += len(a.batch)
		return w.open, false, 0
	}
	w.open = &gathering{writes: []*write{a}, bytes: len(a.batch), sent: make(chan struct{})}
	return w.open, true, linger
}

// send has writes answered. The request is given up once none of them is waited for any more.
func (w *writer) send(writes []*write) {
	ctx, cancel := context.WithCancel(trace.ContextWithSpanContext(context.Background(), spanOf(writes)))
	defer cancel()
	var interested atomic.Int32
	interested.Store(int32(len(writes)))
	for _, a := range writes {
		defer context.AfterFunc(a.ctx, func() {
			if interested.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	began := time.Now()
	resp, err := ask[*kmsg.ProduceResponse](ctx, w.log, w.connection(writes), w.addr, w.request(writes))
	held := time.Since(began) > slow
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range writes {
		if a.err = err; err == nil {
			a.offset, a.err = find(resp, a.shard)
		}
		if held || a.err != nil {
			w.alone[a.shard] = true
		} else {
			delete(w.alone, a.shard)
		}
	}
}

// connection is that of the shard, or the next one for a request of several.
func (w *writer) connection(writes []*write) *client.Pool {
	if len(writes) == 1 {
		return w.log.writes[writes[0].shard%writeConnections]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	return w.log.writes[w.turn%writeConnections]
}

func (w *writer) request(writes []*write) *kmsg.ProduceRequest {
	timeout := w.log.cfg.Timeout
	if len(writes) > 1 {
		timeout = min(timeout, sharedTimeout)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acksAll, int32(timeout/time.Millisecond)
	partitions := make([]kmsg.ProduceRequestTopicPartition, len(writes))
	for i, a := range writes {
		p := &partitions[i]
		p.Default()
		p.Partition, p.Records = a.shard, a.batch
		a.fence.Put(&p.UnknownTags)
	}
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: w.log.cfg.Topic, TopicID: writes[0].topic, Partitions: partitions}}
	return req
}

// spanOf is the span that the request is shown under: one of its appends'.
func spanOf(writes []*write) trace.SpanContext {
	for _, a := range writes {
		if span := trace.SpanContextFromContext(a.ctx); span.IsSampled() {
			return span
		}
	}
	return trace.SpanContext{}
}

func find(resp *kmsg.ProduceResponse, shard int32) (int64, error) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.Partition == shard {
				return p.BaseOffset, fault(p.ErrorCode, p.ErrorMessage)
			}
		}
	}
	return 0, errUnasked
}

// crowd is the last appends.
type crowd struct {
	last [crowdSize]struct {
		shard int32
		at    time.Time
	}
	next int
}

// So many appends, of so many shards at least, within so long are a crowd. A few callers that each wait for one append before
// the next are none: they would only be slowed down.
const (
	crowdSize   = 8
	crowdShards = 6
	crowdWithin = 8 * time.Millisecond
)

// note adds an append, and says whether it comes in a crowd.
func (c *crowd) note(shard int32, now time.Time) bool {
	c.last[c.next].shard, c.last[c.next].at = shard, now
	c.next = (c.next + 1) % crowdSize
	if now.Sub(c.last[c.next].at) > crowdWithin {
		return false
	}
	var distinct [crowdSize]int32
	shards := distinct[:0]
	for i := range c.last {
		if !slices.Contains(shards, c.last[i].shard) {
			shards = append(shards, c.last[i].shard)
		}
	}
	return len(shards) >= crowdShards
}
