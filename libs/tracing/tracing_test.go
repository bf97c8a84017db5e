package tracing

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func recording(s Sampling) (*Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	t, _ := New(s, "1", sdktrace.WithSpanProcessor(spans))
	return t, spans
}

func TestARecordedSpanHasTheIdentityThatItsChildrenKnow(t *testing.T) {
	tracer, spans := recording(Sampling{Rate: 1, SlowAfter: -1})
	client := tracer.Begin(trace.SpanContext{})
	own := tracer.Begin(client)
	_, child := tracer.Start(trace.ContextWithSpanContext(context.Background(), own), "child")
	child.End()
	began := time.Unix(1000, 0)
	tracer.RecordPart(own, "part", began, began.Add(time.Second))
	tracer.Record(own, client, "request", began).End(trace.WithTimestamp(began.Add(2 * time.Second)))
	tracer.Record(client, trace.SpanContext{}, "client", began).End()
	ended := spans.Ended()
	for i, want := range []struct {
		name   string
		parent trace.SpanContext
	}{{"child", own}, {"part", own}, {"request", client}, {"client", trace.SpanContext{}}} {
		got := ended[i]
		if got.Name() != want.name || got.Parent().SpanID() != want.parent.SpanID() || got.SpanContext().TraceID() != own.TraceID() {
			t.Errorf("span %s under %v of trace %v", got.Name(), got.Parent().SpanID(), got.SpanContext().TraceID())
		}
	}
	if got := ended[2]; got.SpanContext().SpanID() != own.SpanID() || !got.StartTime().Equal(began) || got.EndTime().Sub(began) != 2*time.Second {
		t.Errorf("span %v from %v to %v", got.SpanContext(), got.StartTime(), got.EndTime())
	}
	if got := ended[3]; got.SpanContext().SpanID() != client.SpanID() || got.Parent().IsValid() {
		t.Errorf("the span that begins the trace is %v under %v", got.SpanContext(), got.Parent())
	}
}

func TestTheParentDecides(t *testing.T) {
	for _, rate := range []float64{0, 1} {
		tracer, spans := recording(Sampling{Rate: rate, SlowAfter: -1})
		own := tracer.Begin(trace.SpanContext{})
		if own.IsSampled() != (rate == 1) || !own.IsValid() {
			t.Errorf("rate %v: %v", rate, own)
		}
		for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
			parent := own.WithTraceFlags(flags)
			if got := tracer.Begin(parent); got.TraceFlags() != flags || got.TraceID() != parent.TraceID() || got.SpanID() == parent.SpanID() {
				t.Errorf("rate %v: %v under %v", rate, got, parent)
			}
			before := len(spans.Ended())
			_, span := tracer.Start(trace.ContextWithSpanContext(context.Background(), parent), "")
			span.End()
			if made := len(spans.Ended()) > before; made != (flags == trace.FlagsSampled) {
				t.Errorf("rate %v: a child of a parent with flags %v is made: %v", rate, flags, made)
			}
		}
	}
}

func TestTheRateIsThatShare(t *testing.T) {
	tracer, _ := recording(Sampling{Rate: 0.25, SlowAfter: -1})
	const all = 20_000
	sampled, standard := 0, sdktrace.TraceIDRatioBased(0.25)
	for range all {
		own := tracer.Begin(trace.SpanContext{})
		if own.IsSampled() {
			sampled++
		}
		if standard.ShouldSample(sdktrace.SamplingParameters{TraceID: own.TraceID()}).Decision == sdktrace.RecordAndSample != own.IsSampled() {
			t.Fatalf("another process with the same rate disagrees on %v", own.TraceID())
		}
	}
	if sampled < all/5 || sampled > all*3/10 {
		t.Errorf("%d of %d", sampled, all)
	}
}

func TestWhatIsSlowOrFailedIsKept(t *testing.T) {
	tracer, spans := recording(Sampling{Rate: 0, SlowAfter: time.Second})
	own := tracer.Begin(trace.SpanContext{})
	if tracer.Keeps(own, 999*time.Millisecond, false) || !tracer.Keeps(own, time.Second, false) || !tracer.Keeps(own, 0, true) {
		t.Error("kept by another rule")
	}
	tracer.Record(own, trace.SpanContext{}, "slow", time.Now()).End()
	tracer.RecordPart(own, "wait", time.Now(), time.Now())
	if n := len(spans.Ended()); n != 2 {
		t.Errorf("%d spans at rate 0", n)
	}
	never, _ := recording(Sampling{Rate: 0, SlowAfter: -1})
	if never.Keeps(own, time.Hour, false) {
		t.Error("kept for being slow when that does not count")
	}
}

func TestOnlySoManyAreKeptUnsampled(t *testing.T) {
	var b budget
	for second := range int64(3) {
		kept := 0
		for range 3 * maxExtra {
			if b.take(1000 + second) {
				kept++
			}
		}
		if kept != maxExtra {
			t.Errorf("%d in a second", kept)
		}
	}
	tracer, _ := recording(Sampling{Rate: 1})
	for range 2 * maxExtra {
		if !tracer.Allows(tracer.Begin(trace.SpanContext{})) {
			t.Fatal("what is sampled counts, too")
		}
	}
}

func TestParentsAreReadAsThePropagatorDoes(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, text := range []string{
		good, good[:54] + "0", good + "-x", "cc" + good[2:], "cc" + good[2:] + "-x", "cc" + good[2:] + "x", "ff" + good[2:], good[:54], good + "x", "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0zf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{ParentHeader: text}))
		if got := ParseParent([]byte(text)); got.IsValid() != want.IsValid() || got.TraceID() != want.TraceID() || got.SpanID() != want.SpanID() || got.IsSampled() != want.IsSampled() {
			t.Errorf("%q: %v, the propagator says %v", text, got, want)
		}
	}
	sc := ParseParent([]byte(good))
	if got := string(AppendParent([]byte("x"), sc)); got != "x"+good {
		t.Errorf("written as %s", got)
	}
	if got := string(AppendParent(nil, sc.WithTraceFlags(0))); got != good[:54]+"0" {
		t.Errorf("unsampled: %s", got)
	}
}

func TestWhatEveryRequestCostsAllocatesNothing(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	tracer, _ := recording(Sampling{Rate: 0, SlowAfter: time.Second})
	header := []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	out := make([]byte, 0, len(header))
	kept := 0
	if n := testing.AllocsPerRun(1000, func() {
		own := tracer.Begin(ParseParent(header))
		out = AppendParent(out[:0], own)
		if tracer.Keeps(own, time.Millisecond, false) {
			kept++
		}
	}); n != 0 || kept > 0 {
		t.Errorf("%v allocations, %d kept", n, kept)
	}
}

func TestTheStandardVariables(t *testing.T) {
	for _, test := range []struct {
		sampler, arg string
		want         float64
		bad          bool
	}{
		{"", "", 1, false}, {"always_off", "", 0, false}, {"parentbased_traceidratio", "0.01", 0.01, false}, {"traceidratio", "", 1, false},
		{"traceidratio", "2", 0, true}, {"traceidratio", "NaN", 0, true}, {"jaeger_remote", "", 0, true},
	} {
		got, err := RateOf(func(name string) string {
			return map[string]string{"OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.arg}[name]
		})
		if got != test.want || (err != nil) != test.bad {
			t.Errorf("%s %s: %v, %v", test.sampler, test.arg, got, err)
		}
	}
}

func TestWorkForSeveralIsPartOfOneTraceAndLinkedToTheOthers(t *testing.T) {
	tracer, _ := recording(Sampling{Rate: 0, SlowAfter: -1})
	unsampled, sampled := tracer.Begin(trace.SpanContext{}), tracer.Begin(trace.SpanContext{}).WithTraceFlags(trace.FlagsSampled)
	other := tracer.Begin(trace.SpanContext{}).WithTraceFlags(trace.FlagsSampled)
	var o Origins
	parent := func() trace.SpanContext { return trace.SpanContextFromContext(o.Context(context.Background())) }
	o.Add(trace.SpanContext{})
	if parent().IsValid() {
		t.Error("a parent out of nothing")
	}
	o.Add(unsampled)
	if !parent().Equal(unsampled) {
		t.Errorf("parent %v", parent())
	}
	for range 3 * maxLinks {
		for _, sc := range []trace.SpanContext{sampled, unsampled, other} {
			o.Add(sc)
		}
	}
	if !parent().Equal(sampled) || len(o.others) != maxLinks || !o.others[0].SpanContext.Equal(other) {
		t.Errorf("parent %v and %d links", parent(), len(o.others))
	}
	if o.Reset(); parent().IsValid() || len(o.others) > 0 {
		t.Error("not empty after Reset")
	}
}
