package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// instance is a connector or task that runs, or has failed: it stays until it is stopped.
type instance struct {
	item   work.Item
	config configs.Config // the connector's
	task   configs.Config // the task's, nil for a connector
	target configs.Target
	// generation is that of the connector's set of tasks.
	generation int

	// stopping is closed to ask for an end in good order; abandon has it end at once.
	stopping chan struct{}
	abandon  context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	err     error
	paused  bool
	version string // of its plugin, empty before that is known
	// steer has the runner follow paused and stopping; nil before there is one.
	steer runner
	// report says in which state a task is that has started; nil before. It is called with mu held, so that no state comes after a failure.
	report func(paused bool)
}

// runner is a task at work: sources and sinks.
type runner interface {
	Run(ctx context.Context) error
	Stop()
	SetPaused(paused bool)
}

func (i *instance) start(ctx context.Context, w *Worker) {
	ctx, i.abandon = context.WithCancel(ctx)
	i.stopping, i.done = make(chan struct{}), make(chan struct{})
	i.paused = i.target != configs.Started
	go func() {
		defer close(i.done)
		defer i.abandon()
		i.keepRunning(ctx, w)
	}()
}

// keepRunning runs it, and again after a failure if the worker is configured to do so: after a pause that grows with each failure that comes soon.
func (i *instance) keepRunning(ctx context.Context, w *Worker) {
	least, most := w.config.Values.DurationMs("task.restart.backoff.ms"), w.config.Values.DurationMs("task.restart.backoff.max.ms")
	backoff := least
	for {
		began := time.Now()
		err := i.run(ctx, w)
		if err == nil || ctx.Err() != nil {
			return
		}
		i.mu.Lock()
		i.err, i.steer, i.report = err, nil, nil
		version := i.version
		i.mu.Unlock()
		w.logOf(i).Error("failed", zap.Stringer("item", i.item), zap.Error(err))
		w.states.say(i.item, status.Failed, traceOf(err), version)
		if least == 0 || i.stopped() {
			return
		}
		if time.Since(began) > most {
			backoff = least
		}
		w.log.Info("starting again after a pause", zap.Stringer("item", i.item), zap.Duration("pause", backoff))
		if !i.rest(ctx, backoff) {
			return
		}
		backoff = longer(backoff, max(most, least))
		i.mu.Lock()
		i.err = nil
		i.mu.Unlock()
		w.states.say(i.item, status.Restarting, "", "")
	}
}

// longer is twice the pause, but most at most.
func longer(pause, most time.Duration) time.Duration {
	if pause > most/2 {
		return most
	}
	return 2 * pause
}

func (i *instance) run(ctx context.Context, w *Worker) error {
	if i.item.IsTask() {
		return w.runTask(ctx, i)
	}
	return w.runConnector(ctx, i)
}

// rest waits, and says whether nothing has asked for an end meanwhile.
func (i *instance) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-i.stopping:
	case <-ctx.Done():
	}
	return false
}

// traceOf is what a state says of an error: the words, and the stack of a panic in a plugin.
func traceOf(err error) string {
	var fault *remote.Fault
	if errors.As(err, &fault) && fault.Trace != "" {
		return err.Error() + "\n" + fault.Trace
	}
	return err.Error()
}

// askToStop asks for an end in good order.
func (i *instance) askToStop() {
	i.mu.Lock()
	steer := i.steer
	close(i.stopping)
	i.mu.Unlock()
	if steer != nil {
		steer.Stop()
	}
}

// stopped says whether an end was asked for.
func (i *instance) stopped() bool {
	select {
	case <-i.stopping:
		return true
	default:
		return false
	}
}

// ends waits for the end until the deadline, and returns whether it came.
func (i *instance) ends(deadline context.Context) bool {
	select {
	case <-i.done:
		return true
	case <-deadline.Done():
	}
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

func (i *instance) failed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.err != nil
}

func (i *instance) setPaused(paused bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.paused == paused {
		return
	}
	i.paused = paused
	if i.steer != nil {
		i.steer.SetPaused(paused)
	}
	if i.report != nil && i.err == nil {
		i.report(paused)
	}
}

// started has a task say its state from now on.
func (i *instance) started(report func(paused bool)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.report = report
	report(i.paused)
}

// runs says which version of its plugin it is.
func (i *instance) runs(version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version = version
}

// take hands a runner what was asked for before there was one.
func (i *instance) take(r runner) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.steer = r
	r.SetPaused(i.paused)
	if i.stopped() {
		r.Stop()
	}
}
