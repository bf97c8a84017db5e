package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

func describe(s *session.Session) *cobra.Command {
	var w watch
	cmd := &cobra.Command{
		Use:     "describe GROUP…",
		Aliases: []string{"get"},
		Short:   "Show state, assignor, coordinator, members and what they own",
		Example: `  cauce group describe orders-app
  cauce group describe orders-app --watch=1s`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			admin, err := s.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			return w.run(cmd.Context(), s, func(ctx context.Context, s *session.Session) error {
				groups, faults := snapshot.Describe(ctx, admin, ids...)
				return errors.Join(printEach(s, groups, writeGroup), inOrder(ids, faults))
			})
		},
		ValidArgsFunction: s.CompleteGroups(0),
	}
	w.bind(cmd.Flags())
	return cmd
}

// inOrder joins the faults of groups in the order in which they were asked for, each once.
func inOrder(ids []string, faults map[string]error) error {
	var all []error
	for i, id := range ids {
		if err := faults[id]; err != nil && slices.Index(ids, id) == i {
			all = append(all, fault(id, err, ""))
		}
	}
	return errors.Join(all...)
}

// printEach prints results below each other, or as one JSON list. It prints nothing of nothing.
func printEach[T any](s *session.Session, all []T, write func(io.Writer, T) error) error {
	if len(all) == 0 {
		return nil
	}
	if s.Format == output.JSON {
		return output.WriteJSON(s.Out, all)
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := write(s.Out, one); err != nil {
			return err
		}
	}
	return nil
}

func writeGroup(w io.Writer, g snapshot.Group) error {
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Group", g.ID)
	fields.Row("State", g.State)
	fields.Row("Type", g.Type)
	fields.Row("Protocol", g.ProtocolType)
	fields.Row("Assignor", g.Assignor)
	if g.Type == snapshot.Consumer {
		fields.Row("Epoch", g.Epoch)
		fields.Row("Assignment epoch", g.AssignmentEpoch)
	}
	fields.Row("Coordinator", fmt.Sprintf("%d (%s)", g.Coordinator.ID, net.JoinHostPort(g.Coordinator.Host, strconv.Itoa(int(g.Coordinator.Port)))))
	fields.Row("Members", len(g.Members))
	if err := fields.Write(w); err != nil || len(g.Members) == 0 {
		return err
	}
	fmt.Fprintln(w)
	columns := []output.Column{output.Left("MEMBER"), output.Left("CLIENT"), output.Left("HOST"), output.Left("INSTANCE"), output.Left("OWNS")}
	if g.Type == snapshot.Consumer {
		columns = append(columns, output.Right("EPOCH"), output.Left("TO GIVE UP"), output.Left("TO COME"), output.Left("RACK"))
	}
	table := output.NewTable(columns...)
	for _, m := range g.Members {
		row := []any{m.ID, m.ClientID, m.Host, m.InstanceID, m.Assigned}
		if g.Type == snapshot.Consumer {
			row = append(row, m.Epoch, m.Assigned.Without(m.Target), m.Target.Without(m.Assigned), m.Rack)
		}
		table.Row(row...)
	}
	return table.Write(w)
}
