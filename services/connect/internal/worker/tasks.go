package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/clientconfig"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
	"github.com/cauce-stream/cauce/services/connect/internal/sinktask"
	"github.com/cauce-stream/cauce/services/connect/internal/sourcetask"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// runTask runs a task until it is stopped.
func (w *Worker) runTask(ctx context.Context, i *instance) error {
	config, err := w.plugins.resolve(i.config)
	if err != nil {
		return err
	}
	task, err := w.plugins.resolve(i.task)
	if err != nil {
		return err
	}
	connector, err := w.plugins.connector(ctx, config)
	if err != nil {
		return err
	}
	i.runs(connector.Version)
	running := func() {
		i.started(func(paused bool) {
			state := status.Running
			if paused {
				state = status.Paused
			}
			w.states.say(i.item, state, "", connector.Version)
		})
	}
	var used func(topic string)
	if w.config.Values.Bool("topic.tracking.enable") {
		used = w.states.using(i.item)
	}
	var r runner
	if connector.Source {
		r, err = w.sourceTask(ctx, i, config, task, connector.StartSource, running, used)
	} else {
		r, err = w.sinkTask(i, config, task, connector.StartSink, running, used)
	}
	if err != nil {
		return err
	}
	i.take(r)
	return r.Run(ctx)
}

// logOf is the logger that a connector and its tasks have to themselves.
func (w *Worker) logOf(i *instance) *zap.Logger { return w.log.Named(i.item.Connector) }

// client are the options of a client that a task has, by what its name and its properties begin with.
func (w *Worker) client(i *instance, config configs.Config, family string) ([]kgo.Opt, error) {
	role := strings.TrimSuffix(family, ".")
	p := w.clientProperties(family, overrides(config, role+".override."))
	if unknown := p.Unknown(); len(unknown) > 0 {
		w.logOf(i).Warn("properties of a client have no effect", zap.Stringer("item", i.item), zap.String("client", role), zap.Strings("properties", unknown))
	}
	options, err := p.Common()
	switch family {
	case workerconfig.Producer:
		options, err = p.Producer()
	case workerconfig.Consumer:
		options, err = p.Consumer()
	}
	if err != nil {
		return nil, fmt.Errorf("%s.override.: %w", role, err)
	}
	return options, nil
}

func (w *Worker) sourceTask(ctx context.Context, i *instance, config, task configs.Config, start func(context.Context, remote.Task) (*remote.SourceTask, error), running func(), used func(string)) (runner, error) {
	name := i.item.Connector
	m := w.metrics.of(i.item)
	p, err := pipeline.New(pipeline.Config{Connector: name, Task: int(i.item.Task), Properties: config, Worker: w.config.Values},
		pipeline.Deps{Log: w.logOf(i), Tracer: w.deps.Tracer, Metrics: &m.errors})
	if err != nil {
		return nil, err
	}
	where, err := w.stores.of(ctx, config)
	if err != nil {
		return nil, err
	}
	d := sourcetask.Deps{
		Start: start, Pipeline: p, Partition: w.plugins.partition, Running: running, Used: used, Log: w.logOf(i), Tracer: w.deps.Tracer, Metrics: &m.source,
		ReadOffsets: func(ctx context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
			return readOffsets(ctx, where, name, partitions)
		},
		WriteOffsets: func(ctx context.Context, entries []offsets.Entry) error {
			return where.write(ctx, name, entries)
		},
	}
	if d.Producer, err = w.client(i, w.transactional(i, config), workerconfig.Producer); err != nil {
		return nil, err
	}
	if d.Admin, err = w.client(i, config, workerconfig.Admin); err != nil {
		return nil, err
	}
	if w.exactlyOnce() {
		d.WriteOffsets = func(ctx context.Context, entries []offsets.Entry) error {
			where.copy(ctx, name, entries)
			return nil
		}
		d.ExactlyOnce = &sourcetask.ExactlyOnce{
			OffsetsTopic: where.first.want.Name,
			RecordsFor:   func(e offsets.Entry) []offsets.Record { return where.first.records(name, e) },
			BeforeInit:   func(ctx context.Context) error { return w.awaitFencing(ctx, i) },
			BeforeFirst:  func(context.Context) error { return w.stillCurrent(i) },
		}
	}
	return sourcetask.New(sourcetask.Config{Connector: name, Number: int(i.item.Task), Properties: config, Task: task, Worker: w.config.Values}, d)
}

// transactional is the configuration of a source with a producer that can write in transactions, as far as the worker wants that. It is idempotent whatever
// the worker and the connector say.
func (w *Worker) transactional(i *instance, config configs.Config) configs.Config {
	if !w.exactlyOnce() {
		return config
	}
	const override = "producer.override." + clientconfig.Idempotence
	for _, given := range []string{config[override], w.config.Values.Family(workerconfig.Producer)[clientconfig.Idempotence]} {
		if strings.EqualFold(strings.TrimSpace(given), "false") {
			w.logOf(i).Warn("a source that writes exactly once has an idempotent producer, though it is configured not to", zap.Stringer("item", i.item))
			break
		}
	}
	config = maps.Clone(config)
	config[override] = "true"
	return config
}

// readOffsets are the stored offsets of partitions of a source, as JSON.
func readOffsets(ctx context.Context, where kept, connector string, partitions []json.RawMessage) ([]json.RawMessage, error) {
	asked := make([]offsets.Map, len(partitions))
	for n, text := range partitions {
		var err error
		if asked[n], err = offsets.ParseMap(text); err != nil {
			return nil, fmt.Errorf("partition %s: %w", text, err)
		}
	}
	found, err := where.get(ctx, connector, asked)
	if err != nil {
		return nil, err
	}
	answer := make([]json.RawMessage, len(found))
	for n, offset := range found {
		if offset == nil {
			continue
		}
		if answer[n], err = json.Marshal(offset); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// stillCurrent is an error once a task's configuration has been replaced, or the task is to stop.
func (w *Worker) stillCurrent(i *instance) error {
	if g := w.herder.Configs().Generation(i.item.Connector); g != i.generation || i.stopped() {
		return errors.New("the task has been configured anew meanwhile, or given to another worker")
	}
	return nil
}

// restart is what REST asks for.
func (w *Worker) restart(ctx context.Context, item work.Item) error { return w.crew.restart(ctx, item) }

func (w *Worker) writeStatus(ctx context.Context, records []status.Record) error {
	return w.topics.writeStatus(ctx, records)
}

func (w *Worker) sinkTask(i *instance, config, task configs.Config, start func(context.Context, remote.Task) (*remote.SinkTask, error), running func(), used func(string)) (runner, error) {
	m := w.metrics.of(i.item)
	return sinktask.New(sinktask.Config{
		Connector: i.item.Connector, Number: int(i.item.Task), Properties: config, Task: task, Worker: w.config.Values,
	}, sinktask.Deps{
		Log: w.logOf(i), Tracer: w.deps.Tracer, Start: start, Used: used, Running: running, Failures: &m.errors, Metrics: &m.sink,
		Client: func(role sinktask.Role) ([]kgo.Opt, error) { return w.client(i, config, string(role)+".") },
	})
}
