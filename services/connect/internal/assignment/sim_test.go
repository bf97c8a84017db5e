package assignment

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

var (
	simSeed = flag.Uint64("seed", 0, "run the simulation of this seed alone")
	simRuns = flag.Uint64("runs", 500, "simulations to run")
)

// TestSimulation has workers come, go and miss answers, connectors be made and deleted, and the leader be another, in any order. `make sim SEED=n`
// repeats a run.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		newSim(t, *simSeed).run()
		return
	}
	for seed := range *simRuns {
		newSim(t, seed+1).run()
		if t.Failed() {
			return
		}
	}
}

const simDelayMs = 1000

type sim struct {
	t    *testing.T
	seed uint64
	rand *rand.Rand

	nowMs                 int64
	leader                *Leader
	generation, completed int32
	members               map[string]map[work.Item]bool
	connectors            map[string]int // to their number of tasks
	next                  int
	delayMs               int32
}

func newSim(t *testing.T, seed uint64) *sim {
	return &sim{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), leader: NewLeader(simDelayMs), completed: -1,
		members: map[string]map[work.Item]bool{}, connectors: map[string]int{},
	}
}

func (s *sim) run() {
	for range 1 + s.rand.IntN(3) {
		s.join()
	}
	for range 40 {
		s.event()
		s.nowMs += s.rand.Int64N(simDelayMs / 3)
		s.round(true)
	}
	s.settle()
	// Nobody comes or goes from here on: what was put right stays where it is.
	for range 3 {
		s.nowMs += simDelayMs
		if out := s.round(false); len(out.Assigned)+len(out.Revoked) > 0 || out.DelayMs != 0 {
			s.fail("work moves without a reason: %+v", out)
		}
	}
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("seed %d, generation %d, at %d ms: %s", s.seed, s.generation, s.nowMs, fmt.Sprintf(format, args...))
}

func (s *sim) join() {
	s.next++
	s.members[fmt.Sprintf("m%d", s.next)] = map[work.Item]bool{}
}

func (s *sim) event() {
	switch s.rand.IntN(8) {
	case 0, 1:
		s.join()
	case 2, 3:
		if len(s.members) > 1 {
			delete(s.members, s.pick(slices.Sorted(maps.Keys(s.members))))
		}
	case 4:
		s.next++
		s.connectors[fmt.Sprintf("c%d", s.next)] = s.rand.IntN(20)
	case 5:
		if len(s.connectors) > 0 {
			delete(s.connectors, s.pick(slices.Sorted(maps.Keys(s.connectors))))
		}
	case 6:
		if len(s.connectors) > 0 {
			s.connectors[s.pick(slices.Sorted(maps.Keys(s.connectors)))] = s.rand.IntN(20)
		}
	case 7:
		s.leader = NewLeader(simDelayMs)
		s.completed = s.generation
	}
}

func (s *sim) pick(names []string) string { return names[s.rand.IntN(len(names))] }

func (s *sim) work() []work.Item {
	var items []work.Item
	for name, tasks := range s.connectors {
		items = append(append(items, work.Connector(name)), work.Tasks(name, tasks)...)
	}
	return work.Sort(items)
}

// round is one rebalance. Where answers can get lost, one time in eight nobody has one, and each member misses one time in eight.
func (s *sim) round(lossy bool) Output {
	s.generation++
	in := Input{NowMs: s.nowMs, Generation: s.generation, Completed: s.completed, Work: s.work(), Members: map[string][]work.Item{}}
	for id, items := range s.members {
		in.Members[id] = work.Sort(slices.Collect(maps.Keys(items)))
	}
	out := s.leader.Assign(in)
	s.check(in, out)
	s.delayMs = out.DelayMs
	if lossy && s.rand.IntN(8) == 0 {
		return out
	}
	s.completed = s.generation
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		if lossy && s.rand.IntN(8) == 0 {
			continue
		}
		for _, item := range out.Revoked[id] {
			delete(s.members[id], item)
		}
		for _, item := range out.Assigned[id] {
			s.members[id][item] = true
		}
	}
	return out
}

// check holds a round against what it may do.
func (s *sim) check(in Input, out Output) {
	if out.DelayMs < 0 || out.DelayMs > simDelayMs {
		s.fail("delay of %d ms", out.DelayMs)
	}
	running := map[work.Item]int{}
	for _, items := range in.Members {
		for _, item := range items {
			running[item]++
		}
	}
	given := map[work.Item]bool{}
	for id, items := range out.Assigned {
		for _, item := range items {
			if running[item] > 0 || given[item] || !slices.Contains(in.Work, item) {
				s.fail("%v is given to %s, running %d times, given before: %v", item, id, running[item], given[item])
			}
			given[item] = true
		}
	}
	spare := 0
	for id, items := range out.Revoked {
		for _, item := range items {
			switch {
			case !slices.Contains(in.Members[id], item):
				s.fail("%s is to give up %v, which it does not run", id, item)
			case running[item] > 1:
				running[item]--
			case slices.Contains(in.Work, item):
				spare++
			}
		}
	}
	if least := leastMoves(in); spare != 0 && spare != least {
		s.fail("%d are moved, %d would do", spare, least)
	}
}

// leastMoves is how many connectors and tasks have to leave their members for all to have their share.
func leastMoves(in Input) int {
	least := 0
	for k := range kinds {
		total := 0
		for _, item := range in.Work {
			if kind(item) == k {
				total++
			}
		}
		var counts []int
		owned := map[work.Item]bool{}
		for _, id := range slices.Sorted(maps.Keys(in.Members)) {
			n := 0
			for _, item := range in.Members[id] {
				if kind(item) == k && !owned[item] && slices.Contains(in.Work, item) {
					owned[item] = true
					n++
				}
			}
			counts = append(counts, n)
		}
		slices.Sort(counts)
		slices.Reverse(counts)
		for i, n := range counts {
			share := total / len(counts)
			if i < total%len(counts) {
				share++
			}
			least += max(0, n-share)
		}
	}
	return least
}

// settle runs rounds as members join again, after a revocation at once and otherwise when the delay is over, until nothing changes.
func (s *sim) settle() {
	for range 20 {
		out := s.round(false)
		if len(out.Assigned)+len(out.Revoked) == 0 && out.DelayMs == 0 {
			s.balanced()
			return
		}
		if len(out.Revoked) == 0 {
			s.nowMs += int64(out.DelayMs)
		}
	}
	s.fail("no end of rounds")
}

func (s *sim) balanced() {
	owners := map[work.Item]string{}
	for id, items := range s.members {
		for item := range items {
			if other, twice := owners[item]; twice {
				s.fail("%v runs on %s and %s", item, other, id)
			}
			owners[item] = id
		}
	}
	all := s.work()
	for _, item := range all {
		if _, ok := owners[item]; !ok {
			s.fail("%v runs nowhere", item)
		}
	}
	if len(owners) != len(all) {
		s.fail("%d items run, %d are configured", len(owners), len(all))
	}
	for k := range kinds {
		least, most := 1<<30, 0
		for _, items := range s.members {
			n := 0
			for item := range items {
				if kind(item) == k {
					n++
				}
			}
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 {
			s.fail("kind %d: between %d and %d on a member", k, least, most)
		}
	}
}
