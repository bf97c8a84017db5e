package shard

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

var (
	simSeed = flag.Uint64("seed", 0, "run the simulation of this seed alone")
	simRuns = flag.Uint64("runs", 1000, "simulations to run")
)

// TestSimulation runs consumers of classic groups against a shard whose coordinator moves, whose answers get lost and whose topics
// come and go. Each seed is a run of its own: `make sim SEED=n` repeats one.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		newSim(t, *simSeed).run()
		return
	}
	for seed := range *simRuns {
		newSim(t, seed+1).run()
	}
}

const (
	simGroup      = "g"
	simSteps      = 40
	simSession    = 10 * time.Second
	simRebalance  = 30 * time.Second
	simRequest    = 15 * time.Second // after which a client asks again
	simLongestRun = 10 * time.Minute // for which a request may wait: a new member is dropped after 5 min, whoever was there before
)

// phase is where a consumer stands.
type phase int

const (
	out     phase = iota // not a member
	waiting              // for the answer to join or sync
	joined               // has a generation, and is to sync
	stable
)

// consumer is a client that follows the classic protocol as Kafka's clients do.
type consumer struct {
	name     string
	instance *string
	version  int16
	topics   []string
	// coop is set for one that prefers another protocol.
	coop bool

	phase      phase
	id         string
	generation int32
	ticket     coordinator.Ticket
	asked      time.Time
	heartbeat  time.Time
	pausedTill time.Time
	// assign is what a leader assigns; nil for a follower.
	assign []kmsg.SyncGroupRequestGroupAssignment
	owned  []string
}

// remark is a line of the story that a failure tells.
type remark struct {
	at     time.Time
	format string
	args   []any
}

// story is a response that is described when it is told.
type story struct{ response any }

func (s story) String() string { return showResponse(s.response) }

// sim is one run.
type sim struct {
	*harness
	seed      uint64
	rng       *rand.Rand
	consumers []*consumer
	names     int
	// faults is set while things go wrong.
	faults bool
	trace  []remark

	owner     map[string]string // of generation and partition, by instance or member id
	committed map[string]int64  // by partition
	next      int64
	since     map[coordinator.Ticket]time.Time
	pending   map[int64]map[string]int64
}

func newSim(t testing.TB, seed uint64) *sim {
	s := &sim{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 5)), faults: true, owner: map[string]string{}, committed: map[string]int64{},
		since: map[coordinator.Ticket]time.Time{}, pending: map[int64]map[string]int64{},
	}
	delay := []string{"0", "100", "3000"}[s.rng.IntN(3)]
	s.harness = newHarness(t, map[string]string{"group.initial.rebalance.delay.ms": delay, "offsets.retention.check.interval.ms": "60000"})
	for _, name := range []string{"a", "b"} {
		s.createTopic(name, 1+int32(s.rng.IntN(4)))
	}
	s.image()
	return s
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	var story strings.Builder
	for _, r := range s.trace {
		fmt.Fprintf(&story, "%8v %s\n", r.at.Sub(simStart), fmt.Sprintf(r.format, r.args...))
	}
	s.t.Fatalf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), story.String())
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, remark{s.now, format, args})
}

func (s *sim) run() {
	for range simSteps {
		s.disturb()
		s.pass(time.Duration(s.rng.IntN(4000)) * time.Millisecond)
		s.check()
	}
	s.checkReplay()
	s.settle()
}

// disturb does one thing that happens in a cluster.
func (s *sim) disturb() {
	switch n := s.rng.IntN(100); {
	case n < 25 && len(s.consumers) < 6:
		s.start()
	case n < 45 && len(s.consumers) > 0:
		s.disturbConsumer(s.consumers[s.rng.IntN(len(s.consumers))])
	case n < 49:
		s.checkReplay()
		s.note("the coordinator moves")
		s.delivered(s.move())
	case n < 52:
		s.recreateTopic()
	case n < 58:
		s.transact()
	case n < 60:
		s.note("heartbeat of a stranger")
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = simGroup, "stranger", 1
		if r := s.response("x", req).(*kmsg.HeartbeatResponse); r.ErrorCode != kerr.UnknownMemberID.Code {
			s.fail("a stranger may heartbeat: %v", codeName(r.ErrorCode))
		}
	}
}

func (s *sim) start() {
	s.names++
	c := &consumer{name: fmt.Sprintf("c%d", s.names), version: []int16{0, 3, 5, 9, 9}[s.rng.IntN(5)], coop: s.rng.IntN(3) == 0, topics: s.someTopics()}
	if c.version >= 5 && s.rng.IntN(2) == 0 {
		instance := fmt.Sprintf("i%d", s.rng.IntN(3))
		c.instance = &instance
	}
	s.note("%s starts, version %d, instance %s", c.name, c.version, text(c.instance))
	s.consumers = append(s.consumers, c)
}

func (s *sim) someTopics() []string {
	return [][]string{{"a"}, {"b"}, {"a", "b"}}[s.rng.IntN(3)]
}

func (s *sim) disturbConsumer(c *consumer) {
	switch s.rng.IntN(5) {
	case 0:
		s.note("%s crashes", c.name)
		s.stop(c)
	case 1:
		s.leave(c)
	case 2:
		c.pausedTill = s.now.Add(time.Duration(s.rng.IntN(40)) * time.Second)
		s.note("%s pauses", c.name)
	case 3:
		c.topics = s.someTopics()
		s.note("%s subscribes to %v", c.name, c.topics)
		if c.phase == stable {
			c.phase, c.owned = out, nil
		}
	case 4:
		s.note("%s loses its connection", c.name)
		c.ticket = 0
		if c.phase == waiting {
			c.phase = out
		}
	}
}

func (s *sim) stop(c *consumer) {
	s.consumers = slices.DeleteFunc(s.consumers, func(o *consumer) bool { return o == c })
}

func (s *sim) leave(c *consumer) {
	if c.id == "" {
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 5, simGroup, c.id
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = c.id, c.instance
	req.Members = append(req.Members, m)
	s.note("%s leaves", c.name)
	s.stop(c)
	s.delivered(s.send(c.name, req))
}

// recreateTopic deletes a topic and creates it again. Half of the time the shard sees the deletion only when it moves.
func (s *sim) recreateTopic() {
	name := []string{"a", "b"}[s.rng.IntN(2)]
	s.note("topic %s is deleted and created again", name)
	s.deleteTopic(name)
	gone := func(at string, _ int64) bool { return strings.HasPrefix(at, name+"-") }
	maps.DeleteFunc(s.committed, gone)
	for _, offsets := range s.pending {
		maps.DeleteFunc(offsets, gone)
	}
	if s.rng.IntN(2) == 0 {
		s.delivered(s.image())
	}
	s.createTopic(name, 1+int32(s.rng.IntN(4)))
	if s.rng.IntN(2) == 0 {
		s.note("the coordinator moves meanwhile")
		s.delivered(s.move())
	} else {
		s.delivered(s.image())
	}
}

// transact goes on with a transaction of a producer that is no member.
func (s *sim) transact() {
	producer := int64(s.rng.IntN(2))
	if offsets := s.pending[producer]; offsets != nil && s.rng.IntN(2) == 0 {
		commit := s.rng.IntN(2) == 0
		s.note("producer %d ends its transaction, commits: %v", producer, commit)
		s.endTransaction(producer, commit)
		for at, offset := range offsets {
			if commit {
				// The later written counts; offsets only grow here.
				s.committed[at] = max(s.committed[at], offset)
			}
		}
		delete(s.pending, producer)
		return
	}
	s.next++
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.Group, req.ProducerID, req.Generation = 5, simGroup, producer, -1
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic = "a"
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = s.next
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	s.note("producer %d commits a-0 at %d in its transaction", producer, s.next)
	if code := s.response("p", req).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.fail("a producer is refused: %s", codeName(code))
	}
	if s.pending[producer] == nil {
		s.pending[producer] = map[string]int64{}
	}
	s.pending[producer]["a-0"] = s.next
}

// pass lets time pass: consumers act, and what is due is done.
func (s *sim) pass(d time.Duration) {
	for until := s.now.Add(d); s.now.Before(until); {
		for _, c := range slices.Clone(s.consumers) {
			if !c.pausedTill.After(s.now) && slices.Contains(s.consumers, c) {
				s.act(c)
			}
		}
		s.wait(min(500*time.Millisecond, until.Sub(s.now)), s.delivered)
	}
}

// act is what a consumer does next.
func (s *sim) act(c *consumer) {
	switch {
	case c.phase == out:
		s.join(c)
	case c.phase == joined:
		s.sync(c)
	case c.phase == waiting && s.now.Sub(c.asked) > simRequest && c.id != "":
		c.phase = out // asks again, as the same member
	case c.phase == stable && s.now.Sub(c.heartbeat) >= 3*time.Second:
		c.heartbeat = s.now
		s.heartbeats(c)
	case c.phase == stable && s.rng.IntN(4) == 0:
		s.commits(c)
	}
}

func (s *sim) join(c *consumer) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.ProtocolType = c.version, simGroup, c.id, c.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(simSession.Milliseconds()), int32(simRebalance.Milliseconds())
	names := []string{"range", "coop"}
	if c.coop {
		slices.Reverse(names)
	}
	for _, name := range names {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: subscription(c.topics...)})
	}
	c.owned = nil
	s.request(c, req)
}

func (s *sim) sync(c *consumer) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation, req.GroupAssignment = 5, simGroup, c.id, c.instance, c.generation, c.assign
	s.request(c, req)
}

// request sends what may have to wait.
func (s *sim) request(c *consumer, req kmsg.Request) {
	c.phase, c.asked, c.ticket = waiting, s.now, s.ticket+1
	s.note("%s (%s) sends %T #%d", c.name, c.id, req, c.ticket)
	s.delivered(s.send(c.name, req))
}

func (s *sim) heartbeats(c *consumer) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, simGroup, c.id, c.instance, c.generation
	r := s.response(c.name, req).(*kmsg.HeartbeatResponse)
	s.note("%s heartbeats: %s", c.name, codeName(r.ErrorCode))
	s.failed(c, r.ErrorCode)
}

func (s *sim) commits(c *consumer) {
	if len(c.owned) == 0 {
		return
	}
	at := c.owned[s.rng.IntN(len(c.owned))]
	topic, index := partitionOf(at)
	s.next++
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 9, simGroup, c.id, c.instance, c.generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = index, s.next
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	code := s.response(c.name, req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	s.note("%s commits %s at %d: %s", c.name, at, s.next, codeName(code))
	if code == 0 {
		if who := s.owner[s.place(c.generation, at)]; who != c.identity() {
			s.fail("%s commits %s, which is %s's", c.name, at, who)
		}
		s.committed[at] = s.next
	}
	s.failed(c, code)
}

// failed is how a consumer takes an error, as Kafka's clients do.
func (s *sim) failed(c *consumer, code int16) {
	switch code {
	case 0, kerr.UnknownTopicOrPartition.Code:
		return
	case kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code:
		c.id = ""
	case kerr.FencedInstanceID.Code, kerr.InconsistentGroupProtocol.Code, kerr.GroupMaxSizeReached.Code:
		s.note("%s gives up: %s", c.name, codeName(code))
		s.stop(c)
	}
	c.phase, c.owned = out, nil
}

// identity is a static member's instance, or a dynamic member's id.
func (c *consumer) identity() string {
	if c.instance != nil {
		return *c.instance
	}
	return c.id
}

func (s *sim) place(generation int32, at string) string { return fmt.Sprintf("%d/%s", generation, at) }

// delivered hands answers to who waits for them, except those that get lost.
func (s *sim) delivered(o outcome) {
	for _, j := range o.jobs {
		if e, ok := j.(classic.Event); ok {
			s.note("the group is %s, generation %d, %d members: %s", e.State, e.Generation, e.Members, e.Reason)
		}
	}
	for _, a := range o.answers {
		for _, c := range slices.Clone(s.consumers) {
			if c.ticket != a.ticket || c.phase != waiting {
				continue
			}
			if s.faults && s.rng.IntN(15) == 0 {
				s.note("the answer to #%d is lost", a.ticket)
				continue
			}
			s.answered(c, a.response)
		}
	}
	if len(s.harness.waiting) > 0 {
		return
	}
	// A move answers all that waits; clients ask again, as who they were.
	for _, c := range s.consumers {
		if c.phase == waiting && s.now.After(c.asked) {
			c.phase = out
		}
	}
}

func (s *sim) answered(c *consumer, response any) {
	switch r := response.(type) {
	case *kmsg.JoinGroupResponse:
		s.note("#%d %v", c.ticket, story{r})
		if r.ErrorCode == kerr.MemberIDRequired.Code {
			c.id, c.phase = r.MemberID, out
			return
		}
		if r.ErrorCode != 0 {
			s.failed(c, r.ErrorCode)
			return
		}
		c.id, c.generation, c.phase, c.assign = r.MemberID, r.Generation, joined, nil
		if r.LeaderID == r.MemberID && !r.SkipAssignment {
			c.assign = s.assign(r.Members)
		}
	case *kmsg.SyncGroupResponse:
		s.note("#%d %v", c.ticket, story{r})
		if r.ErrorCode != 0 {
			s.failed(c, r.ErrorCode)
			return
		}
		c.phase, c.heartbeat, c.owned = stable, s.now, strings.Fields(string(r.MemberAssignment))
		for _, at := range c.owned {
			place := s.place(c.generation, at)
			if who, ok := s.owner[place]; ok && who != c.identity() {
				s.fail("%s has %s in generation %d, which is %s's", c.name, at, c.generation, who)
			}
			s.owner[place] = c.identity()
		}
	}
}

// assign deals the partitions out among those who subscribe to them.
func (s *sim) assign(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	got := map[string][]string{}
	for topic := range s.im.Topics() {
		var subscribers []string
		for _, m := range members {
			if slices.Contains(strings.Split(subscribedTo(m.ProtocolMetadata), "+"), topic.Name) {
				subscribers = append(subscribers, m.MemberID)
			}
		}
		for i := range topic.Partitions {
			if len(subscribers) > 0 {
				id := subscribers[i%len(subscribers)]
				got[id] = append(got[id], fmt.Sprintf("%s-%d", topic.Name, i))
			}
		}
	}
	assignments := []kmsg.SyncGroupRequestGroupAssignment{}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		assignments = append(assignments, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(strings.Join(got[id], " "))})
	}
	return assignments
}

// check is what holds after each step.
func (s *sim) check() {
	for t := range s.since {
		if _, ok := s.harness.waiting[t]; !ok {
			delete(s.since, t)
		}
	}
	for t := range s.harness.waiting {
		if since, ok := s.since[t]; !ok {
			s.since[t] = s.now
		} else if s.now.Sub(since) > simLongestRun {
			s.fail("#%d waits since %v", t, since)
		}
	}
	s.checkTimers()
	s.checkOffsets()
}

// checkTimers shows that nothing the group waits for can take for ever.
func (s *sim) checkTimers() {
	g, ok := s.m.groups[simGroup].(*classic.Group)
	if !ok {
		return
	}
	armed := func(kind, member string) bool {
		_, ok := s.m.timers.At(op.TimerKey{Kind: kind, Group: simGroup, Member: member})
		return ok
	}
	switch classic.State(g.State()) {
	case classic.PreparingRebalance:
		if !armed(classic.JoinTimer, "") {
			s.fail("nothing ends the wait for members to join")
		}
	case classic.CompletingRebalance:
		if !armed(classic.SyncTimer, "") {
			s.fail("nothing ends the wait for members to sync")
		}
	case classic.Stable:
		for _, m := range g.Members() {
			if !armed(classic.SessionTimer, m.ID) {
				s.fail("%s never expires", m.ID)
			}
		}
	}
}

// checkOffsets shows that what is read is what was committed last, of pending transactions nothing.
func (s *sim) checkOffsets() {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 9
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: simGroup, MemberEpoch: -1}}
	got := map[string]int64{}
	for _, t := range s.response("c", req).(*kmsg.OffsetFetchResponse).Groups[0].Topics {
		for _, p := range t.Partitions {
			got[fmt.Sprintf("%s-%d", t.Topic, p.Partition)] = p.Offset
		}
	}
	if !maps.Equal(got, s.committed) {
		s.fail("the group has %v, but %v was committed", got, s.committed)
	}
}

// settled says whether there is nothing to wait for.
func (s *sim) settled() bool {
	g, ok := s.m.groups[simGroup].(*classic.Group)
	steady := !ok || len(g.Members()) == len(s.consumers) && (g.State() == string(classic.Stable) || g.Empty())
	return steady && len(s.harness.waiting) == 0 &&
		!slices.ContainsFunc(s.consumers, func(c *consumer) bool { return c.phase != stable })
}

// settle ends the faults and shows that everyone who is left gets their part.
func (s *sim) settle() {
	s.faults = false
	s.note("the faults end")
	for i := 0; i < 50 && (i == 0 || !s.settled()); i++ {
		s.pass(10 * time.Second)
		s.check()
	}
	if len(s.harness.waiting) > 0 {
		s.fail("requests wait for ever: %v", slices.Sorted(maps.Keys(s.harness.waiting)))
	}
	owned := map[string]bool{}
	subscribed := map[string]bool{}
	for _, c := range s.consumers {
		if c.phase != stable {
			s.fail("%s does not settle", c.name)
		}
		for _, at := range c.owned {
			owned[at] = true
		}
		for _, topic := range c.topics {
			subscribed[topic] = true
		}
	}
	if g, ok := s.m.groups[simGroup].(*classic.Group); ok && len(g.Members()) != len(s.consumers) {
		s.fail("the group has %d members, and there are %d consumers", len(g.Members()), len(s.consumers))
	}
	if len(s.consumers) > 0 && len(owned) == 0 {
		s.fail("nobody has anything of %v", slices.Sorted(maps.Keys(subscribed)))
	}
	s.checkReplay()
}
