package shard

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSurvey(t *testing.T) {
	h := newHarness(t, nil)
	h.createTopic("a", 2)
	h.createTopic("b", 1)
	h.image()
	for group, topics := range map[string][]string{"g": {"a", "b"}, "h": {"a"}} {
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.Generation = 9, group, -1
		for _, topic := range topics {
			commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 7}}})
		}
		h.response("c", commit)
	}
	for group, protocolType := range map[string]string{"m": "consumer", "w": "connect"} {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 3, group, 10_000, 10_000, protocolType
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		h.send("c", join)
	}
	h.wait(10_000_000_000, func(outcome) {})

	tests := []struct {
		room int
		want string
		left int
	}{
		{100, "[{g 0 0 false [{a 0 7} {b 0 7}]} {h 0 0 false [{a 0 7}]} {m 1 1 false []} {w 1 1 true []}]", 0},
		{7, "[{g 0 0 false [{a 0 7} {b 0 7}]} {h 0 0 false [{a 0 7}]} {m 1 1 false []} {w 1 1 true []}]", 0},
		{5, "[{g 0 0 false [{a 0 7} {b 0 7}]} {h 0 0 false [{a 0 7}]}]", 2},
		{2, "[{h 0 0 false [{a 0 7}]}]", 5},
		{0, "[]", 7},
	}
	for _, test := range tests {
		groups, left := h.m.Survey(test.room)
		if got := fmt.Sprint(groups); got != test.want || left != test.left {
			t.Errorf("room for %d: %s, %d left, want %s, %d", test.room, got, left, test.want, test.left)
		}
	}
	h.deleteTopic("b")
	h.m.image = h.im // the offsets are to be deleted yet
	if groups, _ := h.m.Survey(100); fmt.Sprint(groups[0]) != "{g 0 0 false [{a 0 7}]}" {
		t.Errorf("with a topic deleted: %+v", groups[0])
	}
}
