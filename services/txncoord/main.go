package txncoord

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node/serving"
	"github.com/cauce-stream/cauce/libs/process"
)

// Main runs a transaction coordinator as a process of its own, which reaches the controllers over the bus at bus.servers.
func Main(ctx context.Context, env process.Env) (err error) {
	conn, err := serving.ConnectBus(env.Values, "txncoord", env.Telemetry)
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := New(Config{NodeID: configkeys.NodeID(env.Values), Static: env.Values},
		Deps{Log: env.Telemetry.Log, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := serving.Listen(serving.Config{Values: env.Values, Roles: []string{metadata.RoleTxnCoord}, OwnTxnAPIs: true},
		serving.Deps{Bus: conn, Telemetry: env.Telemetry})
	if err != nil {
		return err
	}
	c.Serve(s.Node, s.Router)
	return s.Run(ctx, func() { env.Telemetry.Log.Info("serving", zap.String("address", s.Addr())) })
}
