package herder

import (
	"context"
	"fmt"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Info is a connector with its tasks.
type Info struct {
	Name   string
	Config configs.Config
	Tasks  []work.Item
	Type   Type
}

// Task is a task with its configuration.
type Task struct {
	ID     work.Item
	Config configs.Config
}

// Status is the state of a connector and of its tasks.
type Status struct {
	Name      string
	Connector status.Status
	Tasks     []TaskStatus // in order
	Type      Type
}

// TaskStatus is the state of a task.
type TaskStatus struct {
	ID     work.Item
	Status status.Status
}

// Connectors are the names of all connectors, sorted.
func (h *Herder) Connectors() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.configs.Connectors()
}

// Info describes a connector.
func (h *Herder) Info(name string) (Info, error) {
	c, err := h.connector(name)
	if err != nil {
		return Info{}, err
	}
	h.mu.Lock()
	tasks := work.Tasks(name, len(h.configs.TaskConfigs(name)))
	h.mu.Unlock()
	return Info{name, c, tasks, h.deps.TypeOf(c)}, nil
}

// Tasks are a connector's tasks.
func (h *Herder) Tasks(name string) ([]Task, error) {
	if _, err := h.connector(name); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	tasks := []Task{}
	for i, c := range h.configs.TaskConfigs(name) {
		tasks = append(tasks, Task{work.Item{Connector: name, Task: int32(i)}, c})
	}
	return tasks, nil
}

// Status is the state of a connector that some worker has said something of.
func (h *Herder) Status(name string) (Status, error) {
	h.mu.Lock()
	c, _ := h.configs.Connector(name)
	s, ok := h.status.Get(work.Connector(name))
	answer := Status{Name: name, Connector: s, Tasks: []TaskStatus{}, Type: Unknown}
	for _, id := range h.status.Tasks(name) {
		one, _ := h.status.Get(id)
		answer.Tasks = append(answer.Tasks, TaskStatus{id, one})
	}
	h.mu.Unlock()
	if !ok {
		return Status{}, fmt.Errorf("%w: no status of connector %q", ErrNotFound, name)
	}
	if c != nil {
		answer.Type = h.deps.TypeOf(c)
	}
	return answer, nil
}

// TaskStatus is the state of a task.
func (h *Herder) TaskStatus(id work.Item) (TaskStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.status.Get(id)
	if !ok {
		return TaskStatus{}, fmt.Errorf("%w: no status of task %v", ErrNotFound, id)
	}
	return TaskStatus{id, s}, nil
}

// Topics are the names of the topics that a connector has used; none for a connector that there is not.
func (h *Herder) Topics(name string) ([]string, error) {
	if !h.config.TrackTopics {
		return nil, fmt.Errorf("%w: topic.tracking.enable is off", ErrForbidden)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	names := []string{}
	for _, topic := range h.status.Topics(name) {
		names = append(names, topic.Name)
	}
	return names, nil
}

// Uses says whether a topic is known to be among those that a connector has used.
func (h *Herder) Uses(connector, topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.Uses(connector, topic)
}

// Offsets are where a connector stands.
func (h *Herder) Offsets(ctx context.Context, name string) ([]offsets.Entry, error) {
	c, err := h.connector(name)
	if err != nil {
		return nil, err
	}
	return h.deps.Offsets(ctx, name, c)
}

// SessionKey is what requests between workers are signed with; nil while there is none.
func (h *Herder) SessionKey() *configs.SessionKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.configs.SessionKey()
}
