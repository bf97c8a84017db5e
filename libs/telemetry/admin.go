package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Admin is the HTTP server for operators, apart from what clients use:
//
//	/healthz       200 while every health check of Telemetry passes, else 503 and the reasons
//	/readyz        200 while every health and readiness check passes, and there is one of the latter
//	/metrics       Prometheus
//	/debug/pprof/  profiles
//	/loglevel      GET, or PUT level=debug as a form or {"level":"debug"} as JSON
//
// and whatever Handle adds. It has no authentication: bind it accordingly.
type Admin struct {
	addr     string
	log      *zap.Logger
	mux      *http.ServeMux
	listener net.Listener
}

const (
	adminHeaderTimeout   = 10 * time.Second
	adminDrainTimeout    = 2 * time.Second
	maxConcurrentScrapes = 4
)

// NewAdmin returns a server for addr ("host:port", port 0 for a free one). Run serves it.
func NewAdmin(addr string, t *Telemetry) *Admin {
	a := &Admin{addr: addr, log: t.Log.Named("admin"), mux: http.NewServeMux()}
	a.mux.HandleFunc("GET /healthz", serveChecks(t.checks.forHealth))
	a.mux.HandleFunc("GET /readyz", serveChecks(t.checks.forReady))
	a.mux.Handle("GET /metrics", promhttp.HandlerFor(t.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxConcurrentScrapes}))
	a.mux.Handle("/loglevel", t.Level)
	a.mux.HandleFunc("/debug/pprof/", pprof.Index)
	a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return a
}

// Handle adds a handler for a pattern of http.ServeMux. It panics when the pattern is taken.
func (a *Admin) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, h) }

// Listen binds the address, after which Addr is known. Run does it when it was not done before.
func (a *Admin) Listen() error {
	l, err := net.Listen("tcp", a.addr)
	if err != nil {
		return fmt.Errorf("admin server: %w", err)
	}
	a.listener = l
	return nil
}

// Addr returns the bound "host:port", or the configured one before Listen.
func (a *Admin) Addr() string {
	if a.listener == nil {
		return a.addr
	}
	return a.listener.Addr().String()
}

// Run serves until ctx ends, then gives open requests a moment and returns nil.
func (a *Admin) Run(ctx context.Context) error {
	if a.listener == nil {
		if err := a.Listen(); err != nil {
			return err
		}
	}
	server := &http.Server{Handler: a.mux, ReadHeaderTimeout: adminHeaderTimeout, ErrorLog: zap.NewStdLog(a.log)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(a.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin server: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminDrainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // a running profile is cut short
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin server: %w", err)
	}
	return nil
}

func serveChecks(list func() []check) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var failures strings.Builder
		for _, c := range list() {
			if err := c.run(); err != nil {
				fmt.Fprintf(&failures, "%s: %v\n", c.name, err)
			}
		}
		if failures.Len() > 0 {
			http.Error(w, strings.TrimSuffix(failures.String(), "\n"), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
