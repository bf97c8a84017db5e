package coordinator

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/record"
)

// sink is a log that takes everything and keeps nothing.
type sink struct{}

func (sink) Append(context.Context, int32, int32, int64, record.Batch) (int64, error) { return 0, nil }
func (sink) Start(context.Context, int32) (int64, error)                              { return 0, nil }
func (sink) Read(context.Context, int32, int64, int) ([]byte, error)                  { return nil, nil }

// idle is a machine with fixed steps.
type idle struct{ step Step }

func (*idle) Replay(Producer, Record) error              { return nil }
func (*idle) ReplayMarker(Producer, record.Marker) error { return nil }
func (*idle) Loaded(time.Time) Step                      { return Step{Producer: NoProducer} }
func (*idle) Tick(time.Time) Step                        { return Step{Producer: NoProducer} }
func (*idle) NextTick() time.Time                        { return time.Time{} }

func (m *idle) answer(_ time.Time, t Ticket) Step {
	m.step.Answers[0].Ticket = t
	return m.step
}

// startIdle is a loaded shard 0 whose operations make the records.
func startIdle(t testing.TB, records ...Record) *Runtime[*idle] {
	t.Helper()
	r, err := New(Config{Name: "bench"}, Deps{Log: sink{}, Logger: zap.NewNop()}, func(int32) *idle {
		return &idle{Step{Records: records, Producer: NoProducer, Answers: make([]Answer, 1)}}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.Own(0, 1)
	for loaded := false; !loaded; {
		loaded = r.Run(trace.SpanContext{}, 0, func(*idle, time.Time) Step { return Step{Producer: NoProducer} })
	}
	return r
}

func TestAnOperationWithoutRecordsAllocatesNothing(t *testing.T) {
	r := startIdle(t)
	answered := 0
	done := func(any, error) { answered++ }
	if got := testing.AllocsPerRun(1000, func() { r.Do(trace.SpanContext{}, 0, (*idle).answer, done) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if answered != 1001 {
		t.Errorf("%d answers", answered)
	}
}

func BenchmarkDoWithoutRecords(b *testing.B) {
	r := startIdle(b)
	done := func(any, error) {}
	b.ReportAllocs()
	for b.Loop() {
		r.Do(trace.SpanContext{}, 0, (*idle).answer, done)
	}
}

// BenchmarkDoWithOneRecord has one client that waits for each answer, and many that do not wait for each other.
func BenchmarkDoWithOneRecord(b *testing.B) {
	commit := Record{Key: make([]byte, 40), Value: make([]byte, 60)}
	b.Run("one", func(b *testing.B) {
		r := startIdle(b, commit)
		answered := make(chan struct{}, 1)
		done := func(any, error) { answered <- struct{}{} }
		b.ReportAllocs()
		for b.Loop() {
			r.Do(trace.SpanContext{}, 0, (*idle).answer, done)
			<-answered
		}
	})
	b.Run("many", func(b *testing.B) {
		r := startIdle(b, commit)
		var answered sync.WaitGroup
		free := make(chan struct{}, 1000)
		done := func(any, error) { <-free; answered.Done() }
		b.ReportAllocs()
		for b.Loop() {
			free <- struct{}{}
			answered.Add(1)
			r.Do(trace.SpanContext{}, 0, (*idle).answer, done)
		}
		answered.Wait()
	})
}
