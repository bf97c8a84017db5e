// Package ack keeps producers that wait until their records are committed (acks=all).
//
// A request of several partitions has a Wait in the Queue of each, and is answered when the last of them is over. A Queue is in
// the order of offsets, so that an advance of the high watermark costs as much as it completes.
package ack

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// Wait is a request's wait for one partition.
type Wait struct {
	// Err is why the records are not acknowledged, once the wait is over.
	Err error

	request    *Request
	end        int64
	queued     bool
	prev, next *Wait
}

// Queue is the waits for one partition, by offset. Its owner serialises calls. The zero value is empty.
type Queue struct{ first, last *Wait }

// Add has w wait until the records below end are committed.
func (q *Queue) Add(w *Wait, end int64) {
	w.end, w.queued = end, true
	w.request.pending.Add(1)
	before := q.last // appends come nearly in order
	for before != nil && before.end > end {
		before = before.prev
	}
	w.prev = before
	if before != nil {
		w.next, before.next = before.next, w
	} else {
		w.next, q.first = q.first, w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		q.last = w
	}
}

// Remove takes w out and reports whether it was there. Its request has then to be told with Request.Over.
func (q *Queue) Remove(w *Wait) bool {
	if !w.queued {
		return false
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	return true
}

// Commit ends the waits for records below offset with err, nil for an acknowledgement.
func (q *Queue) Commit(offset int64, err error, done *Done) {
	for w := q.first; w != nil && w.end <= offset; w = q.first {
		q.end(w, err, done)
	}
}

// Fail ends all waits.
func (q *Queue) Fail(err error, done *Done) {
	for q.first != nil {
		q.end(q.first, err, done)
	}
}

func (q *Queue) end(w *Wait, err error, done *Done) {
	q.Remove(w)
	w.Err = err
	if done.last != nil {
		done.last.next = w
	} else {
		done.first = w
	}
	done.last = w
}

// Done collects waits that are over. The zero value is empty.
type Done struct{ first, last *Wait }

// Fire answers the requests of which no wait is left. The caller must hold no lock.
func (d *Done) Fire() {
	for w := d.first; w != nil; {
		next := w.next
		w.next = nil
		w.request.Over()
		w = next
	}
	d.first, d.last = nil, nil
}

// Request is a request that may have to wait. It may be used again after its answer.
type Request struct {
	pending  atomic.Int32 // waits, and one each for who sets them up and who ends them at the deadline
	answer   func()
	expire   func()
	clock    *Clock
	deadline time.Time
	place    int // in the clock's heap, -1 when not there
}

// Begin sets the request up; Over ends that. answer is called once all waits are over, expire at the deadline: it ends those
// that are left.
func (r *Request) Begin(answer, expire func()) {
	r.pending.Store(1)
	r.answer, r.expire, r.clock, r.place = answer, expire, nil, -1
}

// Enlist makes w one of the request's waits. It is to be called before the queue knows w.
func (r *Request) Enlist(w *Wait) { w.request = r }

// Alone says whether there is no wait, but only who sets the request up.
func (r *Request) Alone() bool { return r.pending.Load() == 1 }

// Over says that one wait is over, or the set-up.
func (r *Request) Over() {
	if r.pending.Add(-1) > 0 {
		return
	}
	if r.clock != nil {
		r.clock.remove(r)
	}
	r.answer()
}

// Clock ends requests at their deadlines. It runs only while there is a deadline ahead. The zero value is ready.
type Clock struct {
	mu    sync.Mutex
	queue deadlines
	timer *time.Timer
	armed time.Time // when the timer fires, zero when it does not
}

// Expect has the request expire at the deadline. It is to be called by who sets the request up, before Over.
func (c *Clock) Expect(r *Request, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.clock, r.deadline = c, deadline
	heap.Push(&c.queue, r)
	c.arm()
}

// arm sets the timer to the first deadline. mu is held.
func (c *Clock) arm() {
	if len(c.queue) == 0 {
		return
	}
	first := c.queue[0].deadline
	if !c.armed.IsZero() && !first.Before(c.armed) {
		return
	}
	c.armed = first
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Until(first), c.ring)
		return
	}
	c.timer.Reset(time.Until(first))
}

func (c *Clock) ring() {
	c.mu.Lock()
	c.armed = time.Time{}
	now := time.Now()
	var due []*Request
	for len(c.queue) > 0 && !c.queue[0].deadline.After(now) {
		r := heap.Pop(&c.queue).(*Request)
		// One that has nothing left to wait for is being answered: who does that waits for mu, or comes to it.
		if r.hold() {
			due = append(due, r)
		}
	}
	c.arm()
	c.mu.Unlock()
	for _, r := range due {
		r.expire()
		r.Over()
	}
}

// hold keeps the request from being answered until Over, unless it is over already.
func (r *Request) hold() bool {
	for {
		n := r.pending.Load()
		if n == 0 {
			return false
		}
		if r.pending.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *Clock) remove(r *Request) {
	c.mu.Lock()
	if r.place >= 0 {
		heap.Remove(&c.queue, r.place)
	}
	c.mu.Unlock()
}

// deadlines is a heap.Interface, the first deadline at the top.
type deadlines []*Request

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push is heap.Interface's.
func (d *deadlines) Push(x any) {
	r := x.(*Request)
	r.place = len(*d)
	*d = append(*d, r)
}

// Pop is heap.Interface's.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	r := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	r.place = -1
	return r
}
