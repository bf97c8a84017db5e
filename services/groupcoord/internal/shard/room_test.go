package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// smallBatch is a message.max.bytes that some records fill.
const smallBatch = 3000

func newSmall(t *testing.T, pairs map[string]string) *harness {
	all := map[string]string{"message.max.bytes": fmt.Sprint(smallBatch), "group.initial.rebalance.delay.ms": "0"}
	for k, v := range pairs {
		all[k] = v
	}
	return newHarness(t, all)
}

func sizeOf(s coordinator.Step) int {
	size := 0
	for _, r := range s.Records {
		size += len(r.Key) + len(r.Value)
	}
	return size
}

// commitMany commits offsets for n partitions of a topic and says how many were stored.
func commitMany(h *harness, group, topic string, n int, text string) int {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i := range n {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), 1, &text
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	h.ticket++
	h.waiting[h.ticket] = req
	step := h.m.OffsetCommit(h.now, h.ticket, req)
	if sizeOf(step) > smallBatch {
		h.t.Fatalf("a step of %d bytes", sizeOf(step))
	}
	stored := 0
	for _, p := range h.take(step).answers[0].response.(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		switch p.ErrorCode {
		case 0:
			stored++
		case kerr.InvalidCommitOffsetSize.Code:
		default:
			h.t.Fatalf("partition %d: %s", p.Partition, codeName(p.ErrorCode))
		}
	}
	return stored
}

// commit stores one offset.
func (h *harness) commit(group, topic string, partition int32) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, 1
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	if r := h.response("c", req).(*kmsg.OffsetCommitResponse); r.Topics[0].Partitions[0].ErrorCode != 0 {
		h.t.Fatalf("a commit fails: %s", codeName(r.Topics[0].Partitions[0].ErrorCode))
	}
}

// TestCommitsThatFillABatch stores of a commit that is larger than a batch what there is room for, and says so.
func TestCommitsThatFillABatch(t *testing.T) {
	h := newSmall(t, nil)
	h.createTopic("a", 1)
	h.image()
	if n := commitMany(h, "g", "a", 100, strings.Repeat("x", 200)); n < 5 || n > 15 {
		t.Errorf("%d offsets were stored", n)
	}
	if n := commitMany(h, "g", "a", 10, ""); n != 10 {
		t.Errorf("%d offsets were stored", n)
	}
}

// TestDeletionsThatFillABatch has the shard go on in further operations until what is gone is gone, in batches of their size.
func TestDeletionsThatFillABatch(t *testing.T) {
	const partitions = 100
	for name, begin := range map[string]func(h *harness){
		"topics": func(h *harness) {
			h.deleteTopic("a")
			h.image()
		},
		"expiry": func(h *harness) { h.wait(3*time.Minute, func(outcome) {}) },
		"groups": func(h *harness) {
			for {
				req := kmsg.NewPtrDeleteGroupsRequest()
				req.Groups = []string{"g"}
				switch code := h.response("c", req).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode; code {
				case 0:
					return
				case kerr.CoordinatorLoadInProgress.Code:
				default:
					h.t.Fatalf("the group is not deleted: %s", codeName(code))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSmall(t, map[string]string{"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "60000"})
			h.createTopic("a", partitions)
			h.image()
			for i := range int32(partitions) {
				h.commit("g", "a", i)
			}
			log := len(h.log)
			begin(h)
			h.wait(0, func(out outcome) {
				if len(out.records) > partitions/2 {
					t.Errorf("a batch of %d records", len(out.records))
				}
			})
			gone := map[int32]bool{}
			for _, e := range h.log[log:] {
				r, err := schema.Decode(e.record)
				if err != nil {
					t.Fatal(err)
				}
				if o, ok := r.(*schema.OffsetCommit); ok && o.Value == nil {
					if gone[o.Partition] {
						t.Errorf("partition %d is deleted twice", o.Partition)
					}
					gone[o.Partition] = true
				}
			}
			if len(gone) != partitions {
				t.Errorf("%d of %d offsets are deleted", len(gone), partitions)
			}
			h.checkReplay()
		})
	}
}

// TestBatchesThatHoldNothing does not spin where the log takes no record at all.
func TestBatchesThatHoldNothing(t *testing.T) {
	h := newHarness(t, nil)
	h.createTopic("a", 1)
	h.image()
	h.commit("g", "a", 0)
	h.settings = settings(t, map[string]string{"message.max.bytes": "10", "offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "60000"})
	h.deleteTopic("a")
	h.image()
	ticks := 0
	h.wait(10*time.Minute, func(out outcome) {
		if ticks++; len(out.records) > 0 {
			t.Errorf("records: %+v", out.records)
		}
	})
	if ticks > 30 {
		t.Errorf("%d ticks in ten minutes", ticks)
	}
}

// TestImagesThatManyGroupsMind has the groups look at an image, and start after loading, in batches of their size.
func TestImagesThatManyGroupsMind(t *testing.T) {
	const groups = 20
	h := newSmall(t, nil)
	for i := range groups {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, fmt.Sprintf("g%02d", i), "m", 10000
		req.SubscribedTopicNames, req.Topics = []string{"a"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		h.ticket++
		h.waiting[h.ticket] = req
		h.take(h.m.ConsumerGroupHeartbeat(h.now, h.ticket, op.Client{ID: "c"}, req))
	}
	seen := map[string]bool{}
	see := func(out outcome) {
		here := map[string]bool{}
		for _, r := range out.records {
			if g, ok := r.(*schema.ConsumerGroupMetadata); ok {
				seen[g.Group], here[g.Group] = true, true
			}
		}
		if len(here) > 1 { // smallBatch is less than what a group may make of an operation
			t.Errorf("%d groups in one operation", len(here))
		}
	}
	h.createTopic("a", 1)
	see(h.image())
	h.wait(0, see)
	if len(seen) != groups {
		t.Errorf("%d of %d groups have seen the topic", len(seen), groups)
	}
	h.deleteTopic("a")
	clear(seen)
	see(h.move())
	h.wait(0, see)
	if len(seen) != groups {
		t.Errorf("%d of %d groups have seen that the topic is gone", len(seen), groups)
	}
}

// TestGroupsThatFillABatch refuses what members say once it is more than a record can hold: neither the group nor the shard may
// hang on it.
func TestGroupsThatFillABatch(t *testing.T) {
	h := newSmall(t, nil)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, "g", "consumer", 10000, 10000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, smallBatch)}}
	h.send("c", join)
	h.wait(0, func(outcome) {})
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 5, "g", "c-1", 1
	resp := h.response("c", sync).(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != kerr.UnknownServerError.Code {
		t.Errorf("sync: %s", codeName(resp.ErrorCode))
	}
	join.MemberID, join.Protocols[0].Metadata = "c-1", subscription("a")
	joined := h.response("c", join).(*kmsg.JoinGroupResponse)
	sync.Generation = joined.Generation
	if resp := h.response("c", sync).(*kmsg.SyncGroupResponse); resp.ErrorCode != 0 {
		t.Errorf("a member that says less: join %s, sync %s", codeName(joined.ErrorCode), codeName(resp.ErrorCode))
	}
	h.checkReplay()
}

// TestNamesThatFillARecord refuses names that a record's strings cannot hold.
func TestNamesThatFillARecord(t *testing.T) {
	h := newHarness(t, nil)
	long := strings.Repeat("x", 40_000)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis = 9, "g", "consumer", 10000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: long}}
	if r := h.response("c", join).(*kmsg.JoinGroupResponse); r.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a protocol: %s", codeName(r.ErrorCode))
	}
	join.Protocols[0].Name, join.InstanceID = "range", &long
	if r := h.response("c", join).(*kmsg.JoinGroupResponse); r.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("an instance: %s", codeName(r.ErrorCode))
	}
	join.InstanceID, join.Group = nil, long
	if r := h.response("c", join).(*kmsg.JoinGroupResponse); r.ErrorCode != kerr.InvalidGroupID.Code {
		t.Errorf("a group: %s", codeName(r.ErrorCode))
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 9, long, -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	if r := h.response("c", commit).(*kmsg.OffsetCommitResponse); r.Topics[0].Partitions[0].ErrorCode != kerr.InvalidGroupID.Code {
		t.Errorf("a group's offsets: %s", codeName(r.Topics[0].Partitions[0].ErrorCode))
	}
}
