// Package server is a Kafka listener: it frames requests, hands them to the handler of their API key and
// sends the answers of each connection in the order of its requests, while later requests already run.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// Config bounds one listener. A zero value takes the default named beside it.
type Config struct {
	ListenerName string // as in Kafka's listeners, e.g. "PLAINTEXT"
	Address      string // host:port; port 0 takes a free one

	MaxRequestBytes                  int32         // socket.request.max.bytes; default 104857600
	MaxInFlightBytes                 int64         // request bytes held at once, over all connections; reading pauses above it; default 256 MiB, at least MaxRequestBytes
	MaxInFlightRequestsPerConnection int           // requests read and not yet answered; reading pauses above it; default 128
	MaxConnections                   int           // listener.name.<name>.max.connections; above it new ones wait; default unlimited, negative for none
	IdleTimeout                      time.Duration // connections.max.idle.ms; default 10 minutes, negative for never
	FrameTimeout                     time.Duration // longest time for the next MiB, or the rest, of a request that has begun to arrive; default 1 minute
	WriteTimeout                     time.Duration // longest time in which a client with answers waiting reads nothing; default 30 s
	DrainTimeout                     time.Duration // how long Run waits for answers in flight once its context ended; default 5 s
	SocketSendBufferBytes            int           // socket.send.buffer.bytes; 0 or -1 leaves it to the system
	SocketReceiveBufferBytes         int           // socket.receive.buffer.bytes; 0 or -1 leaves it to the system
}

func (c Config) withDefaults() Config {
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, 100<<20)
	c.MaxInFlightBytes = max(cmp.Or(c.MaxInFlightBytes, 256<<20), int64(c.MaxRequestBytes))
	c.MaxInFlightRequestsPerConnection = cmp.Or(c.MaxInFlightRequestsPerConnection, 128)
	c.MaxConnections = cmp.Or(c.MaxConnections, math.MaxInt)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 10*time.Minute)
	if c.IdleTimeout < 0 { // never, as with Kafka
		c.IdleTimeout = math.MaxInt64
	}
	c.FrameTimeout = cmp.Or(c.FrameTimeout, time.Minute)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	return c
}

// Deps are what a server needs of its process. Router and Log are required.
type Deps struct {
	Router  *Router
	Log     *zap.Logger
	Metrics prometheus.Registerer // nil: not exported
	Tracer  *tracing.Tracer       // nil: no spans
	Limits  *Limits               // of connections, shared by the listeners of a node; nil: none
}

// Server is one Kafka listener.
type Server struct {
	cfg     Config
	router  *Router
	log     *zap.Logger
	metrics *metrics
	tracer  *tracing.Tracer // nil when no spans are wanted
	traces  sync.Pool       // of *Trace
	buffers bufferPool
	budget  *budget
	limits  *Limits
	own     bound // of this listener's connections
	ln      *net.TCPListener
	lastID  atomic.Uint64

	mu    sync.Mutex
	conns map[*Conn]struct{}
	wg    sync.WaitGroup // connections
}

// New returns a server that does not listen yet. Servers that share a registerer share their metrics.
func New(cfg Config, deps Deps) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:     cfg,
		router:  deps.Router,
		log:     deps.Log.With(zap.String("listener", cfg.ListenerName)),
		metrics: newMetrics(deps.Metrics),
		tracer:  deps.Tracer,
		limits:  deps.Limits,
		own:     bound{most: cfg.MaxConnections},
		conns:   make(map[*Conn]struct{}),
	}
	s.traces.New = func() any { return new(Trace) }
	if s.limits == nil {
		s.limits = NewLimits(math.MaxInt, math.MaxInt)
	}
	s.budget = newBudget(cfg.MaxInFlightBytes, &s.metrics.heldBytes)
	return s
}

// Listen binds the address.
func (s *Server) Listen() error {
	ln, err := net.Listen("tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("kafka listener %s: %w", s.cfg.ListenerName, err)
	}
	s.ln = ln.(*net.TCPListener)
	return nil
}

// Addr is the bound address; nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.ln == nil {
		return nil
	}
	return s.ln.Addr()
}

// Run accepts and serves connections until ctx ends, then stops reading, waits for the answers in flight up
// to DrainTimeout and closes. It returns nil after that, an error when accepting became impossible, and only
// once no goroutine of the server is left.
func (s *Server) Run(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var own sync.WaitGroup
	own.Go(func() {
		<-running.Done()
		s.ln.Close()
	})
	own.Go(func() { s.watch(running) })
	err := s.accept(running)
	cancel()
	own.Wait()
	s.drain()
	return err
}

// accept takes connections until the listener is closed. One above a limit waits in its hands, as with Kafka, and those behind
// it in the system's.
func (s *Server) accept(ctx context.Context) error {
	var backoff time.Duration
	for {
		tcp, err := s.ln.AcceptTCP()
		if err == nil {
			backoff = 0
			if !s.takePlace(ctx) {
				tcp.Close()
				return nil
			}
			s.welcome(tcp)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("kafka listener %s: %w", s.cfg.ListenerName, err)
		}
		// Out of descriptors or memory: connections that end will make room.
		backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
		s.log.Warn("cannot accept a connection", zap.Error(err), zap.Duration("retryIn", backoff))
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return nil
		}
	}
}

// takePlace waits until one more connection is within the limits, and reports false when ctx ends first.
func (s *Server) takePlace(ctx context.Context) bool {
	if !s.own.take(ctx) {
		return false
	}
	if !s.limits.all.take(ctx) {
		s.own.give()
		return false
	}
	return true
}

func (s *Server) givePlace() {
	s.own.give()
	s.limits.all.give()
}

// welcome starts a connection, or closes it when its address has too many.
func (s *Server) welcome(tcp *net.TCPConn) {
	c, err := newConn(s, s.lastID.Add(1), tcp)
	if err == nil {
		err = s.setBuffers(tcp)
	}
	if err == nil {
		err = s.add(c)
	}
	if err != nil {
		s.metrics.refused.Inc()
		s.log.Warn("connection refused", zap.Stringer("client", tcp.RemoteAddr()), zap.Error(err))
		tcp.Close()
		s.givePlace()
		return
	}
	s.wg.Go(func() {
		defer s.remove(c)
		c.serve()
	})
}

func (s *Server) setBuffers(tcp *net.TCPConn) error {
	if n := s.cfg.SocketSendBufferBytes; n > 0 {
		if err := tcp.SetWriteBuffer(n); err != nil {
			return err
		}
	}
	if n := s.cfg.SocketReceiveBufferBytes; n > 0 {
		return tcp.SetReadBuffer(n)
	}
	return nil
}

func (s *Server) add(c *Conn) error {
	if err := s.limits.enter(c.remoteHost); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	s.metrics.opened(s.cfg.ListenerName)
	return nil
}

func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.closed(s.cfg.ListenerName)
	s.limits.leave(c.remoteHost)
	s.givePlace()
}

// drain lets connections answer what they have read and closes them.
func (s *Server) drain() {
	for _, c := range s.connections() {
		c.stop()
	}
	late := time.AfterFunc(s.cfg.DrainTimeout, func() {
		for _, c := range s.connections() {
			s.log.Warn("connection closed with answers in flight", zap.Uint64("connection", c.id), zap.String("client", c.remoteHost))
			c.kill()
		}
	})
	defer late.Stop()
	s.wg.Wait()
}

func (s *Server) connections() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}
