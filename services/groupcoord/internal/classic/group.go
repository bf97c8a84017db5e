// Package classic is a group of the classic protocol: members join, the leader among them assigns, everyone syncs. It behaves
// as ClassicGroup and GroupMetadataManager of Apache Kafka 4.4 do.
//
// What a group was at the end of its last rebalance is in the log; a rebalance under way is not, and those who take part in
// it start over when the group moves to another coordinator.
package classic

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// State is where a group stands, in Apache Kafka's words.
type State string

// The states of a group.
const (
	// Empty has no members. It may have offsets.
	Empty State = "Empty"
	// PreparingRebalance waits for every member to join.
	PreparingRebalance State = "PreparingRebalance"
	// CompletingRebalance waits for what the leader assigns.
	CompletingRebalance State = "CompletingRebalance"
	// Stable has members who know what they have.
	Stable State = "Stable"
	// Dead is what a group that does not exist is said to be in.
	Dead State = "Dead"
)

// consumerType is the type of protocol of consumers, the one whose subscriptions the coordinator can read.
const consumerType = "consumer"

// Event is a job for the shell: something worth a log line happened to a group.
type Event struct {
	Group string
	State State
	// Generation is that of the group afterwards.
	Generation int32
	Members    int
	// Reason may hold what a client said (KIP-800).
	Reason string
}

// Group is one group.
type Group struct {
	id    string
	state State
	// sinceMs is when the group entered its state, in milliseconds since 1970; -1 when that is not known.
	sinceMs    int64
	generation int32
	// protocolType is empty until the first member joins, and for ever in a group that only stores offsets.
	protocolType string
	// protocol is the one chosen for the generation; empty while there is none.
	protocol string
	leader   string

	members map[string]*member
	// static has the member ids by instance id.
	static map[string]string
	// supported counts the members that support a protocol, by its name.
	supported map[string]int
	// joining counts the members whose join is parked.
	joining int
	// pending are ids handed out to members who have not joined with them yet (KIP-394), and until when they may.
	pending map[string]time.Time
	// awaited are those among pending that the join phase waits for.
	awaited map[string]bool
	// unsynced are members who have not synced in this generation.
	unsynced map[string]bool
	// topics are those that some member subscribed to when the generation began; nil when that is not known.
	topics map[string]bool

	// initial is set in a rebalance of a group that was empty, which waits for more members to come; it goes on for delays
	// as long as members came (grew) and delayLeft is not used up.
	initial, grew bool
	delayLeft     time.Duration

	// departures are the last members that left, the oldest first.
	departures []departure
}

// New is a group without members.
func New(id string) *Group {
	g := &Group{id: id, state: Empty, sinceMs: -1, pending: map[string]time.Time{}, awaited: map[string]bool{}, unsynced: map[string]bool{}}
	g.clearMembers()
	return g
}

// Created is the record of a new group.
func Created(id string, now time.Time) schema.Record { return emptied(id, "", 0, now) }

// emptied is the record of a group without members.
func emptied(id, protocolType string, generation int32, now time.Time) schema.Record {
	return &schema.GroupMetadata{Group: id, Value: &kmsg.GroupMetadataValue{
		ProtocolType: protocolType, Generation: generation, CurrentStateTimestamp: now.UnixMilli(),
	}}
}

// Type is what ListGroups calls groups of the classic protocol.
const Type = "classic"

// Type is [Type].
func (g *Group) Type() string { return Type }

// State is where the group stands.
func (g *Group) State() string { return string(g.state) }

// ProtocolType is what the members are, "consumer" for consumers; empty when there never were any.
func (g *Group) ProtocolType() string { return g.protocolType }

// Empty says whether the group has no members.
func (g *Group) Empty() bool { return g.state == Empty }

// Size is how many members the group has.
func (g *Group) Size() int { return len(g.members) }

// Replay takes over what a record says. Of members that the group has already, requests that wait and protocols that the record
// does not mention are kept.
func (g *Group) Replay(v *kmsg.GroupMetadataValue) {
	g.generation, g.protocolType, g.sinceMs = v.Generation, v.ProtocolType, v.CurrentStateTimestamp
	g.protocol, g.leader = value(v.Protocol), value(v.Leader)
	before := g.members
	g.clearMembers()
	for i := range v.Members {
		r := &v.Members[i]
		m := before[r.MemberID]
		if m == nil {
			m = &member{id: r.MemberID}
		}
		m.restore(r, g.protocol)
		g.put(m)
	}
	g.state = Stable
	if len(g.members) == 0 {
		g.state = Empty
	}
	g.topics = g.subscriptions()
}

// restore takes over what a record says of the member.
func (m *member) restore(r *kmsg.GroupMetadataValueMember, protocol string) {
	m.instanceID, m.clientID, m.clientHost = r.InstanceID, r.ClientID, r.ClientHost
	m.sessionTimeout = milliseconds(r.SessionTimeoutMillis)
	m.rebalanceTimeout = milliseconds(r.RebalanceTimeoutMillis)
	if r.RebalanceTimeoutMillis < 0 {
		m.rebalanceTimeout = m.sessionTimeout
	}
	if !m.supports(protocol) || !bytes.Equal(m.metadata(protocol), r.Subscription) {
		m.protocols = []Protocol{{Name: protocol, Metadata: r.Subscription}}
	}
	m.assignment = r.Assignment
}

// memberBytes is at least what a member takes in a record apart from its names, metadata and assignment.
const memberBytes = 64

// persist has the group written as it is from now on, stable with these assignments. It fails when the members say
// more than a record can hold, and changes nothing then.
func (g *Group) persist(o *op.Op, assignment func(m *member) []byte) error {
	v := &kmsg.GroupMetadataValue{
		ProtocolType:          g.protocolType,
		Generation:            g.generation,
		Protocol:              pointer(g.protocol),
		Leader:                pointer(g.leader),
		CurrentStateTimestamp: o.Now.UnixMilli(),
	}
	size := memberBytes + len(g.id) + len(g.protocolType) + len(g.protocol) + len(g.leader)
	for _, m := range g.ordered() {
		r := kmsg.GroupMetadataValueMember{
			MemberID:               m.id,
			InstanceID:             m.instanceID,
			ClientID:               m.clientID,
			ClientHost:             m.clientHost,
			RebalanceTimeoutMillis: int32(m.rebalanceTimeout.Milliseconds()),
			SessionTimeoutMillis:   int32(m.sessionTimeout.Milliseconds()),
			Subscription:           m.metadata(g.protocol),
			Assignment:             assignment(m),
		}
		size += memberBytes + len(m.id) + len(value(m.instanceID)) + len(m.clientID) + len(m.clientHost) + len(r.Subscription) + len(r.Assignment)
		v.Members = append(v.Members, r)
	}
	if !o.Room(size) {
		return fmt.Errorf("group %q takes %d bytes in a record, more than message.max.bytes allows: %w", g.id, size, kerr.UnknownServerError)
	}
	o.Emit(&schema.GroupMetadata{Group: g.id, Value: v})
	return nil
}

// Close has an empty group deleted.
func (g *Group) Close(o *op.Op) {
	for id := range g.pending {
		o.ClearTimer(g.session(id))
	}
	o.ClearTimer(g.joinTimer())
	o.ClearTimer(g.syncTimer())
	o.Emit(&schema.GroupMetadata{Group: g.id})
}

// ordered are the members in order of id, so that runs repeat.
func (g *Group) ordered() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int { return strings.Compare(a.id, b.id) })
}

func (g *Group) clearMembers() {
	g.members, g.static, g.supported, g.joining = map[string]*member{}, map[string]string{}, map[string]int{}, 0
}

// put makes a member part of the group.
func (g *Group) put(m *member) {
	g.members[m.id] = m
	if m.instanceID != nil {
		g.static[*m.instanceID] = m.id
	}
	g.count(m, 1)
	if m.join != 0 {
		g.joining++
	}
	g.forget(m.id)
}

// forget has an id not pending any more.
func (g *Group) forget(id string) {
	delete(g.pending, id)
	delete(g.awaited, id)
}

// take is the reverse of put; what waits stays with the member.
func (g *Group) take(m *member) {
	delete(g.members, m.id)
	if m.instanceID != nil {
		delete(g.static, *m.instanceID)
	}
	g.count(m, -1)
	if m.join != 0 {
		g.joining--
	}
	delete(g.unsynced, m.id)
}

// count adds n to the supporters of each of a member's protocols.
func (g *Group) count(m *member, n int) {
	for _, p := range m.protocols {
		if g.supported[p.Name] += n; g.supported[p.Name] == 0 {
			delete(g.supported, p.Name)
		}
	}
}

// remove has a member or a pending id out of the group. A request of it that waits learns that it is not known any more, on
// which clients join anew.
func (g *Group) remove(o *op.Op, id string) {
	o.ClearTimer(g.session(id))
	g.forget(id)
	m := g.members[id]
	if m == nil {
		return
	}
	g.take(m)
	answerJoin(o, m, joinError("", kerr.UnknownMemberID))
	answerSync(o, m, syncError(kerr.UnknownMemberID))
	if g.leader == id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = slices.Min(slices.Collect(maps.Keys(g.members)))
		}
	}
}

// check says whether a request comes from a member.
func (g *Group) check(id string, instanceID *string) error {
	if instanceID != nil {
		switch owner, ok := g.static[*instanceID]; {
		case !ok:
			return kerr.UnknownMemberID
		case owner != id:
			return kerr.FencedInstanceID
		}
	}
	if g.members[id] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

// allJoined says whether nobody has to be waited for.
func (g *Group) allJoined() bool { return g.joining == len(g.members) && len(g.awaited) == 0 }

func (g *Group) isPending(id string) bool {
	_, ok := g.pending[id]
	return ok
}

// rebalanceTimeout is the longest that a member asked for.
func (g *Group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

func milliseconds(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// pointer is nil for an empty string.
func pointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
