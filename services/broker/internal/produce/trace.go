package produce

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// maxTraced bounds the partitions of a request that its trace knows of.
const maxTraced = 16

// join makes the request part of the trace that its first record names, and links it to those that the first records of the other
// partitions name. It looks at records that are not compressed only, and not at all when the request's header has named a trace.
func (p *produce) join() {
	t := p.r.Trace()
	if !t.Rootless() {
		return
	}
	looked := 0
	for i := range p.request.Topics {
		for j := range p.request.Topics[i].Partitions {
			if looked++; looked > maxTraced {
				return
			}
			b, err := record.FromProduce(p.request.Topics[i].Partitions[j].Records, p.request.Version)
			if err != nil {
				continue
			}
			parent := tracing.ParseParent(b.FirstHeader(tracing.ParentHeader))
			switch {
			case !parent.IsValid():
			case t.Rootless():
				t.Join(parent)
			case parent.IsSampled() && parent.TraceID() != t.SpanContext().TraceID():
				t.Link(parent)
			}
		}
	}
}

// noteAppend has followers learn of the request's trace with what they fetch.
func (p *produce) noteAppend(res *result) {
	if span := p.r.Trace().SpanContext(); span.IsSampled() && res.err == nil && !res.info.Duplicate {
		res.partition.Traces.Note(res.info.FirstOffset, span)
	}
}

// noteAnswer has the request's trace know what is answered.
func (p *produce) noteAnswer() {
	t := p.r.Trace()
	if t == nil {
		return
	}
	for i := range p.results {
		if err := p.results[i].err; err != nil {
			t.Failed(wire.Code(err))
		}
	}
	if !t.Kept() {
		return
	}
	var where []string
	for i := range p.results[:min(len(p.results), maxTraced)] {
		res := &p.results[i]
		switch {
		case res.partition == nil:
		case res.err != nil:
			where = append(where, fmt.Sprintf("%s-%d: %v", res.partition.Topic.Name, res.partition.ID, res.err))
		default:
			where = append(where, fmt.Sprintf("%s-%d@%d", res.partition.Topic.Name, res.partition.ID, res.info.FirstOffset))
		}
	}
	t.Annotate(attribute.StringSlice("kafka.partitions", where), attribute.Int("kafka.acks", int(p.request.Acks)))
	if len(p.results) == 1 && p.results[0].partition != nil {
		only := &p.results[0]
		t.Annotate(attribute.String("messaging.destination.name", only.partition.Topic.Name),
			attribute.Int("messaging.destination.partition.id", int(only.partition.ID)))
		if only.err == nil {
			t.Annotate(attribute.Int64("messaging.kafka.offset", only.info.FirstOffset),
				attribute.Int64("messaging.batch.message_count", only.info.LastOffset-only.info.FirstOffset+1))
		}
	}
}
