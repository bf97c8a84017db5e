package groupapi

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests has a request of each API that names two groups, topics or partitions where it can.
func requests() []kmsg.Request {
	id := [16]byte{7}
	groups := []string{"g", "h"}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = "g"
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 3}, {Partition: 4}}}}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group = "g"
	fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{3, 4}}}
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}, {Group: "h"}}
	txn := kmsg.NewPtrTxnOffsetCommitRequest()
	txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", TopicID: id, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 3}, {Partition: 4}}}}
	return []kmsg.Request{
		commit, fetch, txn,
		&kmsg.JoinGroupRequest{Group: "g", MemberID: "m"}, &kmsg.HeartbeatRequest{Group: "g"}, &kmsg.LeaveGroupRequest{Group: "g"},
		&kmsg.SyncGroupRequest{Group: "g"}, &kmsg.ListGroupsRequest{}, &kmsg.OffsetDeleteRequest{Group: "g"},
		&kmsg.ConsumerGroupHeartbeatRequest{Group: "g"},
		&kmsg.DescribeGroupsRequest{Groups: groups}, &kmsg.DeleteGroupsRequest{Groups: groups}, &kmsg.ConsumerGroupDescribeRequest{Groups: groups},
	}
}

// codes are all codes of a response, each with its place.
func codes(resp kmsg.Response) []string {
	var list []string
	add := func(place string, code int16) { list = append(list, fmt.Sprintf("%s=%d", place, code)) }
	switch r := resp.(type) {
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(fmt.Sprint(t.Topic, t.TopicID[0], "-", p.Partition), p.ErrorCode)
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(fmt.Sprint(t.Topic, t.TopicID[0], "-", p.Partition), p.ErrorCode)
			}
		}
	case *kmsg.OffsetFetchResponse:
		add("top", r.ErrorCode)
		for _, g := range r.Groups {
			add(g.Group, g.ErrorCode)
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(fmt.Sprint(t.Topic, "-", p.Partition, " offset ", p.Offset), p.ErrorCode)
			}
		}
	case *kmsg.JoinGroupResponse:
		add(fmt.Sprint("top generation ", r.Generation), r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		add("top", r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		add("top", r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		add("top", r.ErrorCode)
	case *kmsg.ListGroupsResponse:
		add(fmt.Sprint("top groups ", len(r.Groups)), r.ErrorCode)
	case *kmsg.OffsetDeleteResponse:
		add("top", r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		add("top", r.ErrorCode)
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			add(g.Group, g.ErrorCode)
		}
	case *kmsg.DeleteGroupsResponse:
		for _, g := range r.Groups {
			add(g.Group, g.ErrorCode)
		}
	case *kmsg.ConsumerGroupDescribeResponse:
		for _, g := range r.Groups {
			add(g.Group, g.ErrorCode)
		}
	}
	return list
}

// want is where a client of the version looks for code.
func want(key, version, code int16) []string {
	at := func(places ...string) []string {
		for i := range places {
			places[i] += fmt.Sprintf("=%d", code)
		}
		return places
	}
	switch key {
	case 8, 28: // topics have names at first, and ids since these versions
		if version >= map[int16]int16{8: 10, 28: 6}[key] {
			return at("7-3", "7-4")
		}
		return at("t0-3", "t0-4")
	case 9:
		switch {
		case version >= 8:
			return append([]string{"top=0"}, at("g", "h")...)
		case version >= 2:
			return at("top")
		}
		return append([]string{"top=0"}, at("t-3 offset -1", "t-4 offset -1")...)
	case 11:
		return at("top generation -1")
	case 16:
		return at("top groups 0")
	case 15, 42, 69:
		return at("g", "h")
	}
	return at("top")
}

// BL-035, BL-036, BL-052, BL-113: the code reaches whoever asks at any version, as far as the response that is sent
// carries it.
func TestRefuse(t *testing.T) {
	loading, elsewhere := kerr.CoordinatorLoadInProgress, kerr.NotCoordinator
	for _, req := range requests() {
		key := req.Key()
		for version := range req.MaxVersion() + 1 {
			for _, code := range []*kerr.Error{elsewhere, loading, kerr.CoordinatorNotAvailable, kerr.InvalidGroupID, kerr.RequestTimedOut} {
				said := code.Code
				switch {
				case code == kerr.RequestTimedOut:
					said = kerr.CoordinatorNotAvailable.Code
				case code == loading && key == 12, code == elsewhere && key == 16:
					said = 0
				case code == loading && key == 14:
					said = kerr.RebalanceInProgress.Code
				case code == loading && key == 28 && version < 2:
					said = kerr.CoordinatorNotAvailable.Code
				}
				asked := reread(t, req, version)
				sent := Refuse(asked, code)
				if sent == nil || sent.GetVersion() != version || sent.Key() != key {
					t.Fatalf("key %d v%d: %+v", key, version, sent)
				}
				got := kmsg.ResponseForKey(key)
				got.SetVersion(version)
				if err := got.ReadFrom(sent.AppendTo(nil)); err != nil {
					t.Fatalf("key %d v%d: %v", key, version, err)
				}
				if got, want := codes(got), want(key, version, said); !slices.Equal(got, want) {
					t.Errorf("key %d v%d, %s: codes %v, want %v", key, version, code.Message, got, want)
				}
			}
		}
	}
	if resp := Refuse(kmsg.NewPtrMetadataRequest(), elsewhere); resp != nil {
		t.Errorf("a request for no group is refused with %T", resp)
	}
}

// reread is a request as it comes from the network.
func reread(t *testing.T, req kmsg.Request, version int16) kmsg.Request {
	t.Helper()
	req.SetVersion(version)
	got := kmsg.RequestForKey(req.Key())
	got.SetVersion(version)
	if err := got.ReadFrom(req.AppendTo(nil)); err != nil {
		t.Fatalf("%T v%d: %v", req, version, err)
	}
	return got
}

// Whatever is offered is refused properly.
func TestEveryRangeHasARefusal(t *testing.T) {
	list := Ranges()
	for i, r := range list {
		if i > 0 && list[i-1].Key >= r.Key {
			t.Errorf("key %d follows %d", r.Key, list[i-1].Key)
		}
		req := kmsg.RequestForKey(r.Key)
		if r.Max > req.MaxVersion() || r.Min > r.Max {
			t.Errorf("key %d is offered as %d to %d", r.Key, r.Min, r.Max)
		}
		if Refuse(req, kerr.NotCoordinator) == nil {
			t.Errorf("key %d is offered and has no refusal", r.Key)
		}
	}
}
