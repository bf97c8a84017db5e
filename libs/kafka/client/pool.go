// Package client is how services speak the Kafka protocol to each other: one pipelined connection to each address, opened
// when a request needs it.
//
// Answers come in the order of the requests, so a request that the other side may hold back, such as a fetch, delays those
// sent after it. Traffic that must not wait for another kind belongs in a [Pool] of its own.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/cauce-stream/cauce/libs/socket"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrClosed is the error of a request to a closed pool, or of one that was under way when it closed.
var ErrClosed = errors.New("client pool is closed")

// maxAttempts bounds how often one request finds its connection ended before it is sent.
const maxAttempts = 3

// Config sets the bounds of a pool; a zero field has the default that its comment names.
type Config struct {
	// ClientID is sent with every request.
	ClientID string
	// MaxInFlight bounds the requests of one connection that wait for an answer; more wait their turn. 64.
	MaxInFlight int
	// MaxResponseBytes bounds one answer; a greater one ends its connection. 100 MiB.
	MaxResponseBytes int
	// DialTimeout bounds connecting and agreeing on versions. 10 s (Kafka config socket.connection.setup.timeout.ms).
	DialTimeout time.Duration
	// RequestTimeout is how long a request may take to be sent, and then to be answered; beyond it the connection is
	// closed, as nothing behind it can be answered either. 30 s (Kafka config request.timeout.ms).
	RequestTimeout time.Duration
	// IdleTimeout closes a connection that has not been used for as long. 9 min (Kafka config connections.max.idle.ms).
	IdleTimeout time.Duration
	// BackoffMin and BackoffMax are the pause before an address is dialled again after one failure and after many. 50 ms and
	// 1 s (Kafka configs reconnect.backoff.ms and reconnect.backoff.max.ms).
	BackoffMin, BackoffMax time.Duration
	// Dial opens a connection to host:port. TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

func (c Config) withDefaults() Config {
	def(&c.MaxInFlight, 64)
	def(&c.MaxResponseBytes, 100<<20)
	def(&c.DialTimeout, 10*time.Second)
	def(&c.RequestTimeout, 30*time.Second)
	def(&c.IdleTimeout, 9*time.Minute)
	def(&c.BackoffMin, 50*time.Millisecond)
	def(&c.BackoffMax, time.Second)
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return socket.New(nc.(*net.TCPConn))
		}
	}
	return c
}

func def[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Pool keeps at most one connection to each address. Its methods may be called from any goroutine.
type Pool struct {
	config  Config
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // dials, readers and writes that take long

	mu    sync.Mutex // guards the fields below and those of every peer
	peers map[string]*peer
}

// peer is what a pool knows about one address.
type peer struct {
	addr     string
	conn     *conn // nil when there is none
	dial     *dial // nil when none is under way
	failures int   // dials in a row
	retryAt  time.Time
}

// dial is an attempt that every request to its address waits for. Its result is set before done is closed.
type dial struct {
	done chan struct{}
	conn *conn
	err  error
}

// New returns a pool without connections. It has to be closed.
func New(config Config) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{config: config.withDefaults(), ctx: ctx, cancel: cancel, peers: map[string]*peer{}}
}

// Close ends every connection, and with [ErrClosed] the requests that wait on them, and waits until all is over.
func (p *Pool) Close() {
	p.mu.Lock()
	p.cancel()
	var open []*conn
	for _, peer := range p.peers {
		if peer.conn != nil {
			open = append(open, peer.conn)
		}
	}
	p.mu.Unlock()
	for _, c := range open {
		c.fail(ErrClosed)
	}
	p.running.Wait()
}

// Do sends the request to addr (host:port) and returns its answer, whose type is that of req.ResponseKind. The
// request's version becomes the highest that both sides know; the error wraps kerr.UnsupportedVersion when there is none. A
// produce request with acks=0 has no answer to wait for: an empty response is returned once it is sent.
//
// When ctx ends first its error is returned, and the request may or may not take effect; so it is after any other
// error but that of connecting. Nothing is sent twice.
func (p *Pool) Do(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	for attempt := 1; ; attempt++ {
		c, err := p.connect(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
		resp, err := c.do(ctx, req)
		if err == nil {
			return resp, nil
		}
		if !errors.Is(err, errNotSent) || attempt == maxAttempts {
			return nil, fmt.Errorf("%s to %s: %w", kmsg.NameForKey(req.Key()), addr, err)
		}
		c.onEnd(err) // at once, so that the next attempt does not find it again
	}
}

// connect returns the connection to addr, or waits for one to be opened.
func (p *Pool) connect(ctx context.Context, addr string) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	to := p.peers[addr]
	if to == nil {
		to = &peer{addr: addr}
		p.peers[addr] = to
	}
	if c := to.conn; c != nil {
		p.mu.Unlock()
		return c, nil
	}
	d := to.dial
	if d == nil {
		d = &dial{done: make(chan struct{})}
		to.dial = d
		p.running.Go(func() { p.open(to, d) })
	}
	p.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open carries out a dial, after the pause that earlier failures demand.
func (p *Pool) open(to *peer, d *dial) {
	c, err := p.establish(to)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(d.done)
	to.dial = nil
	switch {
	case p.ctx.Err() != nil:
		if c != nil {
			_ = c.nc.Close()
		}
		d.err = ErrClosed
	case err != nil:
		d.err = err
		to.retryAt = time.Now().Add(p.backoff(to.failures))
		to.failures++
	default:
		d.conn, to.conn = c, c
		to.failures, to.retryAt = 0, time.Time{}
		p.running.Go(c.readAnswers)
	}
}

func (p *Pool) establish(to *peer) (*conn, error) {
	p.mu.Lock()
	wait := time.Until(to.retryAt)
	p.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			return nil, ErrClosed
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.config.DialTimeout)
	defer cancel()
	nc, err := p.config.Dial(ctx, to.addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	c := newConn(nc, &p.config, &p.running)
	c.onEnd = func(err error) { p.forget(to, c, err) }
	if err := c.negotiate(); err != nil {
		stop()
		_ = nc.Close()
		return nil, fmt.Errorf("agree on versions: %w", err)
	}
	if !stop() {
		_ = nc.Close()
		return nil, ctx.Err()
	}
	return c, nil
}

// backoff is the pause after one more failure in a row: doubled each time, and spread by a fifth so that many clients of one
// server do not return at once.
func (p *Pool) backoff(failures int) time.Duration {
	pause := min(p.config.BackoffMin<<min(failures, 20), p.config.BackoffMax)
	return time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
}

// forget lets the next request to the peer open a new connection.
func (p *Pool) forget(from *peer, c *conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from.conn != c {
		return
	}
	from.conn = nil
	if errors.Is(err, errIdle) {
		delete(p.peers, from.addr)
	}
}
