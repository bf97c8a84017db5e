package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	errNotSent = errors.New("connection ended before the request was sent")
	errIdle    = errors.New("connection was idle")
)

const (
	// trustedBytes of an answer are allocated at its word, more only as they arrive.
	trustedBytes = 1 << 20
	// maxKeptBuffer is the largest request buffer that is kept for reuse.
	maxKeptBuffer = 1 << 20
	// patience is how long a request's own goroutine waits for the other side to take its bytes.
	patience = 5 * time.Millisecond
)

// conn is one connection. Whoever holds turn writes a request and puts its call into pending, so that pending has the order
// of the wire. One goroutine, readAnswers, takes calls out.
type conn struct {
	nc       net.Conn
	in       *bufio.Reader
	config   *Config
	versions map[int16]versionRange
	onEnd    func(error)
	running  *sync.WaitGroup

	slots chan struct{} // holds one for each request sent and not answered
	turn  chan struct{}
	ended chan struct{} // closed after err is set

	mu      sync.Mutex
	pending []*call // oldest first
	lastID  int32
	err     error
}

// call is a request that waits for its answer.
type call struct {
	correlationID int32
	sent          time.Time   // when its first byte was about to leave
	answered      bool        // else it is over once it is written
	answer        chan answer // takes one
}

type answer struct {
	body []byte
	err  error
}

func newConn(nc net.Conn, config *Config, running *sync.WaitGroup) *conn {
	return &conn{
		nc: nc, in: bufio.NewReader(nc), config: config, running: running,
		slots: make(chan struct{}, config.MaxInFlight),
		turn:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
}

// fail ends the connection and with err every request that waits on it. Only the first call counts.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	pending := c.pending
	c.pending = nil
	close(c.ended)
	c.mu.Unlock()
	c.onEnd(err)
	_ = c.nc.Close()
	for _, call := range pending {
		call.answer <- answer{err: err}
	}
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// do sends one request and waits for its answer. The error is errNotSent when the connection ended before a byte of it left.
func (c *conn) do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := c.setVersion(req); err != nil {
		return nil, err
	}
	if err := c.take(ctx, c.slots); err != nil {
		return nil, err
	}
	frame := buffers.Get().(*[]byte)
	*frame = appendRequest(ctx, (*frame)[:0], c.config.ClientID, req)
	sent, err := c.send(ctx, frame, wantsAnswer(req))
	if err != nil {
		return nil, err
	}
	select {
	case a := <-sent.answer:
		resp := req.ResponseKind()
		if a.err != nil || !sent.answered {
			return resp, a.err
		}
		return resp, decodeAnswer(resp, a.body)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take puts one into a semaphore of the connection.
func (c *conn) take(ctx context.Context, semaphore chan struct{}) error {
	select {
	case semaphore <- struct{}{}:
		return nil
	case <-c.ended:
		return errNotSent
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send puts the frame on the wire in its turn. It takes over the frame and the caller's slot.
func (c *conn) send(ctx context.Context, frame *[]byte, answered bool) (*call, error) {
	if err := c.take(ctx, c.turn); err != nil {
		<-c.slots
		return nil, err
	}
	sent, err := c.enqueue(*frame, answered)
	if err != nil {
		<-c.turn
		<-c.slots
		return nil, err
	}
	n, err := c.write(*frame, sent.sent.Add(patience))
	if errors.Is(err, os.ErrDeadlineExceeded) && c.goOn(func() {
		_, err := c.write((*frame)[n:], sent.sent.Add(c.config.RequestTimeout))
		c.written(sent, frame, err)
	}) {
		return sent, nil
	}
	c.written(sent, frame, err)
	return sent, nil
}

// enqueue numbers the frame and, if it will be answered, makes its call the newest.
func (c *conn) enqueue(frame []byte, answered bool) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, errNotSent
	}
	c.lastID++
	binary.BigEndian.PutUint32(frame[correlationIDAt:], uint32(c.lastID))
	sent := &call{correlationID: c.lastID, sent: time.Now(), answered: answered, answer: make(chan answer, 1)}
	if answered {
		c.pending = append(c.pending, sent)
	}
	if len(c.pending) <= 1 {
		_ = c.nc.SetReadDeadline(c.readBy())
	}
	return sent, nil
}

func (c *conn) write(b []byte, by time.Time) (int, error) {
	if err := c.nc.SetWriteDeadline(by); err != nil {
		return 0, err
	}
	return c.nc.Write(b)
}

// goOn runs f beside its caller, who may have to stop waiting, unless the connection has ended.
func (c *conn) goOn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The reader is one of those running until err is set, so that Close cannot have stopped waiting for them.
	if c.err != nil {
		return false
	}
	c.running.Go(f)
	return true
}

// written ends a turn. A frame that is only half there ends the connection.
func (c *conn) written(sent *call, frame *[]byte, err error) {
	if cap(*frame) <= maxKeptBuffer {
		buffers.Put(frame)
	}
	if err != nil {
		err = fmt.Errorf("write: %w", err)
		c.fail(err)
	}
	<-c.turn
	if !sent.answered {
		sent.answer <- answer{err: err}
		<-c.slots
	}
}

// readAnswers hands every answer to the call that it belongs to, until the connection ends.
func (c *conn) readAnswers() {
	c.expectAnswer()
	for {
		if _, err := c.in.Peek(1); err != nil {
			if c.stillWaits(err) {
				continue
			}
			c.fail(c.readError(err))
			return
		}
		body, err := readFrame(c.in, c.config.MaxResponseBytes)
		if err != nil {
			c.fail(c.readError(err))
			return
		}
		if err := c.deliver(body); err != nil {
			c.fail(err)
			return
		}
	}
}

// deliver gives a frame to the oldest call.
func (c *conn) deliver(frame []byte) error {
	c.mu.Lock()
	if len(c.pending) == 0 {
		c.mu.Unlock()
		return errors.New("an answer that nobody waits for")
	}
	oldest := c.pending[0]
	if id := int32(binary.BigEndian.Uint32(frame)); id != oldest.correlationID {
		c.mu.Unlock()
		return fmt.Errorf("answer has correlation id %d, not %d", id, oldest.correlationID)
	}
	c.pending = slices.Delete(c.pending, 0, 1)
	c.mu.Unlock()
	c.expectAnswer()
	oldest.answer <- answer{body: frame[4:]}
	<-c.slots
	return nil
}

// expectAnswer sets the time by which the reader has to see the next byte.
func (c *conn) expectAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.nc.SetReadDeadline(c.readBy())
}

// readBy is when the oldest call has waited too long, or the connection has been idle for too long.
func (c *conn) readBy() time.Time {
	if len(c.pending) > 0 {
		return c.pending[0].sent.Add(c.config.RequestTimeout)
	}
	return time.Now().Add(c.config.IdleTimeout)
}

// stillWaits says whether a failed wait for the next answer was cut short by a deadline that no longer holds, because a request
// was sent just as it passed.
func (c *conn) stillWaits(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 || !time.Now().Before(c.readBy()) {
		return false
	}
	_ = c.nc.SetReadDeadline(c.readBy())
	return true
}

func (c *conn) readError(err error) error {
	c.mu.Lock()
	waiting := len(c.pending)
	c.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if waiting == 0 {
			return errIdle
		}
		return fmt.Errorf("no answer within %v: %w", c.config.RequestTimeout, err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read: %w", err)
}

// readFrame reads a length and as many bytes: at least a correlation id, at most maxBytes.
func readFrame(r io.Reader, maxBytes int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > maxBytes {
		return nil, fmt.Errorf("answer of %d bytes is out of range [4, %d]", size, maxBytes)
	}
	frame := make([]byte, min(size, trustedBytes))
	for at := 0; ; {
		n, err := io.ReadFull(r, frame[at:])
		at += n
		if err != nil || at == size {
			return frame, err
		}
		frame = append(frame, make([]byte, min(size-at, at))...)
	}
}
