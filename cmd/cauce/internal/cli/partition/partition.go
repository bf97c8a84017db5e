// Package partition holds the commands under `cauce partition`.
package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/placement"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/roles"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce partition`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "partition", Aliases: []string{"partitions"}, Short: "Move partitions to other nodes and elect leaders"}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(reassign(s), elect(s))
	return cmd
}

// Reassign asks the cluster to have partitions where they are to be; a partition without replicas is to go back to where it
// was. The error is of those that are refused.
func Reassign(ctx context.Context, client *kgo.Client, partitions []placement.Partition) error {
	request := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	index := map[string]int{}
	for _, p := range partitions {
		wanted := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		wanted.Partition, wanted.Replicas = p.Partition, p.Replicas
		i, known := index[p.Topic]
		if !known {
			topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			topic.Topic, i = p.Topic, len(request.Topics)
			request.Topics, index[p.Topic] = append(request.Topics, topic), i
		}
		request.Topics[i].Partitions = append(request.Topics[i].Partitions, wanted)
	}
	response, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return exit.Answer(err, "")
	}
	var faults []error
	slices.SortFunc(response.Topics, func(a, b kmsg.AlterPartitionAssignmentsResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				faults = append(faults, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, exit.Answer(err, text(p.ErrorMessage))))
			}
		}
	}
	return errors.Join(faults...)
}

// Under are the reassignments under way, by the partitions' names.
func Under(ctx context.Context, client *kgo.Client) (map[string]Reassignment, error) {
	request := kmsg.NewPtrListPartitionReassignmentsRequest()
	response, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return nil, exit.Answer(err, "")
	}
	all := map[string]Reassignment{}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			r := Reassignment{Topic: t.Topic, Partition: p.Partition, Replicas: p.Replicas, Adding: p.AddingReplicas, Removing: p.RemovingReplicas}
			all[fmt.Sprintf("%s-%d", t.Topic, p.Partition)] = r
		}
	}
	return all, nil
}

// Reassignment is one under way.
type Reassignment struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"` // those that are to come or to go included
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
}

// Elect asks for preferred leaders, or any leaders at all, of partitions; of all of them for nil. The results are of those that
// have needed one.
func Elect(ctx context.Context, client *kgo.Client, partitions []placement.Partition, unclean bool) ([]Election, error) {
	request := kmsg.NewPtrElectLeadersRequest()
	if unclean {
		request.ElectionType = 1
	}
	for _, p := range partitions {
		topic := kmsg.NewElectLeadersRequestTopic()
		topic.Topic, topic.Partitions = p.Topic, []int32{p.Partition}
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return nil, exit.Answer(err, "")
	}
	done := []Election{}
	var faults []error
	slices.SortFunc(response.Topics, func(a, b kmsg.ElectLeadersResponseTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	for _, t := range response.Topics {
		slices.SortFunc(t.Partitions, func(a, b kmsg.ElectLeadersResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		for _, p := range t.Partitions {
			switch err := kerr.ErrorForCode(p.ErrorCode); err {
			case nil:
				done = append(done, Election{t.Topic, p.Partition, "elected"})
			case kerr.ElectionNotNeeded:
				done = append(done, Election{t.Topic, p.Partition, "not needed"})
			default:
				faults = append(faults, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, exit.Answer(err, text(p.ErrorMessage))))
			}
		}
	}
	return done, errors.Join(faults...)
}

// Election is what became of a partition.
type Election struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Result    string `json:"result"` // elected, not needed
}

// Assigned are the partitions of topics, or of all topics for none, where they are now.
func Assigned(ctx context.Context, client *kgo.Client, topics ...string) ([]placement.Partition, error) {
	listed, err := kadm.NewClient(client).ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, exit.Answer(err, "")
	}
	var all []placement.Partition
	for _, t := range listed.Sorted() {
		if t.Err != nil {
			return nil, fmt.Errorf("topic %s: %w", t.Topic, exit.Answer(t.Err, ""))
		}
		for _, p := range t.Partitions.Sorted() {
			all = append(all, placement.Partition{Topic: t.Topic, Partition: p.Partition, Replicas: p.Replicas})
		}
	}
	return placement.New(all).Partitions, nil
}

// Brokers are the nodes that may have replicas, fenced ones left out, in order of id.
func Brokers(ctx context.Context, client *kgo.Client) ([]placement.Broker, error) {
	request := kmsg.NewPtrDescribeClusterRequest()
	response, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("describe cluster: %w", exit.Answer(err, ""))
	}
	var brokers []placement.Broker
	for _, b := range response.Brokers {
		if !b.IsFenced && roles.IsBroker(b) {
			n := placement.Broker{ID: b.NodeID}
			if b.Rack != nil {
				n.Rack = *b.Rack
			}
			brokers = append(brokers, n)
		}
	}
	slices.SortFunc(brokers, func(a, b placement.Broker) int { return cmp.Compare(a.ID, b.ID) })
	return brokers, nil
}

func text(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}
