package shard

import (
	"container/heap"
	"time"
)

// deadlines are when open transactions are to be aborted, the first one first.
type deadlines struct{ queue deadlineQueue }

type deadline struct {
	t     *transaction
	at    time.Time
	index int
}

// set sets the deadline of a transaction, in place of an earlier one.
func (d *deadlines) set(t *transaction, at time.Time) {
	if t.due == nil {
		t.due = &deadline{t: t, at: at}
		heap.Push(&d.queue, t.due)
		return
	}
	t.due.at = at
	heap.Fix(&d.queue, t.due.index)
}

// clear forgets the deadline of a transaction if it has one.
func (d *deadlines) clear(t *transaction) {
	if t.due != nil {
		heap.Remove(&d.queue, t.due.index)
		t.due = nil
	}
}

// next is the first deadline.
func (d *deadlines) next() (time.Time, bool) {
	if len(d.queue) == 0 {
		return time.Time{}, false
	}
	return d.queue[0].at, true
}

// pop takes the first transaction whose deadline is not after now; nil if there is none.
func (d *deadlines) pop(now time.Time) *transaction {
	if len(d.queue) == 0 || d.queue[0].at.After(now) {
		return nil
	}
	t := d.queue[0].t
	d.clear(t)
	return t
}

// deadlineQueue is a heap by time, and by transactional id, so that runs repeat.
type deadlineQueue []*deadline

func (q deadlineQueue) Len() int { return len(q) }
func (q deadlineQueue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].t.id < q[j].t.id
}
func (q deadlineQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *deadlineQueue) Push(x any) {
	d := x.(*deadline)
	d.index = len(*q)
	*q = append(*q, d)
}
func (q *deadlineQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return d
}
