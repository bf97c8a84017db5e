// Package cli assembles the command line of cauce from its areas, one package each.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/bench"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/cluster"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/configs"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/consume"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/logfiles"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/node"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/partition"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/plugins"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/produce"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/quorum"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/top"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/topic"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/trace"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/dev"
	"github.com/cauce-stream/cauce/libs/process"
)

const long = `Cauce is an event-streaming platform that any Apache Kafka client can use unchanged.
This program runs it in one process (cauce dev) and is the command line for it, or for any
other Kafka-compatible cluster.

Results go to stdout, as a table or with -o json; faults go to stderr. The exit code is

` + exit.Summary

// Run executes one command line and returns its exit code. It returns early when ctx ends; a
// command that has no end of its own (a consumer that follows) then counts as done.
func Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot(&session.Session{In: in, Out: out, Err: errs})
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	err := root.ExecuteContext(ctx)
	code := exit.Code(err)
	switch {
	case err == nil:
	case code == exit.Interrupted && ctx.Err() != nil:
		fmt.Fprintln(errs, "cauce: interrupted")
	default:
		for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
			fmt.Fprintln(errs, "cauce: "+line)
		}
	}
	return code
}

func newRoot(s *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:           "cauce",
		Short:         "An event-streaming platform that any Kafka client can use",
		Long:          long,
		Version:       process.VersionLine("cauce"),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print which version this is") // as every other program has it
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetUsageTemplate(usageTemplate)
	addGroup(root, "Topics and records", topic.Command(s), produce.Command(s), consume.Command(s), bench.Command(s))
	addGroup(root, "Cluster", cluster.Command(s), node.Command(s), partition.Command(s), quorum.Command(s), group.Command(s), txn.Command(s), connector.Command(s), configs.Command(s), top.Command(s), trace.Command(s))
	addGroup(root, "Server", dev.Command(s), plugins.Command(s), logfiles.Command(s))
	root.AddCommand(versionCommand(s))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	strict(root)
	return root
}

func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		root.AddCommand(cmd)
	}
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasSubCommands() {
		return cmd.CommandPath() + " COMMAND (see --help)"
	}
	return cmd.UseLine() + " (see --help)"
}

// strict makes every fault of the command line itself a usage error that shows the usage.
func strict(cmd *cobra.Command) {
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		return exit.Usagef("%w\nusage: %s", err, usageLine(cmd))
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrap(err) })
	switch args := cmd.Args; {
	case args != nil:
		cmd.Args = func(cmd *cobra.Command, list []string) error { return wrap(args(cmd, list)) }
	case cmd.HasSubCommands():
		cmd.Args = func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				return nil
			}
			return wrap(unknown(cmd, list[0]))
		}
		if cmd.Run == nil && cmd.RunE == nil {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	for _, child := range cmd.Commands() {
		strict(child)
	}
}

func unknown(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", word, cmd.CommandPath())
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		slices.Sort(near)
		text += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s", text)
}
