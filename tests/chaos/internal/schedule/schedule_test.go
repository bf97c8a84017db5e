package schedule

import (
	"slices"
	"testing"
	"time"
)

func plan() Plan {
	p := Plan{Length: 40 * time.Second, Brokers: 3, Coordinators: 4, Partitions: 6}
	for _, l := range lanes {
		for _, w := range l.faults {
			p.Faults = append(p.Faults, w.Fault)
		}
	}
	return p
}

func TestSameSeedSameSchedule(t *testing.T) {
	for seed := range uint64(100) {
		if a, b := Draw(seed, plan()), Draw(seed, plan()); !slices.Equal(a, b) {
			t.Fatalf("seed %d: %v and %v", seed, a, b)
		}
	}
	if slices.Equal(Draw(1, plan()), Draw(2, plan())) {
		t.Error("two seeds have the same schedule")
	}
}

// TestSchedulesAreSound draws many schedules: in the order of time, within the length, of known faults only, those of a lane one
// after the other; and together they have every fault.
func TestSchedulesAreSound(t *testing.T) {
	p := plan()
	drawn := map[Fault]int{}
	for seed := range uint64(1000) {
		ends := map[int]time.Duration{}
		before := time.Duration(0)
		for _, s := range Draw(seed, p) {
			drawn[s.Fault]++
			lane := slices.IndexFunc(lanes, func(l lane) bool {
				return slices.ContainsFunc(l.faults, func(w weighted) bool { return w.Fault == s.Fault })
			})
			if s.At < before || s.At <= ends[lane] || s.For <= 0 || s.At+s.For > p.Length {
				t.Fatalf("seed %d: %v after %v, its lane's last ends at %v", seed, s, before, ends[lane])
			}
			before, ends[lane] = s.At, s.At+s.For
			if s.LeaderOf >= p.Partitions || s.Place < 0 || s.Place >= p.Coordinators || !s.onCoordinator() && s.Place >= p.Brokers {
				t.Fatalf("seed %d: %v names what is not there", seed, s)
			}
		}
	}
	for _, f := range p.Faults {
		if drawn[f] == 0 {
			t.Errorf("no schedule has %s", f)
		}
	}
}

func TestOnlyPossibleFaults(t *testing.T) {
	p := plan()
	p.Faults = []Fault{Kill, Cut}
	total := 0
	for seed := range uint64(100) {
		for _, s := range Draw(seed, p) {
			total++
			if s.Fault != Kill && s.Fault != Cut {
				t.Fatalf("seed %d: %v", seed, s)
			}
		}
	}
	if total == 0 {
		t.Error("nothing was drawn")
	}
	p.Faults = nil
	if steps := Draw(1, p); len(steps) > 0 {
		t.Errorf("drawn from nothing: %v", steps)
	}
}
