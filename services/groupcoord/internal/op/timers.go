package op

import (
	"container/heap"
	"time"
)

// TimerKey names a timer by what it is for: Kind is among the constants of the package that sets it, Member is empty for
// timers of the group.
type TimerKey struct {
	Kind          string
	Group, Member string
}

// Timers are the timers of one shard. There is no clock in them: whoever has one asks for what is due.
//
// Most timers are sessions, put off again and again long before they go off: one that is put off keeps its place in the heap until
// it gets to the front.
type Timers struct {
	byKey map[TimerKey]*timer
	queue timerQueue
}

type timer struct {
	key    TimerKey
	index  int
	due    moment // when it goes off
	placed moment // where it is in the heap; not after due
}

// moment is a time and, as ties go by the order of setting so that runs repeat, which setting it was.
type moment struct {
	at  time.Time
	seq uint64
}

func (m moment) before(other moment) bool {
	if c := m.at.Compare(other.at); c != 0 {
		return c < 0
	}
	return m.seq < other.seq
}

// NewTimers makes a table without timers.
func NewTimers() *Timers { return &Timers{byKey: map[TimerKey]*timer{}} }

// Set arms a timer, in place of an earlier one of the same key.
func (t *Timers) Set(k TimerKey, at time.Time) {
	t.queue.seq++
	due := moment{at, t.queue.seq}
	if tm, ok := t.byKey[k]; ok {
		tm.due = due
		if due.before(tm.placed) {
			t.place(tm)
		}
		return
	}
	tm := &timer{key: k, due: due, placed: due}
	t.byKey[k] = tm
	heap.Push(&t.queue, tm)
}

// place moves a timer to where it belongs.
func (t *Timers) place(tm *timer) {
	tm.placed = tm.due
	heap.Fix(&t.queue, tm.index)
}

// Clear forgets a timer if it is set.
func (t *Timers) Clear(k TimerKey) {
	if tm, ok := t.byKey[k]; ok {
		heap.Remove(&t.queue, tm.index)
		delete(t.byKey, k)
	}
}

// At is when a timer goes off, and whether it is set.
func (t *Timers) At(k TimerKey) (time.Time, bool) {
	if tm, ok := t.byKey[k]; ok {
		return tm.due.at, true
	}
	return time.Time{}, false
}

// Next is when to ask for what is due, zero for never. No timer goes off before; that one goes off then is not sure, where timers
// have been put off.
func (t *Timers) Next() time.Time {
	if len(t.queue.items) == 0 {
		return time.Time{}
	}
	return t.queue.items[0].placed.at
}

// Pop takes a timer that is due at now, the earliest ones first.
func (t *Timers) Pop(now time.Time) (TimerKey, bool) {
	for len(t.queue.items) > 0 {
		tm := t.queue.items[0]
		switch {
		case tm.placed.at.After(now):
			return TimerKey{}, false
		case tm.placed.before(tm.due):
			t.place(tm)
		default:
			heap.Remove(&t.queue, 0)
			delete(t.byKey, tm.key)
			return tm.key, true
		}
	}
	return TimerKey{}, false
}

// timerQueue is a heap by time.
type timerQueue struct {
	items []*timer
	seq   uint64
}

func (q *timerQueue) Len() int           { return len(q.items) }
func (q *timerQueue) Less(i, j int) bool { return q.items[i].placed.before(q.items[j].placed) }
func (q *timerQueue) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].index, q.items[j].index = i, j
}
func (q *timerQueue) Push(x any) {
	tm := x.(*timer)
	tm.index = len(q.items)
	q.items = append(q.items, tm)
}
func (q *timerQueue) Pop() any {
	last := len(q.items) - 1
	tm := q.items[last]
	q.items[last] = nil
	q.items = q.items[:last]
	return tm
}
