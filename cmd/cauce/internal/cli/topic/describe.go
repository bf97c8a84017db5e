package topic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type described struct {
	listed
	Configs map[string]string `json:"configs"` // what was set on the topic itself
	Detail  []partition       `json:"partition_details"`
}

type partition struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"` // -1: none
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline"`
	Start       int64   `json:"start_offset"` // -1: unknown
	End         int64   `json:"end_offset"`   // -1: unknown
	Bytes       int64   `json:"bytes"`        // on the leader's disk; -1: unknown
}

type description struct {
	session *session.Session
	admin   *kadm.Client
	starts  kadm.ListedOffsets
	ends    kadm.ListedOffsets
	dirs    kadm.DescribedAllLogDirs
	configs map[string]map[string]string
}

func describe(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "describe TOPIC…",
		Aliases: []string{"get"},
		Short:   "Show partitions, leaders, offsets, sizes and what is configured",
		Example: "  cauce topic describe orders",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, topics []string) error {
			return (&description{session: s}).run(cmd.Context(), topics)
		},
		ValidArgsFunction: s.CompleteTopics(0),
	}
}

func (d *description) run(ctx context.Context, topics []string) error {
	admin, err := d.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	d.admin = admin
	ctx, cancel := d.session.Bounded(ctx)
	defer cancel()

	details, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return fault(strings.Join(topics, ", "), err, "")
	}
	var present []string
	var faults []error
	for _, topic := range topics {
		if err := details[topic].Err; err != nil {
			faults = append(faults, fault(topic, err, ""))
		} else {
			present = append(present, topic)
		}
	}
	if len(present) == 0 {
		return errors.Join(faults...)
	}
	if err := d.load(ctx, details, present); err != nil {
		return err
	}
	result := make([]described, len(present))
	for i, topic := range present {
		result[i] = d.join(details[topic])
	}
	return errors.Join(append([]error{d.print(result)}, faults...)...)
}

// load asks for what metadata does not tell. Offsets and sizes are shown as unknown where a leader
// or a disk does not answer: describing a cluster in trouble is what the command is for.
func (d *description) load(ctx context.Context, details kadm.TopicDetails, topics []string) error {
	d.starts, _ = d.admin.ListStartOffsets(ctx, topics...)
	d.ends, _ = d.admin.ListEndOffsets(ctx, topics...)
	set := make(kadm.TopicsSet)
	for _, topic := range topics {
		set.Add(topic, details[topic].Partitions.Numbers()...)
	}
	d.dirs, _ = d.admin.DescribeAllLogDirs(ctx, set)

	resources, err := d.admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return fmt.Errorf("describe configs of %s: %w", strings.Join(topics, ", "), err)
	}
	d.configs = make(map[string]map[string]string)
	for _, resource := range resources {
		if resource.Err != nil {
			return fault(resource.Name, resource.Err, resource.ErrMessage)
		}
		set := make(map[string]string)
		for _, config := range resource.Configs {
			if config.Source == kmsg.ConfigSourceDynamicTopicConfig {
				set[config.Key] = config.MaybeValue()
			}
		}
		d.configs[resource.Name] = set
	}
	return nil
}

func (d *description) join(detail kadm.TopicDetail) described {
	result := described{listed: summarize(detail), Configs: d.configs[detail.Topic]}
	for _, p := range detail.Partitions.Sorted() {
		result.Detail = append(result.Detail, partition{
			Partition:   p.Partition,
			Leader:      p.Leader,
			LeaderEpoch: p.LeaderEpoch,
			Replicas:    p.Replicas,
			ISR:         p.ISR,
			Offline:     append([]int32{}, p.OfflineReplicas...),
			Start:       offset(d.starts, p),
			End:         offset(d.ends, p),
			Bytes:       d.size(p),
		})
	}
	return result
}

func offset(offsets kadm.ListedOffsets, p kadm.PartitionDetail) int64 {
	if listed, ok := offsets.Lookup(p.Topic, p.Partition); ok && listed.Err == nil {
		return listed.Offset
	}
	return -1
}

func (d *description) size(p kadm.PartitionDetail) int64 {
	if on, ok := d.dirs[p.Leader].LookupPartition(p.Topic, p.Partition); ok {
		return on.Size
	}
	return -1
}

func (d *description) print(topics []described) error {
	if d.session.Format == output.JSON {
		return output.WriteJSON(d.session.Out, topics)
	}
	for i, topic := range topics {
		if i > 0 {
			fmt.Fprintln(d.session.Out)
		}
		if err := topic.write(d.session.Out); err != nil {
			return err
		}
	}
	return nil
}

func (t described) write(w io.Writer) error {
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Topic", t.Topic)
	fields.Row("ID", t.ID)
	fields.Row("Partitions", t.Partitions)
	fields.Row("Replication", t.Replication)
	fields.Row("Health", health(t.listed))
	fields.Row("Configs", sorted(t.Configs))
	if err := fields.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	table := output.NewTable(output.Right("PARTITION"), output.Right("LEADER"), output.Right("EPOCH"), output.Left("REPLICAS"), output.Left("ISR"),
		output.Right("START"), output.Right("END"), output.Right("SIZE"))
	for _, p := range t.Detail {
		table.Row(p.Partition, count(p.Leader), count(p.LeaderEpoch), ids(p.Replicas), ids(p.ISR), known(p.Start), known(p.End), output.Bytes(p.Bytes))
	}
	return table.Write(w)
}
