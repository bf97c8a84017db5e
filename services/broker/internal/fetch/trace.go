package fetch

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"go.opentelemetry.io/otel/attribute"

	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// maxTraced bounds the partitions of an answer that the request's trace knows of.
const maxTraced = 16

// appendTraces appends the tagged fields of a partition without an error: for a follower, the traces of the records that it gets.
func (f *fetch) appendTraces(head []byte, res *result) []byte {
	if !f.session.replica.isOne() || res.slice.Size() == 0 {
		return append(head, 0)
	}
	f.traces = res.entry.partition.Traces.AppendTo(f.traces[:0], res.entry.offset)
	if len(f.traces) == 0 {
		return append(head, 0)
	}
	head = kbin.AppendUvarint(append(head, 1), partition.TracesTag)
	head = kbin.AppendUvarint(head, uint32(len(f.traces)))
	return append(head, f.traces...)
}

// noteAnswer has the request's trace know what is answered.
func (f *fetch) noteAnswer() {
	t := f.r.Trace()
	if t == nil {
		return
	}
	t.Did("read")
	for i := range f.results {
		if err := f.results[i].err; err != nil {
			t.Failed(wire.Code(err))
		}
	}
	if !t.Kept() {
		return
	}
	var where []string
	for i := range f.results[:min(len(f.results), maxTraced)] {
		res := &f.results[i]
		p := res.entry.partition
		switch {
		case p == nil:
		case res.err != nil:
			where = append(where, fmt.Sprintf("%s-%d: %v", p.Topic.Name, p.ID, res.err))
		default:
			where = append(where, fmt.Sprintf("%s-%d@%d: %d bytes", p.Topic.Name, p.ID, res.entry.offset, res.slice.Size()))
		}
	}
	t.Annotate(attribute.StringSlice("kafka.partitions", where), attribute.Bool("kafka.follower", f.session.replica.isOne()))
	if len(f.results) == 1 && f.results[0].entry.partition != nil {
		only := f.results[0].entry
		t.Annotate(attribute.String("messaging.destination.name", only.partition.Topic.Name),
			attribute.Int("messaging.destination.partition.id", int(only.partition.ID)))
	}
}
