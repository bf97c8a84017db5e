// Package quota measures how many bytes a second replication takes, against a limit (KIP-73).
//
// The package is pure: time comes in as an argument.
package quota

import (
	"math"
	"sync"
)

// Unlimited is the limit of a quota that nobody has set.
const Unlimited = math.MaxInt64

// Quota is a limit in bytes per second and what was taken of it lately. Its methods are safe for concurrent use.
type Quota struct {
	mu       sync.Mutex
	limit    int64
	windowMs int64
	taken    []int64 // bytes of the windows up to the newest, by window number modulo their count
	newest   int64   // window number
}

// maxWindows bounds what a quota keeps, and looks at each time it is asked.
const maxWindows = 1000

// New makes a quota without a limit that looks back on as many windows as that, of so many milliseconds each. Kafka's
// replication quotas have 11 windows of a second. In place of more than 1000 windows there are longer ones.
func New(windows int, windowMs int64) *Quota {
	windows, windowMs = max(windows, 1), max(windowMs, 1)
	if longer := (windows + maxWindows - 1) / maxWindows; longer > 1 {
		windows, windowMs = (windows+longer-1)/longer, windowMs*int64(longer)
	}
	return &Quota{limit: Unlimited, windowMs: windowMs, taken: make([]int64, windows)}
}

// SetLimit changes the limit, in bytes per second.
func (q *Quota) SetLimit(bytesPerSecond int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = bytesPerSecond
}

// Record notes bytes that were taken.
func (q *Quota) Record(bytes, nowMs int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(nowMs)
	q.taken[q.newest%int64(len(q.taken))] += bytes
}

// Exceeded says whether more was taken than the limit allows. As with Kafka a quota that rested may be taken up to the whole
// of its windows at once.
func (q *Quota) Exceeded(nowMs int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limit < Unlimited && q.rate(nowMs) > float64(q.limit)
}

// Rate is the bytes per second of late.
func (q *Quota) Rate(nowMs int64) float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rate(nowMs)
}

func (q *Quota) rate(nowMs int64) float64 {
	q.advance(nowMs)
	sum := int64(0)
	for _, n := range q.taken {
		sum += n
	}
	elapsedMs := float64(len(q.taken)-1)*float64(q.windowMs) + float64(nowMs%q.windowMs+1)
	return float64(sum) * 1000 / elapsedMs
}

// advance forgets the windows that are too old. mu is held.
func (q *Quota) advance(nowMs int64) {
	at := nowMs / q.windowMs
	if at <= q.newest {
		return // a clock that went back
	}
	for n := max(q.newest+1, at-int64(len(q.taken))+1); n <= at; n++ {
		q.taken[n%int64(len(q.taken))] = 0
	}
	q.newest = at
}
