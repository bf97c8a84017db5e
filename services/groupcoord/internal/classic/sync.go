package classic

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

func syncError(err *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = err.Code
	return resp
}

func answerSync(o *op.Op, m *member, resp *kmsg.SyncGroupResponse) {
	o.Answer(m.sync, resp)
	m.sync = 0
}

// Sync takes the leader's assignment and gives every member its part.
func (g *Group) Sync(o *op.Op, t coordinator.Ticket, req *kmsg.SyncGroupRequest) {
	if err := g.checkSync(req); err != nil {
		o.Answer(t, syncError(groupapi.Code(err)))
		return
	}
	m := g.members[req.MemberID]
	delete(g.unsynced, m.id)
	if len(g.unsynced) == 0 {
		o.ClearTimer(g.syncTimer())
	}
	if g.state == Stable {
		o.Answer(t, g.synced(m))
		return
	}
	answerSync(o, m, syncError(kerr.RebalanceInProgress)) // an earlier request that the client does not wait for any more
	m.sync = t
	if m.id == g.leader {
		g.assign(o, req.GroupAssignment)
	}
}

// checkSync says whether a request comes from a member of the generation, at a time when there is something to sync.
func (g *Group) checkSync(req *kmsg.SyncGroupRequest) error {
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType, req.Protocol != nil && *req.Protocol != g.protocol:
		return kerr.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return kerr.RebalanceInProgress
	}
	return nil
}

// assign makes the group stable. Members that the leader left out have an empty assignment.
func (g *Group) assign(o *op.Op, list []kmsg.SyncGroupRequestGroupAssignment) {
	assigned := make(map[string][]byte, len(list))
	for _, a := range list {
		assigned[a.MemberID] = a.MemberAssignment
	}
	if err := g.persist(o, func(m *member) []byte { return assigned[m.id] }); err != nil {
		for _, m := range g.ordered() {
			answerSync(o, m, syncError(groupapi.Code(err)))
		}
		g.prepare(o, err.Error())
		return
	}
	for _, m := range g.ordered() {
		if m.sync != 0 {
			answerSync(o, m, g.synced(m))
			g.keepAlive(o, m)
		}
	}
	g.tell(o, "assigned by "+g.leader)
}

func (g *Group) synced(m *member) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = pointer(g.protocolType), pointer(g.protocol), m.assignment
	return resp
}

// Heartbeat keeps a member's session alive and tells it of a rebalance.
func (g *Group) Heartbeat(o *op.Op, t coordinator.Ticket, req *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	switch err := g.check(req.MemberID, req.InstanceID); {
	case err != nil:
		resp.ErrorCode = groupapi.Code(err).Code
	case req.Generation != g.generation:
		resp.ErrorCode = kerr.IllegalGeneration.Code
	default:
		g.keepAlive(o, g.members[req.MemberID])
		if g.state == PreparingRebalance {
			resp.ErrorCode = kerr.RebalanceInProgress.Code
		}
	}
	o.Answer(t, resp)
}
