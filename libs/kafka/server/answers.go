package server

import (
	"errors"
	"time"
)

// settle marks a slot as answered and sends what has become ready.
func (c *Conn) settle(r *Request) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		r.discard()
		return
	}
	r.done = true
	if r.closes() {
		c.stopping = true // no more slots come behind this one, and those that have will not be answered
		for behind := r.next; behind != nil; behind = behind.next {
			behind.pointless = true
		}
	}
	c.unsent += r.size
	if c.unsent > maxUnsentBytes {
		c.corked = false
	}
	c.flush()
	c.mu.Unlock()
}

// uncork sends what was held back while more requests were at hand. Only the reader calls it.
func (c *Conn) uncork() {
	c.mu.Lock()
	if c.corked {
		c.corked = false
		c.flush()
	}
	c.mu.Unlock()
}

// flush sends the answered slots at the front without waiting, unless somebody else is at it, who will then
// find them. mu is held, and given up while writing.
func (c *Conn) flush() {
	if c.writing || c.corked {
		return
	}
	for c.take() {
		c.writing = true
		c.mu.Unlock()
		err := c.raw.Write(c.pushFn)
		if err == nil {
			err = c.outErr
		}
		c.mu.Lock()
		c.account()
		if errors.Is(err, errWouldBlock) && !c.closed {
			c.wg.Go(c.writeOn) // which owns out from here
			return
		}
		if err != nil {
			c.breakOff(err)
			return
		}
		c.writing = false
	}
}

// writeOn sends what the socket did not take at once, waiting for the client to read, and ends.
func (c *Conn) writeOn() {
	for {
		c.tcp.SetWriteDeadline(time.Now().Add(c.s.cfg.WriteTimeout))
		err := c.raw.Write(c.pushOrWaitFn)
		if err == nil {
			err = c.outErr
		}
		c.mu.Lock()
		c.account()
		if err == nil {
			c.tcp.SetWriteDeadline(time.Time{})
			c.writing = false
			c.flush()
			c.mu.Unlock()
			return
		}
		if !errors.Is(err, errWouldBlock) {
			c.breakOff(err)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// take moves the answered slots at the front to out and reports whether there are any. mu is held.
func (c *Conn) take() bool {
	if c.closed || c.first == nil || !c.first.done {
		return false
	}
	last := c.first
	for last.next != nil && last.next.done {
		last = last.next
	}
	c.out.first, c.first = c.first, last.next
	last.next = nil
	if c.first == nil {
		c.last = nil
	}
	return true
}

// account moves what out has sent off the connection's books. mu is held.
func (c *Conn) account() {
	if c.out.done == 0 {
		return
	}
	c.inFlight -= c.out.done
	c.unsent -= c.out.doneBytes
	c.out.done, c.out.doneBytes = 0, 0
	c.room.Signal()
}

// breakOff ends a connection whose answers cannot be sent on. The caller owns out and keeps it. mu is held,
// and given up meanwhile.
func (c *Conn) breakOff(err error) {
	c.mu.Unlock()
	c.s.logWriteFault(c, err)
	c.out.drop()
	c.kill()
	c.mu.Lock()
}

// push is one non-blocking round of sending, for raw.Write.
func (c *Conn) push(fd uintptr) bool {
	c.outErr = c.out.send(fd)
	return true
}

// pushOrWait waits until the socket takes something, for raw.Write. It returns after each step forward, so
// that the deadline can be renewed.
func (c *Conn) pushOrWait(fd uintptr) bool {
	before := c.out.written
	c.outErr = c.out.send(fd)
	return !errors.Is(c.outErr, errWouldBlock) || c.out.written != before
}
