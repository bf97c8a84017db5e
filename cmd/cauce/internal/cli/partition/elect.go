package partition

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/placement"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

func elect(s *session.Session) *cobra.Command {
	var unclean, all bool
	cmd := &cobra.Command{
		Use:   "elect TOPIC[:PARTITION,…]…",
		Short: "Have preferred replicas lead, or anyone where nobody does",
		Long: `Have preferred replicas lead, the first of each partition's; they must be in sync. With --unclean
partitions without a leader get one that may not be: acknowledged records that it lacks are lost.`,
		Example: `  cauce partition elect orders
  cauce partition elect --all
  cauce partition elect orders:3 --unclean`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) != all {
				return exit.Usagef("name topics, or all of them with --all")
			}
			return runElect(cmd.Context(), s, args, unclean)
		},
		ValidArgsFunction: s.CompleteTopics(0),
	}
	cmd.Flags().BoolVar(&unclean, "unclean", false, "give partitions without a leader one that may lack records")
	cmd.Flags().BoolVar(&all, "all", false, "look at all partitions")
	return cmd
}

func runElect(ctx context.Context, s *session.Session, args []string, unclean bool) error {
	client, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	var wanted []placement.Partition
	for _, arg := range args {
		topic, list, some := strings.Cut(arg, ":")
		if !some {
			assigned, err := Assigned(ctx, client, topic)
			if err != nil {
				return err
			}
			wanted = append(wanted, assigned...)
			continue
		}
		numbers, err := parseIDs(list)
		if err != nil {
			return exit.Usagef("%s: %w", arg, err)
		}
		for _, n := range numbers {
			wanted = append(wanted, placement.Partition{Topic: topic, Partition: n})
		}
	}
	done, faults := Elect(ctx, client, wanted, unclean)
	if len(done) > 0 || s.Format == output.JSON {
		err = s.Print(done, func() *output.Table {
			table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Left("RESULT"))
			for _, e := range done {
				table.Row(e.Topic, e.Partition, e.Result)
			}
			return table
		})
	}
	return errors.Join(err, faults)
}

// parseIDs reads numbers of partitions or ids of nodes: 1,2,5.
func parseIDs(list string) ([]int32, error) {
	var ids []int32
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || n < 0 {
			return nil, exit.Usagef("%q is not a number", word)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}
