// Package connect is the connector runtime.
//
// So far it registers with the cluster and answers what every node answers; connectors and their REST interface are on
// the roadmap.
package connect

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node/serving"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/libs/telemetry"
)

// Config is what the node was started with.
type Config struct {
	Values configkeys.Values
}

// Deps are what the service needs of its process.
type Deps struct {
	Bus       *bus.Conn
	Telemetry *telemetry.Telemetry
}

// Service is one node with its listeners bound.
type Service struct {
	serving *serving.Serving
	log     *zap.Logger
}

// New binds the listeners; they accept connections while Run runs.
func New(c Config, d Deps) (*Service, error) {
	s, err := serving.Listen(serving.Config{Values: c.Values, Roles: []string{metadata.RoleConnect}}, serving.Deps{Bus: d.Bus, Telemetry: d.Telemetry})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Service{serving: s, log: d.Telemetry.Log}, nil
}

// Addr is the bound address of the first listener, host:port.
func (s *Service) Addr() string { return s.serving.Addr() }

// Run registers the node and serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return s.serving.Run(ctx, func() { s.log.Info("serving", zap.String("address", s.Addr())) })
}

// Main runs the service as a process of its own, which reaches the controllers over the bus at bus.servers.
func Main(ctx context.Context, env process.Env) error {
	conn, err := serving.ConnectBus(env.Values, "connect", env.Telemetry)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	s, err := New(Config{Values: env.Values}, Deps{Bus: conn, Telemetry: env.Telemetry})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
