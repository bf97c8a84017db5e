package server

import (
	"context"
	"sync/atomic"
	"testing"
)

func TestBufferPool(t *testing.T) {
	var p bufferPool
	for _, n := range []int{0, 1, 511, 512, 513, 4096, 70_000, 1<<23 - 1, 1 << 23} {
		b := p.get(n)
		if len(b) != n || cap(b)&(cap(b)-1) != 0 || cap(b) < 512 || cap(b) >= 2*max(n, 512) {
			t.Errorf("%d bytes: length %d, capacity %d", n, len(b), cap(b))
		}
		p.put(b)
		if again := p.get(max(n, 1)); &again[0] != &b[:1][0] {
			t.Errorf("%d bytes: not used again", n)
		}
	}
	if idle := p.idle.Load(); idle != 0 {
		t.Errorf("%d bytes idle", idle)
	}
	if b := p.get(1<<23 + 1); cap(b) < 1<<23+1 {
		t.Errorf("a large buffer of %d bytes", cap(b))
	}
	for _, odd := range [][]byte{nil, make([]byte, 256), make([]byte, 600), make([]byte, 1<<24)} {
		p.put(odd)
	}
	if idle := p.idle.Load(); idle != 0 {
		t.Errorf("buffers of no class are kept: %d bytes", idle)
	}
}

func TestBufferPoolForgets(t *testing.T) {
	var p bufferPool
	var taken [][]byte
	for range 20 {
		taken = append(taken, p.get(8<<20))
	}
	for _, b := range taken {
		p.put(b)
	}
	if idle := p.idle.Load(); idle != maxIdleBytes {
		t.Errorf("%d bytes idle", idle)
	}
	p.trim() // all were in use since the start
	a, b := p.get(8<<20), p.get(8<<20)
	p.put(a)
	p.put(b)
	p.trim()
	if idle := p.idle.Load(); idle != 2*8<<20 {
		t.Errorf("%d bytes idle after two buffers were in use", idle)
	}
	if c := p.get(8 << 20); &c[0] != &b[0] {
		t.Error("a trimmed list gives another buffer")
	} else {
		p.put(c)
	}
	p.trim()
	p.trim()
	if idle := p.idle.Load(); idle != 0 {
		t.Errorf("%d bytes idle after rest", idle)
	}
}

func TestBudgetOverdraft(t *testing.T) {
	var held atomic.Int64
	b := newBudget(100, &held)
	ctx, cancel := context.WithCancel(context.Background())
	var first, second, third grant
	for _, step := range []error{b.start(ctx, &first, 60), b.start(ctx, &second, 40), b.extend(ctx, &first, 50)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if !first.overdraw || held.Load() != 100 {
		t.Errorf("%+v, %d held", first, held.Load())
	}
	done := make(chan error)
	go func() { done <- b.extend(ctx, &second, 10) }()
	select {
	case err := <-done:
		t.Fatalf("two overdrafts at once: %v", err)
	default:
	}
	b.end(&first) // gives way to the second, by overdraft or out of the budget
	if err := <-done; err != nil {
		t.Error(err)
	}
	go func() { done <- b.start(ctx, &third, 100) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("started beyond the budget")
	}
	b.end(&third)
	b.end(&second)
	if held.Load() != 0 || !b.free.TryAcquire(100) || len(b.overdraft) != 0 {
		t.Errorf("%d held after all ended", held.Load())
	}
}
