package consumer

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// ClassicMember is a member of the classic protocol on its way from one kind of group to the other.
type ClassicMember struct {
	ID string
	// InstanceID is empty for a dynamic member.
	InstanceID           string
	ClientID, ClientHost string
	RebalanceTimeoutMs   int32
	SessionTimeoutMs     int32
	// Protocols are in the member's order of preference.
	Protocols []schema.ClassicProtocol
	// Assignment is what the member got when it synced, empty when it did not yet.
	Assignment []byte
}

// Upgrade is a classic group of consumers as a consumer group.
type Upgrade struct {
	epoch   int32
	members []upgraded
}

type upgraded struct {
	id       string
	said     schema.MemberMetadata
	assigned schema.OwnedPartitions
}

// PrepareUpgrade reads what the members of a classic group have said and got, under the protocol of its generation. The
// error says why the group cannot be a consumer group.
func PrepareUpgrade(im *metadata.Image, group string, generation int32, protocol string, members []ClassicMember) (*Upgrade, error) {
	u := &Upgrade{epoch: max(generation, 1)}
	taken := owners{}
	for i := range members {
		m, err := readMember(im, u.epoch, protocol, &members[i])
		if err == nil && taken.overlap(m.assigned) {
			err = errors.New("a partition has more than one owner")
		}
		if err != nil {
			return nil, refuse(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group: member %s: %v.", group, members[i].ID, err)
		}
		taken.set(m.assigned, m.id)
		u.members = append(u.members, *m)
	}
	slices.SortFunc(u.members, func(a, b upgraded) int { return slices.Compare([]byte(a.id), []byte(b.id)) })
	return u, nil
}

func (o owners) overlap(partitions schema.OwnedPartitions) bool {
	for id, list := range partitions {
		for p := range list {
			if _, ok := o[id][p]; ok {
				return true
			}
		}
	}
	return false
}

func readMember(im *metadata.Image, epoch int32, protocol string, m *ClassicMember) (*upgraded, error) {
	if len(m.Protocols) == 0 {
		return nil, errMalformed
	}
	subscription := m.Protocols[0].Metadata
	for _, p := range m.Protocols {
		if p.Name == protocol {
			subscription = p.Metadata
		}
	}
	s, err := readSubscription(subscription)
	if err != nil {
		return nil, err
	}
	u := &upgraded{id: m.ID, assigned: schema.OwnedPartitions{}, said: schema.MemberMetadata{
		InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost, Topics: sortedSet(s.Topics), RebalanceTimeoutMs: m.RebalanceTimeoutMs,
		Classic: &schema.ClassicMemberMetadata{SessionTimeoutMs: m.SessionTimeoutMs, Protocols: m.Protocols},
	}}
	if s.Rack != nil {
		u.said.RackID = *s.Rack
	}
	if len(m.Assignment) == 0 {
		return u, nil
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(slices.Clone(m.Assignment)); err != nil {
		return nil, errors.Join(errMalformed, err)
	}
	if len(a.UserData) > 0 {
		return nil, errors.New("an unsupported custom assignor is in use: its user data would be lost")
	}
	for _, tp := range a.Topics {
		if t, ok := im.Topic(tp.Topic); ok {
			for _, p := range tp.Partitions {
				put(u.assigned, t.ID, p, epoch)
			}
		}
	}
	return u, nil
}

// Upgrade writes the group as it was under the classic protocol. Its members have what they had, and all are Stable; those who were
// rebalancing are told to join again by whoever had their requests.
func (g *Group) Upgrade(o *op.Op, u *Upgrade) {
	for i := range u.members {
		m := &u.members[i]
		o.Emit(&schema.ConsumerGroupMemberMetadata{Group: g.id, Member: m.id, Value: &m.said})
	}
	o.Emit(&schema.ConsumerGroupMetadata{Group: g.id, Value: &schema.GroupEpoch{Epoch: u.epoch, MetadataHash: g.metadataHash(o.Image)}})
	for i := range u.members {
		m := &u.members[i]
		target := assignment.Partitions{}
		for _, tp := range listed(m.assigned) {
			target[tp.id] = tp.partitions
		}
		o.Emit(&schema.ConsumerGroupTargetAssignmentMember{Group: g.id, Member: m.id, Partitions: target})
	}
	o.Emit(&schema.ConsumerGroupTargetAssignmentMetadata{Group: g.id, Value: &schema.TargetEpoch{Epoch: u.epoch}})
	for i := range u.members {
		m := &u.members[i]
		o.Emit(&schema.ConsumerGroupCurrentMemberAssignment{Group: g.id, Member: m.id, Value: &schema.CurrentAssignment{
			Epoch: u.epoch, Previous: u.epoch, State: schema.Stable, Assigned: m.assigned, Revoking: schema.OwnedPartitions{}}})
		g.extendSession(o, g.members[m.id])
	}
}

// Epoch is the group epoch, the generation of a group that is downgraded.
func (g *Group) Epoch() int32 { return g.epoch.Epoch }

// AllClassic says whether nobody uses the consumer protocol any more.
func (g *Group) AllClassic() bool { return len(g.members) > 0 && g.classics == len(g.members) }

// ClassicMembers are the members of a group whose members are all classic, in order of id, with their targets as assignments.
func (g *Group) ClassicMembers(im *metadata.Image) []ClassicMember {
	var members []ClassicMember
	for _, id := range g.memberIDs() {
		m := g.members[id]
		var target []topicPartitions
		for topic, partitions := range g.targets[id] {
			target = append(target, topicPartitions{topic, partitions})
		}
		slices.SortFunc(target, func(a, b topicPartitions) int { return slices.Compare(a.id[:], b.id[:]) })
		members = append(members, ClassicMember{
			ID: id, InstanceID: m.said.InstanceID, ClientID: m.said.ClientID, ClientHost: m.said.ClientHost,
			RebalanceTimeoutMs: m.said.RebalanceTimeoutMs, SessionTimeoutMs: m.said.Classic.SessionTimeoutMs,
			Protocols: m.said.Classic.Protocols, Assignment: assignmentBytes(im, target, m.said.Classic.Protocols[0].Metadata),
		})
	}
	return members
}
