package connector

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

func (a *area) plugins() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "plugins [CLASS]",
		Short: "List the connectors that the workers have, or the keys of one",
		Long:  `List the connectors that the workers have, with --all converters, transforms and predicates as well; or the keys of a class's configuration.`,
		Example: `  cauce connector plugins --all
  cauce connector plugins FileStreamSource`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listPlugins(cmd.Context(), all)
			}
			return a.listKeys(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list converters, transforms and predicates, too")
	return cmd
}

func (a *area) listPlugins(ctx context.Context, all bool) error {
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	list, err := c.Plugins(ctx, all)
	if err != nil {
		return err
	}
	return a.session.Print(append([]rest.Plugin{}, list...), func() *output.Table {
		table := output.NewTable(output.Left("CLASS"), output.Left("TYPE"), output.Left("VERSION"))
		for _, p := range list {
			table.Row(p.Class, p.Type, p.Version)
		}
		return table
	})
}

func (a *area) listKeys(ctx context.Context, class string) error {
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	keys, err := c.Keys(ctx, class)
	if rest.Is(err, http.StatusNotFound) {
		return exit.With(exit.NotFound, fmt.Errorf("the workers have no plugin %q", class))
	}
	if err != nil {
		return err
	}
	return a.session.Print(append([]rest.Key{}, keys...), func() *output.Table {
		table := output.NewTable(output.Left("KEY"), output.Left("TYPE"), output.Left("DEFAULT"), output.Left("IMPORTANCE"), output.Left("DESCRIPTION"))
		for _, k := range keys {
			value := ""
			switch {
			case k.Required:
				value = "(required)"
			case k.Default != nil:
				value = *k.Default
			}
			table.Row(k.Name, k.Type, value, k.Importance, k.Documentation)
		}
		return table
	})
}
