package consumer

import (
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// Replay applies a record of the group. Records of one key come in order; those of different keys need not, since the log
// is compacted.
func (g *Group) Replay(r schema.Record) {
	switch r := r.(type) {
	case *schema.ConsumerGroupMetadata:
		g.epoch = schema.GroupEpoch{}
		if r.Value != nil {
			g.epoch = *r.Value
		}
	case *schema.ConsumerGroupPartitionMetadata:
		g.oldMetadata = r.Value != nil
	case *schema.ConsumerGroupMemberMetadata:
		if r.Value == nil {
			g.removeMember(r.Member)
		} else {
			g.replayMember(r.Member, r.Value)
		}
	case *schema.ConsumerGroupTargetAssignmentMetadata:
		g.target = schema.TargetEpoch{}
		if r.Value != nil {
			g.target = *r.Value
		}
	case *schema.ConsumerGroupTargetAssignmentMember:
		g.replayTarget(r.Member, r.Partitions)
	case *schema.ConsumerGroupCurrentMemberAssignment:
		g.replayCurrent(r.Member, r.Value)
	case *schema.ConsumerGroupRegularExpression:
		g.digest.offset = -1
		if r.Value == nil {
			delete(g.expressions, r.Expression)
		} else {
			g.expressions[r.Expression] = r.Value
		}
	}
}

func (g *Group) replayTarget(member string, partitions assignment.Partitions) {
	if partitions == nil {
		delete(g.targets, member)
	} else {
		g.targets[member] = partitions
	}
}

// memberOf is the member, made if need be.
func (g *Group) memberOf(id string) *member {
	m := g.members[id]
	if m == nil {
		m = &member{id: id, said: &schema.MemberMetadata{RebalanceTimeoutMs: -1}, current: newCurrent()}
		g.members[id] = m
	}
	return m
}

// newCurrent is what a member has that has just come.
func newCurrent() *schema.CurrentAssignment {
	return &schema.CurrentAssignment{Assigned: schema.OwnedPartitions{}, Revoking: schema.OwnedPartitions{}}
}

func (g *Group) replayMember(id string, said *schema.MemberMetadata) {
	m := g.memberOf(id)
	g.count(m, -1)
	if m.said.InstanceID != "" && m.said.InstanceID != said.InstanceID && g.instances[m.said.InstanceID] == id {
		delete(g.instances, m.said.InstanceID)
	}
	m.said = said
	g.count(m, +1)
	if said.InstanceID != "" {
		g.instances[said.InstanceID] = id
	}
}

func (g *Group) removeMember(id string) {
	m := g.members[id]
	if m == nil {
		return
	}
	g.count(m, -1)
	g.own(m, newCurrent())
	if g.instances[m.said.InstanceID] == id {
		delete(g.instances, m.said.InstanceID)
	}
	delete(g.members, id)
}

// count adds or takes away what the member contributes to the group's numbers.
func (g *Group) count(m *member, delta int) {
	for _, topic := range m.said.Topics {
		before := g.topics[topic]
		if g.topics.add(topic, delta); before == 0 || g.topics[topic] == 0 {
			g.digest.offset = -1
			g.all.set(topic, g.id, before == 0)
		}
	}
	if m.said.Expression != "" {
		g.patterns.add(m.said.Expression, delta)
		g.digest.offset = -1
		g.all.setSearching(g.id, len(g.patterns) > 0)
	}
	if m.said.Assignor != "" {
		g.assignors.add(m.said.Assignor, delta)
	}
	if m.classic() {
		g.classics += delta
		for _, p := range m.said.Classic.Protocols {
			g.protocols.add(p.Name, delta)
		}
	}
}

func (g *Group) replayCurrent(id string, current *schema.CurrentAssignment) {
	if current == nil {
		if m := g.members[id]; m != nil {
			g.own(m, newCurrent())
		}
		return
	}
	g.own(g.memberOf(id), current)
}

func (g *Group) own(m *member, current *schema.CurrentAssignment) {
	g.owners.clear(m.current.Assigned, m.id)
	g.owners.clear(m.current.Revoking, m.id)
	m.current = current
	g.owners.set(current.Assigned, m.id)
	g.owners.set(current.Revoking, m.id)
}
