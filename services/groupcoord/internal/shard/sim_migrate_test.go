package shard

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// TestSimulationOfMigration replaces the members of a live group one by one by consumers of the other protocol, there and back, while
// members crash and pause, answers get lost, assignors fail and the coordinator moves.
func TestSimulationOfMigration(t *testing.T) {
	if *simSeed != 0 {
		newMigration(t, *simSeed).run()
		return
	}
	for seed := range max(*simRuns/2, 1) {
		newMigration(t, seed+1).run()
	}
}

const migrationSteps = 60

// migrant is a consumer of either protocol.
type migrant struct {
	name    string
	classic bool
	id      string
	epoch   int32   // or generation; 0 before joining
	owns    []int32 // partitions of topic a that it reads from
	// unsure is set from when an answer was lost until the coordinator has told what it owns: the coordinator may think that it owns
	// something else.
	unsure bool
	ticket coordinator.Ticket // it waits for; 0 for none
	asked  time.Time
	silent time.Time // neither sends nor receives until then

	// Of a consumer of the newer protocol: it is to say everything, and has said what it owns.
	full, told bool
	// Of a classic one: it has the assignment of its generation; what it assigns as the leader.
	synced bool
	assign []kmsg.SyncGroupRequestGroupAssignment

	beaten time.Time
}

// migration is one run.
type migration struct {
	*sim     // the story, and what was committed
	eager    bool
	migrants []*migrant
	question *assignment.Input
	asked    time.Time
}

func newMigration(t testing.TB, seed uint64) *migration {
	s := &sim{seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), faults: true, committed: map[string]int64{}, since: map[coordinator.Ticket]time.Time{}}
	s.harness = newHarness(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
	s.createTopic("a", 1+int32(s.rng.IntN(6)))
	s.image()
	return &migration{sim: s, eager: s.rng.IntN(3) == 0}
}

func (s *migration) run() {
	for step := range migrationSteps {
		s.disturb(step/(migrationSteps/4)%2 == 1)
		s.pass(time.Duration(s.rng.IntN(5000)) * time.Millisecond)
		s.checkOffsets()
	}
	s.settle()
}

// disturb changes who is there: newer says which protocol those use who come.
func (s *migration) disturb(newer bool) {
	switch n := s.rng.IntN(100); {
	case n < 30 && len(s.migrants) < 4:
		s.names++
		c := &migrant{name: fmt.Sprintf("c%d", s.names), classic: !newer, full: true}
		if newer {
			c.id = fmt.Sprintf("m%d", s.names)
		}
		s.note("%s comes, classic: %v", c.name, c.classic)
		s.migrants = append(s.migrants, c)
	case n < 50:
		if i := slices.IndexFunc(s.migrants, func(c *migrant) bool { return c.classic == newer }); i >= 0 {
			s.leave(s.migrants[i])
		}
	case len(s.migrants) == 0:
	case n < 55:
		c := s.anyone()
		s.note("%s crashes", c.name)
		s.drop(c)
	case n < 62:
		c := s.anyone()
		c.silent = s.now.Add(time.Duration(s.rng.IntN(70)) * time.Second)
		s.note("%s pauses until %v", c.name, c.silent.Sub(simStart))
	case n < 66:
		c := s.anyone()
		s.note("%s loses its connection", c.name)
		s.lose(c)
	case n < 70:
		s.note("the coordinator moves")
		s.checkReplay()
		s.question = nil
		s.take(s.move())
		for _, c := range s.migrants {
			if c.ticket != 0 {
				s.lose(c)
			}
		}
	}
}

func (s *migration) anyone() *migrant { return s.migrants[s.rng.IntN(len(s.migrants))] }

func (s *migration) drop(c *migrant) {
	s.migrants = slices.DeleteFunc(s.migrants, func(o *migrant) bool { return o == c })
}

func (s *migration) leave(c *migrant) {
	s.note("%s leaves", c.name)
	s.drop(c)
	switch {
	case c.id == "" || c.epoch == 0:
	case c.classic:
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group, req.Members = 5, simGroup, []kmsg.LeaveGroupRequestMember{{MemberID: c.id}}
		s.take(s.send(c.name, req))
	default:
		s.heartbeat(c, &kmsg.ConsumerGroupHeartbeatRequest{MemberEpoch: -1})
	}
}

// lose has a consumer ask anew.
func (s *migration) lose(c *migrant) {
	c.ticket, c.full = 0, true
	if c.classic && c.synced {
		return // nothing but a heartbeat
	}
	c.unsure = true
	if c.classic {
		c.epoch = 0
	}
}

// forget has a consumer own nothing.
func (c *migrant) forget() {
	c.epoch, c.owns, c.unsure, c.full, c.told, c.synced, c.assign = 0, nil, false, true, false, false, nil
}

func (s *migration) pass(d time.Duration) {
	for until := s.now.Add(d); s.now.Before(until); {
		for _, c := range slices.Clone(s.migrants) {
			if !s.now.Before(c.silent) {
				s.act(c)
			}
		}
		s.answerQuestion()
		s.wait(min(500*time.Millisecond, until.Sub(s.now)), s.take)
		s.check()
	}
}

// answerQuestion is the assignor, late and failing while there are faults.
func (s *migration) answerQuestion() {
	q := s.question
	if q == nil || s.faults && s.now.Sub(s.asked) < time.Duration(s.rng.IntN(3))*time.Second {
		return
	}
	s.question = nil
	if s.faults && s.rng.IntN(10) == 0 {
		s.note("the assignor fails")
		s.take(s.harness.take(s.m.Assigned(s.now, q, nil, errors.New("crashed"))))
		return
	}
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
	s.take(s.harness.take(s.m.Assigned(s.now, q, out, nil)))
}

// act is what a consumer does next.
func (s *migration) act(c *migrant) {
	switch {
	case c.ticket != 0 && s.now.Sub(c.asked) < 2*time.Minute:
	case c.ticket != 0:
		s.lose(c)
	case c.epoch > 0 && (c.synced || !c.classic) && len(c.owns) > 0 && s.rng.IntN(4) == 0:
		s.commits(c)
	case !c.classic && (c.full || !c.told || s.now.Sub(c.beaten) >= 2*time.Second):
		c.beaten = s.now
		s.heartbeats(c)
	case !c.classic:
	case c.epoch == 0:
		s.join(c)
	case !c.synced:
		req := &kmsg.SyncGroupRequest{Version: 5, Group: simGroup, MemberID: c.id, Generation: c.epoch, GroupAssignment: c.assign}
		s.request(c, req)
	case s.now.Sub(c.beaten) >= 2*time.Second:
		c.beaten = s.now
		s.request(c, &kmsg.HeartbeatRequest{Version: 4, Group: simGroup, MemberID: c.id, Generation: c.epoch})
	}
}

func (s *migration) request(c *migrant, req kmsg.Request) {
	c.ticket, c.asked = s.ticket+1, s.now
	s.note("%s (%s) sends %T #%d", c.name, c.id, req, c.ticket)
	s.take(s.send(c.name, req))
}

func (s *migration) join(c *migrant) {
	m := kmsg.ConsumerMemberMetadata{Version: 3, Topics: []string{"a"}, Generation: -1}
	protocol := "cooperative-sticky"
	if s.eager {
		protocol, c.owns = "range", nil
	}
	if len(c.owns) > 0 {
		m.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "a", Partitions: c.owns}}
	}
	s.request(c, &kmsg.JoinGroupRequest{Version: 9, Group: simGroup, MemberID: c.id, ProtocolType: "consumer", SessionTimeoutMillis: 20_000, RebalanceTimeoutMillis: 25_000,
		Protocols: []kmsg.JoinGroupRequestProtocol{{Name: protocol, Metadata: m.AppendTo(nil)}}})
}

func (s *migration) heartbeats(c *migrant) {
	req := &kmsg.ConsumerGroupHeartbeatRequest{MemberEpoch: c.epoch, RebalanceTimeoutMillis: -1}
	if c.full || c.epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 25_000, []string{"a"}
	}
	if c.full || !c.told || c.epoch == 0 {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if topic, _ := s.im.Topic("a"); len(c.owns) > 0 {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.ID, Partitions: c.owns})
		}
	}
	c.full, c.told = false, true
	s.heartbeat(c, req)
}

func (s *migration) heartbeat(c *migrant, req *kmsg.ConsumerGroupHeartbeatRequest) {
	req.Version, req.Group, req.MemberID = 1, simGroup, c.id
	s.ticket++
	c.ticket, c.asked = s.ticket, s.now
	s.waiting[s.ticket] = req
	s.note("%s (%s) beats at epoch %d #%d", c.name, c.id, c.epoch, c.ticket)
	s.take(s.harness.take(s.m.ConsumerGroupHeartbeat(s.now, s.ticket, op.Client{ID: c.name, Host: "/127.0.0.1"}, req)))
}

// commits commits an offset of what a consumer reads; whether it may is the coordinator's to say.
func (s *migration) commits(c *migrant) {
	s.next++
	p := c.owns[s.rng.IntN(len(c.owns))]
	req := &kmsg.OffsetCommitRequest{Version: 9, Group: simGroup, MemberID: c.id, Generation: c.epoch, Topics: []kmsg.OffsetCommitRequestTopic{
		{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: p, Offset: s.next, LeaderEpoch: -1}}}}}
	code := s.response(c.name, req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	s.note("%s commits a-%d at %d: %s", c.name, p, s.next, codeName(code))
	switch kerr.ErrorForCode(code) {
	case nil:
		s.committed[fmt.Sprintf("a-%d", p)] = s.next
	case kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.StaleMemberEpoch, kerr.RebalanceInProgress:
		// The next heartbeat says what to do.
	default:
		s.fail("a commit is refused: %s", codeName(code))
	}
}

// take hands an outcome's answers to those who wait, except those that get lost.
func (s *migration) take(out outcome) {
	for _, j := range out.jobs {
		switch j := j.(type) {
		case *assignment.Input:
			s.question, s.asked = j, s.now
		case classic.Event:
			s.note("the group is %s, generation %d, %d members: %s", j.State, j.Generation, j.Members, j.Reason)
		}
	}
	for _, a := range out.answers {
		i := slices.IndexFunc(s.migrants, func(c *migrant) bool { return c.ticket == a.ticket })
		if i < 0 {
			continue
		}
		c := s.migrants[i]
		if s.now.Before(c.silent) || s.faults && s.rng.IntN(15) == 0 {
			s.note("the answer to #%d is lost", a.ticket)
			s.lose(c)
			continue
		}
		c.ticket = 0
		s.answered(c, a.response)
	}
}

func (s *migration) answered(c *migrant, response any) {
	switch r := response.(type) {
	case *kmsg.JoinGroupResponse:
		switch {
		case r.ErrorCode == kerr.MemberIDRequired.Code:
			c.id = r.MemberID
		case r.ErrorCode != 0:
			s.refused(c, r.ErrorCode)
		default:
			c.id, c.epoch, c.synced, c.assign = r.MemberID, r.Generation, false, nil
			if r.LeaderID == r.MemberID && !r.SkipAssignment {
				c.assign = s.assignment(r.Members)
			}
		}
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			s.refused(c, r.ErrorCode)
			return
		}
		s.synced(c, r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		s.refused(c, r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		switch kerr.ErrorForCode(r.ErrorCode) {
		case nil:
			c.epoch = r.MemberEpoch
			if r.Assignment != nil {
				c.owns, c.told, c.unsure = nil, false, false
				for _, t := range r.Assignment.Topics {
					c.owns = append(c.owns, t.Partitions...)
				}
			}
		case kerr.CoordinatorNotAvailable:
			c.full = true
		case kerr.FencedMemberEpoch, kerr.UnknownMemberID, kerr.GroupIDNotFound:
			s.note("%s is fenced: %s", c.name, codeName(r.ErrorCode))
			c.forget()
		default:
			s.fail("%s beats in vain: %s", c.name, codeName(r.ErrorCode))
		}
	}
}

// refused is how a classic consumer takes an error.
func (s *migration) refused(c *migrant, code int16) {
	switch kerr.ErrorForCode(code) {
	case nil:
	case kerr.RebalanceInProgress:
		c.epoch = 0
	case kerr.IllegalGeneration:
		c.forget()
	case kerr.UnknownMemberID:
		s.note("%s is no member", c.name)
		c.forget()
		c.id = ""
	case kerr.CoordinatorNotAvailable:
		c.epoch = 0
	default:
		s.fail("%s is refused: %s", c.name, codeName(code))
	}
}

func (s *migration) synced(c *migrant, bytes []byte) {
	var owns []int32
	if len(bytes) > 0 {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(bytes); err != nil {
			s.fail("%s cannot read its assignment: %v", c.name, err)
		}
		for _, t := range a.Topics {
			owns = append(owns, t.Partitions...)
		}
	}
	revokes := slices.ContainsFunc(c.owns, func(p int32) bool { return !slices.Contains(owns, p) })
	s.note("%s gets %v", c.name, owns)
	c.owns, c.synced, c.unsure, c.beaten = owns, true, false, s.now
	if revokes {
		c.epoch = 0
	}
}

// assignment is what a classic leader assigns: nobody gets what another still owns.
func (s *migration) assignment(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	slices.SortFunc(members, func(a, b kmsg.JoinGroupResponseMember) int { return len(a.MemberID) - len(b.MemberID) })
	owner := map[int32]string{}
	for _, m := range members {
		var said kmsg.ConsumerMemberMetadata
		if err := said.ReadFrom(m.ProtocolMetadata); err != nil {
			s.fail("the leader cannot read what %s says: %v", m.MemberID, err)
		}
		for _, t := range said.OwnedPartitions {
			for _, p := range t.Partitions {
				owner[p] = m.MemberID
			}
		}
	}
	got := map[string][]int32{}
	topic, _ := s.im.Topic("a")
	for p := range int32(len(topic.Partitions)) {
		id := members[int(p)%len(members)].MemberID
		if o := owner[p]; o == "" || o == id {
			got[id] = append(got[id], p)
		}
	}
	all := []kmsg.SyncGroupRequestGroupAssignment{}
	for _, m := range members {
		a := kmsg.ConsumerMemberAssignment{Version: 2, Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "a", Partitions: got[m.MemberID]}}}
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: a.AppendTo(nil)})
	}
	return all
}

// members are those that the coordinator knows.
func (s *migration) members() map[string]bool {
	ids := map[string]bool{}
	if g, ok := s.m.groups[simGroup].(*classic.Group); ok {
		for _, m := range g.Members() {
			ids[m.ID] = true
		}
		return ids
	}
	step := s.m.ConsumerGroupDescribe(s.now, 1, &kmsg.ConsumerGroupDescribeRequest{Groups: []string{simGroup}})
	for _, m := range step.Answers[0].Response.(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members {
		ids[m.MemberID] = true
	}
	return ids
}

// check shows that no two members read from the same partition. Whom the coordinator has given up on may go on for a while.
func (s *migration) check() {
	members, owner := s.members(), map[int32]*migrant{}
	for _, c := range s.migrants {
		if c.unsure || !members[c.id] {
			continue
		}
		for _, p := range c.owns {
			if other := owner[p]; other != nil {
				s.fail("both %s and %s read from a-%d", other.name, c.name, p)
			}
			owner[p] = c
		}
	}
}

// settle ends the faults and shows that those who are left share the topic.
func (s *migration) settle() {
	s.faults = false
	s.note("the faults end")
	for _, c := range s.migrants {
		c.silent = s.now
	}
	s.pass(4 * time.Minute)
	s.checkOffsets()
	s.checkReplay()
	if len(s.migrants) == 0 {
		return
	}
	members := s.members()
	var owned []int32
	for _, c := range s.migrants {
		if !members[c.id] || c.unsure {
			s.fail("%s (%s) does not settle: members are %v", c.name, c.id, slices.Sorted(maps.Keys(members)))
		}
		owned = append(owned, c.owns...)
	}
	slices.Sort(owned)
	if len(members) != len(s.migrants) {
		s.fail("there are %d consumers, and the members %v", len(s.migrants), slices.Sorted(maps.Keys(members)))
	}
	topic, _ := s.im.Topic("a")
	if len(owned) != len(topic.Partitions) || len(slices.Compact(owned)) != len(topic.Partitions) {
		s.fail("the consumers read from %v of %d partitions", owned, len(topic.Partitions))
	}
}
