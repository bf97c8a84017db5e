// Package transfers checks what transactions that consume, transform and produce have left: money that is moved on, record by record, by
// groups that each take from some partitions and put into others. What a group consumed is what its committed offsets
// say, and each record below them was moved exactly once, whole.
package transfers

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/tests/chaos/internal/isolation"
	"github.com/cauce-stream/cauce/tests/finding"
)

// Entry is a committed record: an amount that was put somewhere.
type Entry struct {
	isolation.Place
	Txn    isolation.ID
	Amount int64
	// Group took the amount From another entry; "" is the outside, which puts in amounts of which the sum is zero.
	Group string
	From  isolation.Place
}

// Group is a consumer group in the end.
type Group struct {
	Name string
	Next map[isolation.List]int64 // the committed offset of each partition that it consumes, 0 where it has none
}

// The kinds of violations.
const (
	PassedOver finding.Kind = "passed over" // below the committed offset, and nothing was put anywhere for it
	Repeated   finding.Kind = "repeated"    // moved by several transactions
	Ahead      finding.Kind = "ahead"       // moved, and not below the committed offset
	Uneven     finding.Kind = "uneven"      // more or less was put than was taken
	Phantom    finding.Kind = "phantom"     // moved from where nothing is
	Unbalanced finding.Kind = "unbalanced"  // the sum of all that lies somewhere is not zero
)

// move is what was put for an entry by a group.
type move struct {
	group string
	from  isolation.Place
}

// Check says what must not be so, the gravest kinds first in the order above.
func Check(entries []Entry, groups []Group) finding.List {
	var found finding.List
	moves := map[move][]Entry{}
	at := map[isolation.Place]bool{}
	for _, e := range entries {
		at[e.Place] = true
		if e.Group != "" {
			m := move{e.Group, e.From}
			moves[m] = append(moves[m], e)
		}
	}
	for m, put := range moves {
		if !at[m.from] {
			found.Add(Phantom, "%s has moved %v to %v, in %v", m.group, m.from, places(put), transactions(put))
		}
	}
	sum := int64(0)
	for _, e := range entries {
		sum += e.lies(groups, moves, &found)
	}
	if sum != 0 {
		found.Add(Unbalanced, "the sum of what lies somewhere is %d", sum)
	}
	found.Sort(PassedOver, Repeated, Ahead, Uneven, Phantom, Unbalanced)
	return found
}

// lies is how much of an entry nobody has taken yet.
func (e Entry) lies(groups []Group, moves map[move][]Entry, found *finding.List) int64 {
	lies := e.Amount
	for _, g := range groups {
		next, consumed := g.Next[e.List]
		if !consumed {
			continue
		}
		put := moves[move{g.Name, e.Place}]
		if e.Offset < next {
			lies = 0
		}
		by := transactions(put)
		switch {
		case len(put) == 0 && e.Offset < next:
			found.Add(PassedOver, "%s has committed %v@%d, and nothing was put for %v", g.Name, e.List, next, e.Place)
		case len(put) > 0 && e.Offset >= next:
			found.Add(Ahead, "%s has committed %v@%d, and %v was moved in %v", g.Name, e.List, next, e.Place, by)
		}
		if len(by) > 1 {
			found.Add(Repeated, "%s has moved %v in %v", g.Name, e.Place, by)
		}
		for _, id := range by {
			if total := sumOf(put, id); total != e.Amount {
				found.Add(Uneven, "%s has taken %d from %v, and put %d, in %v", g.Name, e.Amount, e.Place, total, id)
			}
		}
	}
	return lies
}

func sumOf(put []Entry, id isolation.ID) (total int64) {
	for _, e := range put {
		if e.Txn == id {
			total += e.Amount
		}
	}
	return total
}

// transactions are those of entries.
func transactions(entries []Entry) []isolation.ID {
	ids := map[isolation.ID]bool{}
	for _, e := range entries {
		ids[e.Txn] = true
	}
	return slices.SortedFunc(maps.Keys(ids), func(a, b isolation.ID) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
}

func places(entries []Entry) (all []isolation.Place) {
	for _, e := range entries {
		all = append(all, e.Place)
	}
	return all
}
