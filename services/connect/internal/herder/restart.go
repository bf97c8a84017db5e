package herder

import (
	"context"
	"fmt"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// RestartConnector starts a connector again, without its tasks. It is for the worker that runs it.
func (h *Herder) RestartConnector(ctx context.Context, name string) error {
	if _, err := h.connector(name); err != nil {
		return err
	}
	return h.restart(ctx, work.Connector(name))
}

// RestartTask starts a task again. It is for the worker that runs it.
func (h *Herder) RestartTask(ctx context.Context, id work.Item) error {
	if _, err := h.connector(id.Connector); err != nil {
		return err
	}
	if _, ok := h.Configs().TaskConfig(id); !ok {
		return fmt.Errorf("%w: task %v", ErrNotFound, id)
	}
	return h.restart(ctx, id)
}

func (h *Herder) restart(ctx context.Context, item work.Item) error {
	if err := h.own(ctx, item); err != nil {
		return err
	}
	return h.deps.Restart(ctx, item)
}

// RestartAll has all workers start again what they run of a connector, and returns the state with those as restarting (KIP-745). It is for
// the leader.
func (h *Herder) RestartAll(ctx context.Context, r configs.Restart) (Status, error) {
	if err := h.leadFor(ctx, r.Connector); err != nil {
		return Status{}, err
	}
	s, err := h.Status(r.Connector)
	if err != nil {
		return Status{}, err
	}
	if err := h.deps.WriteConfigs(ctx, []configs.Record{configs.RestartRecord(r)}); err != nil {
		return Status{}, fmt.Errorf("restart connector %q: %w", r.Connector, err)
	}
	return plan(r, s), nil
}

// plan is a status with all that a restart concerns as restarting. Each worker restarts what is its own, and knows best which of that has failed.
func plan(r configs.Restart, s Status) Status {
	concerns := func(state status.State) bool { return !r.OnlyFailed || state == status.Failed }
	if concerns(s.Connector.State) {
		s.Connector.State = status.Restarting
	}
	tasks := make([]TaskStatus, len(s.Tasks))
	for i, task := range s.Tasks {
		if r.IncludeTasks && concerns(task.Status.State) {
			task.Status.State = status.Restarting
		}
		tasks[i] = task
	}
	s.Tasks = tasks
	return s
}
