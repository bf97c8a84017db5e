package consumer

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

var (
	simSeed = flag.Uint64("seed", 0, "run the simulation of this seed alone")
	simRuns = flag.Int("runs", 1500, "simulations to run")
)

// sim is one run.
type sim struct {
	*world
	seed    uint64
	rnd     *rand.Rand
	clients []*client
	serial  int
	calm    bool
	epochs  map[string]int32
	topicsN int
}

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		simulate(t, *simSeed)
		return
	}
	for seed := uint64(1); seed <= uint64(*simRuns) && !t.Failed(); seed++ {
		simulate(t, seed)
	}
}

func simulate(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, map[string]string{"group.consumer.assignors": "uniform,range", "group.consumer.max.size": "6"}, nil)
	s := &sim{world: w, seed: seed, rnd: rnd, epochs: map[string]int32{}}
	defer func() {
		if t.Failed() {
			t.Logf("go test -run TestSimulation ./services/groupcoord/internal/consumer -seed=%d", seed)
		}
	}()
	for range 40 {
		s.disturb()
		s.turn()
	}
	s.settle()
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), s.dump())
}

func (s *sim) dump() string {
	text := fmt.Sprintf("group epoch %d target %d state %s\n", s.group.epoch.Epoch, s.group.target.Epoch, s.group.State())
	for _, id := range s.group.memberIDs() {
		m := s.group.members[id]
		text += fmt.Sprintf(" member %s epoch %d previous %d state %d has %s revokes %s target %s topics %v %q\n", id, m.current.Epoch, m.current.Previous, m.current.State,
			s.show(ints(m.current.Assigned)), s.show(ints(m.current.Revoking)), s.show(s.group.targets[id]), m.said.Topics, m.said.Expression)
	}
	for _, c := range s.clients {
		text += fmt.Sprintf(" client %s %q epoch %d owns %s classic %v gone %v pending %d\n", c.id, c.instance, c.epoch, s.show(c.owns), c.classic, c.gone, c.pending)
	}
	return text
}

// turn lets everyone do something, then time pass.
func (s *sim) turn() {
	for _, c := range s.clients {
		if !c.gone && !s.now.Before(c.silent) && (s.calm || s.rnd.IntN(4) > 0) {
			s.act(c)
		}
	}
	s.assignor()
	s.deliver()
	s.advance(time.Duration(s.rnd.IntN(2500)) * time.Millisecond)
	s.deliver()
	s.check()
}

// disturb is one change of the world.
func (s *sim) disturb() {
	switch s.rnd.IntN(14) {
	case 0, 1, 2:
		s.join()
	case 3:
		if c := s.pick(); c != nil {
			s.leave(c)
		}
	case 4:
		if c := s.pick(); c != nil {
			c.gone = true
		}
	case 5:
		if c := s.pick(); c != nil {
			c.silent = s.now.Add(time.Duration(s.rnd.IntN(90)) * time.Second)
		}
	case 6:
		if c := s.pick(); c != nil {
			s.lose(c)
		}
	case 7:
		s.topicsN++
		s.createTopic(fmt.Sprintf("%c%d", 'a'+s.rnd.IntN(2), s.topicsN), 1+s.rnd.IntN(4))
	case 8:
		if name := s.topic(); name != "" {
			t, _ := s.image.Topic(name)
			s.grow(name, len(t.Partitions)+1)
		}
	case 9:
		if name := s.topic(); name != "" {
			s.deleteTopic(name)
		}
	case 10:
		s.move(s.rnd.IntN(2) == 0)
		for _, c := range s.clients {
			if c.pending != 0 {
				s.lose(c) // the runtime has told it that this is no coordinator any more
			}
		}
	case 11:
		if c := s.pick(); c != nil {
			s.subscribe(c)
			c.full = true
			if c.classic {
				c.synced = false
				c.epoch = 0
			}
		}
	case 12:
		if c := s.pick(); c != nil && c.instance != "" && !c.classic {
			s.restart(c)
		}
	}
}

func (s *sim) pick() *client {
	var live []*client
	for _, c := range s.clients {
		if !c.gone {
			live = append(live, c)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[s.rnd.IntN(len(live))]
}

func (s *sim) topic() string {
	var names []string
	for t := range s.image.Topics() {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return names[s.rnd.IntN(len(names))]
}

func (s *sim) join() {
	if len(s.clients) >= 8 {
		return
	}
	s.serial++
	c := &client{id: fmt.Sprintf("m%03d", s.serial), full: true, owns: reported{}}
	if s.rnd.IntN(3) == 0 {
		c.instance = fmt.Sprintf("i%d", s.rnd.IntN(3))
	}
	if s.rnd.IntN(3) == 0 {
		c.assignor = []string{"uniform", "range"}[s.rnd.IntN(2)]
	}
	// A group is upgraded and downgraded elsewhere; here classic members come to one that exists.
	c.classic = !s.group.Empty() && s.rnd.IntN(4) == 0
	s.subscribe(c)
	s.clients = append(s.clients, c)
}

func (s *sim) subscribe(c *client) {
	c.topics, c.pattern = nil, ""
	if !c.classic && s.rnd.IntN(3) == 0 {
		c.pattern = []string{"a.*", "b[0-9]+", ".*"}[s.rnd.IntN(3)]
		return
	}
	for range 1 + s.rnd.IntN(3) {
		if name := s.topic(); name != "" {
			c.topics = append(c.topics, name)
		}
	}
	c.topics = sortedSet(append(c.topics, "a1"))
}

// restart ends a static consumer for a moment and brings it back under another member id.
func (s *sim) restart(c *client) {
	s.send(c, &kmsg.ConsumerGroupHeartbeatRequest{MemberEpoch: staticLeaveEpoch, MemberID: c.id, InstanceID: &c.instance})
	s.deliver()
	s.serial++
	s.forget(c)
	c.id = fmt.Sprintf("m%03d", s.serial)
}

// leave ends a consumer in order.
func (s *sim) leave(c *client) {
	if c.epoch > 0 && !c.classic {
		req := &kmsg.ConsumerGroupHeartbeatRequest{MemberEpoch: leaveEpoch, MemberID: c.id}
		if c.instance != "" {
			req.InstanceID = &c.instance
		}
		s.send(c, req)
	} else if c.epoch > 0 {
		s.do(func(o *op.Op) {
			who := kmsg.LeaveGroupRequestMember{MemberID: c.id}
			if c.instance != "" {
				who.InstanceID = &c.instance
			}
			s.group.Leave(o, 0, &kmsg.LeaveGroupRequest{Version: 5, Group: groupID, Members: []kmsg.LeaveGroupRequestMember{who}})
		})
	}
	c.gone, c.owns = true, reported{}
}

// lose has the client not get an answer that is out: it asks anew and says everything.
func (s *sim) lose(c *client) {
	c.pending, c.full = 0, true
}

// forget makes the consumer a new one that owns nothing.
func (s *sim) forget(c *client) {
	c.epoch, c.owns, c.full, c.acked, c.known, c.synced, c.pending = 0, reported{}, true, false, false, false, 0
}

// assignor answers the question, late, badly or not at all while there is trouble.
func (s *sim) assignor() {
	if s.question == nil || !s.calm && s.rnd.IntN(3) == 0 {
		return
	}
	out := assign(s.question)
	if s.calm {
		s.answer(out, nil)
		return
	}
	switch s.rnd.IntN(10) {
	case 0:
		s.answer(nil, fmt.Errorf("crashed"))
	case 1:
		s.answer(spoil(s.rnd, s.question, out), nil)
	default:
		s.answer(out, nil)
	}
}

// spoil makes a good answer a wrong one.
func spoil(rnd *rand.Rand, in *assignment.Input, out assignment.Output) assignment.Output {
	switch rnd.IntN(3) {
	case 0:
		out["nobody"] = assignment.Partitions{}
	case 1:
		out[in.Members[0].ID] = assignment.Partitions{metadata.TopicID{99}: {0}}
	case 2:
		for _, m := range in.Members {
			out[m.ID] = assignment.Partitions{}
		}
	}
	return out
}

// check is what has to hold at every moment.
func (s *sim) check() {
	s.t.Helper()
	type partition struct {
		id metadata.TopicID
		p  int32
	}
	owner := map[partition]string{}
	for _, c := range s.clients {
		// A consumer that the coordinator has given up on may still read; it does not keep others from doing so. Anyone else does.
		m := s.group.members[c.id]
		if m == nil {
			continue
		}
		for id, list := range c.owns {
			for _, p := range list {
				if other := owner[partition{id, p}]; other != "" {
					s.fail("both %s and %s own %d of %x", other, c.id, p, id[15])
				}
				owner[partition{id, p}] = c.id
				if by := s.group.owners[id][p]; by != c.id && !c.classic && m.current.Epoch != joinEpoch {
					s.fail("%s owns %d of %x, which the coordinator thinks is %q's", c.id, p, id[15], by)
				}
			}
		}
	}
	for id, m := range s.group.members {
		// Who was removed and comes back under the same id starts anew, at 0 until it has reached a target, none of which is older.
		if m.current.Epoch > 0 && m.current.Epoch < s.epochs[id] {
			s.fail("%s went back from epoch %d to %d", id, s.epochs[id], m.current.Epoch)
		}
		if m.current.Epoch > s.group.target.Epoch || s.group.target.Epoch > s.group.epoch.Epoch {
			s.fail("epochs out of order: %s", id)
		}
		s.epochs[id] = max(m.current.Epoch, s.epochs[id])
		s.checkOwners(id, m)
	}
}

// checkOwners compares the table of owners with what members have.
func (s *sim) checkOwners(id string, m *member) {
	for _, partitions := range []map[metadata.TopicID]map[int32]int32{m.current.Assigned, m.current.Revoking} {
		for topic, list := range partitions {
			for p := range list {
				if s.group.owners[topic][p] != id {
					s.fail("%s has %d of %x, which is %q's", id, p, topic[15], s.group.owners[topic][p])
				}
			}
		}
	}
}

// settle ends all trouble: then everyone has what the assignor says within a bounded time.
func (s *sim) settle() {
	s.calm = true
	for _, c := range s.clients {
		c.silent = s.now
	}
	for range 60 {
		s.turn()
	}
	s.clients = slices.DeleteFunc(s.clients, func(c *client) bool { return c.gone })
	live := map[string]bool{}
	for _, c := range s.clients {
		if s.group.members[c.id] != nil {
			live[c.id] = true
			continue
		}
		if len(s.group.members) < 6 {
			s.fail("%s is no member", c.id)
		}
	}
	for id := range s.group.members {
		if !live[id] {
			s.fail("%s is still a member", id)
		}
	}
	if len(live) > 0 && s.group.State() != "Stable" {
		s.fail("the group is not stable")
	}
	s.checkComplete()
	s.move(true)
}

// checkComplete sees to it that consumers read from exactly what there is.
func (s *sim) checkComplete() {
	owned := map[metadata.TopicID][]int32{}
	for _, c := range s.clients {
		if s.group.members[c.id] == nil {
			continue
		}
		if s.show(c.owns) != s.show(s.group.targets[c.id]) {
			s.fail("%s owns %s instead of %s", c.id, s.show(c.owns), s.show(s.group.targets[c.id]))
		}
		for id, list := range c.owns {
			owned[id] = append(owned[id], list...)
		}
	}
	want := map[metadata.TopicID][]int32{}
	for t := range s.image.Topics() {
		if s.group.Subscribed(t.Name) {
			for p := range t.Partitions {
				want[t.ID] = append(want[t.ID], int32(p))
			}
		}
	}
	if !maps.EqualFunc(owned, want, func(a, b []int32) bool { return slices.Equal(slices.Sorted(slices.Values(a)), b) }) {
		s.fail("consumers own %s of %s", s.show(owned), s.show(want))
	}
}
