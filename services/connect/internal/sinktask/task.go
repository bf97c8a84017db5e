// Package sinktask is a running task of a sink: a consumer in the connector's group whose records go through the pipeline and are put to the
// connector's process, and whose offsets are committed once the connector says that they may be.
//
// A task does one thing at a time. The client's callbacks about partitions only run while the task waits (BlockRebalanceOnPoll): each poll that
// returns something ends that, and the next wait begins it again.
package sinktask

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/deadletter"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

// Deps are what a task does not do itself.
type Deps struct {
	Log *zap.Logger
	// Tracer makes spans of what is done for records that are sampled; nil for none.
	Tracer trace.Tracer
	// Start starts the connector's task.
	Start func(context.Context, remote.Task) (*remote.SinkTask, error)
	// Client returns how a client is connected and configured: all but the group and the topics that a consumer is about.
	Client func(Role) ([]kgo.Opt, error)
	// Used is told of the topic of whatever is read, by one goroutine; nil for nobody.
	Used func(topic string)
	// Running is told once the connector's task has started; nil for nobody.
	Running func()
	// Failures and Metrics count; nil for nobody.
	Failures *pipeline.Metrics
	Metrics  *Metrics
}

// Metrics are Kafka's sink-task-metrics.
type Metrics struct {
	// Read are the records of the topics (sink-record-read-total), Sent those that were put (sink-record-send-total).
	Read, Sent atomic.Int64
	// Partitions are those assigned (partition-count), Active the offsets between what was put and what is committed (sink-record-active-count).
	Partitions, Active atomic.Int64
	// Commits have succeeded (offset-commit-completion-total), CommitFailures have not.
	Commits, CommitFailures atomic.Int64
	// Batches were put, in PutNanos altogether and MaxPutNanos at most (put-batch-time).
	Batches, PutNanos, MaxPutNanos atomic.Int64
}

// Task is run once. Stop and SetPaused are for any goroutine, at any time.
type Task struct {
	config   Config
	deps     Deps
	pipeline *pipeline.Pipeline
	// Run's: the queue is nil for none, running ends with Run's context.
	queue   *deadletter.Queue
	running context.Context

	subscription subscription
	consumer     consumer
	deadLetters  deadletter.Config
	// reports says that the connector may report records that it cannot write.
	reports                     bool
	flushInterval, flushTimeout time.Duration

	signals *signals
}

// New checks the configuration and makes what the task's records go through. The error has every fault.
func New(c Config, d Deps) (*Task, error) {
	if d.Failures == nil {
		d.Failures = &pipeline.Metrics{}
	}
	if d.Metrics == nil {
		d.Metrics = &Metrics{}
	}
	t := &Task{config: c, deps: d, signals: newSignals(), flushInterval: max(c.Worker.DurationMs("offset.flush.interval.ms"), leastFlushInterval),
		flushTimeout: c.Worker.DurationMs("offset.flush.timeout.ms")}
	t.deps.Log = d.Log.With(zap.String("connector", c.Connector), zap.Int("task", c.Number))
	var faults [4]error
	t.subscription, faults[0] = newSubscription(c.Properties)
	t.consumer, faults[1] = newConsumer(c)
	t.deadLetters, faults[2] = deadletter.Parse(c.Properties, func(topic string) bool { return faults[0] == nil && t.subscription.reads(topic) })
	t.pipeline, faults[3] = pipeline.New(pipeline.Config{Connector: c.Connector, Task: c.Number, Properties: c.Properties, Worker: c.Worker},
		pipeline.Deps{Log: d.Log, Tracer: d.Tracer, Metrics: d.Failures, Report: t.report})
	if err := errors.Join(faults[:]...); err != nil {
		return nil, fmt.Errorf("task %d of connector %q: %w", c.Number, c.Connector, err)
	}
	t.reports = t.pipeline.Tolerates() || t.pipeline.Logs() || t.deadLetters.Topic != ""
	return t, nil
}

// Stop asks Run to end in good order: what was put is flushed and committed, the partitions are closed, the group is left.
func (t *Task) Stop() { t.signals.requestStop() }

// SetPaused has the task read nothing, or read on. It stays a member of its group.
func (t *Task) SetPaused(paused bool) { t.signals.setPaused(paused) }

// Run starts the connector's task and works until Stop, which it returns nil after, or until something fails, which it returns. When ctx ends it gives
// everything up at once: nothing more is committed, and the connector's process is killed. On other failures what was put is flushed and committed.
func (t *Task) Run(ctx context.Context) error {
	if stop, _ := t.signals.heard(); stop {
		return nil
	}
	t.running = ctx
	if t.deadLetters.Topic != "" {
		if err := t.openQueue(ctx); err != nil {
			return err
		}
		defer t.queue.Close()
	}
	sink, err := t.deps.Start(ctx, remote.Task{Connector: t.config.Connector, Number: t.config.Number, Config: t.config.Task, Reports: t.reports})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if t.deps.Running != nil {
		t.deps.Running()
	}
	r := newRun(ctx, t, sink)
	err = r.connect()
	if err == nil {
		err = r.leave(r.work())
	}
	if stopped := sink.Stop(ctx); stopped != nil && ctx.Err() == nil && !isOver(sink, err) {
		t.deps.Log.Warn("the connector's task has not stopped as it should", zap.Error(stopped))
	}
	r.disconnect()
	if ctx.Err() != nil {
		return fmt.Errorf("given up: %w", context.Cause(ctx))
	}
	return err
}

// isOver says whether err is about the end of the connector's task.
func isOver(sink *remote.SinkTask, err error) bool {
	select {
	case <-sink.Done():
		return err != nil && errors.Is(err, sink.Err())
	default:
		return false
	}
}

func (t *Task) openQueue(ctx context.Context) error {
	d := deadletter.Deps{Log: t.deps.Log, Metrics: t.deps.Failures}
	var err error
	if d.Producer, err = t.deps.Client(Producer); err != nil {
		return fmt.Errorf("producer of the dead letter queue: %w", err)
	}
	if d.Admin, err = t.deps.Client(Admin); err != nil {
		return fmt.Errorf("admin client of the dead letter queue: %w", err)
	}
	t.queue, err = deadletter.Open(ctx, t.deadLetters, t.config.Connector, t.config.Number, d)
	return err
}

// report writes to the dead letter queue, also what a task that stops has met last.
func (t *Task) report(_ context.Context, f *pipeline.Failure) {
	if t.queue != nil {
		t.queue.Report(t.running, f)
	}
}
