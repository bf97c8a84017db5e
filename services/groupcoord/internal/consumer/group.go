// Package consumer is one consumer group of the protocol that KIP-848 brought: members say by heartbeats what they subscribe
// to and own, an assignor computes a target assignment of all members, and each member is led towards its target in
// steps such that a partition never has two owners.
//
// Members of the classic protocol may be in the same group while it is upgraded or downgraded.
//
// Three epochs order everything. The group epoch grows whenever what an assignor looks at has changed. The target epoch is
// the group epoch that the target assignment was computed for, or less than it while an assignor works. A member's epoch is
// the target epoch that the member has reached.
package consumer

import (
	"maps"
	"slices"
	"time"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// Type is the type of the group as ListGroups has it.
const Type = "consumer"

// protocolType is the type of protocol of consumers, in classic groups too.
const protocolType = "consumer"

// Member epochs that say something else (KIP-848).
const (
	joinEpoch        = 0
	leaveEpoch       = -1
	staticLeaveEpoch = -2 // the member is away for a moment; its partitions wait for it until its session ends
)

// emptyEpoch is the epoch of a group that nobody has joined yet, as Apache Kafka 4.3 counts: the first member brings the next one. It is
// never written.
const emptyEpoch = 1

// Group is one group. It is changed by Replay alone, but for what is lost with the shard.
type Group struct {
	id  string
	all *Subscriptions

	// What the records say.
	epoch       schema.GroupEpoch
	target      schema.TargetEpoch
	members     map[string]*member
	targets     map[string]assignment.Partitions
	expressions map[string]*schema.ResolvedExpression
	// oldMetadata is there while the log has a record for the group that is not written any more.
	oldMetadata bool

	// What follows from them.
	instances map[string]string // member id by instance id
	owners    owners
	classics  int // members of the classic protocol
	// How many members subscribe to a topic by name or to an expression, want an assignor, support a classic protocol.
	topics, patterns, assignors, protocols counts

	// What is lost with the shard.
	question   question
	waiting    map[string]*waiter // by member id
	search     search
	digest     digest
	joinTimers map[string]bool // members with a running timer of timerJoin
	known      keys
}

// New makes a group without records, which keeps what it subscribes to in all.
func New(id string, all *Subscriptions) *Group {
	return &Group{
		id: id, all: all, members: map[string]*member{}, targets: map[string]assignment.Partitions{}, expressions: map[string]*schema.ResolvedExpression{},
		instances: map[string]string{}, owners: owners{}, topics: counts{}, patterns: counts{}, assignors: counts{}, protocols: counts{},
		waiting: map[string]*waiter{}, joinTimers: map[string]bool{}, digest: digest{offset: -1},
	}
}

// counts are numbers of members; there are no zeros.
type counts map[string]int

func (c counts) add(key string, delta int) {
	if c[key] += delta; c[key] == 0 {
		delete(c, key)
	}
}

// owners are the members that have partitions or have still to give them up.
type owners map[metadata.TopicID]map[int32]string

func (o owners) set(partitions schema.OwnedPartitions, member string) {
	for id, list := range partitions {
		topic := o[id]
		if topic == nil {
			topic = make(map[int32]string, len(list))
			o[id] = topic
		}
		for p := range list {
			topic[p] = member
		}
	}
}

// clear leaves alone what another member owns meanwhile: while a log is read that is just being compacted, a member may be
// seen to get a partition before the former owner is seen to lose it.
func (o owners) clear(partitions schema.OwnedPartitions, member string) {
	for id, list := range partitions {
		for p := range list {
			if o[id][p] == member {
				delete(o[id], p)
			}
		}
		if len(o[id]) == 0 {
			delete(o, id)
		}
	}
}

// member is a member of the group. Neither pointer is ever nil, nor is what they point to changed.
type member struct {
	id      string
	said    *schema.MemberMetadata
	current *schema.CurrentAssignment
}

func (m *member) classic() bool { return m.said.Classic != nil }

// reached says whether the member has all that it is to have at the target epoch.
func (m *member) reached(targetEpoch int32) bool {
	return m.current.State == schema.Stable && m.current.Epoch == targetEpoch
}

// Blank says whether there is no record of the group (any more), which is as if there was no group.
func (g *Group) Blank() bool {
	return g.epoch == schema.GroupEpoch{} && g.target == schema.TargetEpoch{} && len(g.members) == 0 && len(g.targets) == 0 &&
		len(g.expressions) == 0 && !g.oldMetadata
}

// Empty says whether the group has no members.
func (g *Group) Empty() bool { return len(g.members) == 0 }

// Size is how many members the group has.
func (g *Group) Size() int { return len(g.members) }

// Generation is the group epoch: whatever has members assigned anew makes it grow.
func (g *Group) Generation() int32 { return g.epoch.Epoch }

// Type is Type.
func (g *Group) Type() string { return Type }

// ProtocolType is that of consumers.
func (g *Group) ProtocolType() string { return protocolType }

// State is the group's state as Apache Kafka's tools show it.
func (g *Group) State() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch.Epoch > g.target.Epoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if !m.reached(g.target.Epoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// Subscribed says whether some member subscribes to the topic, by name or by an expression.
func (g *Group) Subscribed(topic string) bool {
	if g.topics[topic] > 0 {
		return true
	}
	for pattern := range g.patterns {
		if r := g.expressions[pattern]; r != nil {
			if _, ok := slices.BinarySearch(r.Topics, topic); ok {
				return true
			}
		}
	}
	return false
}

// memberIDs are the ids of the members in order, so that runs repeat.
func (g *Group) memberIDs() []string { return slices.Sorted(maps.Keys(g.members)) }

// Loaded starts what is not in the log: timers, questions to assignors, the look at the image.
func (g *Group) Loaded(o *op.Op) {
	for _, id := range g.memberIDs() {
		m := g.members[id]
		g.extendSession(o, m)
		if m.current.State == schema.Unrevoked && !m.classic() {
			g.setRebalanceTimer(o, m)
		}
	}
	g.OnImage(o)
}

// OnImage looks at a new image or new settings.
func (g *Group) OnImage(o *op.Op) {
	if len(g.members) == 0 {
		return
	}
	g.refresh(o, false)
	g.ask(o)
}

// Close deletes the group with all its records and timers. What still waits is told that nobody knows it.
func (g *Group) Close(o *op.Op) {
	for _, id := range g.memberIDs() {
		g.emitRemoval(o, g.members[id])
	}
	for _, id := range slices.Sorted(maps.Keys(g.targets)) {
		o.Emit(&schema.ConsumerGroupTargetAssignmentMember{Group: g.id, Member: id})
	}
	for _, e := range slices.Sorted(maps.Keys(g.expressions)) {
		o.Emit(&schema.ConsumerGroupRegularExpression{Group: g.id, Expression: e})
	}
	if g.oldMetadata {
		o.Emit(&schema.ConsumerGroupPartitionMetadata{Group: g.id})
	}
	o.Emit(&schema.ConsumerGroupTargetAssignmentMetadata{Group: g.id})
	o.Emit(&schema.ConsumerGroupMetadata{Group: g.id})
	g.question = question{}
	o.ClearTimer(g.timer(timerAssignor, ""))
	o.ClearTimer(g.timer(timerExpressions, ""))
}

func milliseconds(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
