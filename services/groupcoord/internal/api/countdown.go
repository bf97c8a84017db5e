package api

import "sync/atomic"

// countdown calls its end when as many parts are done as there are.
type countdown struct {
	open atomic.Int64
	end  func()
}

// newCountdown counts n parts. Without any it has ended already.
func newCountdown(n int, end func()) *countdown {
	c := &countdown{end: end}
	c.open.Store(int64(n))
	if n == 0 {
		end()
	}
	return c
}

func (c *countdown) done() {
	if c.open.Add(-1) == 0 {
		c.end()
	}
}
