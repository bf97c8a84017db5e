package partition

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
)

// TracesTag is the tagged field of a partition in the answer to a follower's fetch in which the leader names the spans of
// requests whose batches may be in it; others skip it (KIP-482).
const TracesTag = 0x6361

const (
	// maxTraced bounds the appends whose spans are remembered: the newest.
	maxTraced = 16
	// tracedBytes is how long one is in the field: offset, trace id, span id and flags.
	tracedBytes = 8 + 16 + 8 + 1
)

// Traces are the spans of the newest sampled appends to a partition. The zero value has none, and costs one look.
type Traces struct{ ring atomic.Pointer[tracesRing] }

type tracesRing struct {
	mu      sync.Mutex
	entries [maxTraced]traced
	next    int
}

// traced is an append: the offset of its first record, and the span that it is a part of.
type traced struct {
	offset int64
	span   trace.SpanContext
}

// Note remembers an append under a span that is sampled.
func (t *Traces) Note(offset int64, span trace.SpanContext) {
	r := t.ring.Load()
	if r == nil {
		t.ring.CompareAndSwap(nil, &tracesRing{})
		r = t.ring.Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[r.next%maxTraced] = traced{offset, span}
	r.next++
}

// AppendTo appends the content of the tagged field for a follower that fetches from an offset on: nothing when there is nothing to name.
func (t *Traces) AppendTo(dst []byte, from int64) []byte {
	r := t.ring.Load()
	if r == nil {
		return dst
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range min(r.next, maxTraced) {
		e := &r.entries[i]
		if e.offset < from {
			continue
		}
		traceID, spanID := e.span.TraceID(), e.span.SpanID()
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.offset))
		dst = append(append(dst, traceID[:]...), spanID[:]...)
		dst = append(dst, byte(e.span.TraceFlags()))
	}
	return dst
}

// EachTraced calls do with the spans of the appends that a leader names, those with a first record in [from, end).
func EachTraced(tags *kmsg.Tags, from, end int64, do func(offset int64, span trace.SpanContext)) {
	tags.Each(func(key uint32, b []byte) {
		if key != TracesTag {
			return
		}
		for ; len(b) >= tracedBytes; b = b[tracedBytes:] {
			offset := int64(binary.BigEndian.Uint64(b))
			if offset < from || offset >= end {
				continue // comes with a later answer, or came with an earlier one
			}
			do(offset, trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID(b[8:24]), SpanID: trace.SpanID(b[24:32]), TraceFlags: trace.TraceFlags(b[32]), Remote: true,
			}))
		}
	})
}
