package topic

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/keyvalue"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type altered struct {
	Topic  string `json:"topic"`
	Change string `json:"change"`
	Result string `json:"result"` // altered, valid
}

type alteration struct {
	session    *session.Session
	partitions int
	set        keyvalue.List
	unset      []string
	dryRun     bool
}

func alter(s *session.Session) *cobra.Command {
	a := &alteration{session: s}
	cmd := &cobra.Command{
		Use:   "alter TOPIC…",
		Short: "Add partitions, set and unset configs",
		Example: `  cauce topic alter orders --partitions 24
  cauce topic alter orders -c retention.ms=86400000 --unset compression.type`,
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(cmd *cobra.Command, topics []string) error { return a.run(cmd.Context(), topics) },
		ValidArgsFunction: s.CompleteTopics(0),
	}
	flags := cmd.Flags()
	flags.IntVarP(&a.partitions, "partitions", "p", 0, "grow to `N` partitions in all")
	flags.VarP(&a.set, "config", "c", "set the topic config `key=value`; may be repeated")
	flags.StringSliceVar(&a.unset, "unset", nil, "go back to the default of the topic config `KEY`; may be repeated")
	flags.BoolVar(&a.dryRun, "dry-run", false, "have the cluster check the request without changing anything")
	return cmd
}

func (a *alteration) run(ctx context.Context, topics []string) error {
	if a.partitions < 0 {
		return exit.Usagef("--partitions %d: must be positive", a.partitions)
	}
	if a.partitions == 0 && a.set.Len() == 0 && len(a.unset) == 0 {
		return exit.Usagef("nothing to alter: give --partitions, --config or --unset")
	}
	admin, err := a.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := a.session.Bounded(ctx)
	defer cancel()

	var done []altered
	var faults []error
	if a.set.Len() > 0 || len(a.unset) > 0 {
		changed, err := a.alterConfigs(ctx, admin, topics)
		done, faults = append(done, changed...), append(faults, err)
	}
	if a.partitions > 0 {
		changed, err := a.alterPartitions(ctx, admin, topics)
		done, faults = append(done, changed...), append(faults, err)
	}
	return errors.Join(append([]error{a.print(done)}, faults...)...)
}

func (a *alteration) result() string {
	if a.dryRun {
		return "valid"
	}
	return "altered"
}

func (a *alteration) alterConfigs(ctx context.Context, admin *kadm.Client, topics []string) ([]altered, error) {
	var changes []kadm.AlterConfig
	for key, value := range a.set.All() {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	for _, key := range a.unset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
	}
	send := admin.AlterTopicConfigs
	if a.dryRun {
		send = admin.ValidateAlterTopicConfigs
	}
	answers, err := send(ctx, changes, topics...)
	if err != nil {
		return nil, fault(topics[0], err, "")
	}
	var done []altered
	var faults []error
	for _, topic := range topics {
		answer, err := answers.On(topic, nil)
		if err = cmp.Or(err, answer.Err); err != nil {
			faults = append(faults, fault(topic, err, answer.ErrMessage))
			continue
		}
		done = append(done, altered{topic, "configs", a.result()})
	}
	return done, errors.Join(faults...)
}

func (a *alteration) alterPartitions(ctx context.Context, admin *kadm.Client, topics []string) ([]altered, error) {
	send := admin.UpdatePartitions
	if a.dryRun {
		send = admin.ValidateUpdatePartitions
	}
	answers, err := send(ctx, a.partitions, topics...)
	if err != nil {
		return nil, fault(topics[0], err, "")
	}
	var done []altered
	var faults []error
	for _, topic := range topics {
		answer, err := answers.On(topic, nil)
		if err = cmp.Or(err, answer.Err); err != nil {
			faults = append(faults, fault(topic, err, answer.ErrMessage))
			continue
		}
		done = append(done, altered{topic, "partitions", a.result()})
	}
	return done, errors.Join(faults...)
}

func (a *alteration) print(done []altered) error {
	if len(done) == 0 && a.session.Format == output.Tabular {
		return nil
	}
	return a.session.Print(append([]altered{}, done...), func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Left("CHANGE"), output.Left("RESULT"))
		for _, d := range done {
			table.Row(d.Topic, d.Change, d.Result)
		}
		return table
	})
}
