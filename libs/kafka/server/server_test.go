package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestEveryVersionRoundTrips(t *testing.T) {
	for _, inline := range []bool{true, false} {
		r := start(t, Config{}, Deps{}, echoMetadata(inline))
		c := r.dial()
		for v := range int16(14) {
			c.send(request(metadataRequest("a", "b"), v, int32(v)))
			answer := c.answer()
			resp := kmsg.NewPtrMetadataResponse()
			resp.SetVersion(v)
			header := 4
			if resp.IsFlexible() {
				header = 5
			}
			if err := resp.ReadFrom(answer[header:]); err != nil {
				t.Fatalf("v%d: %v", v, err)
			}
			if got := int16(binary.BigEndian.Uint32(answer)); got != v || len(resp.Topics) != 2 || *resp.Topics[1].Topic != "b" {
				t.Errorf("v%d: correlation %d, topics %v", v, got, resp.Topics)
			}
		}
	}
}

// BL-008: requests that take long and requests that do not, of all kinds of handlers, and ones without an
// answer: the answers come in the order of the requests.
func TestAnswersKeepRequestOrder(t *testing.T) {
	late := make(chan *Request, 1<<16)
	go func() {
		var held []*Request
		for r := range late {
			if held = append(held, r); len(held) < 8 && len(late) > 0 {
				continue
			}
			rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			for _, r := range held {
				r.Reply(r.replyKind())
			}
			held = held[:0]
		}
	}()
	defer close(late)
	var nothing atomic.Int64
	r := start(t, Config{}, Deps{},
		API{Key: 0, MinVersion: 3, MaxVersion: 11, Inline: true, Handle: func(r *Request) {
			if r.Version == 3 { // acks=0
				nothing.Add(1)
				r.ReplyNothing()
				return
			}
			late <- r
		}},
		API{Key: 1, MinVersion: 4, MaxVersion: 16, Inline: true, Handle: func(r *Request) { r.Go(func() { late <- r }) }},
		echoMetadata(false),
		API{Key: 18, MaxVersion: 3, Inline: true, Handle: apiVersions},
	)
	defer r.stop()
	c := r.dial()
	const rounds = 10_000
	var expected []int32
	var out bytes.Buffer
	rng := rand.New(rand.NewPCG(1, 2))
	for id := range int32(rounds) {
		switch rng.IntN(5) {
		case 0:
			out.Write(request(kmsg.NewPtrProduceRequest(), 3, id))
			continue
		case 1:
			out.Write(request(kmsg.NewPtrProduceRequest(), 9, id))
		case 2:
			out.Write(request(kmsg.NewPtrFetchRequest(), 12, id))
		case 3:
			out.Write(request(metadataRequest("t"), 9, id))
		case 4:
			out.Write(request(kmsg.NewPtrApiVersionsRequest(), 3, id))
		}
		expected = append(expected, id)
	}
	go c.Write(out.Bytes())
	for _, want := range expected {
		if got := c.correlation(); got != want {
			t.Fatalf("answer to request %d in place of %d", got, want)
		}
	}
	if want := int64(rounds - len(expected)); nothing.Load() != want {
		t.Errorf("%d requests without answer ran, %d were sent", nothing.Load(), want)
	}
}

// replyKind is an empty response of the request's API.
func (r *Request) replyKind() kmsg.Response { return kmsg.ResponseForKey(r.Key) }

// Handlers that are not inline run in the order of their requests, as on Kafka: an offset commit must not
// overtake the one before it.
func TestLaneKeepsOrder(t *testing.T) {
	var ran []int32
	r := start(t, Config{}, Deps{}, API{Key: 3, MaxVersion: 13, Handle: func(r *Request) {
		ran = append(ran, r.CorrelationID)
		r.Reply(kmsg.NewPtrMetadataResponse())
	}})
	c := r.dial()
	for id := range int32(500) {
		c.send(request(metadataRequest(), 9, id))
	}
	for range 500 {
		c.correlation()
	}
	r.stop()
	for i, id := range ran {
		if int32(i) != id {
			t.Fatalf("request %d ran as number %d", id, i)
		}
	}
}

// An inline request runs while one before it still waits.
func TestInlineRunsBehindAWaitingRequest(t *testing.T) {
	second := make(chan struct{})
	r := start(t, Config{}, Deps{},
		API{Key: 18, MaxVersion: 3, Handle: func(r *Request) { <-second; apiVersions(r) }},
		API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true, Handle: func(r *Request) { close(second); r.Reply(r.replyKind()) }},
	)
	c := r.dial()
	c.send(request(kmsg.NewPtrApiVersionsRequest(), 3, 1))
	c.send(request(kmsg.NewPtrProduceRequest(), 9, 2))
	if a, b := c.correlation(), c.correlation(); a != 1 || b != 2 {
		t.Fatalf("answers %d, %d", a, b)
	}
}

// BL-025: an unknown version of ApiVersions, whatever its body, is answered as version 0 with the range to
// choose from, and the connection goes on.
func TestUnknownApiVersionsVersion(t *testing.T) {
	r := start(t, Config{}, Deps{}, API{Key: 18, MaxVersion: 4, Inline: true, Handle: apiVersions})
	c := r.dial()
	for id, version := range []int16{5, 127, -1, 32767} {
		b := request(kmsg.NewPtrApiVersionsRequest(), 3, int32(id))
		binary.BigEndian.PutUint16(b[6:], uint16(version))
		b = append(b, "\xff\xff garbage \xff"...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		c.send(b)
		answer := c.answer()
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(answer[4:]); err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint32(answer) != uint32(id) || resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 ||
			resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 4 {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
	c.send(request(kmsg.NewPtrApiVersionsRequest(), 4, 99))
	if got := c.correlation(); got != 99 {
		t.Errorf("the connection is not usable: %d", got)
	}
}

// BL-026: an API or version that is not served closes the connection, after the answers before it.
func TestUnservedRequestsCloseTheConnection(t *testing.T) {
	r := start(t, Config{}, Deps{}, echoMetadata(true), API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true,
		Handle: func(r *Request) { r.Reply(r.replyKind()) }})
	cases := map[string][]byte{
		"unknown key":        request(kmsg.NewPtrDescribeClusterRequest(), 0, 2),
		"version above":      request(kmsg.NewPtrProduceRequest(), 10, 2),
		"version below":      request(kmsg.NewPtrProduceRequest(), 2, 2),
		"key out of range":   {0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 2, 0xff, 0xff},
		"negative key":       {0, 0, 0, 10, 0xff, 0xff, 0, 0, 0, 0, 0, 2, 0xff, 0xff},
		"negative version":   {0, 0, 0, 10, 0, 3, 0xff, 0xff, 0, 0, 0, 2, 0xff, 0xff},
		"short header":       {0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 2, 0xff},
		"empty frame":        {0, 0, 0, 0},
		"negative length":    {0xff, 0xff, 0xff, 0xff},
		"client id too long": {0, 0, 0, 10, 0, 3, 0, 0, 0, 0, 0, 2, 0, 1},
		"client id negative": {0, 0, 0, 10, 0, 3, 0, 0, 0, 0, 0, 2, 0xff, 0xfe},
		"undecodable body":   {0, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 2, 0xff, 0xff, 0, 0},
		"hostile tag count":  {0, 0, 0, 15, 0, 3, 0, 9, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f},
	}
	for name, bad := range cases {
		t.Run(name, func(t *testing.T) {
			r.t = t
			before := r.logs.FilterMessageSnippet("request failed").Len()
			c := r.dial()
			c.send(append(request(metadataRequest("ok"), 9, 1), bad...))
			if got := c.correlation(); got != 1 {
				t.Fatalf("first answer is %d", got)
			}
			c.expectClosed()
			if n := r.logs.FilterMessageSnippet("request failed").Len() - before; n != 1 {
				t.Errorf("%d log lines", n)
			}
		})
	}
}

// A failed request closes the connection behind the answers of the requests before it, even if those come later.
func TestFailWaitsForEarlierAnswers(t *testing.T) {
	first := make(chan *Request, 1)
	r := start(t, Config{}, Deps{},
		API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true, Handle: func(r *Request) { first <- r }},
		API{Key: 3, MaxVersion: 13, Inline: true, Handle: func(r *Request) {
			r.Fail(kerr.InvalidRequest)
			(<-first).Reply(kmsg.NewPtrProduceResponse())
		}},
	)
	c := r.dial()
	c.send(request(kmsg.NewPtrProduceRequest(), 9, 1))
	c.send(request(metadataRequest(), 9, 2))
	if got := c.correlation(); got != 1 {
		t.Errorf("answer %d", got)
	}
	c.expectClosed()
}

func TestPanicCostsOneConnection(t *testing.T) {
	for name, h := range map[string]API{
		"inline":   {Key: 18, MaxVersion: 4, Inline: true, Handle: func(*Request) { panic("boom") }},
		"lane":     {Key: 18, MaxVersion: 4, Handle: func(*Request) { panic("boom") }},
		"go":       {Key: 18, MaxVersion: 4, Inline: true, Handle: func(r *Request) { r.Go(func() { panic("boom") }) }},
		"answered": {Key: 18, MaxVersion: 4, Inline: true, Handle: func(r *Request) { r.ReplyNothing(); panic("boom") }},
		"twice":    {Key: 18, MaxVersion: 4, Inline: true, Handle: func(r *Request) { r.ReplyNothing(); r.ReplyNothing() }},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Config{}, Deps{}, h, echoMetadata(true))
			other := r.dial()
			c := r.dial()
			c.send(request(kmsg.NewPtrApiVersionsRequest(), 4, 1))
			c.expectClosed()
			other.send(request(metadataRequest(), 9, 7))
			if got := other.correlation(); got != 7 {
				t.Errorf("other connection: %d", got)
			}
			lines := r.logs.FilterMessageSnippet("panicked").All()
			if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["stack"].(string), "server_test.go") {
				t.Errorf("log: %v", lines)
			}
			eventually(t, "the budget given back", func() bool { return r.server.metrics.heldBytes.Load() == 0 })
		})
	}
}

// A handler that panicked after handing its request on: the late answer is dropped, its release called.
func TestLateAnswerAfterPanic(t *testing.T) {
	handed := make(chan *Request, 1)
	r := start(t, Config{}, Deps{}, API{Key: 18, MaxVersion: 4, Inline: true, Handle: func(r *Request) {
		handed <- r
		panic("boom")
	}})
	c := r.dial()
	c.send(request(kmsg.NewPtrApiVersionsRequest(), 4, 1))
	c.expectClosed()
	released := 0
	late := <-handed
	late.Finish(late.Begin(), nil, func() { released++ })
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

// Responses of memory and file ranges, gathered, larger than any socket buffer, arrive byte for byte.
func TestChunksArriveInPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	content := make([]byte, 8<<20)
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	var expected [][]byte
	var released atomic.Int64
	r := start(t, Config{SocketSendBufferBytes: 256 << 10}, Deps{}, API{Key: 1, MinVersion: 4, MaxVersion: 16, Inline: true, Handle: func(r *Request) {
		head := r.Begin()
		want := bytes.Clone(head[4:])
		var chunks []Chunk
		for range rng.IntN(6) {
			memory := content[:rng.IntN(300)]
			head = append(head, memory...)
			want = append(want, memory...)
			offset, size := rng.IntN(len(content)/2), rng.IntN(len(content)/4)
			if rng.IntN(4) == 0 {
				size = 0
			}
			chunks = append(chunks, Chunk{After: len(head), File: file, Offset: int64(offset), Size: size})
			want = append(want, content[offset:offset+size]...)
		}
		if rng.IntN(2) == 0 {
			head = append(head, "tail"...)
			want = append(want, "tail"...)
		}
		expected = append(expected, want)
		r.Finish(head, chunks, func() { released.Add(1) })
	}})
	c := r.dial()
	const rounds = 60
	go func() {
		for id := range int32(rounds) {
			c.Write(request(kmsg.NewPtrFetchRequest(), 12, id))
		}
	}()
	var got [][]byte
	for range rounds {
		got = append(got, c.answer())
	}
	r.stop()
	for i := range expected {
		if !bytes.Equal(got[i], expected[i]) {
			t.Fatalf("answer %d of %d bytes differs from the %d expected", i, len(got[i]), len(expected[i]))
		}
	}
	if released.Load() != rounds {
		t.Errorf("%d of %d released", released.Load(), rounds)
	}
}

func TestShortFileClosesTheConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	released := make(chan struct{})
	r := start(t, Config{}, Deps{}, API{Key: 1, MinVersion: 4, MaxVersion: 16, Inline: true, Handle: func(r *Request) {
		head := r.Begin()
		r.Finish(head, []Chunk{{After: len(head), File: file, Offset: 5, Size: 100}}, func() { close(released) })
	}})
	c := r.dial()
	c.send(request(kmsg.NewPtrFetchRequest(), 12, 1))
	c.expectClosed()
	<-released
}

// Requests that wait in the lane in front of a slot that closes the connection are still owed their answers.
func TestAnswersInFrontOfAFailureAreSent(t *testing.T) {
	gate := make(chan struct{})
	metadata := API{Key: 3, MinVersion: 0, MaxVersion: 13, Handle: func(r *Request) {
		<-gate
		r.Reply(kmsg.NewPtrMetadataResponse())
	}}
	s := start(t, Config{}, Deps{}, metadata)
	c := s.dial()
	for id := range int32(3) {
		c.send(request(metadataRequest(), 12, id+1))
	}
	c.send([]byte{0, 0, 0, 4, 1, 2, 3, 4}) // no request
	for deadline := time.Now().Add(10 * time.Second); ; {
		s.server.mu.Lock()
		stopping := false
		for conn := range s.server.conns {
			conn.mu.Lock()
			stopping = conn.stopping
			conn.mu.Unlock()
		}
		s.server.mu.Unlock()
		if stopping || time.Now().After(deadline) {
			break
		}
		runtime.Gosched()
	}
	close(gate)
	for id := range 3 {
		if _, err := c.tryAnswer(); err != nil {
			t.Fatalf("answer %d: %v", id+1, err)
		}
	}
}

func TestIdleTimeoutCanBeOff(t *testing.T) {
	if c := (Config{IdleTimeout: -time.Millisecond}).withDefaults(); c.IdleTimeout < time.Duration(math.MaxInt64) {
		t.Errorf("connections.max.idle.ms=-1 became %v", c.IdleTimeout)
	}
}
