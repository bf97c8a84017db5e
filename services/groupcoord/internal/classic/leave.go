package classic

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// severalLeave is the first version of LeaveGroup that names more than one member (KIP-345).
const severalLeave = 3

// leavers are the members that a request of any version names.
func leavers(req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupRequestMember {
	if req.Version >= severalLeave {
		return req.Members
	}
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = req.MemberID
	return []kmsg.LeaveGroupRequestMember{m}
}

// LeaveResponse answers a request with the error that fate gives for each member; nil for a member that has left.
func LeaveResponse(req *kmsg.LeaveGroupRequest, fate func(m kmsg.LeaveGroupRequestMember) error) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	for _, m := range leavers(req) {
		r := kmsg.NewLeaveGroupResponseMember()
		r.MemberID, r.InstanceID = m.MemberID, m.InstanceID
		if err := fate(m); err != nil {
			r.ErrorCode = groupapi.Code(err).Code
		}
		resp.Members = append(resp.Members, r)
	}
	if req.Version < severalLeave {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	return resp
}

// Leave removes members, who may also be named by their instance ids alone.
func (g *Group) Leave(o *op.Op, t coordinator.Ticket, req *kmsg.LeaveGroupRequest) {
	var left []string
	resp := LeaveResponse(req, func(m kmsg.LeaveGroupRequestMember) error {
		id, err := g.leaving(m)
		if err != nil {
			return err
		}
		g.goodbye(o, id, cut(m.Reason), false)
		left = append(left, id+clientReason(m.Reason))
		return nil
	})
	o.Answer(t, resp)
	if len(left) > 0 && g.state != Empty {
		g.rebalance(o, "members leave: "+strings.Join(left, ", "))
	}
}

// leaving is the id of the member that an element of a request means.
func (g *Group) leaving(m kmsg.LeaveGroupRequestMember) (string, error) {
	switch {
	case m.MemberID == "" && m.InstanceID != nil:
		id, ok := g.static[*m.InstanceID]
		if !ok {
			return "", kerr.UnknownMemberID
		}
		return id, nil
	case g.isPending(m.MemberID):
		return m.MemberID, nil
	}
	return m.MemberID, g.check(m.MemberID, m.InstanceID)
}
