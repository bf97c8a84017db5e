// Package server is a Kafka listener: it frames requests, hands them to the handler of their API key and
// sends the answers of each connection in the order of its requests, while later requests already run.
package server

import (
	"context"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Config bounds one listener. A zero value takes the default named beside it.
type Config struct {
	ListenerName string // as in Kafka's listeners, e.g. "PLAINTEXT"
	Address      string // host:port; port 0 takes a free one

	MaxRequestBytes                  int32         // socket.request.max.bytes; default 104857600
	MaxInFlightBytes                 int64         // request bytes held at once, over all connections; reading pauses above it; default 256 MiB, at least MaxRequestBytes
	MaxInFlightRequestsPerConnection int           // requests read and not yet answered; default 128
	MaxConnections                   int           // max.connections; above it new ones wait to be accepted; default unlimited
	MaxConnectionsPerIP              int           // max.connections.per.ip; above it new ones are closed; default unlimited
	IdleTimeout                      time.Duration // connections.max.idle.ms; default 10 minutes
	WriteTimeout                     time.Duration // longest time in which a client with answers waiting reads nothing; default 30 s
	DrainTimeout                     time.Duration // how long Run waits for answers in flight once its context ended; default 5 s
	SocketSendBufferBytes            int           // socket.send.buffer.bytes; 0 or -1 leaves it to the system
	SocketReceiveBufferBytes         int           // socket.receive.buffer.bytes; 0 or -1 leaves it to the system
}

// Deps are what a server needs of its process. Router and Log are required.
type Deps struct {
	Router  *Router
	Log     *zap.Logger
	Metrics prometheus.Registerer // nil: not exported
	Tracer  trace.Tracer          // nil or no-op: no spans
}

// Server is one Kafka listener.
type Server struct {
	cfg  Config
	deps Deps
	ln   *net.TCPListener
}

// New returns a server that does not listen yet.
func New(cfg Config, deps Deps) *Server { return &Server{cfg: cfg, deps: deps} }

// Listen binds the address.
func (s *Server) Listen() error { panic("not built yet") }

// Addr is the bound address; nil before Listen.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Run accepts and serves connections until ctx ends, then stops reading, waits for the answers in flight up
// to DrainTimeout and closes. It returns nil after a clean drain.
func (s *Server) Run(ctx context.Context) error { panic("not built yet") }
