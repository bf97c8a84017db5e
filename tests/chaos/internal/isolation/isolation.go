// Package isolation checks a history of transactions that append to lists, which are partitions, against what Kafka's transactions
// promise to who reads committed records: the anomalies are those of Adya's thesis, as Elle finds them in list-append histories.
// Kafka does not order transactions of different producers: their appends may interleave in one partition and in another the other
// way round. So a list orders transactions only where they are of one transactional id. It knows nothing of the
// cluster.
package isolation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cauce-stream/cauce/tests/finding"
)

// ID names a transaction: the transactional id, and which of its transactions in the order in which they began.
type ID struct {
	Process string
	Number  int64
}

func (id ID) String() string { return fmt.Sprintf("%s/%d", id.Process, id.Number) }

// Element is what a transaction appends: its first is 0, its second 1 and so on, in whatever list.
type Element struct {
	Txn   ID
	Index int
}

func (e Element) String() string { return fmt.Sprintf("%v[%d]", e.Txn, e.Index) }

// List is a partition.
type List struct {
	Topic     string
	Partition int32
}

func (l List) String() string { return fmt.Sprintf("%s-%d", l.Topic, l.Partition) }

// Place is an offset in a list.
type Place struct {
	List
	Offset int64
}

func (p Place) String() string { return fmt.Sprintf("%v@%d", p.List, p.Offset) }

// Outcome is what the client of a transaction knows of its end.
type Outcome int

// The outcomes.
const (
	Aborted   Outcome = iota // or nobody asked for its commit
	Committed                // that was acknowledged
	Unknown                  // its commit was asked for
)

// Txn is what its client knows of a transaction.
type Txn struct {
	ID
	Outcome Outcome
	// CommitAsked is when its commit was asked for, after the beginning of the history.
	CommitAsked time.Duration
	Appends     []List    // by index
	Reads       []Element // that it was given before it appended what follows from them
}

// Sight is an element that a reader was given.
type Sight struct {
	Offset int64
	Element
	At time.Duration // after the beginning of the history
}

// View is what one reader of committed records was given of a list from some offset on, in that order.
type View struct {
	Reader string
	List   List
	Sights []Sight
}

// History is all that is known.
type History struct {
	Txns  []Txn
	Lists map[List][]Sight // the committed elements in the end, by offset; their times do not matter
	Views []View
}

// The kinds of violations.
const (
	Lost             finding.Kind = "lost"       // committed, and not there
	Torn             finding.Kind = "torn"       // some of an unknown transaction is there, and some is not
	Duplicated       finding.Kind = "duplicated" // there twice
	Misplaced        finding.Kind = "misplaced"  // in another list than it was appended to
	Invented         finding.Kind = "invented"   // nobody appended it
	AbortedRead      finding.Kind = "G1a"        // of an aborted transaction, and read
	IntermediateRead finding.Kind = "G1b"        // read before its transaction's commit was asked for, or without the rest of it in that list
	WriteCycle       finding.Kind = "G0"         // transactions of one transactional id, each before the other
	CircularFlow     finding.Kind = "G1c"        // a transaction that was read before itself
	Reordered        finding.Kind = "reordered"  // elements of a transaction in one list in another order than they were appended in
	Dirty            finding.Kind = "dirty"      // a reader was given what the list does not have there
	Skipped          finding.Kind = "skipped"    // a reader was not given what the list has there
	Unordered        finding.Kind = "unordered"  // a reader was given offsets that do not grow
)

// Check says what must not be so, the gravest kinds first in the order above.
func Check(h History) finding.List {
	c := checker{txns: map[ID]Txn{}, places: map[Element][]Place{}}
	for _, t := range h.Txns {
		c.txns[t.ID] = t
	}
	c.lists(h.Lists)
	c.outcomes(h.Txns)
	for _, v := range h.Views {
		c.view(v, h.Lists[v.List])
	}
	c.cycles(h)
	c.found.Sort(Lost, Torn, Duplicated, Misplaced, Invented, AbortedRead, IntermediateRead, WriteCycle, CircularFlow, Reordered,
		Dirty, Skipped, Unordered)
	return c.found
}

type checker struct {
	txns   map[ID]Txn
	places map[Element][]Place // in the lists
	found  finding.List
}

// lists holds what is there against what was appended.
func (c *checker) lists(lists map[List][]Sight) {
	for list, sights := range lists {
		last := map[ID]int{}
		for _, s := range sights {
			place := Place{list, s.Offset}
			c.places[s.Element] = append(c.places[s.Element], place)
			c.element(s.Element, place, "the end")
			if index, any := last[s.Txn]; any && s.Index < index {
				c.found.Add(Reordered, "%v: %v is behind [%d]", place, s.Element, index)
			}
			last[s.Txn] = s.Index
		}
	}
	for e, places := range c.places {
		if len(places) > 1 {
			c.found.Add(Duplicated, "%v is at %v", e, places)
		}
	}
}

// element says what is wrong with an element's being read, wherever and whenever.
func (c *checker) element(e Element, at Place, reader string) {
	t, known := c.txns[e.Txn]
	switch {
	case !known || e.Index < 0 || e.Index >= len(t.Appends):
		c.found.Add(Invented, "%v: %v was read by %s", at, e, reader)
	case t.Appends[e.Index] != at.List:
		c.found.Add(Misplaced, "%v: %v was read by %s, and appended to %v", at, e, reader, t.Appends[e.Index])
	case t.Outcome == Aborted:
		c.found.Add(AbortedRead, "%v: %v was read by %s", at, e, reader)
	}
}

// outcomes holds what clients were told of transactions against what is there.
func (c *checker) outcomes(txns []Txn) {
	for _, t := range txns {
		var missing, there []int
		for i := range t.Appends {
			if len(c.places[Element{t.ID, i}]) > 0 {
				there = append(there, i)
			} else {
				missing = append(missing, i)
			}
		}
		switch {
		case t.Outcome == Committed && len(missing) > 0:
			c.found.Add(Lost, "%v was committed at %v; of its %d elements %v are not there", t.ID, t.CommitAsked, len(t.Appends), missing)
		case t.Outcome == Unknown && len(missing) > 0 && len(there) > 0:
			c.found.Add(Torn, "of the elements of %v, %v are there, and %v are not", t.ID, there, missing)
		}
	}
}

// view holds what a reader was given against what is there.
func (c *checker) view(v View, list []Sight) {
	given := map[int64]Element{}
	partly := map[ID]bool{}
	for i, s := range v.Sights {
		place := Place{v.List, s.Offset}
		if i > 0 && s.Offset <= v.Sights[i-1].Offset {
			c.found.Add(Unordered, "%v: %s was given offset %d after %d", v.List, v.Reader, s.Offset, v.Sights[i-1].Offset)
		}
		c.element(s.Element, place, v.Reader)
		t, known := c.txns[s.Txn]
		if known && t.Outcome != Aborted && s.At < t.CommitAsked {
			c.found.Add(IntermediateRead, "%v: %s was given %v at %v, and its commit was asked for at %v", place, v.Reader, s.Element, s.At, t.CommitAsked)
		}
		given[s.Offset], partly[s.Txn] = s.Element, true
		at, there := slices.BinarySearchFunc(list, s.Offset, compareOffset)
		if (!there || list[at].Element != s.Element) && known && t.Outcome != Aborted {
			c.found.Add(Dirty, "%v: %s was given %v, which is not there", place, v.Reader, s.Element)
		}
	}
	if len(v.Sights) == 0 {
		return
	}
	first, last := v.Sights[0].Offset, v.Sights[len(v.Sights)-1].Offset
	from, _ := slices.BinarySearchFunc(list, first, compareOffset)
	for _, s := range list[from:] {
		if s.Offset > last {
			break
		}
		if _, ok := given[s.Offset]; ok {
			continue
		}
		kind := Skipped
		if partly[s.Txn] {
			kind = IntermediateRead
		}
		c.found.Add(kind, "%v@%d: %s was not given %v, between what it was given", v.List, s.Offset, v.Reader, s.Element)
	}
}

func compareOffset(s Sight, offset int64) int { return cmp.Compare(s.Offset, offset) }
