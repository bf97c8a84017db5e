package plugins

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/plugin/host"
)

type listed struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Doc     string `json:"doc"`
	State   string `json:"state"` // ok, shadowed, failed
	Fault   string `json:"fault,omitempty"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
}

type listing struct {
	session *session.Session
	folders []string
}

func list(s *session.Session) *cobra.Command {
	l := &listing{session: s}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the plugins in folders",
		Long: `Start each program in --plugin-path for a moment and list what it offers. Of several plugins of one kind and name the
first counts; the others are shadowed. What a node runs, GET /plugins of its admin address tells.`,
		Example: `  cauce plugin list
  cauce plugin list --plugin-path /opt/cauce/plugins -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	cmd.Flags().StringSliceVar(&l.folders, "plugin-path", nil, "the `DIRS` to look in (default plugins beside this program)")
	return cmd
}

func (l *listing) run(ctx context.Context) error {
	if len(l.folders) == 0 {
		l.folders = []string{defaultFolder()}
	}
	h, err := host.New(host.Config{Path: l.folders}, host.Deps{})
	if err != nil {
		return err
	}
	err = h.Refresh(ctx)
	found := []listed{}
	for _, p := range h.List() {
		row := listed{Kind: p.Kind, Name: p.Name, Version: p.Version, Doc: p.Doc, State: p.State, Fault: p.Fault, Path: p.Path, SHA256: p.SHA256}
		if p.State == "running" {
			row.State = "ok"
		}
		found = append(found, row)
	}
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	return l.session.Print(found, func() *output.Table {
		table := output.NewTable(output.Left("KIND"), output.Left("NAME"), output.Left("VERSION"), output.Left("STATE"), output.Left("PATH"), output.Left("ABOUT"))
		for _, p := range found {
			about := p.Doc
			if p.Fault != "" {
				about = p.Fault
			}
			table.Row(p.Kind, p.Name, p.Version, p.State, p.Path, about)
		}
		return table
	})
}
