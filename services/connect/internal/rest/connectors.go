package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

func (h *handler) routeConnectors() {
	const get, put, post, patch, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete
	h.route("/{$}", map[string]call{get: h.root})
	h.route("/health", map[string]call{get: h.health})
	h.route("/connectors", map[string]call{get: h.list, post: h.create})
	h.route("/connectors/{name}", map[string]call{get: h.info, del: h.remove})
	h.route("/connectors/{name}/config", map[string]call{get: h.getConfig, put: h.putConfig, patch: h.patchConfig})
	h.route("/connectors/{name}/status", map[string]call{get: h.status})
	h.route("/connectors/{name}/restart", map[string]call{post: h.restart})
	h.route("/connectors/{name}/pause", map[string]call{put: h.change(h.deps.Herder.Pause, http.StatusAccepted)})
	h.route("/connectors/{name}/resume", map[string]call{put: h.change(h.deps.Herder.Resume, http.StatusAccepted)})
	h.route("/connectors/{name}/stop", map[string]call{put: h.change(h.deps.Herder.Stop, http.StatusNoContent)})
	h.route("/connectors/{name}/tasks", map[string]call{get: h.tasks, post: h.putTasks})
	h.route("/connectors/{name}/tasks/{task}/status", map[string]call{get: h.taskStatus})
	h.route("/connectors/{name}/tasks/{task}/restart", map[string]call{post: h.restartTask})
	h.route("/connectors/{name}/fence", map[string]call{put: h.fence})
	h.route("/connectors/{name}/topics", map[string]call{get: h.topics})
	h.route("/connectors/{name}/topics/reset", map[string]call{put: h.change(h.deps.Herder.ResetTopics, http.StatusAccepted)})
	h.route("/connectors/{name}/offsets", map[string]call{get: h.offsets, patch: h.alterOffsets, del: h.resetOffsets})
}

func (h *handler) root(context.Context, *http.Request, []byte) (reply, error) {
	return reply{status: http.StatusOK, body: map[string]string{"version": h.config.Version, "commit": h.config.Commit, "kafka_cluster_id": h.config.ClusterID()}}, nil
}

func (h *handler) health(context.Context, *http.Request, []byte) (reply, error) {
	if !h.deps.Herder.Ready() {
		return reply{status: http.StatusServiceUnavailable, body: map[string]string{"status": "starting", "message": "the worker has not joined its group yet"}}, nil
	}
	return reply{status: http.StatusOK, body: map[string]string{"status": "healthy", "message": "the worker is in its group"}}, nil
}

func (h *handler) list(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	names := h.deps.Herder.Connectors()
	expand, expanded := r.URL.Query()["expand"]
	if !expanded {
		if names == nil {
			names = []string{}
		}
		return reply{status: http.StatusOK, body: names}, nil
	}
	all := map[string]map[string]any{}
	for _, name := range names {
		one, gone := map[string]any{}, false
		for _, what := range expand {
			var err error
			switch what {
			case "status":
				var s herder.Status
				s, err = h.deps.Herder.Status(name)
				one[what] = statusBody(s)
			case "info":
				var i herder.Info
				i, err = h.deps.Herder.Info(name)
				one[what] = infoBody(i)
			}
			gone = gone || err != nil
		}
		// What was deleted meanwhile, or has not run yet, is left out.
		if !gone {
			all[name] = one
		}
	}
	return reply{status: http.StatusOK, body: all}, nil
}

func (h *handler) create(ctx context.Context, _ *http.Request, body []byte) (reply, error) {
	var c creation
	if err := decode(body, &c, "name", "config", "initial_state"); err != nil {
		return reply{}, err
	}
	config, err := c.Config.config()
	if err != nil {
		return reply{}, err
	}
	initial, err := c.initial()
	if err != nil {
		return reply{}, err
	}
	name := ""
	if c.Name != nil {
		name = strings.TrimFunc(*c.Name, func(r rune) bool { return r <= ' ' }) // what Java takes for blanks
	}
	info, err := h.deps.Herder.Create(ctx, name, config, initial)
	if err != nil {
		return reply{}, err
	}
	return created(info), nil
}

func created(i herder.Info) reply {
	return reply{status: http.StatusCreated, body: infoBody(i), location: "/connectors/" + url.PathEscape(i.Name)}
}

func (h *handler) info(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	i, err := h.deps.Herder.Info(r.PathValue("name"))
	return reply{status: http.StatusOK, body: infoBody(i)}, err
}

func (h *handler) getConfig(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	i, err := h.deps.Herder.Info(r.PathValue("name"))
	return reply{status: http.StatusOK, body: i.Config}, err
}

func (h *handler) putConfig(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	config, err := decodeConfig(body)
	if err != nil {
		return reply{}, err
	}
	info, isNew, err := h.deps.Herder.Put(ctx, r.PathValue("name"), config)
	if err != nil {
		return reply{}, err
	}
	if isNew {
		return created(info), nil
	}
	return reply{status: http.StatusOK, body: infoBody(info)}, nil
}

func (h *handler) patchConfig(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	var patch settings
	if err := decode(body, &patch); err != nil {
		return reply{}, err
	}
	if patch == nil {
		return reply{}, fmt.Errorf("%w: there is nothing to change", herder.ErrInvalid)
	}
	info, err := h.deps.Herder.Patch(ctx, r.PathValue("name"), patch)
	return reply{status: http.StatusOK, body: infoBody(info)}, err
}

func (h *handler) remove(ctx context.Context, r *http.Request, _ []byte) (reply, error) {
	return reply{status: http.StatusNoContent}, h.deps.Herder.Delete(ctx, r.PathValue("name"))
}

// change answers a request that has a connector do something.
func (h *handler) change(f func(context.Context, string) error, status int) call {
	return func(ctx context.Context, r *http.Request, _ []byte) (reply, error) {
		return reply{status: status}, f(ctx, r.PathValue("name"))
	}
}

func (h *handler) status(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	s, err := h.deps.Herder.Status(r.PathValue("name"))
	return reply{status: http.StatusOK, body: statusBody(s)}, err
}

// restart starts the connector alone again, which is done when it is answered, or asks all workers to restart what they run of it.
func (h *handler) restart(ctx context.Context, r *http.Request, _ []byte) (reply, error) {
	restart := configs.Restart{Connector: r.PathValue("name")}
	query := r.URL.Query()
	for name, to := range map[string]*bool{"includeTasks": &restart.IncludeTasks, "onlyFailed": &restart.OnlyFailed} {
		*to = strings.EqualFold(query.Get(name), "true")
	}
	if !restart.IncludeTasks && !restart.OnlyFailed {
		return reply{status: http.StatusNoContent}, h.deps.Herder.RestartConnector(ctx, restart.Connector)
	}
	s, err := h.deps.Herder.RestartAll(ctx, restart)
	return reply{status: http.StatusAccepted, body: statusBody(s)}, err
}

func (h *handler) tasks(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	tasks, err := h.deps.Herder.Tasks(r.PathValue("name"))
	body := []any{}
	for _, task := range tasks {
		body = append(body, map[string]any{"id": taskID(task.ID), "config": task.Config})
	}
	return reply{status: http.StatusOK, body: body}, err
}

func (h *handler) putTasks(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	if err := h.verify(r, body); err != nil {
		return reply{}, err
	}
	var given []settings
	if err := decode(body, &given); err != nil {
		return reply{}, err
	}
	tasks := make([]configs.Config, len(given))
	for i, s := range given {
		var err error
		if tasks[i], err = s.config(); err != nil {
			return reply{}, err
		}
	}
	return reply{status: http.StatusNoContent}, h.deps.Herder.PutTasks(ctx, r.PathValue("name"), tasks)
}

func (h *handler) fence(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	if err := h.verify(r, body); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, h.deps.Herder.Fence(ctx, r.PathValue("name"))
}

// task is the task that a path names.
func task(r *http.Request) (work.Item, error) {
	n, err := strconv.ParseInt(r.PathValue("task"), 10, 32)
	if err != nil || n < 0 {
		return work.Item{}, fmt.Errorf("%w: %q is no number of a task", herder.ErrNotFound, r.PathValue("task"))
	}
	return work.Item{Connector: r.PathValue("name"), Task: int32(n)}, nil
}

func (h *handler) taskStatus(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	id, err := task(r)
	if err != nil {
		return reply{}, err
	}
	s, err := h.deps.Herder.TaskStatus(id)
	return reply{status: http.StatusOK, body: taskStatusBody(s)}, err
}

func (h *handler) restartTask(ctx context.Context, r *http.Request, _ []byte) (reply, error) {
	id, err := task(r)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, h.deps.Herder.RestartTask(ctx, id)
}

func (h *handler) topics(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	name := r.PathValue("name")
	topics, err := h.deps.Herder.Topics(name)
	return reply{status: http.StatusOK, body: map[string]any{name: map[string]any{"topics": topics}}}, err
}

func (h *handler) offsets(ctx context.Context, r *http.Request, _ []byte) (reply, error) {
	entries, err := h.deps.Herder.Offsets(ctx, r.PathValue("name"))
	body := offsetsBody{Offsets: []offsetBody{}}
	for _, e := range entries {
		body.Offsets = append(body.Offsets, offsetBody{e.Partition, e.Offset})
	}
	return reply{status: http.StatusOK, body: body}, err
}

func (h *handler) alterOffsets(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	entries, err := decodeOffsets(body)
	if err != nil {
		return reply{}, err
	}
	return h.moveOffsets(ctx, r, entries, "altered")
}

func (h *handler) resetOffsets(ctx context.Context, r *http.Request, _ []byte) (reply, error) {
	return h.moveOffsets(ctx, r, nil, "reset")
}

func (h *handler) moveOffsets(ctx context.Context, r *http.Request, entries []offsets.Entry, done string) (reply, error) {
	managed, err := h.deps.Herder.AlterOffsets(ctx, r.PathValue("name"), entries)
	message := "the offsets of the connector have been " + done
	if !managed {
		message += "; offsets that it keeps outside of Kafka, if any, have to be put right by hand"
	}
	return reply{status: http.StatusOK, body: map[string]string{"message": message}}, err
}
