// Package connect runs connectors, which move data into topics and out of them: a worker of a group that shares connectors and their tasks, with the
// REST interface, the internal topics and the group protocol of Kafka Connect.
package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node/serving"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/connect/internal/worker"
)

// pluginCallTimeout bounds a question to a connector that is not about records, such as which tasks it has: connectors look at other systems for that.
const pluginCallTimeout = 60 * time.Second

// Config is what the worker was started with.
type Config struct {
	Values configkeys.Values
	// Bootstrap is a broker of the cluster, host:port, unless connect.bootstrap.servers names others.
	Bootstrap string
	// Version and Commit are told by REST.
	Version, Commit string
	// OnDemand has a worker that has no connectors yet wait for the first request: until then it makes no topics and joins no group.
	OnDemand bool
}

// Deps are what the service needs of its process.
type Deps struct {
	Log     *zap.Logger
	Level   zap.AtomicLevel // of Log
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Service is a worker with its listeners bound.
type Service struct {
	worker *worker.Worker
}

// New binds the listeners of the REST interface. Run has to be called, or Close.
func New(c Config, d Deps) (*Service, error) {
	s, err := readSettings(c.Values)
	if err != nil {
		return nil, err
	}
	return newService(c, d, s)
}

func newService(c Config, d Deps, s *settings) (*Service, error) {
	s.tell(d.Log)
	values, err := s.worker(c.Bootstrap)
	if err != nil {
		return nil, err
	}
	hosting, err := hostConfig(c.Values, values)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(worker.Config{Values: values, Version: c.Version, Commit: c.Commit, OnDemand: c.OnDemand}, workerDeps(d, hosting))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Service{worker: w}, nil
}

func workerDeps(d Deps, hosting host.Config) worker.Deps {
	return worker.Deps{
		Log: d.Log, Level: d.Level, Metrics: d.Metrics, Tracer: d.Tracer,
		StartPlugins: func() (*host.Host, error) {
			return host.New(hosting, host.Deps{Log: d.Log, Metrics: d.Metrics, Tracer: d.Tracer})
		},
	}
}

// URL is where the REST interface is.
func (s *Service) URL() string { return s.worker.URL() }

// Ready is an error until the worker is in its group.
func (s *Service) Ready() error { return s.worker.Ready() }

// ServePlugins answers GET /plugins.
func (s *Service) ServePlugins(w http.ResponseWriter, r *http.Request) {
	if plugins := s.worker.Plugins(); plugins != nil {
		plugins.ServeHTTP(w, r)
		return
	}
	http.Error(w, "plugins are not started yet", http.StatusServiceUnavailable)
}

// Run serves until ctx ends, calling ready once the worker is in its group, or waits for a request.
func (s *Service) Run(ctx context.Context, ready func()) error { return s.worker.Run(ctx, ready) }

// Close ends a service that does not run.
func (s *Service) Close() error { return s.worker.Close() }

// Main runs a worker as a process of its own. One that is told where its cluster is, by bootstrap.servers, is a client of that like others, be it Cauce's or
// not. Any other is a node of the cluster as well: it finds brokers by what the controllers tell it over the bus.
func Main(ctx context.Context, env process.Env) error {
	s, err := readSettings(env.Values)
	if err != nil {
		return err
	}
	if s.namesCluster() {
		return runClient(ctx, env, s)
	}
	conn, err := serving.ConnectBus(env.Values, "connect", env.Telemetry)
	if err != nil {
		return fmt.Errorf("connect: %w; a worker that is to find its cluster by connect.bootstrap.servers needs no bus", err)
	}
	defer conn.Close()
	return runNode(ctx, env, s, conn)
}

// newOf makes the service of a process, whose readiness is the worker's from then on.
func newOf(env process.Env, s *settings, bootstrap string) (*Service, error) {
	made, err := newService(Config{Values: env.Values, Bootstrap: bootstrap, Version: process.Version, Commit: process.Commit}, Deps{
		Log: env.Telemetry.Log, Level: env.Telemetry.Level, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer,
	}, s)
	if err != nil {
		return nil, err
	}
	env.Telemetry.Ready("connect", made.Ready)
	if env.Admin != nil {
		env.Admin.Handle("GET /plugins", http.HandlerFunc(made.ServePlugins))
	}
	return made, nil
}

func runClient(ctx context.Context, env process.Env, own *settings) error {
	s, err := newOf(env, own, "")
	if err != nil {
		return err
	}
	return s.Run(ctx, func() { env.Telemetry.Log.Info("serving", zap.String("rest", s.URL())) })
}

func runNode(ctx context.Context, env process.Env, own *settings, conn *bus.Conn) error {
	node, err := serving.Listen(serving.Config{Values: env.Values, Roles: []string{metadata.RoleConnect}}, serving.Deps{Bus: conn, Telemetry: env.Telemetry})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// Every node tells clients where the brokers are, this one too.
	s, err := newOf(env, own, node.Addr())
	if err != nil {
		return err
	}
	// The worker asks the node for brokers until its own end.
	nodeCtx, stopNode := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNode()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	group.Go(func() error {
		defer stop()
		return node.Run(nodeCtx, func() {})
	})
	// Until the controllers are found the worker says over REST that it starts.
	err = s.Run(ctx, func() {
		env.Telemetry.Log.Info("serving", zap.String("address", node.Addr()), zap.String("rest", s.URL()))
	})
	stopNode()
	return errors.Join(err, group.Wait())
}
