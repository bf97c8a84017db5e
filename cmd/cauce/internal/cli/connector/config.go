package connector

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

type configuration struct {
	area  *area
	given given
	unset []string
	wait  waiting
}

func (a *area) config() *cobra.Command {
	c := &configuration{area: a}
	cmd := &cobra.Command{
		Use:   "config CONNECTOR",
		Short: "Show the configuration of a connector, change keys of it, or set all of it",
		Long: `Show the configuration of a connector. --set and --unset change single keys of it. With --file it is set as a whole, and
the connector is created if it does not exist.`,
		Example: `  cauce connector config orders-to-s3
  cauce connector config orders-to-s3 --set tasks.max=4 --unset errors.tolerance --wait
  cauce connector config orders-to-s3 -f orders-to-s3.json`,
		Args:              cobra.ExactArgs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
		ValidArgsFunction: a.complete(1),
	}
	c.given.bind(cmd)
	cmd.Flags().StringSliceVar(&c.unset, "unset", nil, "take these `KEYS` away")
	c.wait.bind(cmd.Flags())
	return cmd
}

func (c *configuration) run(parent context.Context, name string) error {
	if c.given.file != "" && len(c.unset) > 0 {
		return exit.Usagef("--file sets the whole configuration: leave --unset out")
	}
	client, ctx, cancel, err := c.area.client(parent)
	if err != nil {
		return err
	}
	defer cancel()
	switch {
	case c.given.file != "":
		n, err := c.area.read(&c.given, []string{name})
		if err != nil {
			return err
		}
		return c.change(ctx, parent, client, name, n.config, func() error { _, err := client.Put(ctx, name, n.config); return err })
	case c.given.set.Len() > 0 || len(c.unset) > 0:
		return c.patch(ctx, parent, client, name)
	}
	info, err := client.Info(ctx, name)
	if err != nil {
		return fault(name, err)
	}
	return c.area.session.Print(info.Config, func() *output.Table {
		table := output.NewTable(output.Left("KEY"), output.Left("VALUE"))
		for _, key := range slices.Sorted(maps.Keys(info.Config)) {
			table.Row(key, info.Config[key])
		}
		return table
	})
}

func (c *configuration) patch(ctx, parent context.Context, client *rest.Client, name string) error {
	info, err := client.Info(ctx, name)
	if err != nil {
		return fault(name, err)
	}
	patch := map[string]*string{}
	for _, key := range c.unset {
		patch[key] = nil
		delete(info.Config, key)
	}
	for key, value := range c.given.set.All() {
		patch[key] = &value
		info.Config[key] = value
	}
	return c.change(ctx, parent, client, name, info.Config, func() error { _, err := client.Patch(ctx, name, patch); return err })
}

// change sets a configuration, and says what of it is refused.
func (c *configuration) change(ctx, parent context.Context, client *rest.Client, name string, config rest.Config, set func() error) error {
	known := c.wait.before(ctx, client, name)
	if err := set(); err != nil {
		return explain(ctx, client, name, config, err)
	}
	if err := c.area.printChanged([]changed{{name, "configured"}}); err != nil {
		return err
	}
	return c.wait.until(parent, client, name, running, known)
}
