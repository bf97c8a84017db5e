package group

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type progress struct {
	Group   string            `json:"group"`
	State   string            `json:"state"`
	Lag     int64             `json:"lag"` // of the partitions for which it is known
	Offsets []snapshot.Offset `json:"offsets"`
}

func offsets(s *session.Session) *cobra.Command {
	var w watch
	cmd := &cobra.Command{
		Use:     "offsets GROUP…",
		Aliases: []string{"lag"},
		Short:   "Show committed offsets, lag and owner of each partition",
		Example: `  cauce group offsets orders-app
  cauce group offsets orders-app audit --watch`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			admin, err := s.Admin(cmd.Context())
			if err != nil {
				return err
			}
			defer admin.Close()
			return w.run(cmd.Context(), s, func(ctx context.Context, s *session.Session) error {
				all, err := progressOf(ctx, admin, ids)
				return errors.Join(printEach(s, all, writeProgress), err)
			})
		},
		ValidArgsFunction: s.CompleteGroups(0),
	}
	w.bind(cmd.Flags())
	return cmd
}

func progressOf(ctx context.Context, admin *kadm.Client, ids []string) ([]progress, error) {
	groups, faults := snapshot.Describe(ctx, admin, ids...)
	var all []progress
	for _, group := range groups {
		list, err := snapshot.Offsets(ctx, admin, group)
		if err != nil {
			faults[group.ID] = fmt.Errorf("offsets: %w", err)
			continue
		}
		p := progress{Group: group.ID, State: group.State, Offsets: list}
		for _, o := range list {
			p.Lag += max(0, o.Lag)
		}
		all = append(all, p)
	}
	return all, inOrder(ids, faults)
}

func writeProgress(w io.Writer, p progress) error {
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Group", p.Group)
	fields.Row("State", p.State)
	fields.Row("Lag", p.Lag)
	if err := fields.Write(w); err != nil || len(p.Offsets) == 0 {
		return err
	}
	fmt.Fprintln(w)
	table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Right("COMMITTED"), output.Right("START"), output.Right("END"), output.Right("LAG"),
		output.Right("EPOCH"), output.Left("MEMBER"), output.Left("CLIENT"), output.Left("HOST"), output.Left("METADATA"))
	for _, o := range p.Offsets {
		table.Row(o.Topic, o.Partition, known(o.Committed), known(o.Start), known(o.End), known(o.Lag), known(o.LeaderEpoch), o.Member, o.ClientID, o.Host, o.Metadata)
	}
	return table.Write(w)
}
