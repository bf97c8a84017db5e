package classic

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

const (
	// requiresMemberID is the first version of JoinGroup whose clients join with an id that they were given (KIP-394).
	requiresMemberID = 4
	// skipsAssignment is the first version that can tell a leader not to assign (KIP-814).
	skipsAssignment = 9
	// maxNameBytes bounds the names of a request, which records hold in strings of at most 32,767 bytes. A client id gets a UUID
	// behind it to become a member id.
	maxNameBytes = math.MaxInt16 - 64
	// maxReasonBytes bounds what of a client's reason is logged and remembered; clients cut it at as many characters (KIP-800).
	maxReasonBytes = 255
)

// CheckJoin says what is wrong with a request whatever the group.
func CheckJoin(o *op.Op, c op.Client, req *kmsg.JoinGroupRequest) error {
	s := o.Settings.Broker
	if ms := int(req.SessionTimeoutMillis); ms < s.Int("group.min.session.timeout.ms") || ms > s.Int("group.max.session.timeout.ms") {
		return kerr.InvalidSessionTimeout
	}
	names := []string{c.ID, req.ProtocolType, value(req.InstanceID)}
	for _, p := range req.Protocols {
		names = append(names, p.Name)
	}
	for _, n := range names {
		if len(n) > maxNameBytes {
			return kerr.InvalidRequest
		}
	}
	return nil
}

// JoinError is the answer to a JoinGroup request that fails.
func JoinError(req *kmsg.JoinGroupRequest, err *kerr.Error) *kmsg.JoinGroupResponse {
	return joinError(req.MemberID, err)
}

func joinError(memberID string, err *kerr.Error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.ErrorCode = memberID, err.Code
	return resp
}

// joining is a JoinGroup request on its way.
type joining struct {
	ticket    coordinator.Ticket
	client    op.Client
	req       *kmsg.JoinGroupRequest
	protocols []Protocol
}

// fail answers with an error.
func (j *joining) fail(o *op.Op, err error) {
	o.Answer(j.ticket, joinError(j.req.MemberID, groupapi.Code(err)))
}

// reason is what the client gives as its reason to join.
func (j *joining) reason() string { return clientReason(j.req.Reason) }

func clientReason(r *string) string {
	reason := cut(r)
	if reason == "" {
		return "; client reason: not provided"
	}
	return "; client reason: " + reason
}

// cut is as much of a client's reason as is kept.
func cut(r *string) string {
	reason := value(r)
	return reason[:min(len(reason), maxReasonBytes)]
}

// Join takes in a member, or asks one that is known what it supports now. The request is answered when everyone has joined.
func (g *Group) Join(o *op.Op, t coordinator.Ticket, c op.Client, req *kmsg.JoinGroupRequest) {
	j := &joining{ticket: t, client: c, req: req, protocols: protocolsOf(req)}
	switch {
	case !g.admits(o, req.MemberID):
		g.remove(o, req.MemberID)
		o.Answer(t, joinError("", kerr.GroupMaxSizeReached))
		g.tryCompleteJoin(o)
	case !g.fits(req.ProtocolType, j.protocols):
		j.fail(o, kerr.InconsistentGroupProtocol)
	case req.MemberID == "":
		g.joinUnknown(o, j)
	case g.isPending(req.MemberID):
		g.joinPending(o, j)
	default:
		g.joinMember(o, j)
	}
}

// admits says whether the group has room. While a rebalance is prepared those count who have joined it: so the last to join
// a group that is too large are left out.
func (g *Group) admits(o *op.Op, id string) bool {
	limit := o.Settings.Broker.Int("group.max.size")
	m := g.members[id]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join != 0 || g.joining < limit
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < limit
	}
	return true
}

// fits says whether the group can have a member with these protocols.
func (g *Group) fits(protocolType string, protocols []Protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range protocols {
		if g.supported[p.Name] == len(g.members) {
			return true
		}
	}
	return false
}

func (g *Group) joinUnknown(o *op.Op, j *joining) {
	if j.req.InstanceID != nil {
		id := *j.req.InstanceID + "-" + j.client.Fresh
		if old, ok := g.static[*j.req.InstanceID]; ok {
			g.replaceStatic(o, j, g.members[old], id)
		} else {
			g.add(o, j, id)
		}
		return
	}
	id := j.client.ID + "-" + j.client.Fresh
	if j.req.Version < requiresMemberID {
		g.add(o, j, id)
		return
	}
	session := milliseconds(j.req.SessionTimeoutMillis)
	g.pending[id], g.awaited[id] = o.Now.Add(session), true
	o.SetTimer(g.session(id), o.Now.Add(min(session, pendingWait)))
	o.Answer(j.ticket, joinError(id, kerr.MemberIDRequired))
}

func (g *Group) joinPending(o *op.Op, j *joining) {
	if j.req.InstanceID != nil { // ids are not handed out to static members in advance
		j.fail(o, kerr.InvalidRequest)
		return
	}
	g.add(o, j, j.req.MemberID)
}

// joinMember is a member joining again. It only learns how things stand if it has nothing new to say: it may have missed an
// answer.
func (g *Group) joinMember(o *op.Op, j *joining) {
	if err := g.check(j.req.MemberID, j.req.InstanceID); err != nil {
		j.fail(o, err)
		return
	}
	m := g.members[j.req.MemberID]
	changed := !m.says(j.protocols)
	switch {
	case g.state == PreparingRebalance:
		g.update(o, m, j)
		g.rebalance(o, "member "+m.id+" joins"+j.reason())
	case g.state == Stable && g.leader == m.id:
		// The leader sees changes, of topics for one, that no member's metadata shows.
		g.update(o, m, j)
		g.rebalance(o, "leader "+m.id+" joins again"+j.reason())
	case changed:
		g.update(o, m, j)
		g.rebalance(o, "member "+m.id+" has new metadata"+j.reason())
	default:
		o.Answer(j.ticket, g.joined(m))
	}
}

// joined is the answer to a member that is part of the generation.
func (g *Group) joined(m *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.ProtocolType, resp.Protocol = g.generation, pointer(g.protocolType), pointer(g.protocol)
	resp.LeaderID, resp.MemberID = g.leader, m.id
	if g.leader == m.id && g.state == CompletingRebalance {
		resp.Members = g.metadata()
	}
	return resp
}

// metadata is what the leader assigns by.
func (g *Group) metadata() []kmsg.JoinGroupResponseMember {
	members := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.ordered() {
		members = append(members, kmsg.JoinGroupResponseMember{MemberID: m.id, InstanceID: m.instanceID, ProtocolMetadata: m.metadata(g.protocol)})
	}
	return members
}

// add has a new member join.
func (g *Group) add(o *op.Op, j *joining, id string) {
	m := &member{id: id, instanceID: j.req.InstanceID, clientID: j.client.ID, clientHost: j.client.Host, fresh: true}
	if g.state == PreparingRebalance && g.initial {
		g.grew = true
	}
	if len(g.members) == 0 {
		g.protocolType = j.req.ProtocolType
	}
	g.put(m)
	if g.leader == "" {
		g.leader = id
	}
	g.update(o, m, j)
	// A client that gives up waiting comes back as somebody else, and its connection does not show that it is gone. So that
	// such members do not add up a new member is dropped after a while; if it is still there it joins again.
	o.SetTimer(g.session(id), o.Now.Add(newMemberTimeout))
	g.rebalance(o, "new member "+id+j.reason())
}

// update parks a join and takes over what it says.
func (g *Group) update(o *op.Op, m *member, j *joining) {
	g.count(m, -1)
	m.protocols = j.protocols
	g.count(m, 1)
	m.sessionTimeout = milliseconds(j.req.SessionTimeoutMillis)
	m.rebalanceTimeout = milliseconds(j.req.RebalanceTimeoutMillis)
	if j.req.Version == 0 || j.req.RebalanceTimeoutMillis < 0 {
		m.rebalanceTimeout = m.sessionTimeout
	}
	if m.join == 0 {
		g.joining++
	} else {
		// The client asks again, so it does not wait for the first request any more.
		o.Answer(m.join, joinError(m.id, kerr.RebalanceInProgress))
	}
	m.join = j.ticket
}

// replaceStatic gives a static member's place to its newest process. The one before learns that it is fenced (KIP-345).
func (g *Group) replaceStatic(o *op.Op, j *joining, old *member, id string) {
	leader := g.leader
	g.take(old)
	o.ClearTimer(g.session(old.id))
	answerJoin(o, old, joinError(old.id, kerr.FencedInstanceID))
	answerSync(o, old, syncError(kerr.FencedInstanceID))
	m := &member{
		id: id, instanceID: old.instanceID, clientID: old.clientID, clientHost: old.clientHost,
		protocols: old.protocols, assignment: old.assignment,
	}
	g.put(m)
	if leader == old.id {
		g.leader = id
	}
	g.update(o, m, j)
	o.SetTimer(g.session(id), o.Now.Add(m.sessionTimeout))
	switch {
	case g.state == CompletingRebalance:
		// The leader may be assigning to the member of before.
		g.rebalance(o, "static member "+*m.instanceID+" is replaced"+j.reason())
	case g.state == Stable && g.selectProtocol() == g.protocol:
		g.joinInPlace(o, j, m, leader)
	default:
		g.rebalance(o, "static member "+*m.instanceID+" is replaced by one that changes the protocol"+j.reason())
	}
}

// joinInPlace has the new process of a static member take over its assignment without a rebalance. It must not assign: a stable
// group would not hear of it. Clients that cannot be told so are told that another leads (KIP-814).
func (g *Group) joinInPlace(o *op.Op, j *joining, m *member, leaderBefore string) {
	if err := g.persist(o, func(m *member) []byte { return m.assignment }); err != nil {
		g.rebalance(o, err.Error())
		return
	}
	resp := g.joined(m)
	if j.req.Version < skipsAssignment {
		resp.LeaderID = leaderBefore
	} else if g.leader == m.id {
		resp.SkipAssignment, resp.Members = true, g.metadata()
	}
	g.finishJoin(o, m, resp)
}
