package coordinator

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// traced is a runtime whose shard is loaded, and its spans since.
func traced(t *testing.T, log *memLog, s tracing.Sampling) (*Runtime[*kv], *tracing.Tracer, func() []sdktrace.ReadOnlySpan) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tracer, _ := tracing.New(s, "1", sdktrace.WithSpanProcessor(spans))
	r, err := New(Config{Name: "group"}, Deps{Log: log, Logger: zap.NewNop(), Tracer: tracer}, newKV)
	if err != nil {
		t.Fatal(err)
	}
	r.Own(shardID, log.move(shardID))
	synctest.Wait()
	loaded := len(spans.Ended())
	return r, tracer, func() []sdktrace.ReadOnlySpan { return spans.Ended()[loaded:] }
}

func named(t *testing.T, spans []sdktrace.ReadOnlySpan, name string) []sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range spans {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no span %q", name)
	}
	return found
}

func TestLoadsAndAppendsAreTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		log := newMemLog()
		r, err := New(Config{Name: "group"}, Deps{Log: log, Logger: zap.NewNop(),
			Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")}, newKV)
		if err != nil {
			t.Fatal(err)
		}
		r.Own(shardID, log.move(shardID))
		synctest.Wait()
		log.setPlan(failing(kerr.NotEnoughReplicas))
		r.Do(trace.SpanContext{}, shardID, put("a", "1"), func(any, error) {})
		synctest.Wait()
		log.setPlan(nil)
		time.Sleep(time.Second)
		r.Close()
		var got []string
		for _, s := range spans.Ended() {
			name := s.Name()
			if s.Status().Code == codes.Error {
				name += " failed"
			}
			got = append(got, name)
		}
		want := []string{"group shard append", "group shard load", "group shard append failed", "group shard append"}
		if !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}

// TestARequestsTraceGoesOnToItsAppend has two requests share a batch: each has its spans, and both know of the one append.
func TestARequestsTraceGoesOnToItsAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemLog()
		r, tracer, since := traced(t, log, tracing.Sampling{Rate: 0, SlowAfter: -1})
		defer r.Close()
		sampled := func() trace.SpanContext { return tracer.Begin(trace.SpanContext{}).WithTraceFlags(trace.FlagsSampled) }
		log.setPlan(failing(kerr.NotEnoughReplicas))
		first, second, third, unsampled := sampled(), sampled(), sampled(), tracer.Begin(trace.SpanContext{})
		for _, origin := range []trace.SpanContext{first, unsampled, second, third} { // the first is in flight as the others come
			r.Do(origin, shardID, put("a", "1"), func(any, error) {})
			synctest.Wait()
		}
		log.setPlan(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		appends := named(t, since(), "group shard append")
		shared := appends[len(appends)-1]
		if shared.Parent().SpanID() != second.SpanID() || shared.SpanContext().TraceID() != second.TraceID() {
			t.Errorf("the append is under %v, want %v", shared.Parent(), second)
		}
		if links := shared.Links(); len(links) != 1 || !links[0].SpanContext.Equal(third) {
			t.Errorf("the append is linked to %v", links)
		}
		for i, origin := range []trace.SpanContext{second, third} {
			handles, commits := named(t, since(), "group shard handle"), named(t, since(), "group shard commit")
			if len(handles) != 3 || len(commits) != 3 {
				t.Fatalf("%d handled and %d committed", len(handles), len(commits))
			}
			handle, commit := handles[i+1], commits[i+1]
			if handle.Parent().SpanID() != origin.SpanID() || commit.Parent().SpanID() != origin.SpanID() {
				t.Errorf("handled under %v and committed under %v, want %v", handle.Parent(), commit.Parent(), origin)
			}
			if links := commit.Links(); len(links) != 1 || !links[0].SpanContext.Equal(shared.SpanContext()) {
				t.Errorf("the wait is linked to %v", links)
			}
			if commit.EndTime().Before(shared.EndTime()) {
				t.Error("committed before the append's end")
			}
		}
	})
}

// TestAnUnsampledTraceGoesOnUnseen has the identity reach the brokers, who may keep their part of it, and makes no span.
func TestAnUnsampledTraceGoesOnUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemLog()
		r, tracer, since := traced(t, log, tracing.Sampling{Rate: 0, SlowAfter: -1})
		defer r.Close()
		origin := tracer.Begin(trace.SpanContext{})
		r.Do(origin, shardID, put("a", "1"), func(any, error) {})
		synctest.Wait()
		if spans := since(); len(spans) > 0 {
			t.Errorf("%d spans", len(spans))
		}
		if got := log.lastTrace(); got.TraceID() != origin.TraceID() || got.IsSampled() || got.SpanID() == origin.SpanID() {
			t.Errorf("the log was called with %v, want trace %v", got, origin.TraceID())
		}
	})
}

func TestJobsCarryTheirRequestsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan trace.SpanContext, 2)
		log := newMemLog()
		tracer, _ := tracing.New(tracing.Sampling{Rate: 1, SlowAfter: -1}, "1")
		r, err := New(Config{Name: "group"}, Deps{Log: log, Logger: zap.NewNop(), Tracer: tracer,
			Job: func(origin trace.SpanContext, _, _ int32, _ any) { got <- origin }}, newKV)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.Own(shardID, log.move(shardID))
		synctest.Wait()
		origin := tracer.Begin(trace.SpanContext{})
		r.Run(origin, shardID, func(*kv, time.Time) Step {
			return Step{Producer: NoProducer, Records: []Record{{Key: []byte("k"), Value: []byte("v")}}, Jobs: []any{1}, After: []any{2}}
		})
		synctest.Wait()
		for _, kind := range []string{"now", "after the commit"} {
			if sc := <-got; !sc.Equal(origin) {
				t.Errorf("the job %s is part of %v", kind, sc)
			}
		}
	})
}

// TestAnAnswerThatAnotherRequestBringsIsInItsOwnTrace parks one request, which a second one's step answers.
func TestAnAnswerThatAnotherRequestBringsIsInItsOwnTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemLog()
		r, tracer, since := traced(t, log, tracing.Sampling{Rate: 1, SlowAfter: -1})
		defer r.Close()
		waits, brings := tracer.Begin(trace.SpanContext{}), tracer.Begin(trace.SpanContext{})
		var parked Ticket
		answered := 0
		r.Do(waits, shardID, func(_ *kv, _ time.Time, t Ticket) Step { parked = t; return Step{Producer: NoProducer} }, func(any, error) { answered++ })
		r.Do(brings, shardID, func(_ *kv, _ time.Time, t Ticket) Step {
			return Step{Producer: NoProducer, Records: []Record{{Key: []byte("k"), Value: []byte("v")}}, Answers: []Answer{{t, 1}, {parked, 2}}}
		}, func(any, error) { answered++ })
		synctest.Wait()
		commits := named(t, since(), "group shard commit")
		if answered != 2 || len(commits) != 2 || commits[0].Parent().SpanID() != brings.SpanID() || commits[1].Parent().SpanID() != waits.SpanID() {
			t.Errorf("%d answers, %d waits", answered, len(commits))
		}
	})
}

func TestAWaitThatEndsInVainSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemLog()
		r, tracer, since := traced(t, log, tracing.Sampling{Rate: 1, SlowAfter: -1})
		log.setPlan(failing(kerr.NotEnoughReplicas))
		for range 2 {
			r.Do(tracer.Begin(trace.SpanContext{}), shardID, put("a", "1"), func(any, error) {})
			time.Sleep(3 * time.Second)
		}
		time.Sleep(3 * time.Second)
		r.Close()
		for _, s := range named(t, since(), "group shard commit") {
			if s.Status().Code != codes.Error {
				t.Errorf("a wait ended as %v", s.Status())
			}
		}
	})
}

func TestATracerThatLeadsNowhereIsNotUsed(t *testing.T) {
	r, err := New(Config{Name: "group"}, Deps{Log: newMemLog(), Logger: zap.NewNop(), Tracer: noop.NewTracerProvider().Tracer("test")}, newKV)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.tracer != nil {
		t.Error("spans are made that nobody sees")
	}
}
