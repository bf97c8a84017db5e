package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// benchGroup has n members join and sync a group, and says who they are.
func benchGroup(b *testing.B, m *Machine, now time.Time, group string, n int) []string {
	t := coordinator.Ticket(0)
	ids := make([]string, n)
	ticks := func() {
		for next := m.NextTick(); !next.IsZero() && !next.After(now); next = m.NextTick() {
			m.Tick(now)
		}
	}
	assignments := []kmsg.SyncGroupRequestGroupAssignment{}
	for i := range ids {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 45000, 300000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("a")}, {Name: "cooperative-sticky", Metadata: subscription("a")}}
		t++
		m.JoinGroup(now, t, op.Client{ID: "c", Host: "/127.0.0.1", Fresh: fmt.Sprint(i)}, req)
		ids[i] = "c-" + fmt.Sprint(i)
		assignments = append(assignments, kmsg.SyncGroupRequestGroupAssignment{MemberID: ids[i], MemberAssignment: []byte(strings.Repeat("p", 40))})
	}
	ticks()
	for i, id := range ids {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.MemberID, req.Generation = 5, group, id, 1
		if i == 0 {
			req.GroupAssignment = assignments
		}
		t++
		m.SyncGroup(now, t, req)
	}
	ticks()
	if s := m.groups[group].State(); s != "Stable" {
		b.Fatalf("the group is %s", s)
	}
	return ids
}

func benchMachine(b *testing.B) (*Machine, *harness) {
	h := newHarness(b, map[string]string{"group.initial.rebalance.delay.ms": "0"})
	h.createTopic("a", 100)
	h.image()
	return h.m, h
}

// BenchmarkRebalance is a group of 1,000 members that forms.
func BenchmarkRebalance(b *testing.B) {
	for b.Loop() {
		m, h := benchMachine(b)
		benchGroup(b, m, h.now, "g", 1000)
	}
}

// BenchmarkHeartbeat is a heartbeat in a shard of 1,000 members.
func BenchmarkHeartbeat(b *testing.B) {
	m, h := benchMachine(b)
	ids := benchGroup(b, m, h.now, "g", 1000)
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation = 4, "g", 1
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req.MemberID = ids[i%len(ids)]
		m.Heartbeat(h.now, 1, req)
	}
}

// BenchmarkCommit is a commit of one offset by a member.
func BenchmarkCommit(b *testing.B) {
	m, h := benchMachine(b)
	ids := benchGroup(b, m, h.now, "g", 10)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, "g", 1
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req.MemberID, req.Topics[0].Partitions[0].Partition = ids[i%len(ids)], int32(i%100)
		m.OffsetCommit(h.now, 1, req)
	}
}
