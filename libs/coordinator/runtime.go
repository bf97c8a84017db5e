package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

// Config says what a runtime runs and bounds it; a zero bound has the default that its comment names.
type Config struct {
	// Name is the coordinator's in metrics, spans and logs: "group" or "transaction".
	Name string
	// NodeID is the node's own id.
	NodeID int32
	// MaxBatchBytes bounds a batch of more than one step. 1 MiB - 12, as Kafka config max.message.bytes.
	MaxBatchBytes int
	// MaxPendingBytes bounds the records of a shard that are not committed yet, and MaxPendingRequests its requests without an
	// answer: beyond them, operations are refused. 16 MiB and 65536.
	MaxPendingBytes, MaxPendingRequests int
	// AnswerTimeout is how long an answer waits for the log. 5 s (Kafka config offsets.commit.timeout.ms).
	AnswerTimeout time.Duration
	// UnwritableAfter is how long an append may take before operations are refused. 3 s.
	UnwritableAfter time.Duration
	// RetryMin and RetryMax are the pauses after one failure and after many. 50 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// LoadBytes is how much of the log is read at once (Kafka config offsets.load.buffer.size), and Loads how many shards do so
	// at the same time. 5 MiB and 4.
	LoadBytes, Loads int
}

func (c Config) withDefaults() Config {
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 1<<20-12)
	c.MaxPendingBytes = cmp.Or(c.MaxPendingBytes, 16<<20)
	c.MaxPendingRequests = cmp.Or(c.MaxPendingRequests, 1<<16)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, 5*time.Second)
	c.UnwritableAfter = cmp.Or(c.UnwritableAfter, 3*time.Second)
	c.RetryMin = cmp.Or(c.RetryMin, 50*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, time.Second)
	c.LoadBytes = cmp.Or(c.LoadBytes, 5<<20)
	c.Loads = cmp.Or(c.Loads, 4)
	return c
}

// Deps are what a runtime works with. Metrics and Tracer may be nil, Job when no machine makes jobs.
type Deps struct {
	Log     Log
	Logger  *zap.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
	// Job is handed each job of a step, in order and with the shard locked: it must neither block nor call the runtime. origin is that
	// of the operation.
	Job func(origin trace.SpanContext, shard, epoch int32, job any)
}

// Runtime runs the shards that are this node's. Its methods are safe for concurrent use and do not wait for the log.
type Runtime[M Machine] struct {
	cfg     Config
	deps    Deps
	tracer  trace.Tracer // nil when nobody looks at spans
	make    func(shard int32) M
	metrics *metrics
	reading chan struct{} // holds one for each shard that reads its log
	stalls  stalls

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.RWMutex
	shards map[int32]*shard[M]
}

// New makes a runtime without shards. Each time a shard is loaded, makeMachine gives its empty machine; it is called on the
// shard's own goroutine, after Own. Close must be called.
func New[M Machine](cfg Config, deps Deps, makeMachine func(shard int32) M) (*Runtime[M], error) {
	r := &Runtime[M]{cfg: cfg.withDefaults(), deps: deps, make: makeMachine, shards: map[int32]*shard[M]{}}
	if _, isNoop := deps.Tracer.(noop.Tracer); !isNoop {
		r.tracer = deps.Tracer
	}
	r.reading = make(chan struct{}, r.cfg.Loads)
	r.metrics = newMetrics(cfg.Name)
	if deps.Metrics != nil {
		if err := r.metrics.register(deps.Metrics, r.count); err != nil {
			return nil, fmt.Errorf("metrics of the %s coordinator: %w", cfg.Name, err)
		}
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.stalls.began = time.Now()
	r.running.Go(func() { r.stalls.watch(r.ctx) })
	return r, nil
}

// Own makes the shard this node's from now on, under an epoch that no shard had before: it is fenced against earlier owners,
// loaded and served, until Release or Close. An epoch that is not newer than the one it has changes nothing.
func (r *Runtime[M]) Own(shard, epoch int32) {
	r.mu.Lock()
	old := r.shards[shard]
	if r.ctx.Err() != nil || old != nil && old.epoch >= epoch {
		r.mu.Unlock()
		return
	}
	s := newShard(r, shard, epoch)
	r.shards[shard] = s
	r.running.Go(s.run)
	r.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// Release gives the shard up if its epoch here is not newer than epoch. Requests that wait are answered NOT_COORDINATOR.
func (r *Runtime[M]) Release(shard, epoch int32) {
	r.mu.Lock()
	s := r.shards[shard]
	if s == nil || s.epoch > epoch {
		r.mu.Unlock()
		return
	}
	delete(r.shards, shard)
	r.mu.Unlock()
	s.end()
}

// Close gives up all shards and waits until nothing of the runtime runs.
func (r *Runtime[M]) Close() {
	r.mu.Lock()
	r.cancel()
	all := r.shards
	r.shards = map[int32]*shard[M]{}
	r.mu.Unlock()
	for _, s := range all {
		s.end()
	}
	r.running.Wait()
	if r.deps.Metrics != nil {
		r.metrics.unregister(r.deps.Metrics)
	}
}

// Do runs an operation on the shard, at once and on the caller's goroutine, as part of the trace of origin, the span that asks for
// it, if that is valid. It has done called exactly once: with the
// response that a step gives for the operation's ticket once all records so far are committed, or with an error. It is never
// called with a lock held, and possibly before Do returns. It must not block: the shard's next batch may wait for it.
//
// The error is, or wraps, kerr.NotCoordinator when the shard is not this node's, or is lost before the answer;
// CoordinatorLoadInProgress while it is loaded; CoordinatorNotAvailable when the log cannot be written or too much waits for
// it: in these three cases but for a loss the operation has not run. RequestTimedOut says that the log takes longer than
// AnswerTimeout: what the operation did stands. Any other error says that the log refused what the operation did: the log's own
// code where the operation is part of a transaction, else kerr.UnknownServerError.
func (r *Runtime[M]) Do(origin trace.SpanContext, shard int32, op func(m M, now time.Time, t Ticket) Step, done func(response any, err error)) {
	if s := r.find(shard); s != nil {
		s.do(origin, op, done)
		return
	}
	done(nil, kerr.NotCoordinator)
}

// Run runs an operation that nobody waits for, such as the result of a job, however much waits for the log. It does nothing
// and says false when the shard is not loaded.
func (r *Runtime[M]) Run(origin trace.SpanContext, shard int32, op func(m M, now time.Time) Step) bool {
	s := r.find(shard)
	return s != nil && s.apply(origin, op, false)
}

// RunAll is Run on each shard, one after the other. A shard that is loading runs the newest op that it has missed before its
// first request: so ops are for news of which the newest says all, such as a metadata image.
func (r *Runtime[M]) RunAll(op func(m M, now time.Time) Step) {
	r.mu.RLock()
	all := make([]*shard[M], 0, len(r.shards))
	for _, s := range r.shards {
		all = append(all, s)
	}
	r.mu.RUnlock()
	for _, s := range all {
		s.apply(trace.SpanContext{}, op, true)
	}
}

// Epoch is the epoch under which the shard is this node's; false when it is not, or was lost.
func (r *Runtime[M]) Epoch(shard int32) (int32, bool) {
	s := r.find(shard)
	if s == nil || s.stateNow() == stateLost {
		return 0, false
	}
	return s.epoch, true
}

func (r *Runtime[M]) find(shard int32) *shard[M] {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shards[shard]
}

// count is the number of shards in each state.
func (r *Runtime[M]) count() (n [states]int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.shards {
		n[s.stateNow()]++
	}
	return n
}
