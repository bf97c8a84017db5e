package sinktask

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// A record whose producer has it traced is followed until it is put; what is done for others makes no span.
func TestSpans(t *testing.T) {
	f := newFixture(t, 1)
	spans := tracetest.NewInMemoryExporter()
	d := f.deps()
	d.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample()))).Tracer("test")
	var records []*kgo.Record
	for i, flags := range []trace.TraceFlags{trace.FlagsSampled, 0, trace.FlagsSampled} {
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{byte(i + 1)}, SpanID: trace.SpanID{9}, TraceFlags: flags})
		records = append(records, &kgo.Record{Topic: "orders", Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: tracing.ParentHeader, Value: tracing.AppendParent(nil, parent)}}})
	}
	records = append(records, &kgo.Record{Topic: "orders", Value: []byte("plain")})
	if err := f.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r := f.runWith(f.config(), d)
	f.has("plain")
	r.stop()
	names := map[string]int{}
	consumed := map[trace.SpanID]bool{}
	for _, s := range spans.GetSpans() {
		names[fmt.Sprintf("%s of trace %d", s.Name, s.SpanContext.TraceID()[0])]++
		if s.Name == "connect.consume" {
			consumed[s.SpanContext.SpanID()] = true
			if s.Parent.SpanID() != (trace.SpanID{9}) {
				t.Errorf("%s is not the producer's", s.Name)
			}
		}
	}
	for _, want := range []string{"connect.consume of trace 1", "connect.convert of trace 1", "connect.put of trace 1", "connect.consume of trace 3", "connect.convert of trace 3"} {
		if names[want] != 1 {
			t.Errorf("%d times %s", names[want], want)
		}
	}
	if len(names) != 5 {
		t.Errorf("spans %v", names)
	}
	for _, s := range spans.GetSpans() {
		if s.Name == "connect.put" && (!consumed[s.Parent.SpanID()] || len(s.Links) != 1 || !consumed[s.Links[0].SpanContext.SpanID()]) {
			t.Errorf("put is part of %v and linked to %v", s.Parent, s.Links)
		}
	}
}
