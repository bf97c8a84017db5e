package shard

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// invalidGroup says whether members cannot have a group of this id. Records hold strings of at most 32,767 bytes.
func invalidGroup(id string) bool { return id == "" || len(id) > math.MaxInt16 }

// JoinGroup is answered when all members have joined.
func (m *Machine) JoinGroup(now time.Time, t coordinator.Ticket, c op.Client, req *kmsg.JoinGroupRequest) coordinator.Step {
	o := m.begin(now)
	if err := m.checkJoin(o, c, req); err != nil {
		o.Answer(t, classic.JoinError(req, groupapi.Code(err)))
		return o.Step()
	}
	if m.vacant(req.Group) {
		if g := m.groups[req.Group]; g != nil {
			g.Close(o)
		}
		o.Emit(classic.Created(req.Group, now))
	}
	m.groups[req.Group].Join(o, t, c, req)
	m.settle(o, req.Group)
	return o.Step()
}

// vacant says whether a classic group of this id is still to be made: there is none, or one of another kind without members.
func (m *Machine) vacant(id string) bool {
	g := m.groups[id]
	return g == nil || g.Type() != classic.Type && g.Empty()
}

func (m *Machine) checkJoin(o *op.Op, c op.Client, req *kmsg.JoinGroupRequest) error {
	switch {
	case invalidGroup(req.Group):
		return kerr.InvalidGroupID
	case req.MemberID != "" && m.vacant(req.Group):
		return kerr.UnknownMemberID
	}
	return classic.CheckJoin(o, c, req)
}

// SyncGroup is answered when the leader has assigned.
func (m *Machine) SyncGroup(now time.Time, t coordinator.Ticket, req *kmsg.SyncGroupRequest) coordinator.Step {
	o := m.begin(now)
	if g := m.groups[req.Group]; g != nil && req.Group != "" {
		g.Sync(o, t, req)
	} else {
		o.Answer(t, groupapi.Refuse(req, noGroup(req.Group)))
	}
	return o.Step()
}

// Heartbeat keeps a member of the classic protocol.
func (m *Machine) Heartbeat(now time.Time, t coordinator.Ticket, req *kmsg.HeartbeatRequest) coordinator.Step {
	o := m.begin(now)
	if g := m.groups[req.Group]; g != nil && req.Group != "" {
		g.Heartbeat(o, t, req)
	} else {
		o.Answer(t, groupapi.Refuse(req, noGroup(req.Group)))
	}
	return o.Step()
}

// LeaveGroup removes members of the classic protocol.
func (m *Machine) LeaveGroup(now time.Time, t coordinator.Ticket, req *kmsg.LeaveGroupRequest) coordinator.Step {
	o := m.begin(now)
	switch g := m.groups[req.Group]; {
	case invalidGroup(req.Group):
		o.Answer(t, groupapi.Refuse(req, kerr.InvalidGroupID))
	case g == nil:
		o.Answer(t, classic.LeaveResponse(req, func(kmsg.LeaveGroupRequestMember) error { return kerr.UnknownMemberID }))
	default:
		g.Leave(o, t, req)
		m.settle(o, req.Group)
	}
	return o.Step()
}

// noGroup is what a member hears that asks for a group that does not exist.
func noGroup(id string) *kerr.Error {
	if invalidGroup(id) {
		return kerr.InvalidGroupID
	}
	return kerr.UnknownMemberID
}
