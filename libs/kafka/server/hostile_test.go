package server

import (
	"encoding/binary"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// prefix is the beginning of a Produce frame of the declared size: its length and n bytes of it.
func prefix(size uint32, n int) []byte {
	b := make([]byte, 4+n)
	binary.BigEndian.PutUint32(b, size)
	return b
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A client that declares 2 GB is refused at once.
func TestHugeLength(t *testing.T) {
	r := start(t, Config{}, Deps{}, echoMetadata(true))
	for _, size := range []uint32{1<<31 - 1, 100<<20 + 1} {
		c := r.dial()
		c.send(prefix(size, 0))
		c.expectClosed()
	}
}

// Clients that declare large requests and stop cost what they sent, not what they declared, and go away when
// they make no progress.
func TestStoppedMidFrame(t *testing.T) {
	r := start(t, Config{FrameTimeout: 400 * time.Millisecond}, Deps{}, echoProduce())
	before := heapInUse()
	var clients []*client
	for range 50 {
		c := r.dial()
		c.send(prefix(100<<20, 10_000))
		clients = append(clients, c)
	}
	eventually(t, "all requests begun", func() bool { return r.server.metrics.heldBytes.Load() >= 50*trustedFrameBytes })
	if held := r.server.metrics.heldBytes.Load(); held != 50*trustedFrameBytes {
		t.Errorf("%d bytes of the budget are held", held)
	}
	if grown := int64(heapInUse() - before); grown > 50*(trustedFrameBytes+64<<10) {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	for _, c := range clients {
		c.expectClosed()
	}
	eventually(t, "the budget given back", func() bool { return r.server.metrics.heldBytes.Load() == 0 })
}

// Frames in progress that together exceed the budget all get through, one beyond it at a time.
func TestBudgetLetsEverybodyFinish(t *testing.T) {
	const size = 1 << 20
	var most atomic.Int64
	r := start(t, Config{MaxRequestBytes: size, MaxInFlightBytes: size}, Deps{}, API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true,
		Handle: func(r *Request) {
			most.Store(max(most.Load(), r.Conn.s.metrics.heldBytes.Load()))
			r.Reply(kmsg.NewPtrProduceResponse())
		}})
	m := kmsg.NewPtrProduceRequest()
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	partition.Records = make([]byte, size-1000)
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, partition)
	m.Topics = append(m.Topics, topic)
	b := request(m, 9, 5)
	var clients []*client
	for range 12 {
		c := r.dial()
		clients = append(clients, c)
		c.send(b[:600_000])
	}
	for _, c := range clients {
		go c.Write(b[600_000:])
	}
	for _, c := range clients {
		if got := c.correlation(); got != 5 {
			t.Fatal(got)
		}
	}
	if most.Load() > size {
		t.Errorf("%d bytes were held, the budget is %d", most.Load(), size)
	}
}

// A client that sends requests and never reads stops being read, and is closed by the write deadline.
func TestClientThatNeverReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var begun, released atomic.Int64
	r := start(t, Config{WriteTimeout: 300 * time.Millisecond, SocketSendBufferBytes: 64 << 10}, Deps{},
		API{Key: 1, MinVersion: 4, MaxVersion: 16, Inline: true, Handle: func(r *Request) {
			begun.Add(1)
			head := r.Begin()
			r.Finish(head, []Chunk{{After: len(head), File: file, Size: 1 << 20}}, func() { released.Add(1) })
		}})
	c := r.dial()
	c.SetReadBuffer(4 << 10)
	go func() {
		b := request(kmsg.NewPtrFetchRequest(), 12, 1)
		for range 10_000 {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	eventually(t, "the connection closed", func() bool { return r.logs.FilterMessageSnippet("reads no answers").Len() == 1 })
	eventually(t, "everything released", func() bool { return released.Load() == begun.Load() })
	if n := begun.Load(); n > 20 {
		t.Errorf("%d requests of 1 MiB each were begun for a client that reads nothing", n)
	}
}

// A client that reads slowly, but reads, is not closed.
func TestSlowReaderIsServed(t *testing.T) {
	r := start(t, Config{WriteTimeout: 2 * time.Second, SocketSendBufferBytes: 256 << 10}, Deps{}, API{Key: 18, MaxVersion: 4, Inline: true, Handle: func(r *Request) {
		r.Finish(append(r.Begin(), make([]byte, 3<<20)...), nil, nil)
	}})
	c := r.dial()
	for id := range int32(10) {
		c.send(request(kmsg.NewPtrApiVersionsRequest(), 4, id))
	}
	for id := range int32(10) {
		if got := c.correlation(); got != id {
			t.Fatal(got)
		}
	}
}

func TestInFlightLimit(t *testing.T) {
	held := make(chan *Request, 100)
	r := start(t, Config{MaxInFlightRequestsPerConnection: 3}, Deps{}, API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true,
		Handle: func(r *Request) { held <- r }})
	c := r.dial()
	for id := range int32(10) {
		c.send(request(kmsg.NewPtrProduceRequest(), 9, id))
	}
	for id := range int32(10) {
		one := <-held
		if n := len(held); n > 2 {
			t.Fatalf("%d further requests are in flight", n)
		}
		one.Reply(kmsg.NewPtrProduceResponse())
		if got := c.correlation(); got != id {
			t.Fatal(got)
		}
	}
}

// TestTheShortestIdleTimeout closes what rests at once.
func TestTheShortestIdleTimeout(t *testing.T) {
	start(t, Config{IdleTimeout: 1}, Deps{}, echoMetadata(true)).dial().expectClosed()
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	held := make(chan *Request, 1)
	r := start(t, Config{IdleTimeout: 100 * time.Millisecond}, Deps{}, API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true,
		Handle: func(r *Request) { held <- r }})
	waiting := r.dial()
	waiting.send(request(kmsg.NewPtrProduceRequest(), 9, 1))
	request := <-held
	r.dial().expectClosed() // meanwhile the one that waits for an answer stays
	request.Reply(kmsg.NewPtrProduceResponse())
	if got := waiting.correlation(); got != 1 {
		t.Error(got)
	}
	waiting.expectClosed()
}

func TestConnectionLimits(t *testing.T) {
	t.Run("per address", func(t *testing.T) {
		limits := NewLimits(math.MaxInt, 2)
		r := start(t, Config{}, Deps{Limits: limits}, echoMetadata(true))
		other := start(t, Config{ListenerName: "OTHER"}, Deps{Limits: limits}, echoMetadata(true))
		a, b := r.dial(), other.dial()
		for _, c := range []*client{a, b} {
			c.send(request(metadataRequest(), 9, 1))
			c.correlation()
		}
		r.dial().expectClosed()
		a.Close()
		eventually(t, "a place free", func() bool { return len(r.server.connections()) == 0 })
		c := other.dial()
		c.send(request(metadataRequest(), 9, 2))
		c.correlation()
	})
	for name, c := range map[string]struct {
		cfg    Config
		limits *Limits
	}{"of a listener": {Config{MaxConnections: 1}, nil}, "of a node": {Config{}, NewLimits(1, math.MaxInt)}} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c.cfg, Deps{Limits: c.limits}, echoMetadata(true))
			other := r
			if c.limits != nil {
				other = start(t, Config{ListenerName: "OTHER"}, Deps{Limits: c.limits}, echoMetadata(true))
			}
			first := r.dial()
			first.send(request(metadataRequest(), 9, 1))
			first.correlation()
			second := other.dial()
			second.send(request(metadataRequest(), 9, 2))
			first.send(request(metadataRequest(), 9, 3))
			first.correlation()
			if n := r.logs.FilterMessageSnippet("refused").Len(); n != 0 || other != r && len(other.server.connections()) != 0 {
				t.Errorf("%d refused, the second is not kept waiting", n)
			}
			first.Close()
			if got := second.correlation(); got != 2 {
				t.Error(got)
			}
		})
	}
}

// TestConnectionLimitsThatChange has limits of a node change while connections wait for them. 0 lets nobody in.
func TestConnectionLimitsThatChange(t *testing.T) {
	limits := NewLimits(0, 2)
	r := start(t, Config{}, Deps{Limits: limits}, echoMetadata(true))
	connect := func() *client {
		c := r.dial()
		c.send(request(metadataRequest(), 9, 1))
		return c
	}
	waits := func(b *bound) {
		t.Helper()
		eventually(t, "a connection that waits", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.room != nil && b.open == b.most
		})
	}
	first := connect()
	waits(&limits.all)
	limits.Set(1, 2)
	first.correlation()
	second := connect()
	waits(&limits.all)
	limits.Set(3, 2)
	second.correlation()
	r.dial().expectClosed()
	limits.Set(3, 3)
	connect().correlation()
	limits.Set(1, 1)
	first.send(request(metadataRequest(), 9, 2)) // those that are there stay
	if got := first.correlation(); got != 2 {
		t.Error(got)
	}
}

// Run ends only when what was read has been answered, and leaves nothing behind.
func TestDrain(t *testing.T) {
	held := make(chan *Request, 1)
	r := start(t, Config{}, Deps{}, API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true, Handle: func(r *Request) { held <- r }})
	idle, busy := r.dial(), r.dial()
	busy.send(request(kmsg.NewPtrProduceRequest(), 9, 4))
	request := <-held
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	idle.expectClosed()
	select {
	case <-stopped:
		t.Fatal("Run ended with a request in flight")
	default:
	}
	if err := request.Context().Err(); err != nil {
		t.Errorf("context of a request in flight: %v", err)
	}
	request.Reply(kmsg.NewPtrProduceResponse())
	if got := busy.correlation(); got != 4 {
		t.Error(got)
	}
	<-stopped
	if _, err := net.Dial("tcp", r.server.Addr().String()); err == nil {
		t.Error("still listening")
	}
}

// A request that is never answered delays the end by DrainTimeout only.
func TestDrainDeadline(t *testing.T) {
	held := make(chan *Request, 1)
	r := start(t, Config{DrainTimeout: 50 * time.Millisecond}, Deps{}, API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true,
		Handle: func(r *Request) { held <- r }})
	c := r.dial()
	c.send(request(kmsg.NewPtrProduceRequest(), 9, 4))
	request := <-held
	r.stop()
	<-request.Context().Done()
	released := false
	request.Finish(request.Begin(), nil, func() { released = true })
	if !released {
		t.Error("an answer to a closed connection was not released")
	}
}

// A request that has no reason to be large is refused by its length and key, before its body arrives.
func TestPlainRequestsHaveALowerLimit(t *testing.T) {
	small := API{Key: 18, MaxVersion: 4, Inline: true, Handle: apiVersions, MaxBodyBytes: 100}
	r := start(t, Config{}, Deps{}, echoMetadata(true), echoProduce(), small)
	header := func(key, version byte, size uint32) []byte {
		return append(binary.BigEndian.AppendUint32(nil, size), 0, key, 0, version, 0, 0, 0, 1, 0xff, 0xff)
	}
	for _, key := range []byte{3, 99} {
		c := r.dial()
		c.send(header(key, 0, plainMaxBodyBytes+1))
		c.expectClosed()
	}
	c := r.dial()
	c.send(header(18, 0, 101))
	c.send(make([]byte, 101))
	c.expectClosed()

	c = r.dial()
	c.send(header(0, 3, plainMaxBodyBytes+1))
	c.send(make([]byte, plainMaxBodyBytes+1-10))
	if got := c.correlation(); got != 1 {
		t.Error(got)
	}
}

// What is queued behind a request that closes the connection does not run.
func TestNothingRunsBehindAFailedRequest(t *testing.T) {
	queued := make(chan struct{})
	var ran atomic.Int64
	r := start(t, Config{}, Deps{},
		API{Key: 3, MaxVersion: 13, Handle: func(r *Request) { <-queued; r.Fail(kerr.InvalidRequest) }},
		API{Key: 60, MaxVersion: 1, Handle: func(r *Request) { ran.Add(1); r.Reply(r.replyKind()) }},
		API{Key: 18, MaxVersion: 4, Inline: true, Handle: func(r *Request) { close(queued); apiVersions(r) }},
	)
	c := r.dial()
	c.send(request(metadataRequest(), 9, 1))
	c.send(request(kmsg.NewPtrDescribeClusterRequest(), 0, 2))
	c.send(request(kmsg.NewPtrApiVersionsRequest(), 4, 3))
	c.expectClosed()
	r.stop()
	if ran.Load() != 0 {
		t.Error("a request ran behind one that failed")
	}
	if held := r.server.metrics.heldBytes.Load(); held != 0 {
		t.Errorf("%d request bytes are held", held)
	}
}

// A client that has shut its sending side down gets the answers that it is due, in order, and the end after them.
func TestHalfClosedClientsAreAnswered(t *testing.T) {
	for name, tail := range map[string][]byte{"between requests": nil, "in a request": prefix(100, 10)} {
		t.Run(name, func(t *testing.T) {
			held := make(chan *Request, 1)
			r := start(t, Config{}, Deps{}, echoMetadata(false), API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true, Handle: func(r *Request) { held <- r }})
			c := r.dial()
			c.send(request(kmsg.NewPtrProduceRequest(), 9, 1))
			c.send(request(metadataRequest(), 9, 2))
			c.send(tail)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			slow := <-held
			eventually(t, "the end of the stream seen", func() bool {
				for _, conn := range r.server.connections() {
					conn.mu.Lock()
					defer conn.mu.Unlock()
					return conn.stopping || conn.closed
				}
				return true
			})
			slow.Reply(kmsg.NewPtrProduceResponse())
			for want := range int32(2) {
				if got := c.correlation(); got != want+1 {
					t.Errorf("answer to %d, want %d", got, want+1)
				}
			}
			c.expectClosed()
		})
	}
}
