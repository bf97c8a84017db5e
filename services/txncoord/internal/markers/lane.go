package markers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// lane is what goes to one node. Sender.mu guards it.
type lane struct {
	node     int32
	queue    []item
	requests map[*request]struct{} // in flight
}

// item is a marker: that of a transaction for one partition.
type item struct {
	d *delivery
	p schema.Partition
}

// request is a WriteTxnMarkers request.
type request struct {
	items  []item
	cancel context.CancelFunc
}

// lane is that of a node. mu is held.
func (s *Sender) lane(node int32) *lane {
	l := s.lanes[node]
	if l == nil {
		l = &lane{node: node, requests: map[*request]struct{}{}}
		s.lanes[node] = l
	}
	return l
}

func (l *lane) add(d *delivery, p schema.Partition) { l.queue = append(l.queue, item{d, p}) }

// start sends what is queued, as far as the node may have requests in flight. mu is held.
func (s *Sender) start(l *lane) {
	l.queue = slices.DeleteFunc(l.queue, func(i item) bool { return !s.isActive(i.d) })
	for len(l.queue) > 0 && len(l.requests) < s.cfg.InFlight {
		n := min(len(l.queue), s.cfg.PerRequest)
		r := &request{items: l.queue[:n:n]}
		if l.queue = l.queue[n:]; len(l.queue) == 0 {
			l.queue = nil
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		r.cancel = cancel
		l.requests[r] = struct{}{}
		s.tasks.Go(func() { s.send(ctx, l, r) })
	}
	if len(l.queue) == 0 && len(l.requests) == 0 {
		delete(s.lanes, l.node)
	}
}

// reconsider ends the requests in which a marker is that the metadata has for another node now, and takes such markers off the
// queue. mu is held.
func (s *Sender) reconsider(l *lane, im *metadata.Image) {
	moved := func(i item) bool {
		node, _ := destination(im, i.p)
		return node == nil || node.ID != l.node
	}
	for r := range l.requests {
		if slices.ContainsFunc(r.items, moved) {
			r.cancel()
		}
	}
	kept := l.queue[:0]
	for _, i := range l.queue {
		if moved(i) {
			i.d.open[i.p] = false
			s.fresh = append(s.fresh, i.d)
		} else {
			kept = append(kept, i)
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
}

// send has a request answered, and deals with the answer.
func (s *Sender) send(ctx context.Context, l *lane, r *request) {
	defer r.cancel()
	ctx, span := s.span(ctx, l.node, r.items)
	codes, err := s.ask(ctx, l.node, r.items)
	done := map[*delivery][]schema.Partition{}
	var failed []item
	for _, i := range r.items {
		code, why := s.judge(codes, err, i)
		if code == accepted {
			done[i.d] = append(done[i.d], i.p)
			continue
		}
		failed = append(failed, i)
		s.report(i, l.node, why)
	}
	if err != nil || len(failed) > 0 {
		span.SetStatus(otelcodes.Error, fmt.Sprintf("%d of %d markers are not written", len(failed), len(r.items)))
	}
	span.End()
	for d, partitions := range done {
		s.written(d, partitions)
	}
	s.mu.Lock()
	now := time.Now()
	for _, i := range failed {
		if _, isOpen := i.d.open[i.p]; isOpen && s.isActive(i.d) {
			i.d.open[i.p] = false
			s.delay(i.d, now)
		}
	}
	delete(l.requests, r)
	s.mu.Unlock()
	s.signal()
}

// span begins that of a request with these markers, in the trace of one of their transactions and linked to those of the others.
func (s *Sender) span(ctx context.Context, node int32, items []item) (context.Context, trace.Span) {
	var origins tracing.Origins
	for i := range items {
		if i == 0 || items[i].d != items[i-1].d {
			origins.Add(items[i].d.origin)
		}
	}
	return s.deps.Tracer.Start(origins.Context(ctx), "transaction markers", trace.WithSpanKind(trace.SpanKindClient), origins.Links(),
		trace.WithAttributes(attribute.Int("cauce.node.id", int(node)), attribute.Int("cauce.transaction.markers", len(items))))
}

// verdict is what an answer means for a marker.
type verdict int8

const (
	accepted verdict = iota // it is written, or needs not be
	again
)

// judge says what became of a marker. INVALID_PRODUCER_EPOCH says that the partition has a newer epoch of the producer: it gets one
// only after this transaction ended there. All other errors are those of a partition, a replica or a coordinator that is
// on its way to somewhere else, or of the way to it.
func (s *Sender) judge(codes map[marker]int16, err error, i item) (verdict, error) {
	if err != nil {
		return again, err
	}
	code, answered := codes[marker{i.d.ProducerID, i.p}]
	if !answered {
		return again, errUnanswered
	}
	switch err := kerr.ErrorForCode(code); {
	case err == nil:
		return accepted, nil
	case errors.Is(err, kerr.InvalidProducerEpoch):
		s.deps.Log.Warn("a partition has a newer epoch of the producer than that of its marker",
			zap.String("transactionalID", i.d.ID), zap.Int64("producerID", i.d.ProducerID), zap.Int16("epoch", i.d.Epoch),
			zap.String("topic", i.p.Topic), zap.Int32("partition", i.p.ID))
		return accepted, nil
	default:
		return again, err
	}
}

var errUnanswered = errors.New("the answer does not name the partition")

// report logs the 4th, 8th, 16th … failure of a delivery: a few belong to every change of a leader.
func (s *Sender) report(i item, node int32, err error) {
	s.mu.Lock()
	failures, since := i.d.failures, i.d.since
	s.mu.Unlock()
	if failures < 4 || failures&(failures-1) != 0 || s.ctx.Err() != nil {
		return
	}
	s.deps.Log.Warn("a marker is not written and is sent again", zap.String("transactionalID", i.d.ID), zap.String("topic", i.p.Topic),
		zap.Int32("partition", i.p.ID), zap.Int32("node", node), zap.Int("failures", failures), zap.Duration("since", time.Since(since)), zap.Error(err))
}

// marker names a marker in a request: producers are in it once each.
type marker struct {
	producerID int64
	p          schema.Partition
}

// ask sends the markers to a node and returns the code of each.
func (s *Sender) ask(ctx context.Context, node int32, items []item) (map[marker]int16, error) {
	addr, ok := s.address(node)
	if !ok {
		return nil, fmt.Errorf("node %d: %w", node, kerr.ListenerNotFound)
	}
	resp, err := s.deps.Ask(ctx, addr, newRequest(items))
	if err != nil {
		return nil, err
	}
	codes := make(map[marker]int16, len(items))
	for _, m := range resp.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				codes[marker{m.ProducerID, schema.Partition{Topic: t.Topic, ID: p.Partition}}] = p.ErrorCode
			}
		}
	}
	return codes, nil
}

// newRequest groups markers by transaction and topic. Those of a transaction follow each other.
func newRequest(items []item) *kmsg.WriteTxnMarkersRequest {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	places := map[*delivery]int{}
	for _, i := range items {
		at, ok := places[i.d]
		if !ok {
			at = len(req.Markers)
			places[i.d] = at
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.ProducerEpoch, m.Committed = i.d.ProducerID, i.d.Epoch, i.d.Commit
			m.CoordinatorEpoch, m.TransactionVersion = i.d.epoch, int8(i.d.ClientVersion)
			req.Markers = append(req.Markers, m)
		}
		m := &req.Markers[at]
		topic := -1
		for j := range m.Topics {
			if m.Topics[j].Topic == i.p.Topic {
				topic = j
			}
		}
		if topic < 0 {
			topic = len(m.Topics)
			m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: i.p.Topic})
		}
		m.Topics[topic].Partitions = append(m.Topics[topic].Partitions, i.p.ID)
	}
	return req
}
