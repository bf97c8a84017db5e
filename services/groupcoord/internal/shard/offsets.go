package shard

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// saysGroupIsUnknown is the first version of OffsetCommit that tells a member so.
const saysGroupIsUnknown = 9

// OffsetCommit stores offsets of members, or of someone who only stores offsets.
func (m *Machine) OffsetCommit(now time.Time, t coordinator.Ticket, req *kmsg.OffsetCommitRequest) coordinator.Step {
	o := m.begin(now)
	by := offsets.Committer{MemberID: req.MemberID, InstanceID: req.InstanceID, Epoch: req.Generation, Version: req.Version}
	if admit, err := m.admitCommit(o, req.Group, by); err != nil {
		o.Answer(t, groupapi.Refuse(req, groupapi.Code(err)))
	} else {
		o.Answer(t, m.offsets.Commit(o, req, admit))
	}
	return o.Step()
}

// admitCommit says whether offsets may be committed. A group that does not exist is made by the first commit of someone who is
// no member; the empty id is a group like any other.
func (m *Machine) admitCommit(o *op.Op, group string, by offsets.Committer) (offsets.Admission, error) {
	g := m.groups[group]
	switch {
	case len(group) > math.MaxInt16:
		return nil, kerr.InvalidGroupID
	case g != nil:
		return g.AdmitCommit(o, by)
	case by.Epoch < 0:
		return nil, nil
	case !by.Transactional && by.Version >= saysGroupIsUnknown:
		return nil, kerr.GroupIDNotFound
	}
	return nil, kerr.IllegalGeneration
}

// OffsetDelete deletes offsets of topics that no member subscribes to.
func (m *Machine) OffsetDelete(now time.Time, t coordinator.Ticket, req *kmsg.OffsetDeleteRequest) coordinator.Step {
	o := m.begin(now)
	g := m.groups[req.Group]
	var err error
	switch {
	case invalidGroup(req.Group):
		err = kerr.InvalidGroupID
	case g == nil:
		err = kerr.GroupIDNotFound
	default:
		err = g.AdmitDelete()
	}
	if err != nil {
		o.Answer(t, groupapi.Refuse(req, groupapi.Code(err)))
	} else {
		o.Answer(t, m.offsets.Delete(o, req, g.Subscribed))
	}
	return o.Step()
}

// DeleteGroups deletes groups without members and their offsets.
func (m *Machine) DeleteGroups(now time.Time, t coordinator.Ticket, req *kmsg.DeleteGroupsRequest) coordinator.Step {
	o := m.begin(now)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range req.Groups {
		r := kmsg.NewDeleteGroupsResponseGroup()
		r.Group = id
		if err := m.deleteGroup(o, id); err != nil {
			r.ErrorCode = groupapi.Code(err).Code
		}
		resp.Groups = append(resp.Groups, r)
	}
	o.Answer(t, resp)
	return o.Step()
}

func (m *Machine) deleteGroup(o *op.Op, id string) error {
	g := m.groups[id]
	switch {
	case g == nil:
		return kerr.GroupIDNotFound
	case !g.Empty():
		return kerr.NonEmptyGroup
	case !m.offsets.DeleteAll(o, id) || !roomToClose(o, id):
		return kerr.CoordinatorLoadInProgress // clients try again, and the rest of the offsets goes then
	}
	g.Close(o)
	return nil
}

// DescribeGroups shows groups of the classic protocol.
func (m *Machine) DescribeGroups(now time.Time, t coordinator.Ticket, req *kmsg.DescribeGroupsRequest) coordinator.Step {
	o := m.begin(now)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range req.Groups {
		resp.Groups = append(resp.Groups, m.describe(now, id, req.Version))
	}
	o.Answer(t, resp)
	return o.Step()
}

// saysGroupIsNotFound is the first version of DescribeGroups that does (KIP-1043); before, such a group is dead.
const saysGroupIsNotFound = 6

func (m *Machine) describe(now time.Time, id string, version int16) kmsg.DescribeGroupsResponseGroup {
	g := m.groups[id]
	if c, ok := g.(*classic.Group); ok {
		return c.Describe(now)
	}
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.State = id, string(classic.Dead)
	if version >= saysGroupIsNotFound {
		message := "Group " + id + " not found."
		if g != nil {
			message = "Group " + id + " is not a classic group."
		}
		out.ErrorCode, out.ErrorMessage = kerr.GroupIDNotFound.Code, &message
	}
	return out
}
