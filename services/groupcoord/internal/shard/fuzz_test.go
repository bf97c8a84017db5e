package shard

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fuzzed are the requests that FuzzRequests makes.
var fuzzed = []func() kmsg.Request{
	func() kmsg.Request { return kmsg.NewPtrJoinGroupRequest() },
	func() kmsg.Request { return kmsg.NewPtrSyncGroupRequest() },
	func() kmsg.Request { return kmsg.NewPtrHeartbeatRequest() },
	func() kmsg.Request { return kmsg.NewPtrLeaveGroupRequest() },
	func() kmsg.Request { return kmsg.NewPtrOffsetCommitRequest() },
	func() kmsg.Request { return kmsg.NewPtrTxnOffsetCommitRequest() },
	func() kmsg.Request { return kmsg.NewPtrOffsetFetchRequest() },
	func() kmsg.Request { return kmsg.NewPtrOffsetDeleteRequest() },
	func() kmsg.Request { return kmsg.NewPtrDeleteGroupsRequest() },
	func() kmsg.Request { return kmsg.NewPtrDescribeGroupsRequest() },
	func() kmsg.Request { return kmsg.NewPtrListGroupsRequest() },
}

// fuzzLine is a request of a fuzzed input: its kind, its version, the length of its body in two bytes, the body.
func fuzzLine(kind, version byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{kind, version}, uint16(len(body))), body...)
}

// FuzzRequests sends whatever clients may send to a shard with a group. It must not panic, each answer must be encodable, and the
// records must give the state.
func FuzzRequests(f *testing.F) {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, "g", "consumer", 10000, 10000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("a")}}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 3, "g", "c-1", 1
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "c-1", MemberAssignment: []byte("x")}}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.MemberID = 0, "g", "c-1"
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.MemberID, commit.Generation = 6, "g", "c-1", 1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}}}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 8
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	f.Add(append(fuzzLine(0, 3, join.AppendTo(nil)), fuzzLine(1, 3, sync.AppendTo(nil))...))
	f.Add(append(fuzzLine(3, 0, leave.AppendTo(nil)), fuzzLine(4, 6, commit.AppendTo(nil))...))
	f.Add(fuzzLine(6, 8, fetch.AppendTo(nil)))
	f.Fuzz(func(t *testing.T, input []byte) {
		h := newHarness(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
		h.createTopic("a", 1)
		h.image()
		h.send("c", join)
		encode := func(out outcome) {
			for _, a := range out.answers {
				resp := a.response.(kmsg.Response)
				resp.SetVersion(a.request.GetVersion())
				resp.AppendTo(nil)
			}
		}
		h.wait(0, encode)
		for requests := 0; len(input) >= 4 && requests < 20; requests++ {
			req := fuzzed[int(input[0])%len(fuzzed)]()
			req.SetVersion(int16(input[1]) % (req.MaxVersion() + 1))
			length := min(int(binary.BigEndian.Uint16(input[2:])), len(input)-4)
			err := req.ReadFrom(input[4 : 4+length])
			if input = input[4+length:]; err != nil {
				continue
			}
			encode(h.send("c", req))
		}
		h.wait(20*time.Second, encode)
		h.checkReplay()
	})
}
