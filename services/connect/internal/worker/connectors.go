package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/providers"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
)

const (
	// minReconfigure and maxReconfigure are the pauses after tasks' configurations could not be made or written, after one failure and after many.
	minReconfigure = 250 * time.Millisecond
	maxReconfigure = time.Minute
)

// runConnector keeps the configurations of a connector's tasks up to date, until it is stopped.
func (w *Worker) runConnector(ctx context.Context, i *instance) error {
	switch i.target {
	case configs.Stopped:
		w.states.say(i.item, status.Stopped, "", w.plugins.version(ctx, i.config))
		return i.idle(ctx)
	case configs.Paused:
		w.states.say(i.item, status.Paused, "", w.plugins.version(ctx, i.config))
		return i.idle(ctx)
	}
	// What the plugin is asked ends as soon as the connector is stopped: nothing of it is kept.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-i.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := w.direct(ctx, i)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// idle waits for the end.
func (i *instance) idle(ctx context.Context) error {
	select {
	case <-i.stopping:
	case <-ctx.Done():
	}
	return nil
}

// direct runs a connector that is meant to run.
func (w *Worker) direct(ctx context.Context, i *instance) error {
	config, err := w.plugins.resolve(i.config)
	if err != nil {
		return err
	}
	connector, err := w.plugins.connector(ctx, config)
	if err != nil {
		return err
	}
	i.runs(connector.Version)
	definition, err := connector.Define(ctx)
	if err != nil {
		return err
	}
	changes := make(chan struct{}, 1)
	watching := make(chan error, 1)
	if definition.Watches {
		watch, stop := context.WithCancel(ctx)
		go func() {
			watching <- connector.Watch(watch, i.item.Connector, config, func() {
				select {
				case changes <- struct{}{}:
				default:
				}
			})
		}()
		defer func() { stop(); <-watching }()
	}
	w.states.say(i.item, status.Running, "", connector.Version)
	if err := w.reconfigure(ctx, i, connector, config); err != nil {
		return err
	}
	for {
		select {
		case <-changes:
			if err := w.reconfigure(ctx, i, connector, config); err != nil {
				return err
			}
		case err := <-watching:
			watching <- nil // for the defer
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// reconfigure makes the configurations of a connector's tasks and has the leader write them, if they are others than before. What may be better soon is
// tried again until then; what the connector itself finds wrong is its error.
func (w *Worker) reconfigure(ctx context.Context, i *instance, connector *host.Connector, config configs.Config) error {
	for backoff := minReconfigure; ; backoff = min(2*backoff, maxReconfigure) {
		tasks, err := taskConfigs(ctx, connector, i, config)
		var fault *remote.Fault
		switch {
		case errors.As(err, &fault) && !fault.Retriable || errors.Is(err, errTooMany):
			return err
		case err == nil:
			err = w.putTasks(ctx, i.item.Connector, tasks)
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		w.logOf(i).Warn("tasks cannot be configured yet", zap.String("connector", i.item.Connector), zap.Duration("pause", backoff), zap.Error(err))
		pause(ctx, backoff)
	}
}

// errTooMany is that a connector makes more tasks than tasks.max.
var errTooMany = errors.New("the connector makes more tasks than tasks.max")

// taskConfigs asks a connector for the configurations of its tasks. They come with what Kafka's worker adds to them. Secrets that providers have are put back
// in the words that name them, since the topic is for all to read.
func taskConfigs(ctx context.Context, connector *host.Connector, i *instance, config configs.Config) ([]configs.Config, error) {
	most := 1
	if text := config["tasks.max"]; text != "" {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, &remote.Fault{Text: fmt.Sprintf("tasks.max=%s is not a number of at least 1", text)}
		}
		most = n
	}
	tasks, err := connector.TaskConfigs(ctx, config, most)
	if err != nil {
		return nil, err
	}
	if len(tasks) > most && !strings.EqualFold(strings.TrimSpace(config["tasks.max.enforce"]), "false") {
		return nil, fmt.Errorf("%w: %d, and not %d; tasks.max.enforce=false lets it", errTooMany, len(tasks), most)
	}
	tasks = providers.Hide(i.config, tasks)
	for _, task := range tasks {
		task[taskClassKey] = taskClass(config[classKey], connector.Aliases)
		for _, key := range []string{"topics", "topics.regex", "errors.deadletterqueue.topic.name"} {
			if value, ok := i.config[key]; ok && !connector.Source {
				task[key] = value
			}
		}
	}
	return tasks, nil
}

const (
	classKey     = "connector.class"
	taskClassKey = "task.class"
)

// taskClass is what Kafka's worker wants to know of a task: the class beside the connector's, by the custom of Java connectors.
func taskClass(class string, aliases []string) string {
	if !strings.Contains(class, ".") && len(aliases) > 0 {
		class = aliases[0]
	}
	if name, ok := strings.CutSuffix(class, "Connector"); ok {
		return name + "Task"
	}
	return class
}

// putTasks has the leader write the configurations of tasks, if they are others than before.
func (w *Worker) putTasks(ctx context.Context, connector string, tasks []configs.Config) error {
	if !w.herder.Configs().TasksDiffer(connector, tasks) {
		return nil
	}
	err := w.herder.PutTasks(ctx, connector, tasks)
	var elsewhere *herder.Elsewhere
	if errors.As(err, &elsewhere) {
		return w.askLeader(ctx, http.MethodPost, elsewhere.URL, connector, "tasks", tasks)
	}
	return err
}
