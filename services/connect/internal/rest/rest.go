// Package rest is the REST interface of a Connect worker, as clients of Apache Kafka's know it: paths, status codes, JSON fields, and requests that
// go on to the worker that can answer them.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

const (
	defaultTimeout = 90 * time.Second
	// defaultMaxBodyBytes is room for a configuration of some thousand keys, or the configurations of as many tasks.
	defaultMaxBodyBytes = 16 << 20
)

// Config is what a handler serves.
type Config struct {
	// Connectors and Admin say which of the two parts of the interface are served: /admin can have listeners of its own.
	Connectors, Admin bool
	// Version, Commit and what ClusterID returns are told at the root. ClusterID may be nil.
	Version, Commit string
	ClusterID       func() string
	// Timeout is after how long a request is answered with an error. Zero means 90 s, as in Kafka's worker.
	Timeout time.Duration
	// MaxBodyBytes bounds the body of a request. Zero means 16 MiB.
	MaxBodyBytes int64
	// Signed says that requests between workers have to be signed, by one of Algorithms.
	Signed     bool
	Algorithms []string
	// AllowOrigin is what Access-Control-Allow-Origin says in answers, and AllowMethods what browsers of other origins may do; empty for neither.
	AllowOrigin, AllowMethods string
}

// Plugin is a plugin that configurations can name.
type Plugin struct {
	Class   string `json:"class"`
	Type    string `json:"type"` // "source", "sink", "converter", "header_converter", "transformation" or "predicate"
	Version string `json:"version,omitempty"`
}

// Level is how much a logger writes.
type Level struct {
	Level string `json:"level"`
	// LastModified is in ms since 1970, nil for a level that was never changed.
	LastModified *int64 `json:"last_modified"`
}

// Deps are what a handler asks.
type Deps struct {
	Herder *herder.Herder
	// Client sends requests on to other workers. It must not follow redirects.
	Client *http.Client
	// Plugins are all that there are, in order.
	Plugins func() []Plugin
	// PluginConfig describes the configuration of a plugin by any of its names.
	PluginConfig func(name string) (configdef.Definition, bool)
	// Levels are those of all loggers by name; SetLevel sets that of a logger and those below, and returns their names. Its error is about the name.
	Levels   func() map[string]Level
	SetLevel func(logger, level string) ([]string, error)
}

type handler struct {
	config Config
	deps   Deps
	mux    *http.ServeMux
}

// reply is a good answer: a status with a body that is encoded as JSON, nil for none.
type reply struct {
	status   int
	body     any
	location string // path of what was created
}

// call answers a request, whose body has been read. The error may be a *herder.Elsewhere.
type call func(ctx context.Context, r *http.Request, body []byte) (reply, error)

// New returns a handler of the interface.
func New(c Config, d Deps) http.Handler {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = defaultMaxBodyBytes
	}
	if c.ClusterID == nil {
		c.ClusterID = func() string { return "" }
	}
	h := &handler{config: c, deps: d, mux: http.NewServeMux()}
	if c.Connectors {
		h.routeConnectors()
		h.routePlugins()
	}
	if c.Admin {
		h.routeAdmin()
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "there is no such path") })
	return h
}

// ServeHTTP answers a request. A slash at the end of a path means nothing.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if trimmed := strings.TrimRight(r.URL.Path, "/"); trimmed != "" && trimmed != r.URL.Path {
		u := *r.URL
		u.Path, u.RawPath = trimmed, strings.TrimRight(u.RawPath, "/")
		r = r.Clone(r.Context())
		r.URL = &u
	}
	if h.config.AllowOrigin != "" && r.Header.Get("Origin") != "" && h.shareOrigin(w, r) {
		return
	}
	h.mux.ServeHTTP(w, r)
}

// route serves a path by method.
func (h *handler) route(path string, calls map[string]call) {
	if get, ok := calls[http.MethodGet]; ok {
		calls[http.MethodHead] = get
	}
	allow := strings.Join(append(slices.Sorted(maps.Keys(calls)), http.MethodOptions), ", ")
	h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		c, ok := calls[r.Method]
		if !ok {
			w.Header().Set("Allow", allow)
			if r.Method == http.MethodOptions {
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, allow)
				return
			}
			refuse(w, http.StatusMethodNotAllowed, r.Method+" is not among "+allow)
			return
		}
		h.serve(w, r, c)
	})
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, c call) {
	ctx, cancel := context.WithTimeout(r.Context(), h.config.Timeout)
	defer cancel()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.config.MaxBodyBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
			return
		}
		refuse(w, http.StatusBadRequest, "the body cannot be read: "+err.Error())
		return
	}
	answer, err := h.answer(ctx, r, body, c)
	var elsewhere *herder.Elsewhere
	switch {
	case errors.As(err, &elsewhere):
		h.forward(ctx, w, r, body, elsewhere.URL)
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("there is no answer after %v", h.config.Timeout))
	case err != nil:
		refuse(w, statusOf(err), err.Error())
	default:
		if answer.location != "" {
			w.Header().Set("Location", origin(r)+answer.location)
		}
		write(w, answer.status, answer.body)
	}
}

// answer has what is asked about connectors and plugins wait until the worker has read the topics and is in its group: before that it would deny what there is.
func (h *handler) answer(ctx context.Context, r *http.Request, body []byte, c call) (reply, error) {
	if strings.HasPrefix(r.URL.Path, "/connector") {
		if err := h.deps.Herder.Await(ctx); err != nil {
			return reply{}, fmt.Errorf("%w: the worker has not joined its group yet", herder.ErrNotReady)
		}
	}
	return c(ctx, r, body)
}

// origin is how the client reached this worker.
func origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// statusOf is the status code of an error.
func statusOf(err error) int {
	var u *unsigned
	if errors.As(err, &u) {
		return u.status
	}
	for _, k := range []struct {
		err    error
		status int
	}{
		{herder.ErrNotFound, http.StatusNotFound}, {herder.ErrConflict, http.StatusConflict}, {herder.ErrInvalid, http.StatusBadRequest},
		{offsets.ErrShape, http.StatusBadRequest}, {herder.ErrForbidden, http.StatusForbidden}, {herder.ErrNotReady, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, k.err) {
			return k.status
		}
	}
	return http.StatusInternalServerError
}

func refuse(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]any{"error_code": status, "message": message})
}

// write sends an answer. What cannot be sent any more is nobody's concern here: the client is gone.
func write(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		fmt.Fprintf(&b, `{"error_code":%d,"message":"the answer cannot be encoded"}`, status)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// shareOrigin lets a browser show another origin's page the answer (CORS). It returns whether the request was only to ask for that.
func (h *handler) shareOrigin(w http.ResponseWriter, r *http.Request) (asked bool) {
	w.Header().Set("Access-Control-Allow-Origin", h.config.AllowOrigin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	methods := h.config.AllowMethods
	if methods == "" {
		methods = "GET, POST, HEAD" // what Kafka's worker allows by default
	}
	w.Header().Set("Access-Control-Allow-Methods", methods)
	w.Header().Set("Access-Control-Allow-Headers", "X-Requested-With, Content-Type, Accept, Origin")
	w.WriteHeader(http.StatusOK)
	return true
}
