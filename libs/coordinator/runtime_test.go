package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/record"
)

const shardID = 3

// world is a runtime over a log in memory, inside of a bubble.
type world struct {
	t    *testing.T
	log  *memLog
	r    *Runtime[*kv]
	jobs []any

	mu      sync.Mutex
	answers []string // as they came
}

func inWorld(t *testing.T, cfg Config, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, log: newMemLog()}
		w.r = w.start(cfg)
		test(w)
		w.r.Close()
		w.log.landing.Wait()
	})
}

func (w *world) start(cfg Config) *Runtime[*kv] {
	cfg.Name = "group"
	r, err := New(cfg, Deps{
		Log: w.log, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(),
		Job: func(_ trace.SpanContext, _, _ int32, job any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.jobs = append(w.jobs, job)
		},
	}, newKV)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// own has the runtime own the shard under the next epoch, and loaded.
func (w *world) own() int32 {
	epoch := w.log.move(shardID)
	w.r.Own(shardID, epoch)
	synctest.Wait()
	return epoch
}

// takeJobs are the jobs handed over since the last call.
func (w *world) takeJobs() []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs := w.jobs
	w.jobs = nil
	return jobs
}

func (w *world) do(name string, op op) {
	w.r.Do(trace.SpanContext{}, shardID, op, func(response any, err error) {
		text := fmt.Sprint(name, "=", response)
		var k *kerr.Error
		if errors.As(err, &k) {
			text = name + ": " + k.Message
		} else if err != nil {
			text = name + ": " + err.Error()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answers = append(w.answers, text)
	})
}

// told returns and forgets the answers so far, once nothing moves any more.
func (w *world) told() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := w.answers
	w.answers = nil
	return answers
}

// expect checks the answers so far.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := w.told(); !slices.Equal(got, want) {
		w.t.Errorf("answers %q, want %q", got, want)
	}
}

// expectInAnyOrder is expect for answers that are given at once.
func (w *world) expectInAnyOrder(want ...string) {
	w.t.Helper()
	if got := slices.Sorted(slices.Values(w.told())); !slices.Equal(got, want) {
		w.t.Errorf("answers %q, want %q", got, want)
	}
}

// look runs f on the loaded machine.
func (w *world) look(f func(m *kv)) {
	w.t.Helper()
	if !w.r.Run(trace.SpanContext{}, shardID, func(m *kv, _ time.Time) Step { f(m); return Step{Producer: NoProducer} }) {
		w.t.Error("the shard is not loaded")
	}
}

// replayed is what the log's records add up to.
func (w *world) replayed() map[string]string {
	m := newKV(0)
	for _, b := range w.log.batches(shardID) {
		if _, err := replayBatch(m, b.Batch, 0); err != nil {
			w.t.Fatal(err)
		}
	}
	return m.data
}

// hold delays appends of records.
func hold(d time.Duration) func(memCall) fault {
	return func(c memCall) fault {
		if isFence(c) || c.batch == "" {
			return fault{}
		}
		return fault{wait: d}
	}
}

func isFence(c memCall) bool { return c.batch != "" && record.Batch(c.batch).IsControl() }

func failing(err error) func(memCall) fault {
	return func(c memCall) fault {
		if isFence(c) || c.batch == "" {
			return fault{}
		}
		return fault{err: err}
	}
}

func TestAnswersWaitForTheLog(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.do("read", get("a"))
		if len(w.answers) != 1 {
			t.Error("with nothing to wait for, a read has no answer when Do returns")
		}
		w.expect("read=")
		w.log.setPlan(hold(time.Second))
		w.do("write", put("a", "1"))
		w.do("read", get("a"))
		w.do("park", park)
		w.expect()
		time.Sleep(time.Second)
		w.expect("write=1", "read=1")
		w.do("write", put("a", "2"))
		w.r.Run(trace.SpanContext{}, shardID, release("done"))
		w.expect()
		time.Sleep(time.Second)
		w.expect("write=2", "park=done")
	})
}

func TestWhatWaitsBecomesOneBatch(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.log.setPlan(hold(time.Second))
		for i := range 10 {
			w.do("", put("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var counts []int32
		for _, b := range w.log.batches(shardID) {
			counts = append(counts, b.Count())
		}
		if n := len(w.told()); !slices.Equal(counts, []int32{1, 9}) || n != 10 {
			t.Errorf("batches of %v records, %d answers", counts, n)
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	inWorld(t, Config{MaxBatchBytes: 1000}, func(w *world) {
		w.own()
		w.log.setPlan(hold(time.Second))
		for _, size := range []int{1, 400, 400, 400, 2000, 1} {
			w.do("", put("a", strings.Repeat("x", size)))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var counts []int32
		for _, b := range w.log.batches(shardID) {
			counts = append(counts, b.Count())
			if len(b.Batch) > 1000 && b.Count() > 1 {
				t.Errorf("batch of %d bytes and %d records", len(b.Batch), b.Count())
			}
		}
		if !slices.Equal(counts, []int32{1, 2, 1, 1, 1}) {
			t.Errorf("batches of %v records", counts)
		}
	})
}

func TestTransactionsAreBatchesOfTheirOwn(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.log.setPlan(hold(100 * time.Millisecond))
		p := Producer{ID: 7, Epoch: 2}
		for i, op := range []op{put("a", "0"), put("a", "1"), putIn(p, "b", "2"), putIn(p, "c", "3"), put("d", "4")} {
			w.do(fmt.Sprint(i), op)
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		w.expect("0=0", "1=1", "2=2", "3=3", "4=4")
		var got []string
		for _, b := range w.log.batches(shardID) {
			got = append(got, fmt.Sprint(b.Count(), b.IsTransactional(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()))
		}
		want := []string{"1 false -1 -1 -1", "1 false -1 -1 -1", "1 true 7 2 -1", "1 true 7 2 -1", "1 false -1 -1 -1"}
		if !slices.Equal(got, want) {
			t.Errorf("batches %q, want %q", got, want)
		}
		w.own()
		w.look(func(m *kv) {
			if len(m.data) != 2 || !maps.Equal(m.pending[p], map[string]string{"b": "2", "c": "3"}) {
				t.Errorf("loaded %v, pending %v", m.data, m.pending)
			}
		})
	})
}

func TestFailedAppendsAreSentAgain(t *testing.T) {
	for name, err := range map[string]error{
		"connection": errors.New("connection reset"), "leader": kerr.NotLeaderForPartition, "replicas": kerr.NotEnoughReplicas,
		"timeout": kerr.RequestTimedOut, "image": kerr.CoordinatorNotAvailable,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{}, func(w *world) {
				w.own()
				w.log.setPlan(failing(err))
				w.do("write", put("a", "1"))
				time.Sleep(time.Second)
				w.expect()
				w.log.setPlan(nil)
				time.Sleep(time.Second)
				w.expect("write=1")
				calls := w.log.appends()
				if len(calls) < 3 {
					t.Fatalf("%d attempts", len(calls))
				}
				for _, c := range calls {
					if c != calls[0] {
						t.Errorf("attempts differ: %+v, %+v", c, calls[0])
					}
				}
			})
		})
	}
}

// An append whose answer was lost is in the log once; one that arrives late is not in the log after those that overtook it.
func TestLateAppendsChangeNothing(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		first := true
		w.log.setPlan(func(c memCall) fault {
			if !first {
				return fault{}
			}
			first = false
			return fault{err: kerr.RequestTimedOut, late: time.Minute}
		})
		w.do("write", put("a", "1"))
		time.Sleep(time.Second)
		w.do("write", put("a", "2"))
		time.Sleep(2 * time.Minute)
		w.expect("write=1", "write=2")
		if got := w.replayed()["a"]; got != "2" {
			t.Errorf("the log says %q", got)
		}
	})
}

func TestAFencedOwnerAnswersNothing(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.do("park", park)
		w.log.setPlan(hold(time.Second))
		w.do("write", put("a", "1"))
		w.do("read", get("a"))
		w.log.move(shardID)
		time.Sleep(time.Second)
		w.expectInAnyOrder("park: NOT_COORDINATOR", "read: NOT_COORDINATOR", "write: NOT_COORDINATOR")
		if _, ok := w.r.Epoch(shardID); ok {
			t.Error("the shard still has an epoch")
		}
		w.do("read", get("a"))
		w.expect("read: NOT_COORDINATOR")
		if got := w.replayed(); len(got) != 0 {
			t.Errorf("the log has %v", got)
		}
		w.log.setPlan(nil)
		w.own()
		w.do("read", get("a"))
		w.expect("read=")
	})
}

func TestOwnershipFollowsTheEpoch(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.do("read", get("a"))
		w.expect("read: NOT_COORDINATOR")
		w.own()
		epoch := w.own()
		w.do("park", park)
		w.r.Own(shardID, epoch)       // has it
		w.r.Own(shardID, epoch-1)     // is late
		w.r.Release(shardID, epoch-1) // is late
		w.expect()
		if got, ok := w.r.Epoch(shardID); got != epoch || !ok {
			t.Errorf("epoch %d, %v", got, ok)
		}
		epoch = w.own()
		w.expect("park: NOT_COORDINATOR")
		w.do("park", park)
		w.r.Release(shardID, epoch+1)
		w.expect("park: NOT_COORDINATOR")
		w.do("read", get("a"))
		w.expect("read: NOT_COORDINATOR")
	})
}

func TestCloseAnswersEverybody(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.do("park", park)
		w.log.setPlan(hold(time.Hour))
		w.do("write", put("a", "1"))
		w.r.Close()
		w.expectInAnyOrder("park: NOT_COORDINATOR", "write: NOT_COORDINATOR")
		w.r.Own(shardID, w.log.move(shardID))
		w.do("read", get("a"))
		w.expect("read: NOT_COORDINATOR")
	})
}

func TestAPendingLogIsBounded(t *testing.T) {
	inWorld(t, Config{MaxPendingBytes: 1000, MaxPendingRequests: 5, UnwritableAfter: time.Hour}, func(w *world) {
		w.own()
		w.log.setPlan(hold(time.Second))
		w.do("1", put("a", strings.Repeat("x", 600)))
		synctest.Wait()
		w.do("2", put("b", strings.Repeat("y", 600)))
		w.do("3", put("c", "z"))
		w.expect("3: COORDINATOR_NOT_AVAILABLE")
		time.Sleep(2 * time.Second)
		w.told()
		for range 5 {
			w.do("park", park)
		}
		w.do("read", get("a"))
		w.expect("read: COORDINATOR_NOT_AVAILABLE")
		w.r.Run(trace.SpanContext{}, shardID, release("x"))
		w.told()
		w.do("read", get("c"))
		w.expect("read=")
	})
}

func TestABatchThatIsTooLargeHasTheShardLoadedAgain(t *testing.T) {
	tooLarge := func(limit int) func(memCall) fault {
		return func(c memCall) fault {
			if len(c.batch) > limit {
				return fault{wait: time.Millisecond, err: kerr.MessageTooLarge}
			}
			return fault{wait: time.Millisecond}
		}
	}
	inWorld(t, Config{}, func(w *world) {
		w.own()
		time.Sleep(time.Second)
		w.do("small", put("a", "1"))
		time.Sleep(time.Second)
		w.log.setPlan(tooLarge(500))
		w.do("large", put("a", strings.Repeat("x", 500)))
		synctest.Wait()
		w.do("behind", put("b", "1"))
		time.Sleep(time.Second)
		w.expect("small=1", "large: UNKNOWN_SERVER_ERROR", "behind: NOT_COORDINATOR")
		w.do("read", get("a"))
		w.expect("read=1")

		// Steps that fit alone are written after they have not fitted together.
		write := func() {
			for i := range 6 {
				w.do(fmt.Sprint(i), put(fmt.Sprint(i), strings.Repeat("y", 100)))
				synctest.Wait()
			}
			time.Sleep(time.Second)
		}
		write()
		if got := w.told(); !slices.Contains(got, "5: NOT_COORDINATOR") {
			t.Errorf("answers %q", got)
		}
		write()
		w.told()
		write()
		for _, a := range w.told() {
			if !strings.HasSuffix(a, "y") {
				t.Errorf("answer %q", a)
			}
		}
		w.look(func(m *kv) {
			if got := w.replayed(); !maps.Equal(got, m.data) || len(got) != 7 {
				t.Errorf("the log says %v, the machine %v", got, m.data)
			}
		})

		// They are written together again when the log may take more.
		time.Sleep(smallFor)
		w.log.setPlan(tooLarge(1 << 20))
		before := len(w.log.appends())
		write()
		w.told()
		if n := len(w.log.appends()) - before; n != 2 { // the first, and those that came meanwhile
			t.Errorf("6 steps in %d batches", n)
		}
	})
}

// A client can make nothing of what the log says about a batch that is not the client's.
func TestABatchThatIsRefusedIsAnErrorOfTheServer(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.UnsupportedForMessageFormat, kerr.TopicAuthorizationFailed, kerr.InvalidTimestamp, kerr.RecordListTooLarge} {
		inWorld(t, Config{}, func(w *world) {
			w.own()
			w.log.setPlan(failing(code))
			w.do("write", put("a", "1"))
			w.expect("write: UNKNOWN_SERVER_ERROR")
		})
	}
}

func TestARefusedTransactionIsToldTheReason(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.log.setPlan(failing(kerr.InvalidProducerEpoch))
		w.do("write", putIn(Producer{1, 1}, "a", "1"))
		w.expect("write: INVALID_PRODUCER_EPOCH")
		w.do("read", get("a"))
		w.expect("read: COORDINATOR_LOAD_IN_PROGRESS")
		time.Sleep(time.Second)
		w.look(func(m *kv) {
			if len(m.pending) != 0 {
				t.Errorf("pending %v", m.pending)
			}
		})
	})
}

func TestAPanicHasTheShardLoadedAgain(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.do("write", put("a", "1"))
		synctest.Wait()
		w.do("panic", func(m *kv, _ time.Time, _ Ticket) Step {
			m.data["a"] = "half"
			panic("half way")
		})
		w.do("read", get("a"))
		time.Sleep(time.Second)
		w.expect("write=1", "panic: UNKNOWN_SERVER_ERROR", "read: COORDINATOR_LOAD_IN_PROGRESS")
		w.do("read", get("a"))
		w.expect("read=1")
	})
}

func TestNewsReachShardsThatLoad(t *testing.T) {
	news := func(s string) func(*kv, time.Time) Step {
		return func(m *kv, _ time.Time) Step {
			m.news += s
			return Step{Producer: NoProducer, Jobs: []any{s}}
		}
	}
	inWorld(t, Config{}, func(w *world) {
		w.log.setPlan(func(memCall) fault { return fault{wait: time.Second} })
		w.own()
		w.r.RunAll(news("1"))
		w.r.RunAll(news("2"))
		if w.r.Run(trace.SpanContext{}, shardID, release("")) {
			t.Error("an operation runs on a shard that is loading")
		}
		time.Sleep(time.Minute)
		w.r.RunAll(news("3"))
		w.look(func(m *kv) {
			if m.news != "23" || m.loaded != 1 {
				t.Errorf("news %q, loaded %d times", m.news, m.loaded)
			}
		})
		if jobs := w.takeJobs(); !slices.Equal(jobs, []any{"2", "3"}) {
			t.Errorf("jobs %v", jobs)
		}
	})
}

func TestMetricsCountShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		log := newMemLog()
		deps := Deps{Log: log, Logger: zap.NewNop(), Metrics: registry}
		r, err := New(Config{Name: "group"}, deps, newKV)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Name: "group"}, deps, newKV); err == nil {
			t.Error("a second runtime of the name registers its metrics")
		}
		log.setPlan(func(c memCall) fault {
			switch {
			case c.shard == 1:
				return fault{wait: time.Hour}
			case c.shard == 2 && c.batch == "":
				return fault{err: errors.New("broken")}
			}
			return fault{}
		})
		for id := range int32(4) {
			r.Own(id, log.move(id))
		}
		synctest.Wait()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() == "kafka_server_group_coordinator_metrics_num_partitions" {
				for _, m := range f.GetMetric() {
					got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		if !maps.Equal(got, map[string]float64{"loading": 1, "active": 2, "failed": 1}) {
			t.Errorf("shards %v", got)
		}
		r.Close()
		if left, _ := registry.Gather(); len(left) != 0 {
			t.Errorf("%d metrics are left", len(left))
		}
	})
}
