package coordinator

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// state of a shard.
type state int8

const (
	stateLoading state = iota // fencing earlier owners, or reading the log
	stateActive
	stateFailed // between two attempts at loading
	stateLost   // the log knows a newer epoch; the metadata will follow
	states      // how many there are
)

// maxGrace bounds how long ticks stay away after the log could not be written.
const maxGrace = 30 * time.Second

// shard is one shard under one epoch. Its goroutine, run, fences, loads and appends; operations run on their callers'.
//
// mu guards everything below it, the machine included, while the shard is active. Records that a step makes are in the machine
// already when they join the queue, so the machine is ahead of the log by what is queued and in flight, and by nothing
// else. position counts the steps with records; an answer waits until committed has reached the position of its step.
type shard[M Machine] struct {
	r         *Runtime[M]
	id, epoch int32
	log       *zap.Logger
	ctx       context.Context // ends with the ownership
	cancel    context.CancelFunc
	wake      chan struct{} // takes one: there is something in the queue, or fault is set
	sequence  int64         // of the last batch; run's alone
	buffer    []byte        // run's alone

	mu       sync.Mutex
	state    state
	machine  M
	missed   func(M, time.Time) Step // newest of RunAll while loading
	fault    error                   // why the machine cannot be trusted any more
	timer    *time.Timer
	timerAt  time.Time // zero when the timer is not armed
	ticksAt  time.Time // no tick before
	tickets  Ticket    // the last one given out
	asking   Ticket    // the one of the operation that runs
	asker    func(any, error)
	origin   trace.SpanContext  // of the operation that runs
	carrier  trace.SpanContext  // the append of the batch that was committed last
	parked   map[Ticket]request // whose answer no step has given yet
	waiting  fifo[waiter]       // answers that wait for the log, by position and by deadline
	later    fifo[deferred]     // jobs that wait for the log, by position
	queue    fifo[*batch]
	inFlight *batch
	since    time.Time // when inFlight was first sent
	spare    []*batch  // to be used again
	maxBytes int       // of a batch of more than one step
	shrunk   time.Time // when maxBytes was made smaller
	stalls   int64     // of the process, that the log has been asked about

	position, committed int64
	pendingBytes        int
}

// request is one that waits for its answer.
type request struct {
	done   func(any, error)
	origin trace.SpanContext
}

// waiter is an answer that waits for the log.
type waiter struct {
	done     func(any, error)
	span     trace.Span // of the wait; nil for none
	response any
	position int64
	wrote    bool // its step made records
	at       time.Time
}

// deferred is a job that waits for the log.
type deferred struct {
	origin   trace.SpanContext
	job      any
	position int64
}

// completion is a call to be made without the lock.
type completion struct {
	done     func(any, error)
	response any
	err      error
}

func complete(all []completion) {
	for _, c := range all {
		c.done(c.response, c.err)
	}
}

func newShard[M Machine](r *Runtime[M], id, epoch int32) *shard[M] {
	s := &shard[M]{
		r: r, id: id, epoch: epoch, wake: make(chan struct{}, 1), parked: map[Ticket]request{}, maxBytes: r.cfg.MaxBatchBytes,
		log: r.deps.Logger.With(zap.String("coordinator", r.cfg.Name), zap.Int32("shard", id), zap.Int32("epoch", epoch)),
	}
	s.ctx, s.cancel = context.WithCancel(r.ctx)
	return s
}

func (s *shard[M]) stateNow() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// do runs an operation that somebody waits for.
func (s *shard[M]) do(origin trace.SpanContext, op func(M, time.Time, Ticket) Step, done func(any, error)) {
	var room [4]completion
	s.mu.Lock()
	now := time.Now()
	if err := s.refusal(now); err != nil {
		s.mu.Unlock()
		s.r.metrics.refused.WithLabelValues(err.Message).Inc()
		done(nil, err)
		return
	}
	s.confirm(now)
	s.tickets++
	s.asking, s.asker, s.origin = s.tickets, done, origin
	step, err := call(s.machine, now, s.asking, op)
	if err != nil {
		ask := s.asker
		s.asking, s.asker, s.origin = 0, nil, trace.SpanContext{}
		s.distrust(err)
		s.mu.Unlock()
		ask(nil, kerr.UnknownServerError)
		return
	}
	s.take(&step, now)
	if s.asking != 0 {
		s.parked[s.asking] = request{s.asker, origin}
	}
	s.asking, s.asker, s.origin = 0, nil, trace.SpanContext{}
	ready := s.ready(room[:0], now)
	s.arm(now)
	s.mu.Unlock()
	s.r.metrics.processing.Observe(time.Since(now).Seconds())
	s.handled(origin, now)
	complete(ready)
}

// apply runs an operation that nobody waits for, later when the shard is loading and later is set.
func (s *shard[M]) apply(origin trace.SpanContext, op func(M, time.Time) Step, later bool) bool {
	var room [4]completion
	s.mu.Lock()
	if s.state != stateActive || s.fault != nil {
		if later && s.state != stateLost {
			s.missed = op
		}
		s.mu.Unlock()
		return false
	}
	now := time.Now()
	s.origin = origin
	s.step(now, op)
	s.origin = trace.SpanContext{}
	ready := s.ready(room[:0], now)
	s.arm(now)
	s.mu.Unlock()
	s.handled(origin, now)
	complete(ready)
	return true
}

// step calls the machine without a ticket. mu is held.
func (s *shard[M]) step(now time.Time, op func(M, time.Time) Step) {
	s.confirm(now)
	step, err := call(s.machine, now, 0, func(m M, now time.Time, _ Ticket) Step { return op(m, now) })
	if err != nil {
		s.distrust(err)
		return
	}
	s.take(&step, now)
}

// call turns a panic of the machine into an error: the state is half changed then, and others wait for the lock.
func call[M Machine](m M, now time.Time, t Ticket, op func(M, time.Time, Ticket) Step) (step Step, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return op(m, now, t), nil
}

// distrust has the shard loaded again. mu is held.
func (s *shard[M]) distrust(err error) {
	if s.fault == nil {
		s.fault = err
	}
	s.signal()
}

func (s *shard[M]) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refusal says why no operation may run now. mu is held.
func (s *shard[M]) refusal(now time.Time) *kerr.Error {
	switch {
	case s.state == stateLost:
		return kerr.NotCoordinator
	case s.state != stateActive || s.fault != nil:
		return kerr.CoordinatorLoadInProgress
	case s.unwritable(now), s.pendingBytes >= s.r.cfg.MaxPendingBytes, len(s.parked)+s.waiting.len() >= s.r.cfg.MaxPendingRequests:
		return kerr.CoordinatorNotAvailable
	}
	return nil
}

func (s *shard[M]) unwritable(now time.Time) bool {
	return s.inFlight != nil && now.Sub(s.since) > s.r.cfg.UnwritableAfter
}

// take deals with what a step has brought about. mu is held.
func (s *shard[M]) take(step *Step, now time.Time) {
	wrote := len(step.Records) > 0 || step.Marker != nil
	if wrote {
		s.position++
		s.enqueue(step, now)
	}
	for _, a := range step.Answers {
		if asked := s.claim(a.Ticket); asked.done != nil {
			s.waiting.push(waiter{asked.done, s.waits(asked.origin, now), a.Response, s.position, wrote, now})
		}
	}
	for _, job := range step.Jobs {
		s.r.deps.Job(s.origin, s.id, s.epoch, job)
	}
	for _, job := range step.After {
		s.later.push(deferred{s.origin, job, s.position})
	}
}

// claim takes the request of a ticket; it is empty when it has its answer.
func (s *shard[M]) claim(t Ticket) request {
	if t == 0 {
		return request{}
	}
	if t == s.asking {
		asked := request{s.asker, s.origin}
		s.asking, s.asker = 0, nil
		return asked
	}
	asked := s.parked[t]
	delete(s.parked, t)
	return asked
}

// ready takes the answers whose position is committed, and hands over the jobs. mu is held.
func (s *shard[M]) ready(dst []completion, now time.Time) []completion {
	for s.later.len() > 0 && s.later.front().position <= s.committed {
		later := s.later.pop()
		s.r.deps.Job(later.origin, s.id, s.epoch, later.job)
	}
	for s.waiting.len() > 0 && s.waiting.front().position <= s.committed {
		w := s.waiting.pop()
		s.r.metrics.purgatory.Observe(now.Sub(w.at).Seconds())
		s.committedBy(w.span)
		dst = append(dst, completion{w.done, w.response, nil})
	}
	return dst
}

// arm has the timer go off when there is something to do next. One that goes off too early arms it again. mu is held.
func (s *shard[M]) arm(now time.Time) {
	var at time.Time
	if !s.unwritable(now) && s.fault == nil {
		if at = s.machine.NextTick(); !at.IsZero() && at.Before(s.ticksAt) {
			at = s.ticksAt
		}
	}
	if s.waiting.len() > 0 {
		if deadline := s.waiting.front().at.Add(s.r.cfg.AnswerTimeout); at.IsZero() || deadline.Before(at) {
			at = deadline
		}
	}
	if at.IsZero() || !s.timerAt.IsZero() && !at.Before(s.timerAt) {
		return
	}
	s.timerAt = at
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.goOff)
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

// goOff is called by the timer.
func (s *shard[M]) goOff() {
	var room [4]completion
	s.mu.Lock()
	if s.state != stateActive {
		s.mu.Unlock()
		return
	}
	s.r.running.Add(1) // run has not ended, as it is still active: Close waits for both
	defer s.r.running.Done()
	now := time.Now()
	s.timerAt = time.Time{}
	ready := s.expire(room[:0], now)
	if next := s.machine.NextTick(); !next.IsZero() && !next.After(now) && !now.Before(s.ticksAt) && !s.unwritable(now) && s.fault == nil {
		s.step(now, M.Tick)
		ready = s.ready(ready, now)
	}
	s.arm(now)
	s.mu.Unlock()
	complete(ready)
}

// expire takes the answers that have waited for too long. mu is held.
func (s *shard[M]) expire(dst []completion, now time.Time) []completion {
	for s.waiting.len() > 0 && now.Sub(s.waiting.front().at) >= s.r.cfg.AnswerTimeout {
		w := s.waiting.pop()
		end(w.span, kerr.RequestTimedOut)
		dst = append(dst, completion{w.done, nil, kerr.RequestTimedOut})
	}
	return dst
}

// end gives the shard up.
func (s *shard[M]) end() {
	s.cancel()
	s.unload(stateLost, nil)
}

// unload forgets the machine and what waits for it; next is the state from now on, unless the shard is lost already.
// refused is why the log will not take the batch in flight, if that is so.
func (s *shard[M]) unload(next state, refused error) {
	var ended []completion
	s.mu.Lock()
	if s.state == stateLost {
		s.mu.Unlock()
		return
	}
	s.state = next
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer, s.timerAt, s.ticksAt = nil, time.Time{}, time.Time{}
	for s.waiting.len() > 0 {
		w := s.waiting.pop()
		err := error(kerr.NotCoordinator)
		if refused != nil && w.wrote && w.position <= s.inFlight.position {
			err = refused
		}
		end(w.span, err)
		ended = append(ended, completion{w.done, nil, err})
	}
	for _, asked := range s.parked {
		ended = append(ended, completion{asked.done, nil, kerr.NotCoordinator})
	}
	clear(s.parked)
	var none M
	s.machine, s.fault, s.inFlight, s.queue, s.later, s.pendingBytes = none, nil, nil, fifo[*batch]{}, fifo[deferred]{}, 0
	s.committed = s.position
	s.mu.Unlock()
	complete(ended)
}
