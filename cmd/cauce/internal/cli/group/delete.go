package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type deleted struct {
	Group     string `json:"group"`
	Topic     string `json:"topic,omitempty"`     // where only offsets were to be deleted
	Partition *int32 `json:"partition,omitempty"` // likewise
	Result    string `json:"result"`              // deleted, missing
}

type deletion struct {
	session  *session.Session
	offsets  scope
	ifExists bool
}

func remove(s *session.Session) *cobra.Command {
	d := &deletion{session: s}
	cmd := &cobra.Command{
		Use:     "delete GROUP…",
		Aliases: []string{"rm"},
		Short:   "Delete groups without members, or some of their offsets",
		Example: `  cauce group delete orders-app --if-exists
  cauce group delete orders-app --offsets clicks --offsets orders:3`,
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(cmd *cobra.Command, groups []string) error { return d.run(cmd.Context(), groups) },
		ValidArgsFunction: s.CompleteGroups(0),
	}
	cmd.Flags().Var(&d.offsets, "offsets", "delete only the committed offsets of this topic, or of these partitions of it; may be repeated")
	cmd.Flags().BoolVar(&d.ifExists, "if-exists", false, "succeed for groups that do not exist")
	return cmd
}

func (d *deletion) run(ctx context.Context, groups []string) error {
	admin, err := d.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := d.session.Bounded(ctx)
	defer cancel()
	if len(d.offsets.topics) == 0 {
		return d.deleteGroups(ctx, admin, groups)
	}
	partitions, err := d.offsets.partitions(ctx, admin)
	if err != nil {
		return err
	}
	done := []deleted{}
	var faults []error
	for _, group := range groups {
		some, err := d.deleteOffsets(ctx, admin, group, partitions)
		done, faults = append(done, some...), append(faults, err)
	}
	return errors.Join(append([]error{d.print(done)}, faults...)...)
}

func (d *deletion) deleteGroups(ctx context.Context, admin *kadm.Client, groups []string) error {
	answers, fail := admin.DeleteGroups(ctx, groups...)
	done := []deleted{}
	var faults []error
	for _, group := range groups {
		answer, ok := answers[group]
		err := answer.Err
		if !ok {
			err = cmp.Or(fail, errors.New("the cluster did not answer for this group"))
		}
		switch {
		case err == nil:
			done = append(done, deleted{Group: group, Result: "deleted"})
		case d.ifExists && errors.Is(err, kerr.GroupIDNotFound):
			done = append(done, deleted{Group: group, Result: "missing"})
		default:
			faults = append(faults, fault(group, err, answer.ErrMessage))
		}
	}
	return errors.Join(append([]error{d.print(done)}, faults...)...)
}

func (d *deletion) deleteOffsets(ctx context.Context, admin *kadm.Client, group string, partitions []position.Partition) ([]deleted, error) {
	set := make(kadm.TopicsSet)
	for _, p := range partitions {
		set.Add(p.Topic, p.ID)
	}
	answers, err := admin.DeleteOffsets(ctx, group, set)
	if d.ifExists && errors.Is(err, kerr.GroupIDNotFound) {
		return []deleted{{Group: group, Result: "missing"}}, nil
	}
	if err != nil {
		return nil, fault(group, err, "")
	}
	var done []deleted
	var faults []error
	for _, p := range partitions {
		answer, ok := answers.Lookup(p.Topic, p.ID)
		if !ok {
			answer = errors.New("the cluster did not answer for this partition")
		}
		if answer == nil {
			done = append(done, deleted{group, p.Topic, &p.ID, "deleted"})
			continue
		}
		message := ""
		if errors.Is(answer, kerr.GroupSubscribedToTopic) {
			message = "members subscribe to the topic: stop them first"
		}
		faults = append(faults, fmt.Errorf("group %q, %s: %w", group, p, exit.Answer(answer, message)))
	}
	return done, errors.Join(faults...)
}

func (d *deletion) print(done []deleted) error {
	if len(done) == 0 && d.session.Format == output.Tabular {
		return nil
	}
	return d.session.Print(done, func() *output.Table {
		if len(d.offsets.topics) == 0 {
			table := output.NewTable(output.Left("GROUP"), output.Left("RESULT"))
			for _, g := range done {
				table.Row(g.Group, g.Result)
			}
			return table
		}
		table := output.NewTable(output.Left("GROUP"), output.Left("TOPIC"), output.Right("PARTITION"), output.Left("RESULT"))
		for _, g := range done {
			partition := int32(-1)
			if g.Partition != nil {
				partition = *g.Partition
			}
			table.Row(g.Group, g.Topic, known(partition), g.Result)
		}
		return table
	})
}
