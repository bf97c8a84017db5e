// Package logfiles holds the commands under `cauce log`, which look at the files of a server without
// asking it.
package logfiles

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/process"
)

// Command returns `cauce log`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at the files of a server"}
	cmd.AddCommand(dumpCommand(s), dirCommand(s))
	return cmd
}

func dirCommand(s *session.Session) *cobra.Command {
	var flags process.Flags
	cmd := &cobra.Command{
		Use:   "dir",
		Short: "Print where a server with this configuration keeps partitions",
		Long: `Print the log directories of a server with this configuration, one a line: the folders in which each
partition has a folder of its own, named TOPIC-PARTITION.`,
		Example: "  cauce log dir --data-dir data",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			values, err := flags.Load(configkeys.Broker())
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			dirs := configkeys.LogDirs(values)
			if len(dirs) == 0 {
				return exit.Usagef("no log directory: give --data-dir, or a --config that names log.dirs")
			}
			if s.Format == output.JSON {
				return output.WriteJSON(s.Out, dirs)
			}
			for _, dir := range dirs {
				if _, err := fmt.Fprintln(s.Out, dir); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.AddTo(cmd.Flags())
	for _, name := range []string{"listen", "admin"} {
		_ = cmd.Flags().MarkHidden(name) // the flag is there: AddTo defined it
	}
	s.BindOutput(cmd)
	return cmd
}
