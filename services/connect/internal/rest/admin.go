package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/herder"
)

// levels are the names that a logger's level can have.
var levels = []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"}

func (h *handler) routeAdmin() {
	h.route("/admin/loggers", map[string]call{http.MethodGet: h.loggers})
	h.route("/admin/loggers/{logger}", map[string]call{http.MethodGet: h.logger, http.MethodPut: h.setLevel})
}

func (h *handler) loggers(context.Context, *http.Request, []byte) (reply, error) {
	return reply{status: http.StatusOK, body: h.deps.Levels()}, nil
}

func (h *handler) logger(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	level, ok := h.deps.Levels()[r.PathValue("logger")]
	if !ok {
		return reply{}, fmt.Errorf("%w: logger %q", herder.ErrNotFound, r.PathValue("logger"))
	}
	return reply{status: http.StatusOK, body: level}, nil
}

// setLevel sets the level of a logger here, or with scope=cluster on all workers.
func (h *handler) setLevel(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	var given settings
	if err := decode(body, &given); err != nil {
		return reply{}, err
	}
	if given["level"] == nil {
		return reply{}, fmt.Errorf("%w: there is no level", herder.ErrInvalid)
	}
	level := strings.ToUpper(*given["level"])
	if !slices.Contains(levels, level) {
		return reply{}, fmt.Errorf("%w: level %q is not among %s", herder.ErrNotFound, *given["level"], strings.Join(levels, ", "))
	}
	if strings.EqualFold(r.URL.Query().Get("scope"), "cluster") {
		return reply{status: http.StatusNoContent}, h.deps.Herder.SetLevels(ctx, r.PathValue("logger"), level)
	}
	changed, err := h.deps.SetLevel(r.PathValue("logger"), level)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", herder.ErrInvalid, err)
	}
	return reply{status: http.StatusOK, body: list(changed)}, nil
}
