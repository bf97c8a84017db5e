package shard

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// mixed is a shard with consumers of both protocols, one of whose groups is "g".
type mixed struct {
	*harness
	question *assignment.Input
	got      map[coordinator.Ticket]any
}

func newMixed(t *testing.T, pairs map[string]string) *mixed {
	t.Helper()
	if pairs == nil {
		pairs = map[string]string{}
	}
	pairs["group.initial.rebalance.delay.ms"] = "0"
	m := &mixed{harness: newHarness(t, pairs), got: map[coordinator.Ticket]any{}}
	m.createTopic("a", 4)
	m.image()
	return m
}

// note keeps answers and questions of an outcome, and compares the state with that of a shard that has read the log.
func (m *mixed) note(out outcome) {
	m.t.Helper()
	for _, a := range out.answers {
		m.got[a.ticket] = a.response
	}
	for _, j := range out.jobs {
		if q, ok := j.(*assignment.Input); ok {
			m.question = q
		}
	}
	m.checkReplay()
	if live, replayed := m.describeConsumers(m.m), m.describeConsumers(m.replayed()); !reflect.DeepEqual(live, replayed) {
		m.t.Fatalf("the shard has\n%+v\nbut its records give\n%+v", live, replayed)
	}
}

func (m *mixed) describeConsumers(s *Machine) *kmsg.ConsumerGroupDescribeResponse {
	step := s.ConsumerGroupDescribe(m.now, 1, &kmsg.ConsumerGroupDescribeRequest{Groups: []string{"g", "h"}})
	return step.Answers[0].Response.(*kmsg.ConsumerGroupDescribeResponse)
}

func (m *mixed) state() string {
	g := m.describeConsumers(m.m).Groups[0]
	if g.ErrorCode != 0 {
		return *g.ErrorMessage
	}
	text := fmt.Sprintf("%s %d/%d", g.State, g.Epoch, g.AssignmentEpoch)
	for _, member := range g.Members {
		text += " " + member.MemberID + ":"
		for _, tp := range member.Assignment.TopicPartitions {
			text += fmt.Sprintf("%s%v", tp.Topic, tp.Partitions)
		}
	}
	return text
}

// request sends a request and gives the answer if there is one already.
func (m *mixed) request(req kmsg.Request) (coordinator.Ticket, any) {
	m.t.Helper()
	m.note(m.send("c", req))
	return m.ticket, m.got[m.ticket]
}

func (m *mixed) consumer(id string, epoch int32, more func(*kmsg.ConsumerGroupHeartbeatRequest)) (coordinator.Ticket, *kmsg.ConsumerGroupHeartbeatResponse) {
	m.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", id, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 20_000, []string{"a"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if more != nil {
		more(req)
	}
	m.ticket++
	m.waiting[m.ticket] = req
	m.note(m.take(m.m.ConsumerGroupHeartbeat(m.now, m.ticket, op.Client{ID: "c", Host: "/127.0.0.1"}, req)))
	resp, _ := m.got[m.ticket].(*kmsg.ConsumerGroupHeartbeatResponse)
	return m.ticket, resp
}

// assign is the assignor's answer: everything for the members in turn.
func (m *mixed) assign() {
	m.t.Helper()
	q := m.question
	if q == nil {
		m.t.Fatal("there is no question")
	}
	m.question = nil
	out := assignment.Output{}
	for _, t := range q.Topics {
		for p := range t.Count {
			id := q.Members[int(p)%len(q.Members)].ID
			if out[id] == nil {
				out[id] = assignment.Partitions{}
			}
			out[id][t.ID] = append(out[id][t.ID], p)
		}
	}
	m.note(m.take(m.m.Assigned(m.now, q, out, nil)))
}

func (m *mixed) pass(d time.Duration) {
	m.t.Helper()
	m.wait(d, m.note)
}

func (m *mixed) joinClassic(id string, owned ...int32) *kmsg.JoinGroupRequest {
	s := kmsg.ConsumerMemberMetadata{Version: 2, Topics: []string{"a"}, Generation: -1}
	if len(owned) > 0 {
		s.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "a", Partitions: owned}}
	}
	return &kmsg.JoinGroupRequest{Version: 9, Group: "g", MemberID: id, ProtocolType: "consumer", SessionTimeoutMillis: 30_000, RebalanceTimeoutMillis: 30_000,
		Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "cooperative-sticky", Metadata: s.AppendTo(nil)}}}
}

// member makes a classic group of one member that has all of topic a, and gives its id.
func (m *mixed) member() string {
	m.t.Helper()
	_, r := m.request(m.joinClassic(""))
	id := r.(*kmsg.JoinGroupResponse).MemberID
	ticket, _ := m.request(m.joinClassic(id))
	m.pass(0)
	join := m.got[ticket].(*kmsg.JoinGroupResponse)
	if join.ErrorCode != 0 || join.LeaderID != id {
		m.t.Fatalf("join: %+v", join)
	}
	a := kmsg.ConsumerMemberAssignment{Version: 2, Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "a", Partitions: []int32{0, 1, 2, 3}}}}
	_, r = m.request(&kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: id, Generation: join.Generation,
		GroupAssignment: []kmsg.SyncGroupRequestGroupAssignment{{MemberID: id, MemberAssignment: a.AppendTo(nil)}}})
	if sync := r.(*kmsg.SyncGroupResponse); sync.ErrorCode != 0 {
		m.t.Fatalf("sync: %+v", sync)
	}
	return id
}

func (m *mixed) heartbeat(id string, generation int32) error {
	m.t.Helper()
	_, r := m.request(&kmsg.HeartbeatRequest{Version: 4, Group: "g", MemberID: id, Generation: generation})
	return kerr.ErrorForCode(r.(*kmsg.HeartbeatResponse).ErrorCode)
}

func (m *mixed) sync(id string, generation int32) (string, error) {
	m.t.Helper()
	_, r := m.request(&kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: id, Generation: generation})
	sync := r.(*kmsg.SyncGroupResponse)
	var a kmsg.ConsumerMemberAssignment
	if err := kerr.ErrorForCode(sync.ErrorCode); err != nil {
		return "", err
	}
	if err := a.ReadFrom(sync.MemberAssignment); err != nil {
		m.t.Fatal(err)
	}
	return fmt.Sprint(a.Topics), nil
}

// TestUpgradeAndDowngrade leads a live group from the classic protocol to the newer one and back.
func TestUpgradeAndDowngrade(t *testing.T) {
	m := newMixed(t, nil)
	id := m.member()
	ticket, _ := m.consumer("m", 0, nil)
	if got, want := m.state(), "Assigning 2/1 "+id+":a[0 1 2 3] m:"; got != want {
		t.Fatalf("after the upgrade: %s, want %s", got, want)
	}
	if err := m.heartbeat(id, 1); err != nil {
		t.Errorf("without a new target: %v", err)
	}
	m.assign()
	if r := m.got[ticket].(*kmsg.ConsumerGroupHeartbeatResponse); r.MemberEpoch != 2 || len(r.Assignment.Topics) != 0 {
		t.Errorf("the consumer got %+v while the classic member has all", r)
	}
	if err := m.heartbeat(id, 1); !errors.Is(err, kerr.RebalanceInProgress) {
		t.Errorf("with a new target: %v", err)
	}
	// The cooperative member joins, learns what to give up, and joins again.
	_, r := m.request(m.joinClassic(id, 0, 1, 2, 3))
	if join := r.(*kmsg.JoinGroupResponse); join.Generation != 1 || join.LeaderID != "" {
		t.Errorf("join while it owns all: %+v", join)
	}
	if got, err := m.sync(id, 1); got != "[{a [0 2]}]" || err != nil {
		t.Errorf("sync: %s, %v", got, err)
	}
	_, r = m.request(m.joinClassic(id, 0, 2))
	if join := r.(*kmsg.JoinGroupResponse); join.Generation != 2 {
		t.Errorf("join after it gave up two: %+v", join)
	}
	if _, hb := m.consumer("m", 2, nil); hb.MemberEpoch != 2 || len(hb.Assignment.Topics) != 1 {
		t.Errorf("the consumer got %+v", hb)
	}
	if got, want := m.state(), "Stable 2/2 "+id+":a[0 2] m:a[1 3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// The last consumer of the newer protocol leaves.
	if _, hb := m.consumer("m", -1, nil); hb.ErrorCode != 0 || hb.MemberEpoch != -1 {
		t.Errorf("leave: %+v", hb)
	}
	if got := m.state(); got != "Group g is not a consumer group." {
		t.Errorf("after the downgrade: %s", got)
	}
	if err := m.heartbeat(id, 3); !errors.Is(err, kerr.RebalanceInProgress) {
		t.Errorf("after the downgrade: %v", err)
	}
	_, r = m.request(m.joinClassic(id, 0, 2))
	if join := r.(*kmsg.JoinGroupResponse); join.ErrorCode != 0 || join.Generation != 4 || join.LeaderID != id {
		t.Errorf("join after the downgrade: %+v", join)
	}
}

// TestUpgradeEndsARebalance upgrades a group while a member's join and another one's sync wait.
func TestUpgradeEndsARebalance(t *testing.T) {
	m := newMixed(t, nil)
	id := m.member()
	_, r := m.request(m.joinClassic(""))
	join, waits := m.request(m.joinClassic(r.(*kmsg.JoinGroupResponse).MemberID))
	if waits != nil {
		t.Fatalf("the join does not wait: %+v", waits)
	}
	m.consumer("m", 0, nil)
	if got := m.got[join].(*kmsg.JoinGroupResponse); got.ErrorCode != kerr.RebalanceInProgress.Code {
		t.Errorf("the join was answered %+v", got)
	}
	if got, want := m.state(), "Assigning 2/1 "; !strings.HasPrefix(got, want) || !strings.Contains(got, id+":a[0 1 2 3]") {
		t.Errorf("%s", got)
	}
	// The timers of the classic group are gone, those of the consumer group run.
	m.pass(29 * time.Second)
	if err := m.heartbeat(id, 1); err != nil {
		t.Errorf("before the session ends: %v", err)
	}
	if _, r := m.consumer("m", 1, nil); r.ErrorCode != 0 {
		t.Errorf("the consumer heard %+v", r)
	}
	m.pass(30 * time.Second)
	if err := m.heartbeat(id, 1); !errors.Is(err, kerr.UnknownMemberID) {
		t.Errorf("after the session ended: %v", err)
	}
}

func TestUpgradesThatAreRefused(t *testing.T) {
	tests := []struct {
		name  string
		pairs map[string]string
		want  string
	}{
		{"by policy", map[string]string{"group.consumer.migration.policy": "downgrade"}, "online upgrade is disabled"},
		{"by size", map[string]string{"group.consumer.max.size": "1"}, "exceeds the consumer group maximum size"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMixed(t, test.pairs)
			id := m.member()
			_, r := m.consumer("m", 0, nil)
			if r.ErrorCode != kerr.GroupIDNotFound.Code || !strings.Contains(*r.ErrorMessage, test.want) {
				t.Errorf("the consumer heard %d %v", r.ErrorCode, *r.ErrorMessage)
			}
			if err := m.heartbeat(id, 1); err != nil {
				t.Errorf("the classic member heard %v", err)
			}
		})
	}
}

// TestDowngradeByPolicy keeps a group as it is where its policy says so.
func TestDowngradeByPolicy(t *testing.T) {
	m := newMixed(t, map[string]string{"group.consumer.migration.policy": "UPGRADE"})
	id := m.member()
	m.consumer("m", 0, nil)
	m.consumer("m", -1, nil)
	if got, want := m.state(), "Assigning 3/1 "+id+":a[0 1 2 3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestConsumerGroupsThatAreNot asks for what there is not.
func TestConsumerGroupsThatAreNot(t *testing.T) {
	m := newMixed(t, nil)
	for _, epoch := range []int32{1, -1} {
		if _, r := m.consumer("m", epoch, nil); r.ErrorCode != kerr.GroupIDNotFound.Code || *r.ErrorMessage != "Consumer group g not found." {
			t.Errorf("epoch %d: %+v", epoch, r)
		}
	}
	if got := m.state(); got != "Group g not found." {
		t.Error(got)
	}
	long := strings.Repeat("g", 40_000)
	if _, r := m.consumer("m", 0, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.Group = long }); r.ErrorCode != kerr.InvalidGroupID.Code {
		t.Errorf("a long id: %+v", r)
	}
	// One that is not let in leaves no group behind.
	expression := "("
	_, r := m.consumer("m", 0, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, &expression
	})
	if r.ErrorCode != kerr.InvalidRegularExpression.Code || len(m.m.groups) != 0 {
		t.Errorf("%+v, %d groups", r, len(m.m.groups))
	}
	m.member()
	if _, r := m.consumer("m", 1, nil); *r.ErrorMessage != "Group g is not a consumer group." {
		t.Errorf("a classic group: %s", *r.ErrorMessage)
	}
}

// TestEmptyGroupsChangeKind: a group without members is of the kind of whoever comes, and keeps its offsets.
func TestEmptyGroupsChangeKind(t *testing.T) {
	m := newMixed(t, nil)
	commit := func(member string, epoch int32) error {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = 7
		_, r := m.request(&kmsg.OffsetCommitRequest{Version: 9, Group: "g", MemberID: member, Generation: epoch,
			Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}})
		return kerr.ErrorForCode(r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	}
	if err := commit("", -1); err != nil { // a group that is only known by its offsets
		t.Fatal(err)
	}
	m.consumer("m", 0, nil)
	m.assign()
	if err := commit("m", 2); err != nil {
		t.Errorf("commit of a member: %v", err)
	}
	for _, epoch := range []int32{0, 1, 3} { // before the member had the partition, and in the future
		if err := commit("m", epoch); !errors.Is(err, kerr.StaleMemberEpoch) {
			t.Errorf("commit at epoch %d: %v", epoch, err)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		_, r := m.request(&kmsg.TxnOffsetCommitRequest{Version: 5, Group: "g", MemberID: "m", Generation: epoch, ProducerID: 1,
			Topics: []kmsg.TxnOffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}})
		if err := kerr.ErrorForCode(r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode); !errors.Is(err, kerr.IllegalGeneration) {
			t.Errorf("commit of a transaction at epoch %d: %v", epoch, err)
		}
	}
	_, r := m.request(&kmsg.ListGroupsRequest{Version: 5})
	if g := r.(*kmsg.ListGroupsResponse).Groups; len(g) != 1 || g[0].GroupType != "consumer" || g[0].GroupState != "Stable" || g[0].ProtocolType != "consumer" {
		t.Errorf("listed as %+v", g)
	}
	m.consumer("m", -1, nil)
	id := m.member()
	if err := m.heartbeat(id, 1); err != nil {
		t.Errorf("a classic group in its place: %v", err)
	}
	offset := m.m.offsets.Fetch(m.m.begin(m.now), &kmsg.OffsetFetchRequestGroup{Group: "g"}, 9, false)
	if len(offset.Topics) != 1 || offset.Topics[0].Partitions[0].Offset != 7 {
		t.Errorf("the offsets are %+v", offset.Topics)
	}
	m.move()
	if err := m.heartbeat(id, 1); err != nil {
		t.Errorf("after a move: %v", err)
	}
}

// TestDeleteConsumerGroup deletes a group when it is empty, with nothing left behind.
func TestDeleteConsumerGroup(t *testing.T) {
	m := newMixed(t, nil)
	remove := func() error {
		_, r := m.request(&kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"g"}})
		return kerr.ErrorForCode(r.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	}
	m.consumer("m", 0, nil)
	question := m.question
	m.assign()
	if err := remove(); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Errorf("with a member: %v", err)
	}
	m.consumer("m", -1, nil)
	if err := remove(); err != nil || len(m.m.groups) != 0 {
		t.Errorf("without: %v, %d groups", err, len(m.m.groups))
	}
	// The answer to a question of before.
	m.note(m.take(m.m.Assigned(m.now, question, nil, nil)))
	if len(m.replayed().groups) != 0 {
		t.Error("the log has a group")
	}
	// Another group of that name, with a question for the same epoch.
	m.consumer("n", 0, nil)
	m.note(m.take(m.m.Assigned(m.now, question, nil, errors.New("crashed"))))
	m.assign()
	if got, want := m.state(), "Stable 2/2 n:a[0 1 2 3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A member that nobody knows is no reason to make a group without members a classic one.
func TestAnUnknownMemberLeavesAnEmptyConsumerGroupAsItIs(t *testing.T) {
	m := newMixed(t, nil)
	m.consumer("one", 0, nil)
	m.assign()
	m.consumer("one", -1, nil)
	before := m.state()
	join := func(id string) *kmsg.JoinGroupResponse {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 5, "g", id, "consumer", 10_000, 20_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("a")}}
		_, answer := m.request(req)
		return answer.(*kmsg.JoinGroupResponse)
	}
	records := len(m.log)
	if code := join("nobody").ErrorCode; code != kerr.UnknownMemberID.Code {
		t.Errorf("an unknown member hears %v", kerr.ErrorForCode(code))
	}
	if m.state() != before || len(m.log) != records {
		t.Errorf("the group was %s and is %s, %d records were written", before, m.state(), len(m.log)-records)
	}
	if code := join("").ErrorCode; code != kerr.MemberIDRequired.Code {
		t.Errorf("a new member hears %v", kerr.ErrorForCode(code))
	}
	if g := m.m.groups["g"]; g.Type() != "classic" {
		t.Errorf("the group that a classic member joins is %s", g.Type())
	}
}
