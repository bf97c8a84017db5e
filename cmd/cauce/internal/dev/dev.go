// Package dev runs the services of a whole cluster in one process: the same packages as the programs
// of their own, joined by a bus that no socket leads to.
package dev

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node/serving"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/broker"
	"github.com/cauce-stream/cauce/services/connect"
	"github.com/cauce-stream/cauce/services/controller"
	"github.com/cauce-stream/cauce/services/groupcoord"
	"github.com/cauce-stream/cauce/services/txncoord"
)

// Ready is what a cluster tells of itself once it serves.
type Ready struct {
	Bootstrap string // host:port for Kafka clients
	Admin     string // host:port of the admin server; empty when there is none
	Connect   string // URL of the Connect worker's REST interface; empty when there is none
	Data      string // the data folder
}

// String is the line that programs wait for.
func (r Ready) String() string {
	admin := r.Admin
	if admin == "" {
		admin = "none"
	}
	return fmt.Sprintf("ready bootstrap=%s admin=%s data=%s", r.Bootstrap, admin, r.Data)
}

// Run serves until ctx ends and everything is closed, calling ready once. That ctx ended is no error.
func Run(ctx context.Context, values configkeys.Values, ready func(Ready)) error {
	return process.Serve(ctx, "cauce-dev", values, func(ctx context.Context, env process.Env) error {
		return run(ctx, env, ready)
	})
}

// run starts from the bottom up (bus, controller, broker, listeners) and stops from the top down: what
// a layer needs to end well is still there when it ends.
func run(ctx context.Context, env process.Env, ready func(Ready)) error {
	deps := bus.Deps{Log: env.Telemetry.Log, Tracer: env.Telemetry.Tracer}
	server, err := bus.StartServer(bus.ServerConfig{Name: "dev"}, deps)
	if err != nil {
		return err
	}
	defer server.Close()
	conn, err := server.Connect("controller", deps)
	if err != nil {
		return err
	}
	defer conn.Close()
	control, err := newController(env, conn)
	if err != nil {
		return err
	}
	return beside(ctx, control.Run, func(ctx context.Context) error {
		conn, err := server.Connect("node", deps)
		if err != nil {
			return err
		}
		defer conn.Close()
		return runNode(ctx, env, conn, control.Healthy, ready)
	})
}

func newController(env process.Env, conn *bus.Conn) (*controller.Service, error) {
	return controller.New(controller.Config{
		ID:        configkeys.NodeID(env.Values),
		Dir:       configkeys.MetadataDir(env.Values),
		ClusterID: env.Values.String("cluster.id"),
		Static:    env.Values,
	}, controller.Deps{Bus: conn, Log: env.Telemetry.Log, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer})
}

func runNode(ctx context.Context, env process.Env, conn *bus.Conn, controllerHealthy func() error, ready func(Ready)) (err error) {
	data, err := broker.New(ctx, broker.Config{
		NodeID:  configkeys.NodeID(env.Values),
		LogDirs: configkeys.LogDirs(env.Values),
		Static:  env.Values,
	}, broker.Deps{Log: env.Telemetry.Log, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracing})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	groups, err := groupcoord.New(groupcoord.Config{NodeID: configkeys.NodeID(env.Values), Static: env.Values},
		groupcoord.Deps{Log: env.Telemetry.Log, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, groups.Close()) }()
	transactions, err := txncoord.New(txncoord.Config{NodeID: configkeys.NodeID(env.Values), Static: env.Values},
		txncoord.Deps{Log: env.Telemetry.Log, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transactions.Close()) }()
	node, err := serving.Listen(serving.Config{
		Values:       env.Values,
		Roles:        []string{metadata.RoleBroker, metadata.RoleGroupCoord, metadata.RoleTxnCoord},
		LogDirIDs:    data.LogDirIDs(),
		OwnGroupAPIs: true,
		OwnTxnAPIs:   true,
	}, serving.Deps{Bus: conn, Telemetry: env.Telemetry})
	if err != nil {
		return err
	}
	env.Telemetry.Ready("controller", controllerHealthy) // not before the node's own check: it alone says nothing
	data.Serve(node.Node, node.Router)
	groups.Serve(node.Node, node.Router)
	transactions.Serve(node.Node, node.Router)
	if env.Admin != nil {
		env.Admin.Handle("GET /plugins", groups.Plugins())
	}
	return beside(ctx, data.Run, func(ctx context.Context) error {
		if !env.Values.Bool("connect.enable") {
			return node.Run(ctx, func() { ready(readiness(env, node.Addr())) })
		}
		return runConnect(ctx, env, node, ready)
	})
}

// runConnect runs the node with a Connect worker on it. ready is called once both serve. A worker that fails after that does not take the node along, which
// others produce to and consume from: the log and readiness tell of it, and what is returned in the end.
func runConnect(ctx context.Context, env process.Env, node *serving.Serving, ready func(Ready)) error {
	worker, err := connect.New(connect.Config{
		Values: env.Values, Bootstrap: reachable(node.Addr()), Version: process.Version, Commit: process.Commit, OnDemand: true,
	}, connect.Deps{
		Log: env.Telemetry.Log, Level: env.Telemetry.Level, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer,
	})
	if err != nil {
		return err
	}
	failed, fail := context.WithCancelCause(context.Background())
	defer fail(nil)
	env.Telemetry.Ready("connect", func() error { return errors.Join(context.Cause(failed), worker.Ready()) })
	serves := make(chan struct{})
	return beside(ctx, func(ctx context.Context) error {
		return node.Run(ctx, func() { close(serves) })
	}, func(ctx context.Context) error {
		select {
		case <-serves:
		case <-ctx.Done():
			return worker.Close()
		}
		served := false
		err := worker.Run(ctx, func() {
			served = true
			r := readiness(env, node.Addr())
			r.Connect = worker.URL()
			ready(r)
		})
		if err != nil && served && ctx.Err() == nil {
			err = fmt.Errorf("the Connect worker has ended: %w", err)
			env.Telemetry.Log.Error("connectors run again after a restart of this process; the rest of it goes on", zap.Error(err))
			fail(err)
			<-ctx.Done()
		}
		return err
	})
}

// beside runs work with a support that it needs until its own end: the support stops only after the
// work has, and the work is stopped when the support fails.
func beside(ctx context.Context, support, work func(context.Context) error) error {
	supportCtx, stopSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSupport()
	workCtx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	var group errgroup.Group
	group.Go(func() error {
		defer stopWork()
		return support(supportCtx)
	})
	err := work(workCtx)
	stopSupport()
	return errors.Join(unless(workCtx, err), group.Wait())
}

// unless drops the error of something that was told to end and says so.
func unless(ended context.Context, err error) error {
	if ended.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func readiness(env process.Env, bound string) Ready {
	r := Ready{Bootstrap: reachable(bound)}
	if env.Admin != nil {
		r.Admin = reachable(env.Admin.Addr())
	}
	if dir, ok := env.Values.Lookup("data.dir"); ok {
		r.Data = dir
	} else {
		r.Data = configkeys.LogDirs(env.Values)[0]
	}
	return r
}

// reachable is an address that leads to a listener on this machine.
func reachable(bound string) string {
	host, port, err := net.SplitHostPort(bound)
	if err != nil {
		return bound
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return bound
}
