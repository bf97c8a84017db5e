package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cauce-stream/cauce/libs/security"
	"github.com/cauce-stream/cauce/libs/socket"
)

// maxUnsentBytes is how much of a connection's finished answers may wait for the socket before no further
// request is read, so that a client that never reads costs little more than its requests in flight.
const maxUnsentBytes = 256 << 10

var (
	errStopping     = errors.New("no more requests are read")
	errCloseInOrder = errors.New("a slot that closes the connection is reached") // its cause has been logged
)

// Conn is one client connection.
//
// One goroutine reads it and runs inline handlers. Two more exist only while there is work for them: the lane,
// which runs the other handlers in order, and the writer, which sends what the socket did not take at once.
// Answers leave in the order of their requests: each request has a slot in a list, and whoever answers the
// first slot sends it and all that are ready behind it.
type Conn struct {
	s          *Server
	id         uint64
	tcp        *net.TCPConn
	raw        syscall.RawConn
	remoteHost string
	principal  security.Principal
	ctx        context.Context
	cancel     context.CancelFunc
	wg         sync.WaitGroup // lane, writer and Request.Go goroutines

	activity atomic.Uint64 // counts bytes read in frames and answers sent, for the janitor
	midFrame atomic.Bool   // part of a frame has arrived

	// Reader only.
	frames   frameReader
	clientID string // of the last request: clients rarely change it

	mu           sync.Mutex
	room         sync.Cond // signalled when inFlight or unsent fall, and on closed and stopping
	first, last  *Request  // slots not yet given to the sender
	inFlight     int       // slots not yet sent
	unsent       int64     // bytes of answers not yet sent
	corked       bool      // the reader will send; others only mark their slot
	writing      bool      // somebody owns out
	stopping     bool      // no more requests are read
	closed       bool
	laneFirst    *Request
	laneLast     *Request
	laneRunning  bool
	out          sender // owned by whoever set writing
	outErr       error  // result of the last out.send, same owner
	pushFn       func(uintptr) bool
	pushOrWaitFn func(uintptr) bool
}

func newConn(s *Server, id uint64, tcp *net.TCPConn) (*Conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(tcp.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	c := &Conn{s: s, id: id, tcp: tcp, raw: raw, remoteHost: host, principal: security.Anonymous}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.room.L = &c.mu
	in, err := socket.New(tcp)
	if err != nil {
		return nil, err
	}
	c.frames = frameReader{c: c, br: bufio.NewReaderSize(in, readBufferBytes)}
	c.pushFn, c.pushOrWaitFn = c.push, c.pushOrWait
	return c, nil
}

// ID is unique among the connections of its server.
func (c *Conn) ID() uint64 { return c.id }

// Listener is the name of the listener the client connected to.
func (c *Conn) Listener() string { return c.s.cfg.ListenerName }

// RemoteHost is the client's IP address without port.
func (c *Conn) RemoteHost() string { return c.remoteHost }

// Principal is who the client is.
func (c *Conn) Principal() security.Principal { return c.principal }

// serve reads requests until the client leaves, a fault ends the connection or the server stops, and returns
// when the connection is closed and nothing runs on its behalf.
func (c *Conn) serve() {
	err := c.readRequests()
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	switch {
	case errors.Is(err, errStopping), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// Answers in flight are still owed: a client that sends no more may read on, and Kafka does not look before it has answered.
		c.awaitEmpty()
	}
	switch {
	case errors.Is(err, errStopping), errors.Is(err, os.ErrDeadlineExceeded):
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
	default:
		c.s.logBroken(c, err)
	}
	c.kill()
	c.wg.Wait()
}

// readRequests is the loop of the reading goroutine. It never returns nil.
func (c *Conn) readRequests() error {
	for {
		if !c.frames.buffered() {
			c.uncork()
		}
		f, err := c.frames.read()
		if err != nil {
			if errors.Is(err, errFrameLength) {
				return c.refuse(&frame{}, header{}, err)
			}
			return err
		}
		received := time.Now()
		h, err := parseHeader(f.buf, c.s.router)
		if errors.Is(err, errVersion) && h.key == apiVersionsKey {
			h.route, h.version, h.size, err = h.route.fallback, 0, len(f.buf), nil
		}
		if err != nil {
			return c.refuse(&f, h, err)
		}
		if len(f.buf) > h.route.maxBodyBytes() { // a bound of its own below the one that all have
			return c.refuse(&f, h, errFrameLength)
		}
		r := c.newRequest(f, h, received)
		if err := c.admit(r); err != nil {
			c.s.discard(&r.frame)
			return err
		}
		if h.route.Inline {
			r.run()
		}
	}
}

// newRequest makes a request of a frame and its header.
func (c *Conn) newRequest(f frame, h header, received time.Time) *Request {
	if string(h.clientID) != c.clientID {
		c.clientID = string(h.clientID)
	}
	r := &Request{
		Key:           h.key,
		Version:       h.version,
		CorrelationID: h.correlationID,
		ClientID:      c.clientID,
		Body:          f.buf[h.size:],
		Conn:          c,
		Received:      received,
		route:         h.route,
		frame:         f,
		requestBytes:  len(f.buf),
	}
	if c.s.tracer != nil {
		c.s.beginTrace(r, h.traceParent)
	}
	return r
}

// refuse puts a slot for a request that cannot be served, at which the connection is closed.
func (c *Conn) refuse(f *frame, h header, err error) error {
	c.s.discard(f)
	route := h.route
	if route == nil {
		route = unknownRoute
	}
	r := &Request{Key: h.key, Version: h.version, Conn: c, Received: time.Now(), route: route}
	if err := c.admit(r); err != nil {
		return err
	}
	r.Fail(err)
	return errStopping
}

// admit gives a request its slot, waiting while too many are in flight or too much is unsent, and starts the
// lane for a request that does not run inline.
func (c *Conn) admit(r *Request) error {
	more := c.frames.buffered()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && (c.inFlight >= c.s.cfg.MaxInFlightRequestsPerConnection || c.unsent > maxUnsentBytes) {
		if c.corked {
			c.corked = false
			c.flush()
			continue
		}
		c.room.Wait()
	}
	if c.closed {
		return net.ErrClosed
	}
	if c.stopping {
		return errStopping
	}
	if more {
		c.corked = true
	}
	if c.last == nil {
		c.first = r
	} else {
		c.last.next = r
	}
	c.last = r
	c.inFlight++
	if !r.route.Inline {
		c.enterLane(r)
	}
	return nil
}

// enterLane queues a request for the lane. mu is held.
func (c *Conn) enterLane(r *Request) {
	if c.laneLast == nil {
		c.laneFirst = r
	} else {
		c.laneLast.laneNext = r
	}
	c.laneLast = r
	if !c.laneRunning {
		c.laneRunning = true
		c.wg.Go(c.runLane)
	}
}

// runLane runs queued handlers one after the other, as Kafka does for each connection.
func (c *Conn) runLane() {
	for {
		c.mu.Lock()
		r := c.laneFirst
		if r == nil {
			c.laneRunning = false
			c.mu.Unlock()
			return
		}
		if c.laneFirst = r.laneNext; c.laneFirst == nil {
			c.laneLast = nil
		}
		r.laneNext = nil
		pointless := r.pointless || c.closed
		c.mu.Unlock()
		if pointless {
			r.ReleaseBody()
			continue
		}
		r.started = int64(time.Since(r.Received))
		r.run()
	}
}

// stop ends the reading of requests; those in flight are still answered.
func (c *Conn) stop() {
	c.mu.Lock()
	c.stopping = true
	c.room.Broadcast()
	c.mu.Unlock()
	c.tcp.SetReadDeadline(time.Unix(1, 0))
}

// awaitEmpty waits until every slot is sent or the connection is closed.
func (c *Conn) awaitEmpty() {
	c.uncork()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.inFlight > 0 {
		c.room.Wait()
	}
}

// kill closes the connection at once. Answers not yet sent are dropped, those still to come too.
func (c *Conn) kill() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	var ready []*Request
	for r := c.first; r != nil; r = r.next {
		if r.done {
			ready = append(ready, r)
		}
	}
	c.first, c.last = nil, nil
	c.room.Broadcast()
	c.mu.Unlock()

	c.cancel()
	c.tcp.Close()
	for _, r := range ready {
		r.discard()
	}
}
