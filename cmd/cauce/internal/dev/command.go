package dev

import (
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/plugin/tempdir"
	"github.com/cauce-stream/cauce/libs/process"
)

const long = `Run a whole Cauce cluster of one node in this process: controller, broker and coordinators on one port, and a
Connect worker with its REST interface at connect.listeners, which begins with the first request.

Once it serves it prints one line to stdout,

  ready bootstrap=HOST:PORT admin=HOST:PORT data=DIR

and logs to stderr. SIGTERM or SIGINT closes it in order. Any key of Kafka's or Cauce's own can be set
by --config, the environment (CAUCE_NUM_PARTITIONS=6) or --set, the later ones winning.`

// Command returns `cauce dev`.
func Command(s *session.Session) *cobra.Command {
	var flags process.Flags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster of one node in this process",
		Long:  long,
		Example: `  cauce dev
  cauce dev --data-dir data --set num.partitions=6
  cauce dev --listen 127.0.0.1:0 --admin 127.0.0.1:0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			values, err := flags.Load(configkeys.Broker())
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			values, cleanUp, err := complete(values, func(err error) { fmt.Fprintln(s.Err, err) })
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, cleanUp()) }()
			// A reader of stdout or stderr that goes away does not take the server with it.
			signal.Ignore(syscall.SIGPIPE)
			return Run(cmd.Context(), values, func(r Ready) { fmt.Fprintln(s.Out, r) })
		},
	}
	flags.AddTo(cmd.Flags())
	cmd.Flags().Lookup("data-dir").Usage = "keep everything in this `DIR`; without it in a temporary one that is removed at the end, after a kill -9 by the next that starts so"
	return cmd
}

// defaultListener keeps a node without security to this machine.
const defaultListener = "PLAINTEXT://127.0.0.1:9092"

// ofOneBroker are the replicas that coordinators' topics have and need, which one broker has once.
var ofOneBroker = []string{
	"offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
	"connect.config.storage.replication.factor", "connect.offset.storage.replication.factor", "connect.status.storage.replication.factor",
}

// firstRebalanceDelay is 3 s for the members of a cluster that start at the same time. Whoever tries something out alone would only wait, as Kafka's
// own configuration for trying it out knows.
const firstRebalanceDelay = "group.initial.rebalance.delay.ms"

// restListener is where the Connect worker's REST interface is when nothing says so: a free port where the node has one as well, or where another
// worker of this machine has the usual one. The log says which.
func restListener(values configkeys.Values) string {
	const anyPort = "http://127.0.0.1:0"
	for _, l := range configkeys.Listeners(values) {
		if strings.HasSuffix(l, ":0") {
			return anyPort
		}
	}
	usual := values.Get("connect.listeners")
	l, err := net.Listen("tcp", strings.TrimPrefix(usual, "http://"))
	if err != nil {
		return anyPort
	}
	if l.Close() != nil {
		return anyPort
	}
	return usual
}

// complete adds what dev defaults otherwise than a node that is deployed. cleanUp removes the
// temporary folder, if there is one. What earlier ones have left behind and cannot be removed is told to complain.
func complete(values configkeys.Values, complain func(error)) (completed configkeys.Values, cleanUp func() error, err error) {
	defaults := make(map[string]string)
	if !values.Given("listeners") {
		defaults["listeners"] = defaultListener
	}
	if !values.Given(firstRebalanceDelay) {
		defaults[firstRebalanceDelay] = "0"
	}
	if !values.Given("connect.listeners") {
		defaults["connect.listeners"] = restListener(values)
	}
	for _, key := range ofOneBroker {
		if !values.Given(key) {
			defaults[key] = "1"
		}
	}
	cleanUp = func() error { return nil }
	logs, metadata := len(configkeys.LogDirs(values)) > 0, configkeys.MetadataDir(values) != ""
	switch {
	case logs && metadata:
	case logs || metadata:
		return values, nil, exit.Usagef("log.dirs and metadata.log.dir: give both, or data.dir (--data-dir)")
	default:
		dir, err := tempdir.New("cauce-data-", complain)
		if err != nil {
			return values, nil, err
		}
		defaults["data.dir"] = dir.Path
		cleanUp = dir.Remove
	}
	completed, err = values.With(defaults, "cauce dev")
	if err != nil {
		return values, nil, errors.Join(err, cleanUp())
	}
	return completed, cleanUp, nil
}
