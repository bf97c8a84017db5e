package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

type listed struct {
	Connector string `json:"connector"`
	Type      string `json:"type"`
	State     string `json:"state"` // of the connector, not of its tasks
	Tasks     int    `json:"tasks"`
	Running   int    `json:"running"`
	Failed    int    `json:"failed"`
	Worker    string `json:"worker,omitempty"`
	Class     string `json:"class"`
}

func (a *area) list() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List connectors, and how many of their tasks run",
		Example: "  cauce connector list",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context()) },
	}
}

func (a *area) runList(ctx context.Context) error {
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	// What has not run yet is in the first answer only.
	names, err := c.Connectors(ctx)
	if err != nil {
		return err
	}
	expanded, err := c.Expanded(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names)
	all := []listed{}
	for _, name := range names {
		all = append(all, summary(name, expanded[name]))
	}
	return a.session.Print(all, func() *output.Table {
		table := output.NewTable(output.Left("CONNECTOR"), output.Left("TYPE"), output.Left("STATE"), output.Right("TASKS"), output.Right("RUNNING"), output.Right("FAILED"),
			output.Left("WORKER"), output.Left("CLASS"))
		for _, l := range all {
			table.Row(l.Connector, l.Type, l.State, l.Tasks, l.Running, l.Failed, l.Worker, l.Class)
		}
		return table
	})
}

func summary(name string, e rest.Expanded) listed {
	l := listed{Connector: name, Type: e.Info.Type, State: e.Status.Connector.State, Tasks: len(e.Status.Tasks), Worker: e.Status.Connector.Worker, Class: e.Info.Config["connector.class"]}
	for _, task := range e.Status.Tasks {
		switch task.State.State {
		case running:
			l.Running++
		case failed:
			l.Failed++
		}
	}
	return l
}

func (a *area) status() *cobra.Command {
	return &cobra.Command{
		Use:               "status CONNECTOR…",
		Aliases:           []string{"describe"},
		Short:             "Show the state of connectors and of each task, and why what failed has failed",
		Example:           "  cauce connector status orders-to-s3",
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(cmd *cobra.Command, names []string) error { return a.runStatus(cmd.Context(), names) },
		ValidArgsFunction: a.complete(0),
	}
}

func (a *area) runStatus(ctx context.Context, names []string) error {
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	all := []rest.Status{}
	var faults []error
	for _, name := range names {
		s, err := c.Status(ctx, name)
		if err != nil {
			faults = append(faults, fault(name, err))
			continue
		}
		slices.SortFunc(s.Tasks, func(a, b rest.TaskState) int { return a.ID - b.ID })
		all = append(all, s)
	}
	return errors.Join(append([]error{a.printStatus(all)}, faults...)...)
}

func (a *area) printStatus(all []rest.Status) error {
	if len(all) == 0 {
		return nil
	}
	if a.session.Format == output.JSON {
		return output.WriteJSON(a.session.Out, all)
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(a.session.Out)
		}
		if err := writeStatus(a.session.Out, s); err != nil {
			return err
		}
	}
	return nil
}

func writeStatus(w io.Writer, s rest.Status) error {
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Connector", s.Name)
	fields.Row("Type", s.Type)
	fields.Row("State", s.Connector.State)
	fields.Row("Worker", s.Connector.Worker)
	fields.Row("Version", s.Connector.Version)
	if err := fields.Write(w); err != nil {
		return err
	}
	if len(s.Tasks) > 0 {
		fmt.Fprintln(w)
		table := output.NewTable(output.Right("TASK"), output.Left("STATE"), output.Left("WORKER"), output.Left("VERSION"))
		for _, task := range s.Tasks {
			table.Row(task.ID, task.State.State, task.Worker, task.Version)
		}
		if err := table.Write(w); err != nil {
			return err
		}
	}
	for _, why := range traces(s) {
		fmt.Fprintf(w, "\n%s\n", why)
	}
	return nil
}

// traces are why a connector and its tasks have failed, as far as they have.
func traces(s rest.Status) []string {
	var all []string
	add := func(what string, state rest.State) {
		if state.State != failed {
			return
		}
		why := strings.TrimSpace(state.Trace)
		if why == "" {
			why = "no reason was given"
		}
		all = append(all, fmt.Sprintf("%s FAILED: %s", what, why))
	}
	add("connector "+s.Name, s.Connector)
	for _, task := range s.Tasks {
		add(fmt.Sprintf("task %d of %s", task.ID, s.Name), task.State)
	}
	return all
}
