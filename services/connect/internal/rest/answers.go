package rest

import (
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

func taskID(i work.Item) map[string]any {
	return map[string]any{"connector": i.Connector, "task": i.Task}
}

func infoBody(i herder.Info) any {
	tasks := []any{}
	for _, task := range i.Tasks {
		tasks = append(tasks, taskID(task))
	}
	return map[string]any{"name": i.Name, "config": i.Config, "tasks": tasks, "type": i.Type}
}

func statusBody(s herder.Status) any {
	tasks := []any{}
	for _, task := range s.Tasks {
		tasks = append(tasks, taskStatusBody(task))
	}
	return map[string]any{"name": s.Name, "connector": stateBody(s.Connector), "tasks": tasks, "type": s.Type}
}

func taskStatusBody(s herder.TaskStatus) map[string]any {
	body := stateBody(s.Status)
	body["id"] = s.ID.Task
	return body
}

func stateBody(s status.Status) map[string]any {
	body := map[string]any{"state": s.State, "worker_id": s.WorkerID, "version": nil}
	if s.Version != "" {
		body["version"] = s.Version
	}
	if s.Trace != "" {
		body["trace"] = s.Trace
	}
	return body
}
