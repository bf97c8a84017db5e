// Package sourcetask runs one task of a source connector: it polls records, has them transformed and converted, produces them, and stores how far the
// source has been read, at least or exactly once.
package sourcetask

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// Task is one task of a source connector. It runs once.
type Task struct {
	config   Config
	deps     Deps
	settings settings
	control  *control
}

// New prepares a task. The error has every fault of the configuration.
func New(c Config, d Deps) (*Task, error) {
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	if isPlugin(s.partitioner) && d.Partition == nil {
		return nil, fmt.Errorf("configuration of connector %q: there are no plugins for partitioner.class %q", c.Connector, s.partitioner)
	}
	if d.Metrics == nil {
		d.Metrics = &Metrics{}
	}
	if d.Tracer == nil {
		d.Tracer = noop.NewTracerProvider().Tracer("")
	}
	d.Log = d.Log.With(zap.String("connector", c.Connector), zap.Int("task", c.Number))
	return &Task{config: c, deps: d, settings: s, control: newControl()}, nil
}

// Stop asks the task to end in good order: what was produced is waited for and its offsets are stored.
func (t *Task) Stop() { t.control.stop() }

// SetPaused has the task poll nothing, or go on. What was produced is stored with its offsets when it pauses.
func (t *Task) SetPaused(paused bool) { t.control.pause(paused) }

// Run runs the task until it was stopped in good order, and returns nil then, or has failed. When ctx ends the task is abandoned: nothing more is
// stored, and its process is killed. An error that a *remote.Fault is part of has what the connector says of it.
func (t *Task) Run(ctx context.Context) error {
	topics, err := newTopics(&t.settings, &t.deps)
	if err != nil {
		return err
	}
	defer topics.admin.Close()
	client, err := newProducer(&t.settings, &t.deps, topics.batchBytes)
	if err != nil {
		return err
	}
	r := &run{Task: t, topics: topics, client: client, found: map[string]int32{}, lacking: map[string]time.Time{}}
	defer r.closeWith(ctx)()
	var cancel context.CancelFunc
	r.live, cancel = context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.control.live, cancel)()
	if isPlugin(t.settings.partitioner) {
		r.partitions = &pluginPartitioner{name: t.settings.partitioner, ask: t.deps.Partition, client: client, counts: map[string]count{}}
	}
	if t.deps.ExactlyOnce != nil {
		if err := r.fence(ctx); err != nil && !errors.Is(err, errEnding) {
			return err
		}
	}
	if t.control.state().stopping {
		return nil
	}
	source, err := t.deps.Start(ctx, remote.Task{Connector: t.config.Connector, Number: t.config.Number, Config: t.config.Task,
		Transactions: t.deps.ExactlyOnce != nil && t.settings.boundary == boundaryConnector, ReadOffsets: t.deps.ReadOffsets})
	if err != nil {
		return fmt.Errorf("starting the connector's task: %w", err)
	}
	// An abandoned task does not wait for what its process does not take.
	end := sync.OnceValue(func() error { return source.Stop(ctx) })
	abandoned := make(chan struct{})
	finished := context.AfterFunc(ctx, func() {
		defer close(abandoned)
		_ = end() // said below
	})
	err = r.all(ctx, source)
	stopped := end()
	if !finished() {
		<-abandoned
	}
	if err == nil && stopped != nil {
		return fmt.Errorf("stopping the connector's task: %w", stopped)
	}
	return err
}

// fence has the task's transactional id for itself.
func (r *run) fence(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.deps.ExactlyOnce.BeforeInit, r.initTransactions, r.deps.ExactlyOnce.BeforeFirst} {
		if step == nil {
			continue
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// all is everything from when the connector's part has started until it is to end.
func (r *run) all(ctx context.Context, source *remote.SourceTask) error {
	r.source = source
	exactly := r.deps.ExactlyOnce != nil
	r.tracker = newTracker(source.WantsAcks(), !exactly)
	if exactly {
		r.guarantee = newTransactions(r)
	} else {
		r.guarantee = newFlusher(r)
	}
	if r.deps.Running != nil {
		r.deps.Running()
	}
	r.guarantee.begin(ctx)
	err := r.loop(ctx)
	if ctx.Err() != nil {
		r.guarantee.abandon()
		return errors.Join(fmt.Errorf("the task was abandoned: %w", ctx.Err()), err)
	}
	return r.guarantee.finish(ctx, err)
}
