// Package bus is what the control plane talks over: typed request/reply and ordered pushes on NATS, either a server
// embedded in the controllers or an external one. The data plane never uses it. Core NATS delivers at most once, so every
// protocol on top numbers what it pushes and retries what it asks (see Update and Endpoint).
package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

const (
	// MaxPayloadBytes is the largest single message of an embedded server.
	MaxPayloadBytes = 4 << 20
	// MaxMessageBytes bounds a push or a reply that travels in several messages.
	MaxMessageBytes = 64 << 20

	defaultRequestTimeout = 5 * time.Second
	// maxPendingBytes bounds what waits for one subscription's handler; what exceeds it is dropped, and found missing
	// by the offsets of a stream or the timeout of a request.
	maxPendingBytes    = 32 << 20
	maxPendingMessages = 64 << 10
)

// Config says how to reach a bus.
type Config struct {
	// URLs of the servers, nats://host:port each; any of them will do.
	URLs []string
	// Name of this connection in the server's own logs and lists.
	Name string
	// AuthToken that the servers demand; empty for none.
	AuthToken string
	// RequestTimeout bounds each request beside its context's own deadline; 0 means 5 s.
	RequestTimeout time.Duration
}

// Deps are what a connection or server reports to; each may be nil.
type Deps struct {
	Log    *zap.Logger
	Tracer trace.Tracer
}

// pingInterval is short where another server can take the place of one that does not answer: it is left within 2.1 s.
func (c Config) pingInterval() time.Duration {
	if len(c.URLs) > 1 {
		return 700 * time.Millisecond
	}
	return 10 * time.Second
}

func (d Deps) withDefaults() Deps {
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
	if d.Tracer == nil {
		d.Tracer = noop.NewTracerProvider().Tracer("")
	}
	return d
}

// Conn is a connection to the bus. It reconnects by itself for as long as it is open. Safe for concurrent use.
type Conn struct {
	nc             *nats.Conn
	log            *zap.Logger
	tracer         trace.Tracer
	requestTimeout time.Duration
	replies        *replies
	closed         chan struct{}
	refused        atomic.Bool // by the token, and that was logged
	// wanted tells whether anybody on the bus takes messages of a subject; nil where the server is another process.
	wanted func(subject string) bool
}

// Connect opens a connection to the servers at c.URLs. It returns at once, also while none of them can be reached yet:
// until one can, requests fail with ErrUnavailable.
func Connect(c Config, d Deps) (*Conn, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("bus: no server given")
	}
	return dial(strings.Join(c.URLs, ","), c, d, nats.RetryOnFailedConnect(true))
}

func dial(urls string, c Config, d Deps, extra ...nats.Option) (*Conn, error) {
	d = d.withDefaults()
	conn := &Conn{log: d.Log, tracer: d.Tracer, requestTimeout: c.RequestTimeout, closed: make(chan struct{})}
	if conn.requestTimeout == 0 {
		conn.requestTimeout = defaultRequestTimeout
	}
	opts := append([]nats.Option{
		nats.Name(c.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(c.pingInterval()),
		nats.MaxPingsOutstanding(2),
		// A request that waits for a reconnection would be sent after its caller gave up.
		nats.ReconnectBufSize(-1),
		nats.SetCustomDialer(dialer{}),
		// While the token is changed everywhere, some have the old one.
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(conn.fault),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if errors.Is(err, nats.ErrAuthorization) {
				conn.fault(nil, nil, err)
			}
		}),
		nats.ConnectHandler(func(*nats.Conn) { conn.refused.Store(false) }),
		nats.ReconnectHandler(func(*nats.Conn) { conn.refused.Store(false) }),
		nats.ClosedHandler(func(*nats.Conn) { close(conn.closed) }),
	}, extra...)
	if c.AuthToken != "" {
		opts = append(opts, nats.Token(c.AuthToken))
	}
	nc, err := nats.Connect(urls, opts...)
	if err != nil {
		return nil, fmt.Errorf("bus: connect to %s: %w", urls, err)
	}
	conn.nc = nc
	if conn.replies, err = newReplies(nc); err != nil {
		nc.Close()
		return nil, fmt.Errorf("bus: connect to %s: %w", urls, err)
	}
	return conn, nil
}

// fault logs what the client library meets; that the token is refused once only, since that is tried again and again.
func (c *Conn) fault(_ *nats.Conn, s *nats.Subscription, err error) {
	switch {
	case !errors.Is(err, nats.ErrAuthorization):
		subject := ""
		if s != nil {
			subject = s.Subject
		}
		c.log.Warn("bus fault", zap.String("subject", subject), zap.Error(err))
	case !c.refused.Swap(true):
		c.log.Warn("the bus refuses this process: it wants another token", zap.Error(err))
	}
}

// Flush returns once the server has processed all that was sent before, within the request timeout: subscriptions made
// are then in force there.
func (c *Conn) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: flush: %w", ErrUnavailable, err)
	}
	return nil
}

// MoveOver leaves the server that the connection is to for another of those that it was given, if there are several: one
// that is up but cut off from the others, or that stands still. Answers that are under way are lost with it.
func (c *Conn) MoveOver() {
	if len(c.nc.Servers()) < 2 {
		return
	}
	from := c.nc.ConnectedUrlRedacted()
	if err := c.nc.ForceReconnect(); err == nil {
		c.log.Info("trying another server of the bus", zap.String("leaving", from))
	}
}

// Connects signals each time that a connection to a server is made anew, when pushes may have been missed. Call stop when done.
func (c *Conn) Connects() (events <-chan struct{}, stop func()) {
	status := c.nc.StatusChanged(nats.CONNECTED)
	out := make(chan struct{}, 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case _, ok := <-status:
				if !ok {
					return
				}
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	})
	return out, sync.OnceFunc(func() {
		c.nc.RemoveStatusListener(status)
		close(done)
		wg.Wait()
	})
}

// Close ends the connection; requests under way fail with ErrUnavailable.
func (c *Conn) Close() {
	c.nc.Close()
	<-c.closed
	c.replies.failAll()
}

// Subscription is a handler in force.
type Subscription struct {
	sub   *nats.Subscription
	ended chan struct{}
}

// Close takes the handler out of force and returns when it is not running any more. Not to be called from the handler.
func (s *Subscription) Close() {
	if s.sub.Unsubscribe() == nil {
		<-s.ended
	}
}

func (c *Conn) subscribe(subject, queue string, handle nats.MsgHandler) (*Subscription, error) {
	sub, err := c.nc.QueueSubscribe(subject, queue, handle)
	if err != nil {
		return nil, sendError(subject, err)
	}
	s := &Subscription{sub: sub, ended: make(chan struct{})}
	sub.SetClosedHandler(func(string) { close(s.ended) })
	if err := sub.SetPendingLimits(maxPendingMessages, maxPendingBytes); err != nil {
		s.Close()
		return nil, sendError(subject, err)
	}
	return s, nil
}
