package partition

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
)

func spanOf(n byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}, TraceFlags: trace.FlagsSampled})
}

func TestFollowersLearnOfTheSpansOfWhatTheyCopy(t *testing.T) {
	var traces Traces
	if got := traces.AppendTo(nil, 0); got != nil {
		t.Errorf("%d bytes about nothing", len(got))
	}
	for i := range 2 * maxTraced {
		traces.Note(int64(10*i), spanOf(byte(i+1)))
	}
	const from = 10 * (maxTraced + 3)
	var tags kmsg.Tags
	tags.Set(TracesTag, traces.AppendTo(nil, from))
	var offsets []int64
	EachTraced(&tags, from, from+30, func(offset int64, span trace.SpanContext) {
		offsets = append(offsets, offset)
		if want := spanOf(byte(offset/10 + 1)); span.TraceID() != want.TraceID() || span.SpanID() != want.SpanID() || !span.IsSampled() || !span.IsRemote() {
			t.Errorf("offset %d belongs to %v", offset, span)
		}
	})
	slices.Sort(offsets)
	if want := []int64{from, from + 10, from + 20}; !slices.Equal(offsets, want) {
		t.Errorf("offsets %v, want %v", offsets, want)
	}
	if all := len(traces.AppendTo(nil, 0)) / tracedBytes; all != maxTraced {
		t.Errorf("%d are remembered", all)
	}
	var broken kmsg.Tags
	broken.Set(TracesTag, make([]byte, tracedBytes-1))
	EachTraced(&broken, 0, 1, func(int64, trace.SpanContext) { t.Error("a part of an entry is taken for one") })
}

func TestAPartitionThatIsNotTracedCostsNothing(t *testing.T) {
	var traces Traces
	room := make([]byte, 0, 8)
	if n := testing.AllocsPerRun(100, func() { room = traces.AppendTo(room[:0], 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
