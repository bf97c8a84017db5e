package consumer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// firstKnownMemberID is the first version of JoinGroup whose clients join a second time with the id they get (KIP-394).
const firstKnownMemberID = 4

// highest versions of what consumers say in the classic protocol, as far as they are known.
const (
	highestSubscription = 3
	highestAssignment   = 3
)

var errMalformed = errors.New("malformed consumer protocol")

// Join is a member of the classic protocol that joins. It is answered at once or when an assignor has answered; it gets a
// generation, which is the member's epoch, and no list of members: nobody is the leader.
func (g *Group) Join(o *op.Op, t coordinator.Ticket, c op.Client, req *kmsg.JoinGroupRequest) {
	id := req.MemberID
	if id == "" {
		id = c.Fresh
	}
	if err := g.join(o, t, c, id, req); err != nil {
		o.Answer(t, refuseJoin(id, err))
	}
}

func (g *Group) join(o *op.Op, t coordinator.Ticket, c op.Client, id string, req *kmsg.JoinGroupRequest) error {
	instance := ""
	if req.InstanceID != nil {
		instance = *req.InstanceID
	}
	owner := g.members[g.instances[instance]]
	if err := g.checkSize(o, g.members[id] != nil || instance != "" && owner != nil); err != nil {
		return err
	}
	if !g.supports(req.ProtocolType, req.Protocols) {
		return refuse(kerr.InconsistentGroupProtocol, "Member %s's protocols are not supported.", id)
	}
	if instance == "" && req.MemberID == "" && req.Version >= firstKnownMemberID {
		return kerr.MemberIDRequired
	}
	if instance != "" && req.MemberID != "" {
		if err := g.checkInstance(owner, instance, id); err != nil {
			return err
		}
	}
	s, err := readSubscription(req.Protocols[0].Metadata)
	if err != nil {
		return refuse(kerr.InconsistentGroupProtocol, "Member %s's subscription cannot be read: %v", id, err)
	}
	if req.MemberID != "" && g.members[id] == nil && len(s.OwnedPartitions) > 0 {
		// Not someone who comes with the id it was told to come with, but one that was given up on. Apache Kafka lets it in; what
		// it owns may be another's by now, so it has to lose it first.
		return g.unknown(id)
	}
	before, replaced := &schema.MemberMetadata{RebalanceTimeoutMs: -1}, (*member)(nil)
	switch m := g.members[id]; {
	case instance != "" && owner != nil && owner.id != id:
		before, replaced = owner.said, owner
	case m != nil:
		before = m.said
	}
	said := updateClassic(before, c, req, s)
	if len(id) > longestKey {
		return refuse(kerr.InvalidRequest, "MemberId is too long.")
	}
	if err := g.checkRoom(o, id, &said); err != nil {
		return err
	}
	g.supersede(o, id)
	if replaced != nil {
		g.replace(o, replaced, id)
	}
	resubscribed := g.say(o, id, &said)
	m := g.members[id]
	o.ClearTimer(g.timer(timerRebalance, id))
	g.extendSession(o, m)
	g.ask(o)
	owned := namedPartitions(o.Image, s.OwnedPartitions)
	if g.epoch.Epoch > g.target.Epoch {
		g.wait(o, m, &waiter{ticket: t, join: true, owned: owned})
		return nil
	}
	g.reconcile(o, m, owned, resubscribed)
	g.answerJoin(o, t, m)
	return nil
}

// supports says whether the protocols are those of consumers and all classic members have one of them in common.
func (g *Group) supports(typ string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	return typ == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.protocols[p.Name] == g.classics
	})
}

func updateClassic(said *schema.MemberMetadata, c op.Client, req *kmsg.JoinGroupRequest, s *kmsg.ConsumerMemberMetadata) schema.MemberMetadata {
	next := *said
	next.ClientID, next.ClientHost, next.Expression = c.ID, c.Host, ""
	next.Topics = sortedSet(s.Topics)
	if req.InstanceID != nil {
		next.InstanceID = *req.InstanceID
	}
	if s.Rack != nil && *s.Rack != "" {
		next.RackID = *s.Rack
	}
	if next.RebalanceTimeoutMs = req.RebalanceTimeoutMillis; next.RebalanceTimeoutMs < 0 {
		next.RebalanceTimeoutMs = req.SessionTimeoutMillis // version 0 has but one timeout
	}
	next.Classic = &schema.ClassicMemberMetadata{SessionTimeoutMs: req.SessionTimeoutMillis}
	for _, p := range req.Protocols {
		next.Classic.Protocols = append(next.Classic.Protocols, schema.ClassicProtocol{Name: p.Name, Metadata: p.Metadata})
	}
	return next
}

func sameClassic(a, b *schema.ClassicMemberMetadata) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SessionTimeoutMs == b.SessionTimeoutMs && slices.EqualFunc(a.Protocols, b.Protocols, func(p, q schema.ClassicProtocol) bool {
		return p.Name == q.Name && bytes.Equal(p.Metadata, q.Metadata)
	})
}

// answerJoin tells a member its epoch as the generation. It has to sync within the rebalance timeout.
func (g *Group) answerJoin(o *op.Op, t coordinator.Ticket, m *member) {
	resp := kmsg.NewPtrJoinGroupResponse()
	consumers, name := protocolType, m.said.Classic.Protocols[0].Name
	resp.MemberID, resp.Generation, resp.ProtocolType, resp.Protocol = m.id, m.current.Epoch, &consumers, &name
	g.clearJoinTimer(o, m.id)
	g.extendSession(o, m)
	o.SetTimer(g.timer(timerSync, m.id), o.Now.Add(milliseconds(m.said.RebalanceTimeoutMs)))
	o.Answer(t, resp)
}

// Sync gives a member of the classic protocol its assignment.
func (g *Group) Sync(o *op.Op, t coordinator.Ticket, req *kmsg.SyncGroupRequest) {
	resp := kmsg.NewPtrSyncGroupResponse()
	if err := g.sync(o, req, resp); err != nil {
		resp.ErrorCode = codeOf(err)
	}
	o.Answer(t, resp)
}

func (g *Group) sync(o *op.Op, req *kmsg.SyncGroupRequest, resp *kmsg.SyncGroupResponse) error {
	m, err := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return err
	}
	name := m.said.Classic.Protocols[0].Name
	switch {
	case req.ProtocolType != nil && *req.ProtocolType != protocolType:
		return refuse(kerr.InconsistentGroupProtocol, "The protocol type %s of member %s is not that of the group.", *req.ProtocolType, m.id)
	case req.Protocol != nil && *req.Protocol != name:
		return refuse(kerr.InconsistentGroupProtocol, "The protocol %s of member %s is not %s as in the answer to its join.", *req.Protocol, m.id, name)
	case g.target.Epoch > m.current.Epoch && m.current.State != schema.Unrevoked:
		// An Unrevoked member has joined for the newer target already, and has to give up partitions first.
		g.expectJoin(o, m)
		return refuse(kerr.RebalanceInProgress, "A new rebalance is triggered in group %s and member %s should rejoin to catch up.", g.id, m.id)
	}
	o.ClearTimer(g.timer(timerSync, m.id))
	g.extendSession(o, m)
	resp.ProtocolType, resp.Protocol = req.ProtocolType, req.Protocol
	resp.MemberAssignment = assignmentBytes(o.Image, listed(m.current.Assigned), m.said.Classic.Protocols[0].Metadata)
	return nil
}

// Heartbeat is a heartbeat of a member of the classic protocol. It is told to join again when there is a newer target,
// when it has to give up partitions and when those it waits for are free.
func (g *Group) Heartbeat(o *op.Op, t coordinator.Ticket, req *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	if err := g.classicHeartbeat(o, req); err != nil {
		resp.ErrorCode = codeOf(err)
	}
	o.Answer(t, resp)
}

func (g *Group) classicHeartbeat(o *op.Op, req *kmsg.HeartbeatRequest) error {
	m, err := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return err
	}
	g.extendSession(o, m)
	if m.current.Epoch < g.target.Epoch || m.current.State == schema.Unrevoked || m.current.State == schema.Unreleased && !g.waitsForOthers(m) {
		g.expectJoin(o, m)
		return kerr.RebalanceInProgress
	}
	return nil
}

// waitsForOthers says whether others still have some of the member's target.
func (g *Group) waitsForOthers(m *member) bool {
	for id, list := range g.targets[m.id] {
		for _, p := range list {
			if owner, taken := g.owners[id][p]; taken && owner != m.id {
				return true
			}
		}
	}
	return false
}

// Leave takes members of the classic protocol out of the group, each with an answer of its own.
func (g *Group) Leave(o *op.Op, t coordinator.Ticket, req *kmsg.LeaveGroupRequest) {
	var leaving []*member
	resp := classic.LeaveResponse(req, func(who kmsg.LeaveGroupRequestMember) error {
		m, err := g.leaver(who.MemberID, who.InstanceID)
		if err == nil && !slices.Contains(leaving, m) {
			leaving = append(leaving, m)
		}
		return err
	})
	g.remove(o, leaving...)
	o.Answer(t, resp)
}

// leaver is a classic member that is to leave. An administrator may name a static member by its instance alone.
func (g *Group) leaver(id string, instance *string) (*member, error) {
	m := g.members[id]
	if instance != nil {
		if m = g.members[g.instances[*instance]]; id != "" {
			if err := g.checkInstance(m, *instance, id); err != nil {
				return nil, err
			}
		}
	}
	if m == nil || !m.classic() {
		return nil, g.unknown(id)
	}
	return m, nil
}

// checkInstance compares who is known by an instance id with who says to be it.
func (g *Group) checkInstance(owner *member, instance, id string) error {
	switch {
	case owner == nil:
		return refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
	case owner.id != id:
		return refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, instance, owner.id)
	}
	return nil
}

// classicMember finds a member of the classic protocol at a generation.
func (g *Group) classicMember(id string, instance *string, generation int32) (*member, error) {
	m := g.members[id]
	if instance != nil {
		m = g.members[g.instances[*instance]]
		if err := g.checkInstance(m, *instance, id); err != nil {
			return nil, err
		}
	}
	switch {
	case m == nil:
		return nil, g.unknown(id)
	case !m.classic():
		return nil, refuse(kerr.UnknownMemberID, "Member %s does not use the classic protocol.", id)
	case m.current.Epoch != generation:
		return nil, refuse(kerr.IllegalGeneration, "The request generation id %d is not equal to the member epoch %d of member %s.", generation, m.current.Epoch, id)
	}
	return m, nil
}

// readSubscription reads what a consumer says when it joins. A newer version begins as the highest known one does.
func readSubscription(metadata []byte) (*kmsg.ConsumerMemberMetadata, error) {
	if len(metadata) < 2 || int16(binary.BigEndian.Uint16(metadata)) < 0 {
		return nil, errMalformed
	}
	metadata = bytes.Clone(metadata)
	if version := binary.BigEndian.Uint16(metadata); version > highestSubscription {
		binary.BigEndian.PutUint16(metadata, highestSubscription)
	}
	var s kmsg.ConsumerMemberMetadata
	if err := s.ReadFrom(metadata); err != nil {
		return nil, errors.Join(errMalformed, err)
	}
	return &s, nil
}

// assignmentBytes are partitions in the form and version in which the member that sent a subscription reads them.
func assignmentBytes(im *metadata.Image, list []topicPartitions, subscription []byte) []byte {
	a := kmsg.ConsumerMemberAssignment{Version: highestAssignment}
	if len(subscription) >= 2 {
		a.Version = min(int16(binary.BigEndian.Uint16(subscription)), highestAssignment)
	}
	for _, tp := range list {
		if t, ok := im.TopicByID(tp.id); ok {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Name, Partitions: tp.partitions})
		}
	}
	return a.AppendTo(nil)
}

// namedPartitions are partitions that a member names by topic name, those of topics that exist.
func namedPartitions(im *metadata.Image, list []kmsg.ConsumerMemberMetadataOwnedPartition) reported {
	owned := reported{}
	for _, tp := range list {
		if t, ok := im.Topic(tp.Topic); ok {
			owned[t.ID] = append(owned[t.ID], tp.Partitions...)
		}
	}
	return owned
}
