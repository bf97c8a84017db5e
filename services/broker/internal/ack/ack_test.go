package ack

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errGone = errors.New("gone")

// request is a request of a test, and what has become of it.
type request struct {
	Request
	waits    []Wait
	answered int
}

func newRequest(n int) *request {
	r := &request{waits: make([]Wait, n)}
	r.Begin(func() { r.answered++ }, func() {})
	for i := range r.waits {
		r.Enlist(&r.waits[i])
	}
	return r
}

func TestARequestIsAnsweredAfterItsLastWait(t *testing.T) {
	var a, b Queue
	r := newRequest(2)
	a.Add(&r.waits[0], 10)
	b.Add(&r.waits[1], 3)
	r.Over()
	var done Done
	a.Commit(9, nil, &done)
	b.Commit(3, nil, &done)
	done.Fire()
	if r.answered != 0 {
		t.Fatal("answered with a wait left")
	}
	a.Fail(errGone, &done)
	done.Fire()
	if r.answered != 1 || !errors.Is(r.waits[0].Err, errGone) || r.waits[1].Err != nil {
		t.Errorf("answered %d times with %v, %v", r.answered, r.waits[0].Err, r.waits[1].Err)
	}
}

// Appends end in the order of their offsets whatever the order in which their requests come to the queue.
func TestCommitEndsWhatItCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var q Queue
	ends := random.Perm(200)
	requests := make([]*request, len(ends))
	for i, end := range ends {
		requests[i] = newRequest(1)
		q.Add(&requests[i].waits[0], int64(end))
		requests[i].Over()
	}
	for i := 0; i < len(ends); i += 7 {
		if q.Remove(&requests[i].waits[0]) {
			requests[i].Over()
		}
		if q.Remove(&requests[i].waits[0]) {
			t.Fatal("removed twice")
		}
	}
	for offset := int64(-1); offset < 200; offset += 13 {
		var done Done
		q.Commit(offset, nil, &done)
		done.Fire()
		for i, end := range ends {
			want := 0
			if i%7 == 0 || int64(end) <= offset {
				want = 1
			}
			if requests[i].answered != want {
				t.Fatalf("at offset %d the request for %d was answered %d times", offset, end, requests[i].answered)
			}
		}
	}
}

// expiring is a request whose wait the queue's lock guards, as a partition does.
type expiring struct {
	request
	mu *sync.Mutex
	q  *Queue
}

func (e *expiring) giveUp() {
	e.mu.Lock()
	was := e.q.Remove(&e.waits[0])
	e.mu.Unlock()
	if was {
		e.waits[0].Err = errGone
		e.Over()
	}
}

func TestDeadlinesComeInOrderAndTheClockRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		var mu sync.Mutex
		var q Queue
		start := time.Now()
		var ended []time.Duration
		add := func(after time.Duration) *expiring {
			e := &expiring{mu: &mu, q: &q}
			e.waits = make([]Wait, 1)
			e.Begin(func() {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, time.Since(start))
			}, e.giveUp)
			e.Enlist(&e.waits[0])
			mu.Lock()
			q.Add(&e.waits[0], 1)
			mu.Unlock()
			c.Expect(&e.Request, start.Add(after))
			e.Over()
			return e
		}
		add(3 * time.Second)
		add(1 * time.Second)
		add(2 * time.Second)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if len(ended) != 2 || ended[0] != time.Second || ended[1] != 2*time.Second {
			t.Fatalf("ended after %v", ended)
		}
		var done Done
		mu.Lock()
		q.Commit(1, nil, &done)
		mu.Unlock()
		done.Fire()
		if len(ended) != 3 || len(c.queue) != 0 {
			t.Fatalf("%d ended, %d left in the clock", len(ended), len(c.queue))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		add(2 * time.Hour)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(ended) != 4 {
			t.Errorf("%d ended", len(ended))
		}
	})
}

// Deadline and commit race for the same waits: each request is answered once.
func TestDeadlineAndCommitRace(t *testing.T) {
	var c Clock
	var mu sync.Mutex
	var q Queue
	const n = 2000
	var answered [n]int
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		e := &expiring{mu: &mu, q: &q}
		e.waits = make([]Wait, 1)
		e.Begin(func() { answered[i]++; all.Done() }, e.giveUp)
		e.Enlist(&e.waits[0])
		mu.Lock()
		q.Add(&e.waits[0], int64(i))
		mu.Unlock()
		c.Expect(&e.Request, time.Now().Add(time.Duration(i%5)*100*time.Microsecond))
		e.Over()
		if i%3 == 0 {
			var done Done
			mu.Lock()
			q.Commit(int64(i-2), nil, &done)
			mu.Unlock()
			done.Fire()
		}
	}
	all.Wait()
	for i, times := range answered {
		if times != 1 {
			t.Errorf("request %d was answered %d times", i, times)
		}
	}
}

// BenchmarkCommit ends one wait of many.
func BenchmarkCommit(b *testing.B) {
	var q Queue
	const waiting = 10_000
	requests := make([]*request, waiting)
	for i := range requests {
		requests[i] = newRequest(1)
		q.Add(&requests[i].waits[0], int64(i))
	}
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		var done Done
		q.Commit(next, nil, &done)
		done.Fire()
		r := requests[next%waiting]
		q.Add(&r.waits[0], next+waiting)
		next++
	}
}
