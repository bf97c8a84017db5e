package shard

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A static member that has no time to join again, and is away, is not waited for in a loop.
func TestAStaticMemberWithoutTimeToJoin(t *testing.T) {
	m := newMixed(t, nil)
	instance := "i"
	join := func(id string, instance *string, timeout int32) *kmsg.JoinGroupResponse {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Version, q.Group, q.MemberID, q.InstanceID, q.ProtocolType = 5, "g", id, instance, "consumer"
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 30_000, timeout
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("a")}}
		_, r := m.request(q)
		resp, _ := r.(*kmsg.JoinGroupResponse)
		return resp
	}
	id := join("", nil, 60_000).MemberID
	join(id, nil, 60_000)
	join("", &instance, 0)
	m.note(m.take(m.m.Tick(m.now))) // everyone has joined
	m.request(&kmsg.LeaveGroupRequest{Version: 3, Group: "g", Members: []kmsg.LeaveGroupRequestMember{{MemberID: id}}})
	m.note(m.take(m.m.Tick(m.now)))
	if next := m.m.NextTick(); !next.After(m.now) {
		t.Error("there is something to do again at once")
	}
	r := m.response("c", &kmsg.DescribeGroupsRequest{Version: 5, Groups: []string{"g"}}).(*kmsg.DescribeGroupsResponse)
	if g := r.Groups[0]; g.State != "PreparingRebalance" || len(g.Members) != 1 {
		t.Errorf("the group is %+v", g)
	}
}
