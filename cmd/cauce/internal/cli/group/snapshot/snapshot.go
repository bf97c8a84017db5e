// Package snapshot reads what a cluster tells of its consumer groups into plain values, the same for classic groups and for
// those of the consumer protocol (KIP-848).
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The types of groups that can be described.
const (
	Classic  = "classic"
	Consumer = "consumer"
)

// Group is one group.
type Group struct {
	ID           string `json:"group"`
	Type         string `json:"type"` // Classic, Consumer
	State        string `json:"state"`
	ProtocolType string `json:"protocol_type"` // "consumer" for consumers, "" for groups that only ever committed
	// Assignor is what the group's coordinator or, in a classic group, the leader among its members assigns partitions by.
	Assignor string `json:"assignor"`
	// Epoch and AssignmentEpoch are -1 for classic groups: no API tells their generation.
	Epoch           int32    `json:"epoch"`
	AssignmentEpoch int32    `json:"assignment_epoch"`
	Coordinator     Node     `json:"coordinator"`
	Members         []Member `json:"members"`
}

// Node is where a group is coordinated.
type Node struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// Member is one member of a group.
type Member struct {
	ID         string `json:"member_id"`
	InstanceID string `json:"instance_id,omitempty"`
	ClientID   string `json:"client_id"`
	Host       string `json:"host"`
	Rack       string `json:"rack,omitempty"`
	Epoch      int32  `json:"epoch"` // -1 in classic groups
	// Topics and Regex are what the member subscribes to. A classic group that is not stable does not tell.
	Topics []string `json:"topics"`
	Regex  string   `json:"regex,omitempty"`
	// Assigned is what the member owns, Target what it is to own. They are the same in classic groups.
	Assigned Partitions `json:"assigned"`
	Target   Partitions `json:"target"`
}

// Describe returns the groups that could be described, in the order asked for, and why others could not.
func Describe(ctx context.Context, admin *kadm.Client, ids ...string) ([]Group, map[string]error) {
	found := make(map[string]Group)
	faults := make(map[string]error)
	consumers, fault := admin.DescribeConsumerGroups(ctx, ids...)
	var others []string
	for _, id := range ids {
		described, ok := consumers[id]
		switch {
		case ok && described.Err == nil:
			found[id] = ofConsumer(described)
			continue
		case !ok: // a cluster from before KIP-848, or a coordinator that does not answer
			faults[id] = cmp.Or(fault, errors.New("the cluster did not answer for this group"))
		default:
			faults[id] = described.Err
		}
		others = append(others, id)
	}
	if len(others) > 0 {
		describeClassic(ctx, admin, others, found, faults)
	}
	groups := make([]Group, 0, len(found))
	for _, id := range ids {
		if group, ok := found[id]; ok {
			groups = append(groups, group)
		}
	}
	return groups, faults
}

// describeClassic moves what turns out to be a classic group from faults to found.
func describeClassic(ctx context.Context, admin *kadm.Client, ids []string, found map[string]Group, faults map[string]error) {
	classics, fault := admin.DescribeGroups(ctx, ids...)
	for _, id := range ids {
		described, ok := classics[id]
		switch {
		case !ok:
			faults[id] = cmp.Or(fault, faults[id])
		case described.Err != nil:
			faults[id] = described.Err
		case described.State == "Dead": // what DescribeGroups before version 6 says of groups that do not exist
			faults[id] = kerr.GroupIDNotFound
		default:
			delete(faults, id)
			found[id] = ofClassic(described)
		}
	}
}

func ofConsumer(d kadm.DescribedConsumerGroup) Group {
	group := Group{
		ID: d.Group, Type: Consumer, State: d.State, ProtocolType: "consumer", Assignor: d.AssignorName,
		Epoch: d.Epoch, AssignmentEpoch: d.AssignmentEpoch, Coordinator: node(d.Coordinator), Members: []Member{},
	}
	for _, m := range d.Members {
		group.Members = append(group.Members, Member{
			ID: m.MemberID, InstanceID: text(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost, Rack: text(m.RackID), Epoch: m.MemberEpoch,
			Topics: slices.Sorted(slices.Values(m.SubscribedTopics)), Regex: text(m.SubscribedTopicRegex),
			Assigned: partitions(m.Assignment), Target: partitions(m.TargetAssignment),
		})
	}
	return group
}

func ofClassic(d kadm.DescribedGroup) Group {
	group := Group{
		ID: d.Group, Type: Classic, State: d.State, ProtocolType: d.ProtocolType, Assignor: d.Protocol,
		Epoch: -1, AssignmentEpoch: -1, Coordinator: node(d.Coordinator), Members: []Member{},
	}
	for _, m := range d.Members {
		member := Member{ID: m.MemberID, InstanceID: text(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost, Epoch: -1, Topics: []string{}}
		if join, ok := m.Join.AsConsumer(); ok {
			member.Topics = append(member.Topics, join.Topics...)
			slices.Sort(member.Topics)
		}
		set := make(kadm.TopicsSet)
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				set.Add(topic.Topic, topic.Partitions...)
			}
		}
		member.Assigned = partitions(set)
		member.Target = member.Assigned
		group.Members = append(group.Members, member)
	}
	return group
}

func node(b kadm.BrokerDetail) Node { return Node{ID: b.NodeID, Host: b.Host, Port: b.Port} }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
