package topic

import (
	"context"
	"fmt"
	"path"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type listed struct {
	Topic           string `json:"topic"`
	ID              string `json:"id,omitempty"`
	Partitions      int    `json:"partitions"`
	Replication     int    `json:"replication"`
	Internal        bool   `json:"internal"`
	UnderReplicated int    `json:"under_replicated"` // partitions with fewer in-sync replicas than replicas
	Leaderless      int    `json:"leaderless"`       // partitions without a leader
}

type listing struct {
	session  *session.Session
	internal bool
	quiet    bool
}

func list(s *session.Session) *cobra.Command {
	l := &listing{session: s}
	cmd := &cobra.Command{
		Use:     "list [PATTERN]",
		Aliases: []string{"ls"},
		Short:   "List topics",
		Example: `  cauce topic list
  cauce topic list 'orders-*' -q`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			return l.run(cmd.Context(), pattern)
		},
		ValidArgsFunction: s.CompleteTopics(1),
	}
	cmd.Flags().BoolVar(&l.internal, "internal", false, "list internal topics too")
	cmd.Flags().BoolVarP(&l.quiet, "quiet", "q", false, "print names only, one per line")
	return cmd
}

func (l *listing) run(ctx context.Context, pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return exit.Usagef("pattern %q: %w", pattern, err)
	}
	admin, err := l.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := l.session.Bounded(ctx)
	defer cancel()
	details, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", exit.Answer(err, ""))
	}
	found := []listed{}
	for _, detail := range details.Sorted() {
		if match, _ := path.Match(pattern, detail.Topic); match && (l.internal || !detail.IsInternal) {
			found = append(found, summarize(detail))
		}
	}
	return l.print(found)
}

func summarize(detail kadm.TopicDetail) listed {
	summary := listed{Topic: detail.Topic, ID: uuid(detail.ID), Partitions: len(detail.Partitions), Internal: detail.IsInternal}
	for _, partition := range detail.Partitions {
		summary.Replication = max(summary.Replication, len(partition.Replicas))
		if len(partition.ISR) < len(partition.Replicas) {
			summary.UnderReplicated++
		}
		if partition.Leader < 0 {
			summary.Leaderless++
		}
	}
	return summary
}

func (l *listing) print(found []listed) error {
	if l.quiet && l.session.Format == output.Tabular {
		for _, topic := range found {
			if _, err := fmt.Fprintln(l.session.Out, topic.Topic); err != nil {
				return err
			}
		}
		return nil
	}
	return l.session.Print(found, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITIONS"), output.Right("REPLICATION"), output.Left("HEALTH"), output.Left("ID"))
		for _, topic := range found {
			table.Row(topic.Topic, topic.Partitions, topic.Replication, health(topic), topic.ID)
		}
		return table
	})
}

func health(topic listed) string {
	switch {
	case topic.Leaderless > 0:
		return fmt.Sprintf("%d without leader", topic.Leaderless)
	case topic.UnderReplicated > 0:
		return fmt.Sprintf("%d under-replicated", topic.UnderReplicated)
	}
	return "ok"
}
