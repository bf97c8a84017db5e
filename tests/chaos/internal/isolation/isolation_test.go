package isolation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/finding"
)

var (
	x, y = List{"x", 0}, List{"y", 0}
	a1   = ID{"a", 1}
	a2   = ID{"a", 2}
	b1   = ID{"b", 1}
	b2   = ID{"b", 2}
	c1   = ID{"c", 1}
)

// at is an element at an offset, given a second after the beginning of the history.
func at(offset int64, id ID, index int) Sight {
	return Sight{Offset: offset, Element: Element{id, index}, At: time.Second}
}

// sound is a history without a fault. a1 and b1 interleave, in x one way and in y the other; b2 was aborted; nobody knows of c1.
func sound() History {
	return History{
		Txns: []Txn{
			{ID: a1, Outcome: Committed, CommitAsked: time.Millisecond, Appends: []List{x, y, x}},
			{ID: b1, Outcome: Committed, CommitAsked: time.Millisecond, Appends: []List{x, y}},
			{ID: a2, Outcome: Committed, CommitAsked: time.Millisecond, Appends: []List{y}, Reads: []Element{{b1, 0}}},
			{ID: b2, Outcome: Aborted, Appends: []List{x, y}},
			{ID: c1, Outcome: Unknown, CommitAsked: time.Millisecond, Appends: []List{x, y}, Reads: []Element{{a2, 0}}},
		},
		Lists: map[List][]Sight{
			x: {at(0, a1, 0), at(1, b1, 0), at(2, a1, 2), at(6, c1, 0)},
			y: {at(0, b1, 1), at(1, a1, 1), at(4, a2, 0), at(8, c1, 1)},
		},
		Views: []View{
			{"r", x, []Sight{at(0, a1, 0), at(1, b1, 0), at(2, a1, 2), at(6, c1, 0)}},
			{"s", x, []Sight{at(1, b1, 0), at(2, a1, 2)}},
			{"s", y, nil},
		},
	}
}

func TestSoundHistory(t *testing.T) {
	if found := Check(sound()); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if found := Check(History{}); len(found) > 0 {
		t.Errorf("in an empty history: %+v", found)
	}
	h := sound() // nothing of the unknown transaction is there
	h.Lists[x], h.Lists[y], h.Views = h.Lists[x][:3], h.Lists[y][:3], nil
	if found := Check(h); len(found) > 0 {
		t.Errorf("an unknown transaction was aborted: %+v", found)
	}
}

func TestAnomaliesAreFound(t *testing.T) {
	tests := []struct {
		name     string
		change   func(h *History)
		want     []finding.Kind
		examples string
	}{
		{"a committed element is not there", func(h *History) { h.Lists[y] = slices.Delete(h.Lists[y], 1, 2) },
			[]finding.Kind{Lost}, "of its 3 elements [1] are not there"},
		{"a committed transaction is not there", func(h *History) { h.Lists[y] = slices.Delete(h.Lists[y], 2, 3) },
			[]finding.Kind{Lost}, "a/2 was committed"},
		{"half of an unknown transaction is there", func(h *History) { h.Lists[y] = h.Lists[y][:3] },
			[]finding.Kind{Torn}, "of the elements of c/1, [0] are there, and [1] are not"},
		{"an element is there twice", func(h *History) { h.Lists[y] = append(h.Lists[y], at(9, a2, 0)) },
			[]finding.Kind{Duplicated}, "a/2[0] is at [y-0@4 y-0@9]"},
		{"an element is in another list", func(h *History) {
			h.Lists[x] = append(h.Lists[x], at(9, a2, 0))
			h.Lists[y] = slices.Delete(h.Lists[y], 2, 3)
		}, []finding.Kind{Misplaced}, "x-0@9: a/2[0] was read by the end, and appended to y-0"},
		{"nobody appended an element", func(h *History) { h.Lists[x] = append(h.Lists[x], at(9, ID{"d", 1}, 0)) },
			[]finding.Kind{Invented}, "x-0@9: d/1[0]"},
		{"a transaction appended less", func(h *History) { h.Lists[x] = append(h.Lists[x], at(9, a1, 3)) },
			[]finding.Kind{Invented}, "x-0@9: a/1[3]"},
		{"an aborted element is there", func(h *History) { h.Lists[x] = append(h.Lists[x], at(9, b2, 0)) },
			[]finding.Kind{AbortedRead}, "x-0@9: b/2[0] was read by the end"},
		{"a reader was given an aborted element", func(h *History) {
			h.Views[0].Sights = append(h.Views[0].Sights, at(9, b2, 0))
		}, []finding.Kind{AbortedRead}, "x-0@9: b/2[0] was read by r"},
		{"a reader was given an element before its commit was asked for", func(h *History) { h.Views[0].Sights[1].At = 0 },
			[]finding.Kind{IntermediateRead}, "x-0@1: r was given b/1[0] at 0s, and its commit was asked for at 1ms"},
		{"a reader was given part of a transaction, and went on", func(h *History) {
			h.Views[0].Sights = slices.Delete(h.Views[0].Sights, 2, 3)
		}, []finding.Kind{IntermediateRead}, "x-0@2: r was not given a/1[2]"},
		{"two lists have the transactions of one id in different orders", func(h *History) {
			h.Txns[2].Appends = append(h.Txns[2].Appends, x)
			h.Lists[x] = append([]Sight{at(-1, a2, 1)}, h.Lists[x]...)
		}, []finding.Kind{WriteCycle}, "a/1 began before a/2 wrote to x-0 before a/1"},
		{"a transaction read what follows from it", func(h *History) { h.Txns[1].Reads = []Element{{c1, 0}} },
			[]finding.Kind{CircularFlow}, "a/2 was read by c/1 was read by b/1 was read by a/2"},
		{"a transaction read a later one of its own id", func(h *History) { h.Txns[0].Reads = []Element{{a2, 0}} },
			[]finding.Kind{CircularFlow}, "a/1 began before a/2 was read by a/1"},
		{"elements of a transaction changed places", func(h *History) {
			h.Lists[x][0], h.Lists[x][2] = at(0, a1, 2), at(2, a1, 0)
			h.Views = nil
		}, []finding.Kind{Reordered}, "x-0@2: a/1[0] is behind [2]"},
		{"a reader was given what is not there", func(h *History) {
			h.Views[0].Sights = append(h.Views[0].Sights, at(9, c1, 0))
		}, []finding.Kind{Dirty}, "x-0@9: r was given c/1[0]"},
		{"a reader was given something else", func(h *History) { h.Views[1].Sights[1] = at(2, c1, 0) },
			[]finding.Kind{Dirty}, "x-0@2: s was given c/1[0]"},
		{"a reader was not given what is there", func(h *History) {
			h.Views[0].Sights = slices.Delete(h.Views[0].Sights, 1, 2)
		}, []finding.Kind{Skipped}, "x-0@1: r was not given b/1[0]"},
		{"a reader was given offsets that do not grow", func(h *History) {
			h.Views[1].Sights = append(h.Views[1].Sights, at(1, b1, 0))
		}, []finding.Kind{Unordered}, "x-0: s was given offset 1 after 2"},
		{"an aborted transaction was read by nobody", func(h *History) { h.Txns[3].Reads = []Element{{c1, 0}} }, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := sound()
			test.change(&h)
			var kinds []finding.Kind
			var examples []string
			for _, f := range Check(h) {
				kinds = append(kinds, f.Kind)
				examples = append(examples, f.Examples...)
			}
			if !slices.Equal(kinds, test.want) || !strings.Contains(strings.Join(examples, "\n"), test.examples) {
				t.Errorf("found %v: %q; want %v: %q", kinds, examples, test.want, test.examples)
			}
		})
	}
}

// TestLongCycle has a cycle of more transactions than calls would fit on a stack, if there were one for each.
func TestLongCycle(t *testing.T) {
	const n = 20_000
	var h History
	for i := range int64(n) {
		h.Txns = append(h.Txns, Txn{ID: ID{"p", i}, Outcome: Committed})
	}
	if found := Check(h); len(found) > 0 {
		t.Fatalf("without a cycle: %+v", found)
	}
	h.Txns[0].Reads = []Element{{ID{"p", n - 1}, 0}}
	found := Check(h)
	if len(found) != 1 || found[0].Kind != CircularFlow || found[0].Count != 1 {
		t.Errorf("found %d kinds", len(found))
	}
}
