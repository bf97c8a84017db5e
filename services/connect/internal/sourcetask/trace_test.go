package sourcetask

import (
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/tracing"
)

func TestSpans(t *testing.T) {
	w := newWorld(t)
	spans := tracetest.NewInMemoryExporter()
	tracer, provider := tracing.New(tracing.Sampling{Rate: 1}, "test", sdktrace.WithSyncer(spans))
	w.tracer = tracer
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := newSource(turns(func() ([]plugin.SourceRecord, error) {
		traced := record("orders", "traced")
		traced.Headers = []data.Header{{Name: tracing.ParentHeader, Value: data.Value{V: own}}}
		return []plugin.SourceRecord{record("orders", "a"), traced}, nil
	}))
	r := w.start(s, nil, "header.converter", "String")
	s.await(t, "both", has("stored a", "stored traced"))
	r.stop()
	if err := provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	byName := map[string]tracetest.SpanStub{}
	var names []string
	for _, span := range spans.GetSpans() {
		byName[span.Name] = span
		names = append(names, span.Name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Equal(names, []string{"connect.convert", "connect.poll", "connect.produce"}) {
		t.Fatalf("spans %q", names)
	}
	poll, produce := byName["connect.poll"].SpanContext, byName["connect.produce"]
	if produce.Parent.SpanID() != poll.SpanID() || byName["connect.convert"].Parent.SpanID() != poll.SpanID() || produce.SpanKind != trace.SpanKindProducer {
		t.Errorf("spans are not of one poll: %+v", produce)
	}
	for _, records := range w.consume("orders", 2) {
		for _, r := range records {
			if len(r.Headers) != 1 || r.Headers[0].Key != tracing.ParentHeader {
				t.Fatalf("%s has headers %v", r.Value, r.Headers)
			}
			named := tracing.ParseParent(r.Headers[0].Value)
			if string(r.Value) == "traced" && string(r.Headers[0].Value) != own || string(r.Value) == "a" && named.SpanID() != produce.SpanContext.SpanID() {
				t.Errorf("%s names %s", r.Value, r.Headers[0].Value)
			}
		}
	}
}
