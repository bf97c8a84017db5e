package connector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/keyvalue"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

// given is a configuration on the command line.
type given struct {
	file string
	set  keyvalue.List
}

func (g *given) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&g.file, "file", "f", "", "read the configuration from this `FILE`, .json or .properties, or - for stdin")
	cmd.Flags().Var(&g.set, "set", "set a key; repeatable, and wins over --file")
}

// read returns a connector's name, which an argument wins for, and its configuration.
func (a *area) read(g *given, args []string) (creation, error) {
	c := creation{config: rest.Config{}}
	if g.file != "" {
		var err error
		if c, err = readCreation(a.session, g.file); err != nil {
			return creation{}, err
		}
	}
	for key, value := range g.set.All() {
		c.config[key] = value
	}
	if len(args) > 0 {
		c.name = args[0]
		c.config["name"] = args[0]
	}
	return c, nil
}

func (a *area) create() *cobra.Command {
	var (
		g       given
		w       waiting
		initial string
	)
	cmd := &cobra.Command{
		Use:   "create [CONNECTOR]",
		Short: "Create a connector",
		Long: `Create a connector of a configuration: of --file, --set, or both. A .json file has the configuration, or what POST /connectors takes; without
CONNECTOR the name is in it.`,
		Example: `  cauce connector create -f orders-to-s3.json --wait
  cauce connector create lines --set connector.class=FileStreamSource --set file=/tmp/lines.txt --set topic=lines
  jq .config saved.json | cauce connector create lines -f -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.read(&g, args)
			if err != nil {
				return err
			}
			if initial != "" {
				c.initial = initial
			}
			return a.runCreate(cmd.Context(), c, &w)
		},
	}
	g.bind(cmd)
	cmd.Flags().StringVar(&initial, "initial-state", "", "begin as `STATE`: running, paused or stopped")
	w.bind(cmd.Flags())
	return cmd
}

func (a *area) runCreate(parent context.Context, n creation, w *waiting) error {
	state := strings.ToUpper(n.initial)
	switch {
	case n.name == "":
		return exit.Usagef("the connector has no name: give one as the argument, or in the file")
	case !slices.Contains([]string{"", running, "PAUSED", "STOPPED"}, state):
		return exit.Usagef("the initial state is %q: running, paused or stopped is wanted", n.initial)
	}
	c, ctx, cancel, err := a.client(parent)
	if err != nil {
		return err
	}
	defer cancel()
	if _, err := c.Create(ctx, n.name, n.config, state); err != nil {
		return explain(ctx, c, n.name, n.config, err)
	}
	if err := a.printChanged([]changed{{n.name, "created"}}); err != nil {
		return err
	}
	if state == "" {
		state = running
	}
	return w.until(parent, c, n.name, state, nil)
}

// explain has a refused configuration checked again, which names the keys that are wrong.
func explain(ctx context.Context, c *rest.Client, name string, config rest.Config, refused error) error {
	if !rest.Is(refused, http.StatusBadRequest) || config["connector.class"] == "" {
		return fault(name, refused)
	}
	config = maps.Clone(config)
	config["name"] = name
	values, err := c.Validate(ctx, config)
	faults := wrong(values)
	if err != nil || len(faults) == 0 {
		return fault(name, refused)
	}
	all := []error{fmt.Errorf("connector %q: its configuration is refused", name)}
	for _, f := range faults {
		if !strings.Contains(f.Error, f.Key) {
			f.Error = fmt.Sprintf("%s=%s: %s", f.Key, f.Value, f.Error)
		}
		all = append(all, errors.New(f.Error))
	}
	return errors.Join(all...)
}

// refusal is what is wrong with the value of a key.
type refusal struct {
	Key   string `json:"key"`
	Value string `json:"value"` // empty for none
	Error string `json:"error"`
}

func wrong(values []rest.Value) []refusal {
	all := []refusal{}
	for _, v := range values {
		text := ""
		if v.Value != nil {
			text = *v.Value
		}
		for _, e := range v.Errors {
			all = append(all, refusal{v.Name, text, e})
		}
	}
	return all
}

func (a *area) validate() *cobra.Command {
	var g given
	cmd := &cobra.Command{
		Use:   "validate [CONNECTOR]",
		Short: "Say what is wrong with a configuration, by key, and create nothing",
		Long:  `Say what is wrong with a configuration, by key. The exit code is 1 when anything is; nothing is created or changed.`,
		Example: `  cauce connector validate -f orders-to-s3.json
  cauce connector validate lines --set connector.class=FileStreamSource --set topic=lines`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := a.read(&g, args)
			if err != nil {
				return err
			}
			return a.runValidate(cmd.Context(), n)
		},
	}
	g.bind(cmd)
	return cmd
}

func (a *area) runValidate(ctx context.Context, n creation) error {
	if n.config["connector.class"] == "" {
		return exit.Usagef("the configuration has no connector.class")
	}
	if n.name != "" {
		n.config["name"] = n.name
	}
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	values, err := c.Validate(ctx, n.config)
	if err != nil {
		return err
	}
	faults := wrong(values)
	if len(faults) > 0 || a.session.Format == output.JSON {
		if err := a.session.Print(faults, func() *output.Table {
			table := output.NewTable(output.Left("KEY"), output.Left("VALUE"), output.Left("ERROR"))
			for _, f := range faults {
				table.Row(f.Key, f.Value, f.Error)
			}
			return table
		}); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("the configuration has %d fault(s)", len(faults))
	}
	return nil
}
