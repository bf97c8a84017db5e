package connector

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/connect"
)

func (a *area) standalone() *cobra.Command {
	var admin, level string
	cmd := &cobra.Command{
		Use:   "standalone WORKER.properties [CONNECTOR.properties|CONNECTOR.json …]",
		Short: "Run a worker in this process that is in no group, with these connectors",
		Long: `Run a Connect worker in this process that is in no group, as Kafka's connect-standalone does: with the properties of a worker in
one file, and a connector in each of the others. It keeps connectors in its memory, and offsets of sources in the file
offset.storage.file.filename. bootstrap.servers may be any cluster that is compatible with Kafka. Once all connectors are made
it prints one line to stdout,

  ready rest=URL

and logs to stderr. SIGTERM or SIGINT ends it in order.`,
		Example: `  cauce connector standalone worker.properties file-source.properties
  cauce connector standalone worker.properties a.json b.json --admin 127.0.0.1:9401`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := connect.Standalone{File: args[0], Version: process.Version, Commit: process.Commit}
			text, err := os.ReadFile(args[0])
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			if s.Worker, err = config.ParseEntries(string(text)); err != nil {
				return exit.With(exit.Usage, fmt.Errorf("%s: %w", args[0], err))
			}
			for _, file := range args[1:] {
				c, err := readCreation(a.session, file)
				if err != nil {
					return err
				}
				properties := maps.Clone(c.config)
				properties["name"] = c.name
				s.Connectors = append(s.Connectors, properties)
			}
			values, err := config.FromMap(configkeys.Broker(), map[string]string{"admin.listener": admin, "log.level": level})
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			return process.Serve(cmd.Context(), "cauce-connect", values, func(ctx context.Context, env process.Env) error {
				return connect.RunStandalone(ctx, s, connect.Deps{
					Log: env.Telemetry.Log, Level: env.Telemetry.Level, Metrics: env.Telemetry.Metrics, Tracer: env.Telemetry.Tracer,
				}, func(url string) { fmt.Fprintln(a.session.Out, "ready rest="+url) })
			})
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "", "serve health, metrics and profiles at `HOST:PORT`")
	cmd.Flags().StringVar(&level, "log-level", "info", "least important level that is logged: debug, info, warn or error")
	return cmd
}
