package consumer

import (
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// longestKey is the length in bytes of the longest string that a record's key holds.
const longestKey = math.MaxInt16

// CheckHeartbeat says what is wrong with a request on its own.
func CheckHeartbeat(s *op.Settings, req *kmsg.ConsumerGroupHeartbeatRequest) error {
	empty := func(s *string) bool { return s != nil && *s == "" }
	invalid := func(reason string) error { return refuse(kerr.InvalidRequest, "%s", reason) }
	switch {
	case req.MemberID == "" && (req.Version >= 1 || req.MemberEpoch != joinEpoch):
		return invalid("MemberId can't be empty.")
	case req.Group == "":
		return invalid("GroupId can't be empty.")
	case len(req.MemberID) > longestKey:
		return invalid("MemberId is too long.")
	case req.SubscribedTopicRegex != nil && len(*req.SubscribedTopicRegex) > longestKey:
		return invalid("SubscribedTopicRegex is too long.")
	case empty(req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case empty(req.RackID):
		return invalid("RackId can't be empty.")
	case req.MemberEpoch < staticLeaveEpoch:
		return invalid("MemberEpoch is invalid.")
	case req.MemberEpoch == staticLeaveEpoch && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	}
	if req.MemberEpoch == joinEpoch {
		switch {
		case req.RebalanceTimeoutMillis == -1:
			return invalid("RebalanceTimeoutMs must be provided in first request.")
		case req.Topics == nil || len(req.Topics) > 0:
			return invalid("TopicPartitions must be empty when (re-)joining.")
		case req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
			return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
		}
	}
	if req.ServerAssignor == nil {
		return nil
	}
	if offered := s.Broker.List("group.consumer.assignors"); !slices.Contains(offered, *req.ServerAssignor) {
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.", *req.ServerAssignor, strings.Join(offered, ", "))
	}
	return nil
}

// ConsumerHeartbeat is a heartbeat of a member, or its coming or leaving, by a request that CheckHeartbeat has let through. It
// is answered at once or, where a member joins or subscribes to something else, when an assignor has answered.
func (g *Group) ConsumerHeartbeat(o *op.Op, t coordinator.Ticket, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) {
	if err := g.heartbeat(o, t, c, req); err != nil {
		o.Answer(t, RefuseHeartbeat(err))
	}
}

func (g *Group) heartbeat(o *op.Op, t coordinator.Ticket, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) error {
	if req.MemberEpoch < joinEpoch {
		return g.leave(o, t, req)
	}
	h, err := g.hear(o, c, req)
	if err != nil {
		return err
	}
	id := h.id
	g.supersede(o, id)
	if h.replaced != nil {
		g.replace(o, h.replaced, id)
	}
	resubscribed := g.say(o, id, &h.said)
	m := g.members[id]
	if h.before.Classic != nil {
		g.clearJoinTimer(o, id)
		o.ClearTimer(g.timer(timerSync, id))
	}
	g.extendSession(o, m)
	g.ask(o)
	owned, joins := reportedBy(req.Topics), req.MemberEpoch == joinEpoch
	before := m.current
	if !joins {
		g.reconcile(o, m, owned, resubscribed)
	}
	told := m.current != before && !samePartitions(before.Assigned, m.current.Assigned)
	if g.epoch.Epoch > g.target.Epoch && (joins || resubscribed && !told) {
		g.wait(o, m, &waiter{ticket: t, owned: owned})
		return nil
	}
	if joins {
		g.reconcile(o, m, owned, resubscribed)
	}
	full := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	g.answer(o, t, m, joins || full || told)
	return nil
}

// heard is who sends a heartbeat and what it says.
type heard struct {
	id string
	// replaced is the static member in whose place it comes; nil for none.
	replaced *member
	// before is what was known of the member, said is that with what the request says anew.
	before *schema.MemberMetadata
	said   schema.MemberMetadata
}

// unsaid is what is known of somebody who comes.
var unsaid = schema.MemberMetadata{RebalanceTimeoutMs: -1}

// hear says who sends a heartbeat that is no leave, or why it is refused. It changes nothing.
func (g *Group) hear(o *op.Op, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*heard, error) {
	h := &heard{id: req.MemberID, before: &unsaid}
	if h.id == "" {
		h.id = c.Fresh
	}
	var err error
	if h.replaced, err = g.admit(o, h.id, req); err != nil {
		return nil, err
	}
	switch m := g.members[h.id]; {
	case h.replaced != nil:
		h.before = h.replaced.said
	case m != nil:
		h.before = m.said
	}
	h.said = update(h.before, c, req)
	if h.said.Expression != h.before.Expression && h.said.Expression != "" {
		if _, err := compile(h.said.Expression); err != nil {
			return nil, err
		}
	}
	if sameMetadata(h.before, &h.said) {
		return h, nil
	}
	return h, g.checkRoom(o, h.id, &h.said)
}

// CheckFirst says why a member that joins would be refused by a group that has none yet. Where a group has to become another for
// the member to join, that is to be asked before.
func CheckFirst(o *op.Op, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) error {
	_, err := New(req.Group, NewSubscriptions()).hear(o, c, req)
	return err
}

// admit decides who sends a heartbeat. A static member that it comes in place of is returned.
func (g *Group) admit(o *op.Op, id string, req *kmsg.ConsumerGroupHeartbeatRequest) (replaced *member, err error) {
	m := g.members[id]
	instance := ""
	if req.InstanceID != nil {
		instance = *req.InstanceID
	}
	owner := g.members[g.instances[instance]]
	if err := g.checkSize(o, m != nil || owner != nil && instance != ""); err != nil {
		return nil, err
	}
	if instance != "" && m != nil && m.said.InstanceID != instance {
		return nil, refuse(kerr.InvalidRequest, "Member %s of group %s cannot change its instance id from %q to %q.", id, g.id, m.said.InstanceID, instance)
	}
	if instance == "" || owner == nil || owner == m {
		switch {
		case m != nil:
			return nil, m.checkEpoch(req)
		case req.MemberEpoch == joinEpoch:
			return nil, nil
		case instance != "":
			return nil, refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
		}
		return nil, g.unknown(id)
	}
	if req.MemberEpoch != joinEpoch {
		return nil, refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, instance, owner.id)
	}
	if !owner.classic() && owner.current.Epoch != staticLeaveEpoch {
		return nil, refuse(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, instance, owner.id)
	}
	return owner, nil
}

func (g *Group) unknown(id string) error {
	return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, g.id)
}

// checkSize refuses a new member of a full group.
func (g *Group) checkSize(o *op.Op, known bool) error {
	if known {
		return nil
	}
	if most := o.Settings.Broker.Int("group.consumer.max.size"); len(g.members) >= most {
		return refuse(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", most)
	}
	return nil
}

// otherRecordsBytes is enough for what is written beside what a member says of itself: the group's epoch, a step of the member.
const otherRecordsBytes = 1 << 10

// checkRoom refuses a member that says more than the log takes.
func (g *Group) checkRoom(o *op.Op, id string, said *schema.MemberMetadata) error {
	r := schema.Encode(&schema.ConsumerGroupMemberMetadata{Group: g.id, Member: id, Value: said})
	if !o.Room(len(r.Key) + len(r.Value) + otherRecordsBytes) {
		return refuse(kerr.InvalidRequest, "Member %s says more than the log takes at once: its record has %d bytes.", id, len(r.Value))
	}
	return nil
}

// checkEpoch compares the epoch that a member names with the one it is known to be at. A member that did not get its last
// answer may still name the previous one, as long as it owns nothing that it was told to give up. One that joins again has
// given up everything.
func (m *member) checkEpoch(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	owned := reportedBy(req.Topics)
	switch at := m.current.Epoch; {
	case req.MemberEpoch == joinEpoch:
		return nil
	case req.MemberEpoch > at:
		return refuse(kerr.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", req.MemberEpoch, at)
	case req.MemberEpoch < at && (req.MemberEpoch != m.current.Previous || !owned.within(m.current.Assigned)):
		return refuse(kerr.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", req.MemberEpoch, at)
	case m.current.State > schema.Unreleased && (owned == nil || len(owned) > 0):
		return refuse(kerr.FencedMemberEpoch, "The consumer group member is in an unknown state (%d). The member must abandon all its partitions and rejoin.", m.current.State)
	}
	return nil
}

func reportedBy(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) reported {
	if topics == nil {
		return nil
	}
	owned := make(reported, len(topics))
	for i := range topics {
		owned[topics[i].TopicID] = append(owned[topics[i].TopicID], topics[i].Partitions...)
	}
	return owned
}

// update is what the member has said, with what the request says anew.
func update(said *schema.MemberMetadata, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) schema.MemberMetadata {
	next := *said
	next.ClientID, next.ClientHost, next.Classic = c.ID, c.Host, nil
	for _, s := range []struct {
		to   *string
		from *string
	}{{&next.InstanceID, req.InstanceID}, {&next.RackID, req.RackID}, {&next.Expression, req.SubscribedTopicRegex}, {&next.Assignor, req.ServerAssignor}} {
		if s.from != nil {
			*s.to = *s.from
		}
	}
	if req.RebalanceTimeoutMillis != -1 {
		next.RebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	if req.SubscribedTopicNames != nil {
		next.Topics = sortedSet(req.SubscribedTopicNames)
	}
	return next
}

func sortedSet(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

func sameMetadata(a, b *schema.MemberMetadata) bool {
	return a.InstanceID == b.InstanceID && a.RackID == b.RackID && a.ClientID == b.ClientID && a.ClientHost == b.ClientHost &&
		slices.Equal(a.Topics, b.Topics) && a.Expression == b.Expression && a.RebalanceTimeoutMs == b.RebalanceTimeoutMs &&
		a.Assignor == b.Assignor && sameClassic(a.Classic, b.Classic)
}

// say writes what a member says of itself, and bumps the group epoch if it matters to others. It says whether the member
// subscribes to something else than before.
func (g *Group) say(o *op.Op, id string, said *schema.MemberMetadata) (resubscribed bool) {
	m := g.members[id]
	if m != nil && sameMetadata(m.said, said) {
		return false
	}
	preferred := g.assignor(o)
	before := &schema.MemberMetadata{}
	if m != nil {
		before = m.said
	}
	resubscribed = !slices.Equal(before.Topics, said.Topics) || before.Expression != said.Expression
	kept := *said
	o.Emit(&schema.ConsumerGroupMemberMetadata{Group: g.id, Member: id, Value: &kept})
	if resubscribed || g.epoch.Epoch == 0 || preferred != g.assignor(o) {
		g.refresh(o, true)
	}
	return resubscribed
}

// replace puts a static member that comes back under a new id in the place of its former self.
func (g *Group) replace(o *op.Op, former *member, id string) {
	said, current, target := *former.said, *former.current, g.targets[former.id]
	g.dismiss(o, former.id, refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", former.id, said.InstanceID, id))
	g.emitRemoval(o, former)
	current.Epoch, current.Previous, current.Revoking = joinEpoch, joinEpoch, schema.OwnedPartitions{}
	if target == nil {
		target = assignment.Partitions{}
	}
	o.Emit(&schema.ConsumerGroupMemberMetadata{Group: g.id, Member: id, Value: &said})
	o.Emit(&schema.ConsumerGroupTargetAssignmentMember{Group: g.id, Member: id, Partitions: target})
	o.Emit(&schema.ConsumerGroupCurrentMemberAssignment{Group: g.id, Member: id, Value: &current})
	g.question.rename(former.id, id)
}

// reconcile takes the member a step towards its target.
func (g *Group) reconcile(o *op.Op, m *member, owned reported, resubscribed bool) {
	if !resubscribed && m.reached(g.target.Epoch) {
		return
	}
	s := &step{
		current: m.current, target: g.targets[m.id], targetEpoch: g.target.Epoch, owned: owned, resubscribed: resubscribed,
		subscribed: func(id metadata.TopicID) bool { return g.subscribes(o.Image, m.said, id) },
		free: func(id metadata.TopicID, p int32) bool {
			owner, taken := g.owners[id][p]
			return !taken || owner == m.id
		},
	}
	next := s.next()
	if next == m.current {
		return
	}
	o.Emit(&schema.ConsumerGroupCurrentMemberAssignment{Group: g.id, Member: m.id, Value: next})
	if m.classic() {
		return // classic members have a time to join and a time to sync instead
	}
	if next.State == schema.Unrevoked {
		g.setRebalanceTimer(o, m)
	} else {
		o.ClearTimer(g.timer(timerRebalance, m.id))
	}
}

func (g *Group) answer(o *op.Op, t coordinator.Ticket, m *member, withAssignment bool) {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	id := m.id
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &id, m.current.Epoch, int32(g.keys(o).heartbeatInterval.Milliseconds())
	if withAssignment {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		for _, tp := range listed(m.current.Assigned) {
			topic := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			topic.TopicID, topic.Partitions = tp.id, tp.partitions
			resp.Assignment.Topics = append(resp.Assignment.Topics, topic)
		}
	}
	o.Answer(t, resp)
}

// leave is the end of a member, or of a static member's connection.
func (g *Group) leave(o *op.Op, t coordinator.Ticket, req *kmsg.ConsumerGroupHeartbeatRequest) error {
	m := g.members[req.MemberID]
	if req.InstanceID != nil {
		m = g.members[g.instances[*req.InstanceID]]
		if m == nil {
			return refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", *req.InstanceID)
		}
		if m.id != req.MemberID {
			return refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", req.MemberID, *req.InstanceID, m.id)
		}
	}
	if m == nil {
		return g.unknown(req.MemberID)
	}
	if req.MemberEpoch == staticLeaveEpoch {
		away := *m.current
		away.Epoch, away.Revoking = staticLeaveEpoch, schema.OwnedPartitions{}
		o.ClearTimer(g.timer(timerRebalance, m.id))
		g.dismiss(o, m.id, g.unknown(m.id))
		o.Emit(&schema.ConsumerGroupCurrentMemberAssignment{Group: g.id, Member: m.id, Value: &away})
	} else {
		g.remove(o, m)
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	id := m.id
	resp.MemberID, resp.MemberEpoch = &id, req.MemberEpoch
	o.Answer(t, resp)
	return nil
}

// remove takes members out of the group.
func (g *Group) remove(o *op.Op, members ...*member) {
	if len(members) == 0 {
		return
	}
	for _, m := range members {
		g.emitRemoval(o, m)
	}
	g.refresh(o, true)
	g.ask(o)
}

// emitRemoval writes that there is no such member, and ends what waits for it.
func (g *Group) emitRemoval(o *op.Op, m *member) {
	o.Emit(&schema.ConsumerGroupCurrentMemberAssignment{Group: g.id, Member: m.id})
	o.Emit(&schema.ConsumerGroupTargetAssignmentMember{Group: g.id, Member: m.id})
	o.Emit(&schema.ConsumerGroupMemberMetadata{Group: g.id, Member: m.id})
	g.dismiss(o, m.id, g.unknown(m.id))
	g.clearTimers(o, m.id)
}
