package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/services/connect/internal/rest"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// closeTimeout is for how long requests under way may go on when the worker stops.
	closeTimeout = 5 * time.Second
)

// listener is an address of the REST interface, and what of it is served there.
type listener struct {
	net.Listener
	connectors, admin bool
}

func (l listener) close() error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listen binds the listeners and finds out by which address others reach this worker.
func (w *Worker) listen() error {
	v := w.config.Values
	separate := v.Given("admin.listeners")
	for _, text := range v.List("listeners") {
		if err := w.bind(text, true, !separate); err != nil {
			return fmt.Errorf("listeners: %w", err)
		}
	}
	if len(w.listeners) == 0 {
		return errors.New("listeners: there is none")
	}
	for _, text := range v.List("admin.listeners") {
		if err := w.bind(text, false, true); err != nil {
			return fmt.Errorf("admin.listeners: %w", err)
		}
	}
	return w.advertise()
}

func (w *Worker) bind(text string, connectors, admin bool) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	if u.Scheme != "http" {
		return fmt.Errorf("%s: only http is served", text)
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return err
	}
	w.listeners = append(w.listeners, listener{l, connectors, admin})
	return nil
}

func (w *Worker) advertise() error {
	v := w.config.Values
	host, port, err := net.SplitHostPort(w.listeners[0].Addr().String())
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return fmt.Errorf("rest.advertised.host.name is not set: %w", err)
		}
	}
	if given := v.String("rest.advertised.host.name"); given != "" {
		host = given
	}
	if v.Given("rest.advertised.port") {
		port = strconv.Itoa(v.Int("rest.advertised.port"))
	}
	w.id = net.JoinHostPort(host, port)
	w.url = "http://" + w.id
	return nil
}

// serve answers REST requests until ctx ends.
func (w *Worker) serve(ctx context.Context) error {
	var group errgroup.Group
	v := w.config.Values
	for _, l := range w.listeners {
		handler := rest.New(rest.Config{
			Connectors: l.connectors, Admin: l.admin, Version: w.config.Version, Commit: w.config.Commit, ClusterID: w.cluster,
			Signed: w.signed(), Algorithms: v.List("inter.worker.verification.algorithms"),
			AllowOrigin: v.String("access.control.allow.origin"), AllowMethods: v.String("access.control.allow.methods"),
		}, rest.Deps{
			Herder: w.herder, Client: w.http, Plugins: w.plugins.list, PluginConfig: w.plugins.definition, Levels: w.levels.all, SetLevel: w.levels.set,
		})
		server := &http.Server{Handler: w.whenWanted(handler), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("REST interface at %s: %w", l.Addr(), err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if err := server.Shutdown(ending); err != nil {
				return server.Close() // requests that wait for a rebalance would go on until it comes
			}
			return nil
		})
	}
	return group.Wait()
}

func (w *Worker) cluster() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clusterID
}

// whenWanted has the first request start a worker that waits for one.
func (w *Worker) whenWanted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.wanted.want()
		next.ServeHTTP(rw, r)
	})
}

// wanted is whether anybody has asked for the worker.
type wanted struct {
	once  sync.Once
	asked chan struct{}
}

func newWanted() *wanted { return &wanted{asked: make(chan struct{})} }

func (w *wanted) want() { w.once.Do(func() { close(w.asked) }) }

func (w *wanted) now() bool {
	select {
	case <-w.asked:
		return true
	default:
		return false
	}
}

func (w *wanted) wait(ctx context.Context) error {
	select {
	case <-w.asked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
