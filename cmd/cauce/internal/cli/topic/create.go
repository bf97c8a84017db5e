package topic

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/keyvalue"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type created struct {
	Topic       string `json:"topic"`
	ID          string `json:"id,omitempty"`
	Partitions  int32  `json:"partitions"`
	Replication int16  `json:"replication"`
	Result      string `json:"result"` // created, exists, valid
}

type creation struct {
	session     *session.Session
	partitions  int32
	replication int16
	configs     keyvalue.List
	ifNotExists bool
	dryRun      bool
}

func create(s *session.Session) *cobra.Command {
	c := &creation{session: s}
	cmd := &cobra.Command{
		Use:   "create TOPIC…",
		Short: "Create topics",
		Example: `  cauce topic create orders
  cauce topic create clicks views -p 12 -c retention.ms=3600000 -c compression.type=zstd
  cauce topic create orders --if-not-exists`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, topics []string) error { return c.run(cmd.Context(), topics) },
	}
	flags := cmd.Flags()
	flags.Int32VarP(&c.partitions, "partitions", "p", -1, "`N` partitions (-1: the cluster's num.partitions)")
	flags.Int16VarP(&c.replication, "replication", "r", -1, "`N` replicas of each partition (-1: the cluster's default.replication.factor)")
	flags.VarP(&c.configs, "config", "c", "topic config `key=value`; may be repeated")
	flags.BoolVar(&c.ifNotExists, "if-not-exists", false, "leave topics that exist alone and succeed")
	flags.BoolVar(&c.dryRun, "dry-run", false, "have the cluster check the request without creating anything")
	return cmd
}

func (c *creation) run(ctx context.Context, topics []string) error {
	if c.partitions == 0 || c.partitions < -1 {
		return exit.Usagef("--partitions %d: must be positive, or -1 for the cluster's default", c.partitions)
	}
	if c.replication == 0 || c.replication < -1 {
		return exit.Usagef("--replication %d: must be positive, or -1 for the cluster's default", c.replication)
	}
	configs := make(map[string]*string)
	for key, value := range c.configs.All() {
		configs[key] = &value
	}
	admin, err := c.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := c.session.Bounded(ctx)
	defer cancel()

	send := admin.CreateTopics
	if c.dryRun {
		send = admin.ValidateCreateTopics
	}
	answers, err := send(ctx, c.partitions, c.replication, configs, topics...)
	if err != nil {
		return fault(topics[0], err, "")
	}
	return c.report(topics, answers)
}

func (c *creation) report(topics []string, answers kadm.CreateTopicResponses) error {
	done := []created{}
	var faults []error
	for _, topic := range topics {
		answer, _ := answers.On(topic, nil)
		result := created{topic, uuid(answer.ID), answer.NumPartitions, answer.ReplicationFactor, "created"}
		switch {
		case answer.Topic == "":
			faults = append(faults, fault(topic, errors.New("the cluster did not answer for this topic"), ""))
			continue
		case c.ifNotExists && errors.Is(answer.Err, kerr.TopicAlreadyExists):
			result = created{Topic: topic, Partitions: -1, Replication: -1, Result: "exists"}
		case answer.Err != nil:
			faults = append(faults, fault(topic, answer.Err, answer.ErrMessage))
			continue
		case c.dryRun:
			result.ID, result.Result = "", "valid"
		}
		done = append(done, result)
	}
	return errors.Join(append([]error{c.print(done)}, faults...)...)
}

func (c *creation) print(done []created) error {
	if len(done) == 0 && c.session.Format == output.Tabular {
		return nil
	}
	return c.session.Print(done, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Left("RESULT"), output.Right("PARTITIONS"), output.Right("REPLICATION"), output.Left("ID"))
		for _, d := range done {
			table.Row(d.Topic, d.Result, count(d.Partitions), count(int32(d.Replication)), d.ID)
		}
		return table
	})
}
