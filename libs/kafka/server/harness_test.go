package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// running is a server under test.
type running struct {
	t      testing.TB
	server *Server
	logs   *observer.ObservedLogs
	reg    *prometheus.Registry
	stop   func() // ends Run and waits for it; may be called again
}

// start runs a server with the given APIs until the test ends.
func start(t testing.TB, cfg Config, deps Deps, apis ...API) *running {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg.Address = "127.0.0.1:0"
	if cfg.ListenerName == "" {
		cfg.ListenerName = "PLAINTEXT"
	}
	deps.Router = NewRouter()
	deps.Router.Register(apis...)
	deps.Log = zap.New(core)
	reg := prometheus.NewRegistry()
	deps.Metrics = reg
	s := New(cfg, deps)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop := func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return &running{t: t, server: s, logs: logs, reg: reg, stop: stop}
}

// client is a raw connection.
type client struct {
	t testing.TB
	*net.TCPConn
	br *bufio.Reader
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func (r *running) dial() *client {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.server.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	nc.SetReadDeadline(time.Now().Add(patience))
	return &client{t: r.t, TCPConn: nc.(*net.TCPConn), br: bufio.NewReader(nc)}
}

// request encodes a request frame, length included.
func request(m kmsg.Request, version int16, correlationID int32) []byte {
	m.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, m, correlationID)
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one response frame without its length.
func (c *client) answer() []byte {
	c.t.Helper()
	b, err := c.tryAnswer()
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *client) tryAnswer() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.br, length[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c.br, b)
	return b, err
}

// correlation reads one response frame and returns its correlation id.
func (c *client) correlation() int32 {
	c.t.Helper()
	return int32(binary.BigEndian.Uint32(c.answer()))
}

// expectClosed waits until the server has closed the connection, and fails if it answers first.
func (c *client) expectClosed() {
	c.t.Helper()
	b, err := c.tryAnswer()
	if err == nil {
		c.t.Fatalf("an answer of %d bytes instead of a closed connection", len(b))
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the connection stayed open")
	}
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// The APIs that tests register. Their requests can be told apart by version or body.

func echoMetadata(inline bool) API {
	return API{Key: 3, MinVersion: 0, MaxVersion: 13, Inline: inline, Handle: func(r *Request) {
		var m kmsg.MetadataRequest
		if err := r.Decode(&m); err != nil {
			r.Fail(err)
			return
		}
		resp := kmsg.NewPtrMetadataResponse()
		for _, topic := range m.Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic = topic.Topic
			resp.Topics = append(resp.Topics, t)
		}
		r.Reply(resp)
	}}
}

func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	m := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		m.Topics = append(m.Topics, t)
	}
	return m
}

func apiVersions(r *Request) { r.Reply(kmsg.NewPtrApiVersionsResponse()) }
