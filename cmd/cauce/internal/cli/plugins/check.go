package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
)

type checked struct {
	Plugin string  `json:"plugin"`
	Check  string  `json:"check"`
	Result string  `json:"result"` // ok, FAILED
	Millis float64 `json:"ms"`
	Detail string  `json:"detail,omitempty"` // the fault, or a figure
}

type checking struct {
	session *session.Session
	skip    []string
	config  map[string]string // of connectors
}

// names are those of all checks of any kind of plugin.
func names() []string {
	all := slices.Concat(kit.Names(), kit.SourceNames(), kit.SinkNames())
	slices.Sort(all)
	return slices.Compact(all)
}

func test(s *session.Session) *cobra.Command {
	c := &checking{session: s}
	cmd := &cobra.Command{
		Use:   "test DIR|BINARY",
		Short: "Hold the assignors and connectors of a running plugin against what is expected of them",
		Long: `Build DIR, or take BINARY, start it as Cauce does, and run the conformance kit on each assignor that it offers:
` + strings.Join(kit.Names(), ", ") + `; on each source: ` + strings.Join(kit.SourceNames(), ", ") + `; and on each sink:
` + strings.Join(kit.SinkNames(), ", ") + `. Connectors are given the configuration of --set, by which sources must have something to
read; sinks are put texts. The exit code is 1 when a check fails.`,
		Example: `  cauce plugin test tenant-aware
  cauce plugin test bin/plugins/cauce-assignors
  cauce plugin test my-connector --set topic=orders --set file=orders.txt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringSliceVar(&c.skip, "skip", nil, "leave out these `CHECKS`")
	cmd.Flags().StringToStringVar(&c.config, "set", nil, "configure connectors by `KEY=VALUE`; repeatable")
	return cmd
}

func (c *checking) run(ctx context.Context, path string) (err error) {
	for _, name := range c.skip {
		if !slices.Contains(names(), name) {
			return exit.Usagef("--skip %s: the checks are %s", name, strings.Join(names(), ", "))
		}
	}
	temporary, err := workshop(c.session)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temporary.Remove()) }()
	binary, err := program(ctx, c.session, path, temporary.Path)
	if err != nil {
		return err
	}
	h, err := host.New(host.Config{Path: []string{binary}, CallTimeout: time.Minute}, host.Deps{})
	if err != nil {
		return err
	}
	results, err := c.checkAll(ctx, h)
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	if err := c.print(results); err != nil {
		return err
	}
	if failed := slices.ContainsFunc(results, func(r checked) bool { return r.Result != "ok" }); failed {
		return fmt.Errorf("%s does not do what is expected of it", path)
	}
	return ctx.Err()
}

func (c *checking) checkAll(ctx context.Context, h *host.Host) ([]checked, error) {
	if err := h.Refresh(ctx); err != nil {
		return nil, err
	}
	results := []checked{}
	for _, p := range h.List() {
		if p.Fault != "" {
			return nil, errors.New(p.Fault)
		}
		found, err := c.check(ctx, h, p)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			row := checked{Plugin: p.Name, Check: r.Name, Result: "ok", Millis: float64(r.Took.Microseconds()) / 1000, Detail: r.Note}
			if r.Fault != nil {
				row.Result, row.Detail = "FAILED", r.Fault.Error()
			}
			results = append(results, row)
		}
	}
	if len(results) == 0 {
		return nil, errors.New("it offers neither an assignor nor a connector: there is nothing to check")
	}
	return results, nil
}

// check runs the kit on one plugin, of a kind that the kit has checks for.
func (c *checking) check(ctx context.Context, h *host.Host, p host.Status) ([]kit.Result, error) {
	if p.Kind == "assignor" {
		assign := func(ctx context.Context, r *plugin.Request) (plugin.Response, error) { return h.Assign(ctx, p.Name, r) }
		return kit.Check(ctx, assign, c.skip), nil
	}
	if p.Kind != "source" && p.Kind != "sink" {
		return nil, nil
	}
	connector, err := h.Connector(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	given := kit.Case{Config: c.config, Skip: c.skip}
	if connector.Source {
		return kit.CheckSource(ctx, connector, given), nil
	}
	return kit.CheckSink(ctx, connector, given), nil
}

func (c *checking) print(results []checked) error {
	return c.session.Print(results, func() *output.Table {
		table := output.NewTable(output.Left("PLUGIN"), output.Left("CHECK"), output.Left("RESULT"), output.Right("MS"), output.Left("DETAIL"))
		for _, r := range results {
			table.Row(r.Plugin, r.Check, r.Result, fmt.Sprintf("%.1f", r.Millis), r.Detail)
		}
		return table
	})
}
