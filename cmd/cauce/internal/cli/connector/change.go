package connector

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

type changed struct {
	Connector string `json:"connector"`
	Result    string `json:"result"`
}

func (a *area) printChanged(all []changed) error {
	if len(all) == 0 && a.session.Format == output.Tabular {
		return nil
	}
	return a.session.Print(all, func() *output.Table {
		table := output.NewTable(output.Left("CONNECTOR"), output.Left("RESULT"))
		for _, c := range all {
			table.Row(c.Connector, c.Result)
		}
		return table
	})
}

// each has something done to connectors, and prints what has become of each.
func (a *area) each(ctx context.Context, names []string, do func(context.Context, *rest.Client, string) (result string, err error)) error {
	c, bounded, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	all := []changed{}
	var faults []error
	for _, name := range names {
		result, err := do(bounded, c, name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all = append(all, changed{name, result})
	}
	return errors.Join(append([]error{a.printChanged(all)}, faults...)...)
}

// act tells a connector something and waits for a state. The wait has a time of its own.
func (w *waiting) act(ctx context.Context, parent context.Context, c *rest.Client, name, state string, tell func() error) error {
	known := w.before(ctx, c, name)
	if err := tell(); err != nil {
		return fault(name, err)
	}
	return w.until(parent, c, name, state, known)
}

// results are what is printed of connectors that were told something.
var results = map[string]string{"pause": "paused", "resume": "resumed", "stop": "stopped"}

func (a *area) target(what, short, state string) *cobra.Command {
	var w waiting
	cmd := &cobra.Command{
		Use:     what + " CONNECTOR…",
		Short:   short,
		Example: "  cauce connector " + what + " orders-to-s3 --wait",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.each(cmd.Context(), names, func(ctx context.Context, c *rest.Client, name string) (string, error) {
				return results[what], w.act(ctx, cmd.Context(), c, name, state, func() error { return c.Target(ctx, name, what) })
			})
		},
		ValidArgsFunction: a.complete(0),
	}
	w.bind(cmd.Flags())
	return cmd
}

func (a *area) restart() *cobra.Command {
	var (
		w                 waiting
		tasks, onlyFailed bool
		task              string
	)
	cmd := &cobra.Command{
		Use:   "restart CONNECTOR…",
		Short: "Start connectors, their tasks, or what has failed of them again",
		Long: `Start connectors again, without their tasks: --tasks includes those. --only-failed restarts what has failed and nothing else,
--task one task.`,
		Example: `  cauce connector restart orders-to-s3 --tasks --only-failed --wait
  cauce connector restart orders-to-s3 --task 2`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if n, err := strconv.Atoi(task); task != "" && (err != nil || n < 0) {
				return exit.Usagef("--task %s: that is no number of a task", task)
			}
			if task != "" && (tasks || onlyFailed) {
				return exit.Usagef("--task names what to restart: leave --tasks and --only-failed out")
			}
			return a.each(cmd.Context(), names, func(ctx context.Context, c *rest.Client, name string) (string, error) {
				return "restarted", w.act(ctx, cmd.Context(), c, name, running, func() error {
					if task != "" {
						return c.RestartTask(ctx, name, task)
					}
					return c.Restart(ctx, name, tasks, onlyFailed)
				})
			})
		},
		ValidArgsFunction: a.complete(0),
	}
	w.bind(cmd.Flags())
	cmd.Flags().BoolVar(&tasks, "tasks", false, "restart the tasks, too")
	cmd.Flags().BoolVar(&onlyFailed, "only-failed", false, "restart only what has failed")
	cmd.Flags().StringVar(&task, "task", "", "restart only the task of this `NUMBER`")
	return cmd
}

func (a *area) remove() *cobra.Command {
	var (
		w        waiting
		ifExists bool
	)
	cmd := &cobra.Command{
		Use:     "delete CONNECTOR…",
		Aliases: []string{"rm"},
		Short:   "Delete connectors; where they stand is kept",
		Example: "  cauce connector delete orders-to-s3 --if-exists",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.each(cmd.Context(), names, func(ctx context.Context, c *rest.Client, name string) (string, error) {
				missing := false
				err := w.act(ctx, cmd.Context(), c, name, gone, func() error {
					err := c.Delete(ctx, name)
					if missing = ifExists && rest.Is(err, http.StatusNotFound); missing {
						return nil
					}
					return err
				})
				if missing {
					return "missing", err
				}
				return "deleted", err
			})
		},
		ValidArgsFunction: a.complete(0),
	}
	w.bind(cmd.Flags())
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "succeed for connectors that do not exist")
	return cmd
}
