package sourcetask

import (
	"context"
	"sync"
)

// control is what a task is asked to do from outside, and the first failure within, which both interrupt whatever it waits for.
type control struct {
	mu               sync.Mutex
	stopping, paused bool
	failure          error
	changed          chan struct{}
	interrupt        context.CancelFunc // of the last until
	// live ends when the task is to stop or has failed: what it waits for then is given up.
	live context.Context
	end  context.CancelFunc
}

func newControl() *control {
	c := &control{changed: make(chan struct{})}
	c.live, c.end = context.WithCancel(context.Background())
	return c
}

// state is a moment of control; changed is closed when it is over.
type state struct {
	stopping, paused bool
	failure          error
	changed          <-chan struct{}
}

func (c *control) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state{c.stopping, c.paused, c.failure, c.changed}
}

func (c *control) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
	if c.interrupt != nil {
		c.interrupt()
	}
}

func (c *control) stop() {
	c.change(func() {
		c.stopping = true
		c.end()
	})
}

func (c *control) pause(paused bool) { c.change(func() { c.paused = paused }) }

func (c *control) fail(err error) {
	c.change(func() {
		if c.failure == nil {
			c.failure = err
			c.end()
		}
	})
}

// until returns a context that ends when s is over, too. It is for one goroutine, one context at a time.
func (c *control) until(ctx context.Context, s state) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupt = cancel; s.changed != c.changed {
		cancel()
	}
	return ctx, cancel
}
