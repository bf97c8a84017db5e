package consumer

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// What ConsumerGroupDescribe says of a member's protocol.
const (
	classicMemberType  int8 = 0
	consumerMemberType int8 = 1
)

// topicPartitions are partitions of a topic in order.
type topicPartitions struct {
	id         metadata.TopicID
	partitions []int32
}

// inOrder are partitions in order of topic id.
func inOrder(partitions assignment.Partitions) []topicPartitions {
	list := make([]topicPartitions, 0, len(partitions))
	for id, p := range partitions {
		list = append(list, topicPartitions{id, p})
	}
	slices.SortFunc(list, func(a, b topicPartitions) int { return slices.Compare(a.id[:], b.id[:]) })
	return list
}

// listed are partitions in order, without since when they are owned.
func listed(o schema.OwnedPartitions) []topicPartitions {
	partitions := make(assignment.Partitions, len(o))
	for id, list := range o {
		partitions[id] = slices.Sorted(maps.Keys(list))
	}
	return inOrder(partitions)
}

// Describe is the group for ConsumerGroupDescribe.
func (g *Group) Describe(o *op.Op) kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group, out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = g.id, g.State(), g.epoch.Epoch, g.target.Epoch, g.assignor(o)
	for _, id := range g.memberIDs() {
		m := g.members[id]
		r := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		r.MemberID, r.MemberEpoch, r.ClientID, r.ClientHost = m.id, m.current.Epoch, m.said.ClientID, m.said.ClientHost
		r.InstanceID, r.RackID, r.SubscribedTopicRegex = optional(m.said.InstanceID), optional(m.said.RackID), optional(m.said.Expression)
		r.SubscribedTopics = append([]string{}, m.said.Topics...)
		r.MemberType = consumerMemberType
		if m.classic() {
			r.MemberType = classicMemberType
		}
		r.Assignment.TopicPartitions = named(o.Image, listed(m.current.Assigned))
		r.TargetAssignment.TopicPartitions = named(o.Image, inOrder(g.targets[id]))
		out.Members = append(out.Members, r)
	}
	return out
}

// named leaves out topics that are gone.
func named(im *metadata.Image, list []topicPartitions) []kmsg.AssignmentTopicPartition {
	out := make([]kmsg.AssignmentTopicPartition, 0, len(list))
	for _, tp := range list {
		if t, ok := im.TopicByID(tp.id); ok {
			r := kmsg.NewAssignmentTopicPartition()
			r.TopicID, r.Topic, r.Partitions = tp.id, t.Name, slices.Clone(tp.partitions)
			out = append(out, r)
		}
	}
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
