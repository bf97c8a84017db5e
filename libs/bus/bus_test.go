package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var echo = NewEndpoint[*wrapperspb.StringValue, *wrapperspb.StringValue]("test.echo")

func text(s string) *wrapperspb.StringValue { return wrapperspb.String(s) }

func start(t *testing.T, c ServerConfig) *Server {
	t.Helper()
	s, err := StartServer(c, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func attach(t *testing.T, s *Server, d Deps) *Conn {
	t.Helper()
	c, err := s.Connect(t.Name(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func dialURL(t *testing.T, c Config) *Conn {
	t.Helper()
	conn, err := Connect(c, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func serveEcho(t *testing.T, c *Conn) *Subscription {
	t.Helper()
	sub, err := echo.Serve(c, func(_ context.Context, req *wrapperspb.StringValue, reply func(*wrapperspb.StringValue, error)) {
		if req.Value == "fail" {
			reply(nil, errors.New("no\nsuch thing"))
			return
		}
		reply(text("echo "+req.Value), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sub
}

func TestCall(t *testing.T) {
	tcp := start(t, ServerConfig{Name: "tcp", Host: "127.0.0.1", Port: -1, AuthToken: "secret"})
	for name, conn := range map[string]*Conn{
		"in process": attach(t, start(t, ServerConfig{Name: "inproc"}), Deps{}),
		"tcp":        dialURL(t, Config{URLs: []string{tcp.URL()}, AuthToken: "secret"}),
	} {
		t.Run(name, func(t *testing.T) {
			sub := serveEcho(t, conn)
			resp, err := echo.Call(t.Context(), conn, text("hello"))
			if err != nil || resp.Value != "echo hello" {
				t.Fatalf("got %v, %v", resp, err)
			}
			var remote *RemoteError
			if _, err := echo.Call(t.Context(), conn, text("fail")); !errors.As(err, &remote) || remote.Message != "no such thing" {
				t.Errorf("a failing handler: %v", err)
			}
			sub.Close()
			if _, err := echo.Call(t.Context(), conn, text("hello")); !errors.Is(err, ErrNoResponder) {
				t.Errorf("nobody serves: %v", err)
			}
			if _, err := echo.Call(t.Context(), conn, text(strings.Repeat("x", MaxPayloadBytes+1))); !errors.Is(err, ErrTooLarge) {
				t.Errorf("too large: %v", err)
			}
		})
	}
	if tcp.URL() == "" {
		t.Error("no address")
	}
}

func TestServerThatCannotStart(t *testing.T) {
	s := start(t, ServerConfig{Name: "first", Host: "127.0.0.1", Port: -1})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]ServerConfig{
		"address already in use": {Name: "x", Host: "127.0.0.1", Port: taken},
		"must listen":            {Name: "x", ClusterHost: "127.0.0.1", ClusterPort: -1},
		"route":                  {Name: "x", Host: "127.0.0.1", Port: -1, ClusterHost: "127.0.0.1", ClusterPort: -1, Routes: []string{"://"}},
	} {
		if s, err := StartServer(c, Deps{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
}

func TestWrongTokenIsRefused(t *testing.T) {
	s := start(t, ServerConfig{Name: "tcp", Host: "127.0.0.1", Port: -1, AuthToken: "secret"})
	c := dialURL(t, Config{URLs: []string{s.URL()}, AuthToken: "guess"})
	if _, err := echo.Call(t.Context(), c, text("hello")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestTokenCanChange has a connection with the new token while the server still wants the old one: it is said once, and
// the connection comes when the server has changed, too.
func TestTokenCanChange(t *testing.T) {
	old := start(t, ServerConfig{Name: "tcp", Host: "127.0.0.1", Port: -1, AuthToken: "old"})
	lines, seen := observer.New(zap.WarnLevel)
	c, err := Connect(Config{URLs: []string{old.URL()}, AuthToken: "new", RequestTimeout: 500 * time.Millisecond}, Deps{Log: zap.New(lines)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Flush(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the new token at the old server: %v", err)
	}
	if n := seen.FilterMessageSnippet("another token").Len(); n != 1 {
		t.Errorf("said %d times, want once: %v", n, seen.All())
	}
	address, err := url.Parse(old.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	connects, stop := c.Connects()
	defer stop()
	old.Close()
	start(t, ServerConfig{Name: "tcp", Host: "127.0.0.1", Port: port, AuthToken: "new"})
	<-connects
	if err := c.Flush(t.Context()); err != nil {
		t.Errorf("the new token at the new server: %v", err)
	}
}

func TestCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, ServerConfig{Name: "s"})
		server, client := attach(t, s, Deps{}), attach(t, s, Deps{})
		silent, err := echo.Serve(server, func(context.Context, *wrapperspb.StringValue, func(*wrapperspb.StringValue, error)) {})
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if err := server.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}

		began := time.Now()
		if _, err := echo.Call(t.Context(), client, text("")); !errors.Is(err, ErrTimeout) || time.Since(began) != defaultRequestTimeout {
			t.Errorf("no answer: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := echo.Call(ctx, client, text("")); !errors.Is(err, ErrTimeout) {
			t.Errorf("the caller's deadline: %v", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := echo.Call(canceled, client, text("")); ended <- err }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, ErrTimeout) {
			t.Errorf("canceled: %v", err)
		}
		go func() { _, err := echo.Call(t.Context(), client, text("")); ended <- err }()
		synctest.Wait()
		client.Close()
		if err := <-ended; !errors.Is(err, ErrUnavailable) {
			t.Errorf("closed under way: %v", err)
		}
		if _, err := echo.Call(t.Context(), client, text("")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("closed: %v", err)
		}
		if n := len(client.replies.waiting); n != 0 {
			t.Errorf("%d calls left behind", n)
		}
	})
}

func TestRepliesOutOfOrder(t *testing.T) {
	s := start(t, ServerConfig{Name: "s"})
	c := attach(t, s, Deps{})
	var held []func()
	release := make(chan struct{})
	sub, err := echo.Serve(c, func(_ context.Context, req *wrapperspb.StringValue, reply func(*wrapperspb.StringValue, error)) {
		held = append(held, func() { reply(req, nil) })
		if len(held) == 50 {
			close(release)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := fmt.Sprint(i)
			if resp, err := echo.Call(t.Context(), c, text(want)); err != nil || resp.Value != want {
				t.Errorf("call %d: %v, %v", i, resp, err)
			}
		})
	}
	<-release
	sub.Close()
	for _, answer := range slices.Backward(held) {
		answer()
	}
	wg.Wait()
}

// TestLargeMessages sends what exceeds an external server's default payload, in both directions that may.
func TestLargeMessages(t *testing.T) {
	s := start(t, ServerConfig{Name: "s"})
	c := attach(t, s, Deps{})
	large := strings.Repeat("0123456789abcdef", MaxPayloadBytes/16+777)
	sub, err := echo.Serve(c, func(_ context.Context, _ *wrapperspb.StringValue, reply func(*wrapperspb.StringValue, error)) {
		reply(text(large), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if resp, err := echo.Call(t.Context(), c, text("")); err != nil || resp.Value != large {
		t.Errorf("reply of %d bytes: got %d, %v", len(large), len(resp.GetValue()), err)
	}

	got := make(chan Update, 3)
	stream, err := c.Follow("test.stream", func(u Update) { got <- u })
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for i, payload := range []string{"small", large, "after"} {
		if err := c.Push("test.stream", Update{PrevOffset: int64(i), Offset: int64(i + 1), Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"small", large, "after"} {
		if u := <-got; u.PrevOffset != int64(i) || u.Offset != int64(i+1) || string(u.Payload) != want {
			t.Errorf("update %d: %d to %d with %d bytes", i, u.PrevOffset, u.Offset, len(u.Payload))
		}
	}
	if err := c.Push("test.stream", Update{Payload: make([]byte, MaxMessageBytes+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func TestAssembler(t *testing.T) {
	chunk := func(id string, index, count int, data string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{chunkHeader: {fmt.Sprintf("%s/%d/%d", id, index, count)}}, Data: []byte(data)}
	}
	plain := func(data string) *nats.Msg { return &nats.Msg{Data: []byte(data)} }
	for name, c := range map[string]struct {
		in   []*nats.Msg
		want []string
	}{
		"whole":                {[]*nats.Msg{plain("a"), plain("b")}, []string{"a", "b"}},
		"joined":               {[]*nats.Msg{chunk("x", 0, 3, "a"), chunk("x", 1, 3, "b"), chunk("x", 2, 3, "c")}, []string{"abc"}},
		"first missing":        {[]*nats.Msg{chunk("x", 1, 2, "b"), plain("c")}, []string{"c"}},
		"middle missing":       {[]*nats.Msg{chunk("x", 0, 3, "a"), chunk("x", 2, 3, "c"), plain("d")}, []string{"d"}},
		"last missing":         {[]*nats.Msg{chunk("x", 0, 2, "a"), chunk("y", 0, 2, "b"), chunk("y", 1, 2, "c")}, []string{"bc"}},
		"another's in between": {[]*nats.Msg{chunk("x", 0, 2, "a"), chunk("y", 1, 2, "b"), chunk("x", 1, 2, "c")}, nil},
		"not a chunk":          {[]*nats.Msg{{Header: nats.Header{chunkHeader: {"x/5/2"}}}, {Header: nats.Header{chunkHeader: {"gibberish"}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var a assembler
			var got []string
			for _, m := range c.in {
				if _, data, whole := a.add(m); whole {
					got = append(got, string(data))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add([]byte("short"))
	f.Add(bytes.Repeat([]byte{1}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := decodeUpdate(data)
		if (err == nil) != (len(data) >= updateHeaderBytes) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
		if err == nil && len(u.Payload) != len(data)-updateHeaderBytes {
			t.Errorf("payload of %d bytes out of %d", len(u.Payload), len(data))
		}
	})
}

func TestUpdateAfter(t *testing.T) {
	u := Update{PrevOffset: 4, Offset: 7}
	for at, want := range map[int64]Step{3: Gap, 4: Follows, 7: Stale, 9: Stale} {
		if got := u.After(at); got != want {
			t.Errorf("at %d: %v, want %v", at, got, want)
		}
	}
}

func TestTraceIsCarried(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	s := start(t, ServerConfig{Name: "s"})
	c := attach(t, s, Deps{Tracer: tracer})
	sub := serveEcho(t, c)
	ctx, root := tracer.Start(t.Context(), "root")
	if _, err := echo.Call(ctx, c, text("")); err != nil {
		t.Fatal(err)
	}
	root.End()
	sub.Close() // the handler's span has ended
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	for _, span := range ended {
		if span.SpanContext().TraceID() != root.SpanContext().TraceID() {
			t.Errorf("span %s has a trace of its own", span.Name())
		}
	}
}

func TestServersFormACluster(t *testing.T) {
	first := start(t, ServerConfig{Name: "a", Host: "127.0.0.1", Port: -1, ClusterHost: "127.0.0.1", ClusterPort: -1, AuthToken: "secret"})
	second := start(t, ServerConfig{Name: "b", Host: "127.0.0.1", Port: -1, ClusterHost: "127.0.0.1", ClusterPort: -1, Routes: []string{first.ClusterURL()}, AuthToken: "secret"})
	if u, err := url.Parse(first.ClusterURL()); err != nil || u.Port() == "" {
		t.Fatalf("cluster address %q", first.ClusterURL())
	}
	serveEcho(t, attach(t, first, Deps{}))
	client := attach(t, second, Deps{})
	for { // the route and the interest travel on their own time
		resp, err := echo.Call(t.Context(), client, text("across"))
		if errors.Is(err, ErrNoResponder) {
			continue
		}
		if err != nil || resp.Value != "echo across" {
			t.Fatalf("got %v, %v", resp, err)
		}
		return
	}
}

func TestReconnect(t *testing.T) {
	s, err := StartServer(ServerConfig{Name: "one", Host: "127.0.0.1", Port: -1}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	c := dialURL(t, Config{URLs: []string{s.URL()}})
	connects, stop := c.Connects()
	defer stop()
	serveEcho(t, c)
	s.Close()
	start(t, ServerConfig{Name: "two", Host: "127.0.0.1", Port: port})
	<-connects
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if resp, err := echo.Call(t.Context(), c, text("again")); err != nil || resp.Value != "echo again" {
		t.Errorf("after a restart of the server: %v, %v", resp, err)
	}
}

// TestMoveOver has a connection to a server that knows of nobody, and another server with whom it wants to speak.
func TestMoveOver(t *testing.T) {
	lonely := start(t, ServerConfig{Name: "lonely", Host: "127.0.0.1", Port: -1})
	busy := start(t, ServerConfig{Name: "busy", Host: "127.0.0.1", Port: -1})
	serveEcho(t, attach(t, busy, Deps{}))
	c := dialURL(t, Config{URLs: []string{lonely.URL(), busy.URL()}})
	connects, stop := c.Connects()
	defer stop()
	for range 2 { // it may have begun with either
		for c.nc.ConnectedUrl() == busy.URL() {
			c.MoveOver()
			<-connects
		}
		if _, err := echo.Call(t.Context(), c, text("anyone?")); !errors.Is(err, ErrNoResponder) {
			t.Fatalf("the lonely server answers: %v", err)
		}
		c.MoveOver()
		<-connects
		if resp, err := echo.Call(t.Context(), c, text("there")); err != nil || resp.Value != "echo there" {
			t.Fatalf("after moving over: %v, %v", resp, err)
		}
	}
	alone := attach(t, busy, Deps{})
	alone.MoveOver()
	if resp, err := echo.Call(t.Context(), alone, text("still")); err != nil || resp.Value != "echo still" {
		t.Errorf("with one server only: %v, %v", resp, err)
	}
}

func BenchmarkCall(b *testing.B) {
	s, err := StartServer(ServerConfig{Name: "s"}, Deps{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, err := s.Connect("bench", Deps{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	sub, err := echo.Serve(c, func(_ context.Context, req *wrapperspb.StringValue, reply func(*wrapperspb.StringValue, error)) {
		reply(req, nil)
	})
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Close()
	req := text(strings.Repeat("x", 100))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := echo.Call(context.Background(), c, req); err != nil {
			b.Fatal(err)
		}
	}
}
