package server

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	minClassBits = 9  // 512 B
	maxClassBits = 23 // 8 MiB, a request of several full batches; larger buffers are left to the collector
	classes      = maxClassBits - minClassBits + 1

	// maxIdleBytes bounds what the lists hold together. What is in use is bounded by budget.
	maxIdleBytes = 64 << 20
)

// bufferPool keeps buffers of power-of-two sizes on counted lists. A sync.Pool would lose them to every
// collection, and making a large one costs a third of receiving its content.
type bufferPool struct {
	lists [classes]freeList
	idle  atomic.Int64 // bytes on the lists
}

// freeList is the idle buffers of one size, the one used last on top.
type freeList struct {
	mu     sync.Mutex
	free   [][]byte
	unused int // how many were never taken since the last trim
}

// classFor is the list that holds buffers of at least n bytes, for n ≤ 8 MiB.
func classFor(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minClassBits) - minClassBits
}

// get returns a buffer of length n with arbitrary content.
func (p *bufferPool) get(n int) []byte {
	if n > 1<<maxClassBits {
		return make([]byte, n)
	}
	class := classFor(n)
	size := 1 << (class + minClassBits)
	list := &p.lists[class]
	list.mu.Lock()
	if last := len(list.free) - 1; last >= 0 {
		b := list.free[last]
		list.free[last] = nil
		list.free = list.free[:last]
		list.unused = min(list.unused, last)
		list.mu.Unlock()
		p.idle.Add(int64(-size))
		return b[:n]
	}
	list.mu.Unlock()
	return make([]byte, n, size)
}

// put takes back a buffer of get. One that was grown by append is not of a class and goes to the collector.
func (p *bufferPool) put(b []byte) {
	size := cap(b)
	if size < 1<<minClassBits || size > 1<<maxClassBits || size&(size-1) != 0 {
		return
	}
	if p.idle.Add(int64(size)) > maxIdleBytes {
		p.idle.Add(int64(-size))
		return
	}
	list := &p.lists[classFor(size)]
	list.mu.Lock()
	list.free = append(list.free, b)
	list.mu.Unlock()
}

// trim drops the buffers that were not needed since the last trim.
func (p *bufferPool) trim() {
	for class := range p.lists {
		list := &p.lists[class]
		list.mu.Lock()
		dropped := list.unused
		kept := copy(list.free, list.free[dropped:])
		clear(list.free[kept:])
		list.free = list.free[:kept]
		list.unused = kept
		list.mu.Unlock()
		p.idle.Add(-int64(dropped) << (class + minClassBits))
	}
}

// budget bounds the request bytes held in memory by all connections of a server.
//
// A frame is paid for as its bytes arrive, so that declaring a length costs a client nothing of ours. Frames
// in progress could then hold the whole budget while each waits for more: the one that holds the overdraft
// may go on beyond it. The bound is therefore the budget plus one request of the maximum size.
type budget struct {
	free      *semaphore.Weighted
	overdraft chan struct{}
	held      *atomic.Int64 // for the metric
}

func newBudget(maxBytes int64, held *atomic.Int64) *budget {
	return &budget{free: semaphore.NewWeighted(maxBytes), overdraft: make(chan struct{}, 1), held: held}
}

// grant is what one frame holds of the budget.
type grant struct {
	bytes    int64 // to be given back to free
	overdraw bool  // holds the overdraft
}

// start pays for the first n bytes of a frame, waiting behind earlier callers.
func (b *budget) start(ctx context.Context, g *grant, n int) error {
	if err := b.free.Acquire(ctx, int64(n)); err != nil {
		return err
	}
	g.bytes = int64(n)
	b.held.Add(int64(n))
	return nil
}

// tryStart is start without waiting; it reports whether the bytes are paid for.
func (b *budget) tryStart(g *grant, n int) bool {
	if !b.free.TryAcquire(int64(n)) {
		return false
	}
	g.bytes = int64(n)
	b.held.Add(int64(n))
	return true
}

// extend pays for n more bytes of a frame in progress.
func (b *budget) extend(ctx context.Context, g *grant, n int) error {
	if g.overdraw {
		return nil
	}
	if b.free.TryAcquire(int64(n)) {
		g.bytes += int64(n)
		b.held.Add(int64(n))
		return nil
	}
	select {
	case b.overdraft <- struct{}{}:
		g.overdraw = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end gives back what a frame holds.
func (b *budget) end(g *grant) {
	if g.bytes > 0 {
		b.held.Add(-g.bytes)
		b.free.Release(g.bytes)
	}
	if g.overdraw {
		<-b.overdraft
	}
	*g = grant{}
}
