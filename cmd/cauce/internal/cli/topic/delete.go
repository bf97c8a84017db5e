package topic

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type deleted struct {
	Topic  string `json:"topic"`
	Result string `json:"result"` // deleted, missing
}

type deletion struct {
	session  *session.Session
	ifExists bool
}

func remove(s *session.Session) *cobra.Command {
	d := &deletion{session: s}
	cmd := &cobra.Command{
		Use:               "delete TOPIC…",
		Aliases:           []string{"rm"},
		Short:             "Delete topics and all their records",
		Example:           "  cauce topic delete orders clicks --if-exists",
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(cmd *cobra.Command, topics []string) error { return d.run(cmd.Context(), topics) },
		ValidArgsFunction: s.CompleteTopics(0),
	}
	cmd.Flags().BoolVar(&d.ifExists, "if-exists", false, "succeed for topics that do not exist")
	return cmd
}

func (d *deletion) run(ctx context.Context, topics []string) error {
	admin, err := d.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := d.session.Bounded(ctx)
	defer cancel()
	answers, err := admin.DeleteTopics(ctx, topics...)
	if err != nil {
		return fault(topics[0], err, "")
	}
	done := []deleted{}
	var faults []error
	for _, topic := range topics {
		answer, err := answers.On(topic, nil)
		err = cmp.Or(err, answer.Err)
		switch {
		case err == nil:
			done = append(done, deleted{topic, "deleted"})
		case d.ifExists && errors.Is(err, kerr.UnknownTopicOrPartition):
			done = append(done, deleted{topic, "missing"})
		default:
			faults = append(faults, fault(topic, err, answer.ErrMessage))
		}
	}
	return errors.Join(append([]error{d.print(done)}, faults...)...)
}

func (d *deletion) print(done []deleted) error {
	if len(done) == 0 && d.session.Format == output.Tabular {
		return nil
	}
	return d.session.Print(done, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Left("RESULT"))
		for _, t := range done {
			table.Row(t.Topic, t.Result)
		}
		return table
	})
}
