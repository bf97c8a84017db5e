package coordinator

import (
	"go.opentelemetry.io/otel/trace"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// after writes a record and has a job wait for it.
func after(key, job string) op {
	return func(m *kv, _ time.Time, t Ticket) Step {
		step := m.emit(NoProducer, Record{Key: []byte(key), Value: []byte(job)})
		step.After = []any{job}
		return step
	}
}

func TestJobsWaitForTheLog(t *testing.T) {
	inWorld(t, Config{AnswerTimeout: time.Second}, func(w *world) {
		w.own()
		expect := func(want ...any) {
			t.Helper()
			synctest.Wait()
			if jobs := w.takeJobs(); !slices.Equal(jobs, want) {
				t.Errorf("jobs %v, want %v", jobs, want)
			}
		}
		w.log.setPlan(hold(2 * time.Second))
		w.do("a", after("a", "first"))
		expect() // and its batch is on its way
		w.do("b", after("b", "second"))
		w.do("c", after("c", "third"))
		expect()
		time.Sleep(2 * time.Second) // also longer than answers wait
		expect("first")
		time.Sleep(2 * time.Second)
		expect("second", "third")
		w.r.Run(trace.SpanContext{}, shardID, func(m *kv, _ time.Time) Step { return Step{Producer: NoProducer, After: []any{"nothing to wait for"}} })
		expect("nothing to wait for")

		w.log.setPlan(failing(kerr.UnknownServerError)) // for good
		w.do("d", after("d", "lost"))
		time.Sleep(10 * time.Second)
		expect()
	})
}
