package assignment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// parse reads items as "c c-0 c-1": a name without a hyphen is a connector.
func parse(t *testing.T, text string) []work.Item {
	t.Helper()
	var items []work.Item
	for _, name := range strings.Fields(text) {
		if !strings.Contains(name, "-") {
			items = append(items, work.Connector(name))
			continue
		}
		task, ok := work.ParseTask(name)
		if !ok {
			t.Fatalf("no task: %s", name)
		}
		items = append(items, task)
	}
	return items
}

func show(shares map[string][]work.Item) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(shares)) {
		fmt.Fprintf(&b, "%s:", id)
		for _, item := range shares[id] {
			fmt.Fprintf(&b, " %v", item)
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// step is a round: what there is to run, what each member runs as "id: items; id: items", and what the leader is to answer.
type step struct {
	atMs              int64
	work, members     string
	assigned, revoked string
	delayMs           int32
	// unheard says that the last answer did not reach the members.
	unheard bool
}

func (s step) input(t *testing.T, generation int32) Input {
	in := Input{NowMs: s.atMs, Generation: generation, Completed: generation - 1, Work: parse(t, s.work), Members: map[string][]work.Item{}}
	if s.unheard {
		in.Completed--
	}
	for _, one := range strings.Split(s.members, ";") {
		if id, items, ok := strings.Cut(one, ":"); ok {
			in.Members[strings.TrimSpace(id)] = parse(t, items)
		}
	}
	return in
}

func TestRounds(t *testing.T) {
	const delayMs = 300_000
	tests := map[string][]step{
		"first assignment": {
			{work: "a a-0 a-1 b b-0", members: "m1:; m2:", assigned: "m1: a a-0 b-0; m2: a-1 b"},
		},
		"a second member takes over in two rounds": {
			{work: "a a-0 a-1 b b-0", members: "m1:", assigned: "m1: a a-0 a-1 b b-0"},
			{work: "a a-0 a-1 b b-0", members: "m1: a a-0 a-1 b b-0; m2:", revoked: "m1: b b-0"},
			{work: "a a-0 a-1 b b-0", members: "m1: a a-0 a-1; m2:", assigned: "m2: b b-0"},
			{work: "a a-0 a-1 b b-0", members: "m1: a a-0 a-1; m2: b b-0"},
		},
		"what is deleted is given up": {
			{work: "a a-0 b b-0", members: "m1:", assigned: "m1: a a-0 b b-0"},
			{work: "a a-0", members: "m1: a a-0 b b-0", revoked: "m1: b b-0"},
			{work: "a a-0 a-1", members: "m1: a a-0", assigned: "m1: a-1"},
		},
		"a member leaves for good": {
			{work: "a a-0 a-1 a-2", members: "m1:; m2:", assigned: "m1: a a-0 a-2; m2: a-1"},
			{atMs: 1000, work: "a a-0 a-1 a-2", members: "m1: a a-0 a-2", delayMs: delayMs},
			{atMs: 2000, work: "a a-0 a-1 a-2 b", members: "m1: a a-0 a-2", assigned: "m1: b", delayMs: delayMs - 1000},
			{atMs: 1000 + delayMs, work: "a a-0 a-1 a-2 b", members: "m1: a a-0 a-2 b", assigned: "m1: a-1"},
		},
		"a member comes back and gets the work that was held": {
			{work: "a-0 a-1 a-2 a-3", members: "m1:; m2:", assigned: "m1: a-0 a-2; m2: a-1 a-3"},
			{atMs: 1000, work: "a-0 a-1 a-2 a-3", members: "m1: a-0 a-2", delayMs: delayMs},
			{atMs: 5000, work: "a-0 a-1 a-2 a-3", members: "m1: a-0 a-2; m3:", delayMs: delayMs - 4000},
			{atMs: 1000 + delayMs, work: "a-0 a-1 a-2 a-3", members: "m1: a-0 a-2; m3:", assigned: "m3: a-1 a-3"},
		},
		"an assignment that did not arrive is given again": {
			{work: "a-0 a-1", members: "m1:; m2:", assigned: "m1: a-0; m2: a-1"},
			{work: "a-0 a-1", members: "m1: a-0; m2:", assigned: "m2: a-1"},
		},
		"an answer that nobody had is forgotten": {
			{work: "a-0 a-1", members: "m1:; m2:", assigned: "m1: a-0; m2: a-1"},
			{work: "a-0 a-1", members: "m1:", assigned: "m1: a-0 a-1", unheard: true},
		},
		"what runs twice is given up but by one": {
			{work: "a-0 a-1", members: "m1: a-0; m2: a-0 a-1", revoked: "m2: a-0"},
			{work: "a-0 a-1", members: "m1: a-0; m2: a-1"},
		},
		"moves one after the other are spaced out": {
			{work: "a-0 a-1 a-2 a-3 a-4 a-5", members: "m1: a-0 a-1 a-2 a-3 a-4 a-5; m2:", revoked: "m1: a-3 a-4 a-5"},
			{work: "a-0 a-1 a-2 a-3 a-4 a-5", members: "m1: a-0 a-1 a-2; m2:; m3:", assigned: "m2: a-3 a-5; m3: a-4", delayMs: 40},
			{atMs: 39, work: "a-0 a-1 a-2 a-3 a-4 a-5", members: "m1: a-0 a-1 a-2; m2: a-3 a-5; m3: a-4", delayMs: 1},
			{atMs: 40, work: "a-0 a-1 a-2 a-3 a-4 a-5", members: "m1: a-0 a-1 a-2; m2: a-3 a-5; m3: a-4", revoked: "m1: a-2"},
			{atMs: 41, work: "a-0 a-1 a-2 a-3 a-4 a-5", members: "m1: a-0 a-1; m2: a-3 a-5; m3: a-4; m4:", assigned: "m4: a-2"},
		},
		"a new leader takes what runs as it is": {
			{atMs: 5, work: "a a-0 b", members: "m1: a a-0; m2: b"},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewLeader(delayMs)
			for i, s := range steps {
				out := l.Assign(s.input(t, int32(i+1)))
				if got := show(out.Assigned); got != s.assigned {
					t.Errorf("round %d assigns %q, not %q", i, got, s.assigned)
				}
				if got := show(out.Revoked); got != s.revoked {
					t.Errorf("round %d revokes %q, not %q", i, got, s.revoked)
				}
				if out.DelayMs != s.delayMs {
					t.Errorf("round %d delays by %d ms, not %d", i, out.DelayMs, s.delayMs)
				}
			}
		})
	}
}

func TestWithoutDelay(t *testing.T) {
	l := NewLeader(0)
	steps := []step{
		{work: "a-0 a-1 a-2 a-3", members: "m1:; m2:", assigned: "m1: a-0 a-2; m2: a-1 a-3"},
		{work: "a-0 a-1 a-2 a-3", members: "m1: a-0 a-2", assigned: "m1: a-1 a-3"},
		{work: "a-0 a-1 a-2 a-3", members: "m1: a-0 a-1 a-2 a-3; m2:", revoked: "m1: a-2 a-3"},
		{work: "a-0 a-1 a-2 a-3", members: "m1: a-0 a-1; m2:; m3:", assigned: "m2: a-2; m3: a-3"},
	}
	for i, s := range steps {
		out := l.Assign(s.input(t, int32(i+1)))
		if show(out.Assigned) != s.assigned || show(out.Revoked) != s.revoked || out.DelayMs != 0 {
			t.Errorf("round %d: assigns %q, revokes %q, delays %d", i, show(out.Assigned), show(out.Revoked), out.DelayMs)
		}
	}
}

func TestEager(t *testing.T) {
	if got := show(Eager([]string{"m2", "m1"}, parse(t, "a a-0 a-1 b b-0"))); got != "m1: a a-0 b-0; m2: a-1 b" {
		t.Errorf("got %q", got)
	}
	if got := Eager(nil, parse(t, "a")); len(got) != 0 {
		t.Errorf("nobody got %v", got)
	}
}
