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
type Timers struct {
	byKey map[TimerKey]*timer
	queue timerQueue
}

type timer struct {
	key   TimerKey
	at    time.Time
	index int
	seq   uint64 // ties go by the order of setting, so that runs repeat
}

// NewTimers makes a table without timers.
func NewTimers() *Timers { return &Timers{byKey: map[TimerKey]*timer{}} }

// Set arms a timer, in place of an earlier one of the same key.
func (t *Timers) Set(k TimerKey, at time.Time) {
	t.queue.seq++
	if tm, ok := t.byKey[k]; ok {
		tm.at, tm.seq = at, t.queue.seq
		heap.Fix(&t.queue, tm.index)
		return
	}
	tm := &timer{key: k, at: at, seq: t.queue.seq}
	t.byKey[k] = tm
	heap.Push(&t.queue, tm)
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
		return tm.at, true
	}
	return time.Time{}, false
}

// Next is when the first timer goes off; zero for never.
func (t *Timers) Next() time.Time {
	if len(t.queue.items) == 0 {
		return time.Time{}
	}
	return t.queue.items[0].at
}

// Pop takes the first timer that is due at now.
func (t *Timers) Pop(now time.Time) (TimerKey, bool) {
	if len(t.queue.items) == 0 || t.queue.items[0].at.After(now) {
		return TimerKey{}, false
	}
	tm := heap.Pop(&t.queue).(*timer)
	delete(t.byKey, tm.key)
	return tm.key, true
}

// timerQueue is a heap by time.
type timerQueue struct {
	items []*timer
	seq   uint64
}

func (q *timerQueue) Len() int { return len(q.items) }
func (q *timerQueue) Less(i, j int) bool {
	a, b := q.items[i], q.items[j]
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}
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
