package broker

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node/serving"
	"github.com/cauce-stream/cauce/libs/process"
)

// Main runs a broker as a process of its own, which reaches the controllers over the bus at bus.servers.
func Main(ctx context.Context, env process.Env) (err error) {
	b, err := New(ctx, Config{
		NodeID: configkeys.NodeID(env.Values), LogDirs: configkeys.LogDirs(env.Values), Static: env.Values,
	}, Deps{Log: env.Telemetry.Log, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracing})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	conn, err := serving.ConnectBus(env.Values, "broker", env.Telemetry)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := serving.Listen(serving.Config{
		Values: env.Values, Roles: []string{metadata.RoleBroker}, LogDirIDs: b.LogDirIDs(),
	}, serving.Deps{Bus: conn, Telemetry: env.Telemetry})
	if err != nil {
		return err
	}
	b.Serve(s.Node, s.Router)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.Run(ctx) })
	group.Go(func() error { return s.Run(ctx, func() { env.Telemetry.Log.Info("serving") }) })
	return group.Wait()
}
