package shard

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unreadable is what a consumer subscribes to that is not let in.
func unreadable(req *kmsg.ConsumerGroupHeartbeatRequest) {
	expression := "("
	req.SubscribedTopicRegex = &expression
}

// A consumer that is not let in does not end the group that it comes to: its offsets are kept as long as before.
func TestAnEmptyGroupOutlivesAConsumerThatIsRefused(t *testing.T) {
	m := newMixed(t, nil)
	id := m.member()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	m.request(&kmsg.OffsetCommitRequest{Version: 9, Group: "g", MemberID: id, Generation: 1,
		Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}})
	m.now = m.now.Add(time.Second)
	m.request(&kmsg.LeaveGroupRequest{Version: 3, Group: "g", Members: []kmsg.LeaveGroupRequestMember{{MemberID: id}}})
	before := hard(m.m, m.m)
	if _, r := m.consumer("m", 0, unreadable); r.ErrorCode != kerr.InvalidRegularExpression.Code {
		t.Errorf("the consumer heard %d", r.ErrorCode)
	}
	if after := hard(m.m, m.m); after != before {
		t.Errorf("the shard has\n%s\nafter\n%s", after, before)
	}
}

func TestALiveGroupOutlivesAConsumerThatIsRefused(t *testing.T) {
	m := newMixed(t, nil)
	id := m.member()
	if _, r := m.consumer("m", 0, unreadable); r.ErrorCode != kerr.InvalidRegularExpression.Code {
		t.Errorf("the consumer heard %d", r.ErrorCode)
	}
	if err := m.heartbeat(id, 1); err != nil {
		t.Errorf("the member heard %v", err)
	}
	if _, r := m.consumer("m", 0, nil); r != nil && errors.Is(kerr.ErrorForCode(r.ErrorCode), kerr.GroupIDNotFound) {
		t.Error("no consumer upgrades the group any more")
	}
}
