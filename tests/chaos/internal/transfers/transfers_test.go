package transfers

import (
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/tests/chaos/internal/isolation"
	"github.com/cauce-stream/cauce/tests/finding"
)

func place(topic string, offset int64) isolation.Place {
	return isolation.Place{List: isolation.List{Topic: topic}, Offset: offset}
}

func outside(offset, amount int64) Entry {
	return Entry{Place: place("in", offset), Txn: isolation.ID{Process: "bank", Number: offset / 2}, Amount: amount}
}

func moved(topic string, offset, from, number, amount int64) Entry {
	return Entry{Place: place(topic, offset), Txn: isolation.ID{Process: "clerk", Number: number}, Amount: amount, Group: "clerks", From: place("in", from)}
}

// sound is a history without a fault: two of four entries were moved, each to two places, and the offset behind them is that
// of a marker.
func sound() ([]Entry, []Group) {
	return []Entry{
		outside(0, 10), outside(1, -10), outside(3, 5), outside(4, -5),
		moved("a", 0, 0, 1, 4), moved("b", 0, 0, 1, 6),
		moved("a", 2, 1, 2, -3), moved("b", 2, 1, 2, -7),
	}, []Group{{"clerks", map[isolation.List]int64{{Topic: "in"}: 3}}}
}

func TestSoundHistory(t *testing.T) {
	if found := Check(sound()); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if found := Check(nil, nil); len(found) > 0 {
		t.Errorf("where nothing is: %+v", found)
	}
}

func TestViolationsAreFound(t *testing.T) {
	tests := []struct {
		name     string
		change   func(e []Entry, g []Group) []Entry
		want     []finding.Kind
		examples string
	}{
		{"an offset was committed without an output", func(e []Entry, _ []Group) []Entry { return e[:6] },
			[]finding.Kind{PassedOver, Unbalanced}, "clerks has committed in-0@3, and nothing was put for in-0@1"},
		{"an output was committed without its offset", func(e []Entry, g []Group) []Entry {
			g[0].Next[isolation.List{Topic: "in"}] = 1
			return e
		}, []finding.Kind{Ahead, Unbalanced}, "clerks has committed in-0@1, and in-0@1 was moved in [clerk/2]"},
		{"no offset was committed", func(e []Entry, g []Group) []Entry {
			g[0].Next[isolation.List{Topic: "in"}] = 0
			return e
		}, []finding.Kind{Ahead}, "clerks has committed in-0@0, and in-0@0 was moved"},
		{"an entry was moved twice", func(e []Entry, _ []Group) []Entry {
			return append(e, moved("a", 4, 0, 3, 4), moved("b", 4, 0, 3, 6))
		}, []finding.Kind{Repeated, Unbalanced}, "clerks has moved in-0@0 in [clerk/1 clerk/3]"},
		{"half of what was put is not there", func(e []Entry, _ []Group) []Entry { return e[:7] },
			[]finding.Kind{Uneven, Unbalanced}, "clerks has taken -10 from in-0@1, and put -3, in clerk/2"},
		{"what was moved is not there", func(e []Entry, _ []Group) []Entry { return append(e, moved("a", 4, 2, 3, 0)) },
			[]finding.Kind{Phantom}, "clerks has moved in-0@2 to [a-0@4], in [clerk/3]"},
		{"half of what came from outside is not there", func(e []Entry, _ []Group) []Entry { return slices.Delete(e, 3, 4) },
			[]finding.Kind{Unbalanced}, "the sum of what lies somewhere is 5"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, groups := sound()
			entries = test.change(entries, groups)
			var kinds []finding.Kind
			var examples []string
			for _, f := range Check(entries, groups) {
				kinds = append(kinds, f.Kind)
				examples = append(examples, f.Examples...)
			}
			if !slices.Equal(kinds, test.want) || !strings.Contains(strings.Join(examples, "\n"), test.examples) {
				t.Errorf("found %v: %q; want %v: %q", kinds, examples, test.want, test.examples)
			}
		})
	}
}
