// Command cauce-controller is one controller: a voter of the metadata quorum, and its part of the bus.
package main

import (
	"context"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/controller"
)

func main() {
	process.Main("cauce-controller", "cauce-controller keeps a cluster's metadata and decides its changes.", run)
}

func run(ctx context.Context, env process.Env) error {
	cfg, err := controller.ConfigFrom(env.Values)
	if err != nil {
		return err
	}
	t := env.Telemetry
	conn, closeBus, err := controller.OpenBus(env.Values, bus.Deps{Log: t.Log, Tracer: t.Tracer})
	if err != nil {
		return err
	}
	defer closeBus()
	service, err := controller.New(cfg, controller.Deps{Bus: conn, Log: t.Log, Metrics: t.Metrics, Tracer: t.Tracer})
	if err != nil {
		return err
	}
	env.Telemetry.Ready("controller", service.Healthy)
	return service.Run(ctx)
}
