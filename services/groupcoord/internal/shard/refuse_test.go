package shard

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// encoded is a response as a client of a version reads it.
func encoded(t *testing.T, resp kmsg.Response, version int16) kmsg.Response {
	t.Helper()
	resp.SetVersion(version)
	read := reflect.New(reflect.TypeOf(resp).Elem()).Interface().(kmsg.Response)
	read.SetVersion(version)
	if err := read.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestNoAnswerIsNoAbsenceOfOffsets is BL-035: in each version a client that is refused finds the error where it looks for it.
func TestNoAnswerIsNoAbsenceOfOffsets(t *testing.T) {
	want := kerr.NotCoordinator.Code
	for version := int16(1); version <= 10; version++ {
		for _, all := range []bool{false, true} {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.Group = version, "g"
			group := kmsg.OffsetFetchRequestGroup{Group: "g"}
			if !all {
				req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "a", Partitions: []int32{0, 3}}}
				group.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "a", Partitions: []int32{0, 3}}}
			}
			req.Groups = []kmsg.OffsetFetchRequestGroup{group, {Group: "h"}}
			resp := encoded(t, Refuse(req, kerr.NotCoordinator), version).(*kmsg.OffsetFetchResponse)
			switch {
			case version == 1 && !all:
				if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
					t.Fatalf("version %d: %+v", version, resp)
				}
				for _, p := range resp.Topics[0].Partitions {
					if p.ErrorCode != want || p.Offset != -1 {
						t.Errorf("version %d: %+v", version, p)
					}
				}
			case version >= 2 && version < 8:
				if resp.ErrorCode != want {
					t.Errorf("version %d: %+v", version, resp)
				}
			case version >= 8:
				if len(resp.Groups) != 2 || resp.Groups[0].ErrorCode != want || resp.Groups[1].ErrorCode != want || resp.Groups[1].Group != "h" {
					t.Errorf("version %d: %+v", version, resp)
				}
			}
		}
	}
}

// TestAllOffsetsOrNone tells a request without topics, which asks for all offsets, from one with an empty list of them.
func TestAllOffsetsOrNone(t *testing.T) {
	h := newHarness(t, nil)
	h.createTopic("a", 1)
	h.image()
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 9, "g", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 7}}}}
	h.response("c", commit)
	for version := int16(1); version <= 10; version++ {
		for _, all := range []bool{true, false} {
			if all && version < 2 {
				continue
			}
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.Group = version, "g"
			req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}
			if !all {
				req.Topics, req.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
			}
			read := kmsg.NewPtrOffsetFetchRequest()
			read.Version = version
			if err := read.ReadFrom(req.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
			resp := encoded(t, h.response("c", read).(kmsg.Response), version).(*kmsg.OffsetFetchResponse)
			topics := len(resp.Topics)
			for _, g := range resp.Groups {
				topics += len(g.Topics)
			}
			if want := map[bool]int{true: 1, false: 0}[all]; topics != want {
				t.Errorf("version %d, all %v: %d topics", version, all, topics)
			}
		}
	}
}

// TestLoadingIsNotLeaving is BL-036: while a shard is loaded its members keep their place.
func TestLoadingIsNotLeaving(t *testing.T) {
	loading := kerr.CoordinatorLoadInProgress
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version = 5
	tests := []struct {
		req  kmsg.Request
		want int16
		code func(kmsg.Response) int16
	}{
		{kmsg.NewPtrJoinGroupRequest(), loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode }},
		{kmsg.NewPtrSyncGroupRequest(), kerr.RebalanceInProgress.Code, func(r kmsg.Response) int16 { return r.(*kmsg.SyncGroupResponse).ErrorCode }},
		{kmsg.NewPtrHeartbeatRequest(), 0, func(r kmsg.Response) int16 { return r.(*kmsg.HeartbeatResponse).ErrorCode }},
		{leave, loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.LeaveGroupResponse).ErrorCode }},
		{kmsg.NewPtrListGroupsRequest(), loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.ListGroupsResponse).ErrorCode }},
		{kmsg.NewPtrOffsetDeleteRequest(), loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetDeleteResponse).ErrorCode }},
		{&kmsg.DescribeGroupsRequest{Groups: []string{"g"}}, loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode }},
		{&kmsg.DeleteGroupsRequest{Groups: []string{"g"}}, loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode }},
		{
			&kmsg.OffsetCommitRequest{Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 3}}}}},
			loading.Code, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode },
		},
		{
			&kmsg.TxnOffsetCommitRequest{Topics: []kmsg.TxnOffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 3}}}}},
			loading.Code, func(r kmsg.Response) int16 {
				return r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
			},
		},
	}
	for _, test := range tests {
		if got := test.code(Refuse(test.req, loading)); got != test.want {
			t.Errorf("%T: %s, want %s", test.req, codeName(got), codeName(test.want))
		}
	}
	heartbeat := Refuse(kmsg.NewPtrHeartbeatRequest(), kerr.NotCoordinator).(*kmsg.HeartbeatResponse)
	sync := Refuse(kmsg.NewPtrSyncGroupRequest(), kerr.NotCoordinator).(*kmsg.SyncGroupResponse)
	if heartbeat.ErrorCode != kerr.NotCoordinator.Code || sync.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("elsewhere: %d, %d", heartbeat.ErrorCode, sync.ErrorCode)
	}
	if resp := Refuse(kmsg.NewPtrMetadataRequest(), loading); resp != nil {
		t.Errorf("a request that is no group's: %+v", resp)
	}
}
