package consumer

import (
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// Upgrade is a classic group of consumers as a consumer group.
type Upgrade struct {
	epoch   int32
	members []upgraded
}

type upgraded struct {
	id       string
	said     schema.MemberMetadata
	assigned schema.OwnedPartitions
	claimed  reported
}

// PrepareUpgrade reads what the members of a classic group have said and got, under the protocol of its generation. The
// error says why the group cannot be a consumer group.
func PrepareUpgrade(im *metadata.Image, group string, generation int32, protocol string, members []classic.Member) (*Upgrade, error) {
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
	// A member may still read from what it said it owns when it joined last, and has not been given again: it may not know of its
	// assignment yet, as one rebalance interrupted another, or be about to give up the rest. (Apache Kafka looks at assignments alone.)
	for i := range u.members {
		m := &u.members[i]
		for id, list := range m.claimed {
			for _, p := range list {
				if _, ok := taken[id][p]; !ok {
					put(m.assigned, id, p, u.epoch)
				}
			}
		}
		taken.set(m.assigned, m.id)
	}
	slices.SortFunc(u.members, func(a, b upgraded) int { return strings.Compare(a.id, b.id) })
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

func readMember(im *metadata.Image, epoch int32, protocol string, m *classic.Member) (*upgraded, error) {
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
		ClientID: m.ClientID, ClientHost: m.ClientHost, Topics: sortedSet(s.Topics), RebalanceTimeoutMs: int32(m.RebalanceTimeout.Milliseconds()),
		Classic: &schema.ClassicMemberMetadata{SessionTimeoutMs: int32(m.SessionTimeout.Milliseconds())},
	}}
	for _, p := range m.Protocols {
		u.said.Classic.Protocols = append(u.said.Classic.Protocols, schema.ClassicProtocol{Name: p.Name, Metadata: p.Metadata})
	}
	if m.InstanceID != nil {
		u.said.InstanceID = *m.InstanceID
	}
	if s.Rack != nil {
		u.said.RackID = *s.Rack
	}
	u.claimed = namedPartitions(im, s.OwnedPartitions)
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

// AllClassic says whether the group has members, none of which uses the consumer protocol any more.
func (g *Group) AllClassic() bool { return len(g.members) > 0 && g.classics == len(g.members) }

// Downgrade is the record of the classic group that a group becomes whose members are all classic. They have in it
// what they may read from until they join again: a group that is upgraded before they do must not give that to others. (Apache
// Kafka has their targets in it.)
func (g *Group) Downgrade(o *op.Op) *schema.GroupMetadata {
	protocol := g.commonProtocol()
	consumers := protocolType
	v := kmsg.NewGroupMetadataValue()
	v.ProtocolType, v.Generation, v.Protocol, v.CurrentStateTimestamp = consumers, g.epoch.Epoch, &protocol, o.Now.UnixMilli()
	for _, id := range g.memberIDs() {
		m := g.members[id]
		r := kmsg.NewGroupMetadataValueMember()
		r.MemberID, r.InstanceID, r.ClientID, r.ClientHost = id, optional(m.said.InstanceID), m.said.ClientID, m.said.ClientHost
		r.RebalanceTimeoutMillis, r.SessionTimeoutMillis = m.said.RebalanceTimeoutMs, m.said.Classic.SessionTimeoutMs
		for _, p := range m.said.Classic.Protocols {
			if p.Name == protocol {
				r.Subscription = p.Metadata
			}
		}
		r.Assignment = assignmentBytes(o.Image, m.held(), r.Subscription)
		v.Members = append(v.Members, r)
		if v.Leader == nil {
			v.Leader = &r.MemberID
		}
	}
	return &schema.GroupMetadata{Group: g.id, Value: &v}
}

// held is what a member reads from, or may not have stopped to.
func (m *member) held() []topicPartitions {
	held := schema.OwnedPartitions{}
	for _, partitions := range []schema.OwnedPartitions{m.current.Assigned, m.current.Revoking} {
		for id, list := range partitions {
			for p, since := range list {
				put(held, id, p, since)
			}
		}
	}
	return listed(held)
}

// commonProtocol is the first member's most preferred protocol that all members support. There is one: nobody joins without.
func (g *Group) commonProtocol() string {
	var name string
	for _, id := range g.memberIDs() {
		for _, p := range g.members[id].said.Classic.Protocols {
			if g.protocols[p.Name] == g.classics {
				return p.Name
			}
			name = p.Name
		}
	}
	return name
}

// Dissolve deletes the group although it has members: a group of the other kind takes them over. What waits is told to join again.
func (g *Group) Dissolve(o *op.Op) {
	for _, id := range g.memberIDs() {
		g.dismiss(o, id, kerr.RebalanceInProgress)
	}
	g.Close(o)
}
