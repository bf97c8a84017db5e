package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/testport"
)

func TestDoAgreesOnVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{ClientID: "tester"})
		answered := n.start(t.Context(), metadataFor("x"))
		f := n.accept()
		got := f.mustReceive()
		if got.GetVersion() != 9 || got.clientID != "tester" || got.tags.Len() != 0 {
			t.Errorf("version %d from %q, %d tags", got.GetVersion(), got.clientID, got.tags.Len())
		}
		f.answerMetadata(got)
		wantAnswer(t, <-answered, "x")

		beat := n.start(t.Context(), kmsg.NewPtrHeartbeatRequest())
		got = f.mustReceive()
		f.reply(got, &kmsg.HeartbeatResponse{ErrorCode: 27})
		if r := <-beat; r.err != nil || r.resp.(*kmsg.HeartbeatResponse).ErrorCode != 27 {
			t.Errorf("not flexible: %+v", r)
		}
		for _, req := range []kmsg.Request{kmsg.NewPtrFetchRequest(), kmsg.NewPtrCreateTopicsRequest()} {
			wantError(t, <-n.start(t.Context(), req), kerr.UnsupportedVersion)
		}
		if len(n.dials) != 1 {
			t.Errorf("%d connections", len(n.dials))
		}
	})
}

func TestDoAsksOldServersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		answered := n.start(t.Context(), metadataFor("x"))
		f := <-n.accepted
		f.refuseFlexible(f.mustReceive())
		f.negotiate()
		f.answerMetadata(f.mustReceive())
		wantAnswer(t, <-answered, "x")
	})
}

func TestRequestsArePipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{MaxInFlight: 4})
		answers := map[string]<-chan result{}
		for i := range 6 {
			topic := fmt.Sprint("topic ", i)
			answers[topic] = n.start(t.Context(), metadataFor(topic))
		}
		f := n.accept()
		var waiting []received
		for range 4 {
			waiting = append(waiting, f.mustReceive())
		}
		fifth := make(chan received)
		go func() { fifth <- f.mustReceive() }()
		synctest.Wait()
		select {
		case got := <-fifth:
			t.Fatalf("%s went out with four unanswered", topicOf(got))
		default:
		}
		f.answerMetadata(waiting[0])
		waiting = append(waiting[1:], <-fifth)
		f.answerMetadata(waiting[0])
		waiting = append(waiting[1:], f.mustReceive())
		for _, w := range waiting {
			f.answerMetadata(w)
		}
		for topic, answer := range answers {
			wantAnswer(t, <-answer, topic)
		}
		if len(n.dials) != 1 {
			t.Errorf("%d connections for one address", len(n.dials))
		}
	})
}

func TestCancelledRequestLeavesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		first := n.start(ctx, metadataFor("first"))
		f := n.accept()
		firstReceived := f.mustReceive()
		cancel()
		wantError(t, <-first, context.Canceled)
		second := n.start(t.Context(), metadataFor("second"))
		secondReceived := f.mustReceive()
		f.answerMetadata(firstReceived)
		f.answerMetadata(secondReceived)
		wantAnswer(t, <-second, "second")
	})
}

func TestUnansweredRequestEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{RequestTimeout: 30 * time.Second})
		start := time.Now()
		first := n.start(t.Context(), metadataFor("first"))
		f := n.accept()
		f.mustReceive()
		time.Sleep(20 * time.Second)
		second := n.start(t.Context(), metadataFor("second"))
		f.mustReceive()
		for _, r := range []result{<-first, <-second} {
			if r.err == nil || time.Since(start) != 30*time.Second {
				t.Errorf("%v after %v", r.err, time.Since(start))
			}
		}
		if _, err := f.receive(); err != io.EOF {
			t.Errorf("the connection is still there: %v", err)
		}
		third := n.start(t.Context(), metadataFor("third"))
		f = n.accept()
		f.answerMetadata(f.mustReceive())
		wantAnswer(t, <-third, "third")
	})
}

func TestPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{RequestTimeout: 30 * time.Second})
		start := time.Now()
		first := n.start(t.Context(), metadataFor("first"))
		n.accept()
		synctest.Wait() // until it is the first's turn
		for _, timeout := range []time.Duration{time.Second, 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			wantError(t, <-n.start(ctx, metadataFor("second")), context.DeadlineExceeded)
		}
		if time.Since(start) != 3*time.Second {
			t.Errorf("gave up after %v", time.Since(start))
		}
		if r := <-first; r.err == nil || time.Since(start) != 30*time.Second {
			t.Errorf("first: %v after %v", r.err, time.Since(start))
		}
	})
}

func TestPeerThatReadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{RequestTimeout: 30 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		abandoned := n.start(ctx, metadataFor("abandoned"))
		f := n.accept()
		wantError(t, <-abandoned, context.DeadlineExceeded)
		unacked := kmsg.NewPtrProduceRequest()
		unacked.Acks = 0
		produced := n.start(t.Context(), unacked)
		answered := n.start(t.Context(), metadataFor("answered"))
		time.Sleep(10 * time.Second)
		for range 3 {
			if got := f.mustReceive(); got.Key() == int16(kmsg.Metadata) {
				f.answerMetadata(got)
			}
		}
		wantAnswer(t, <-answered, "answered")
		if r := <-produced; r.err != nil {
			t.Error(r.err)
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{IdleTimeout: time.Minute})
		for range 2 {
			answered := n.start(t.Context(), metadataFor("x"))
			f := n.accept()
			f.answerMetadata(f.mustReceive())
			wantAnswer(t, <-answered, "x")
			for range 3 { // use keeps it open
				time.Sleep(50 * time.Second)
				answered = n.start(t.Context(), metadataFor("y"))
				f.answerMetadata(f.mustReceive())
				wantAnswer(t, <-answered, "y")
			}
			start := time.Now()
			if _, err := f.receive(); err != io.EOF || time.Since(start) != time.Minute {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			synctest.Wait()
			n.mu.Lock()
			if len(n.peers) != 0 {
				t.Error("the address is still remembered")
			}
			n.mu.Unlock()
		}
	})
}

func TestLostConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		for range 5 {
			answered := n.start(t.Context(), metadataFor("x"))
			waiting := n.start(t.Context(), metadataFor("y"))
			f := n.accept()
			one, two := f.mustReceive(), f.mustReceive()
			f.answerMetadata(one)
			_ = f.nc.Close()
			if topicOf(two) == "x" {
				answered, waiting = waiting, answered
			}
			wantAnswer(t, <-answered, topicOf(one))
			wantError(t, <-waiting, io.ErrUnexpectedEOF)
			synctest.Wait()
		}
	})
}

func TestReconnectBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		var mu sync.Mutex
		var dialled []time.Time
		pool := New(Config{BackoffMin: 100 * time.Millisecond, BackoffMax: time.Second, Dial: func(context.Context, string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, time.Now())
			mu.Unlock()
			time.Sleep(time.Millisecond) // of the bubble's time: until all ten wait
			return nil, refused
		}})
		defer pool.Close()
		for range 8 {
			var wg sync.WaitGroup
			for range 10 { // who waits for the same attempt shares it
				wg.Go(func() {
					if _, err := pool.Do(t.Context(), "node:9092", metadataFor("x")); !errors.Is(err, refused) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if len(dialled) != 8 {
			t.Fatalf("%d dials", len(dialled))
		}
		for i := 1; i < len(dialled); i++ {
			want := min(100*time.Millisecond<<(i-1), time.Second)
			if pause := dialled[i].Sub(dialled[i-1]); pause < want*8/10 || pause > want*12/10+time.Millisecond {
				t.Errorf("pause %d is %v, want about %v", i, pause, want)
			}
		}
	})
}

func TestHandshakeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{DialTimeout: 5 * time.Second})
		start := time.Now()
		if r := <-n.start(t.Context(), metadataFor("x")); r.err == nil || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v", r.err, time.Since(start))
		}
		hung := n.start(t.Context(), metadataFor("x"))
		synctest.Wait()
		n.Close()
		wantError(t, <-hung, ErrClosed)
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		waiting := n.start(t.Context(), metadataFor("x"))
		f := n.accept()
		f.mustReceive()
		n.Close()
		wantError(t, <-waiting, ErrClosed)
		wantError(t, <-n.start(t.Context(), metadataFor("y")), ErrClosed)
		if _, err := f.receive(); err != io.EOF {
			t.Errorf("the connection is still there: %v", err)
		}
		n.Close()
	})
}

func TestProduceWithoutAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{MaxInFlight: 1})
		var f *fake
		for i := range 3 {
			produce := kmsg.NewPtrProduceRequest()
			produce.Acks = 0
			sent := n.start(t.Context(), produce)
			if i == 0 {
				f = n.accept()
			}
			if got := f.mustReceive(); got.GetVersion() != 8 {
				t.Errorf("version %d", got.GetVersion())
			}
			if r := <-sent; r.err != nil || len(r.resp.(*kmsg.ProduceResponse).Topics) != 0 {
				t.Errorf("%+v", r)
			}
		}
		answered := n.start(t.Context(), metadataFor("x"))
		f.answerMetadata(f.mustReceive())
		wantAnswer(t, <-answered, "x")
	})
}

func TestHostileAnswers(t *testing.T) {
	id := func(req received, more ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(req.correlationID)), more...)
	}
	for name, answer := range map[string]func(f *fake, req received){
		"negative length":          func(f *fake, _ received) { _, _ = f.nc.Write([]byte{255, 255, 255, 255}) },
		"length 3":                 func(f *fake, _ received) { f.send([]byte{0, 0, 0}) },
		"2 GiB":                    func(f *fake, _ received) { _, _ = f.nc.Write([]byte{127, 255, 255, 255, 1}) },
		"above the bound":          func(f *fake, _ received) { _, _ = f.nc.Write([]byte{0, 0, 16, 1}) },
		"another correlation id":   func(f *fake, req received) { req.correlationID++; f.answerMetadata(req) },
		"cut short":                func(f *fake, req received) { _, _ = f.nc.Write([]byte{0, 0, 0, 100, 0}); _ = f.nc.Close() },
		"no header":                func(f *fake, req received) { f.send(id(req)) },
		"header tag beyond end":    func(f *fake, req received) { f.send(id(req, 1, 0, 200, 1)) },
		"2^64 header tags":         func(f *fake, req received) { f.send(id(req, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1)) },
		"no body":                  func(f *fake, req received) { f.send(id(req, 0)) },
		"body of 2^31 brokers":     func(f *fake, req received) { f.send(id(req, 0, 0, 0, 0, 0, 255, 255, 255, 255, 8)) },
		"answer that nobody wants": func(f *fake, req received) { f.answerMetadata(req); f.answerMetadata(req) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, Config{MaxResponseBytes: 4096})
				answered := n.start(t.Context(), metadataFor("x"))
				f := n.accept()
				go answer(f, f.mustReceive())
				if r := <-answered; (r.err == nil) != (name == "answer that nobody wants") {
					t.Errorf("%+v, %v", r.resp, r.err)
				}
				synctest.Wait()
				_ = f.nc.Close()
				synctest.Wait()
				again := n.start(t.Context(), metadataFor("y"))
				f = n.accept()
				f.answerMetadata(f.mustReceive())
				wantAnswer(t, <-again, "y")
			})
		})
	}
}

func TestLargeAnswersComeWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		for _, size := range []int{trustedBytes - 100, trustedBytes, 2*trustedBytes + 1, 5 * trustedBytes} {
			answered := n.start(t.Context(), metadataFor("x"))
			var f *fake
			if size == trustedBytes-100 {
				f = n.accept()
				defer func() { _ = f.nc.Close() }()
				n.accepted <- f
			} else {
				f = <-n.accepted
				n.accepted <- f
			}
			got := f.mustReceive()
			resp := kmsg.NewPtrMetadataResponse()
			resp.ClusterID = kmsg.StringPtr(string(make([]byte, size)))
			f.reply(got, resp)
			if r := <-answered; r.err != nil || len(*r.resp.(*kmsg.MetadataResponse).ClusterID) != size {
				t.Errorf("%d bytes: %v", size, r.err)
			}
		}
	})
}

func TestTraceContextGoesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, Config{})
		span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		answered := n.start(trace.ContextWithSpanContext(t.Context(), span), metadataFor("x"))
		f := n.accept()
		got := f.mustReceive()
		want := "00-01000000000000000000000000000000-0200000000000000-01"
		if got.tags.Len() != 1 {
			t.Fatalf("%d tags", got.tags.Len())
		}
		got.tags.Each(func(tag uint32, value []byte) {
			if tag != server.TraceContextTag || string(value) != want {
				t.Errorf("tag %#x is %q", tag, value)
			}
		})
		f.answerMetadata(got)
		wantAnswer(t, <-answered, "x")
	})
}

// listen is a fake on a real socket that answers every request.
func listen(t testing.TB) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = nc.Close() }()
				f := &fake{nc: nc, in: bufio.NewReader(nc)}
				for first := true; ; first = false {
					req, err := f.receive()
					if err != nil {
						return
					}
					if first {
						f.reply(req, &kmsg.ApiVersionsResponse{ApiKeys: offer})
					} else {
						f.answerMetadata(req)
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

func TestManyOverTCP(t *testing.T) {
	pool := New(Config{MaxInFlight: 8})
	addrs := []string{listen(t), listen(t)}
	t.Cleanup(pool.Close) // before the listeners, which wait for its connections to end
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 20 {
				topic := fmt.Sprintf("%d-%d", i, j)
				resp, err := pool.Do(t.Context(), addrs[i%2], metadataFor(topic))
				wantAnswer(t, result{resp, err}, topic)
			}
		})
	}
	wg.Wait()
}

func TestRefusedOverTCP(t *testing.T) {
	addr := testport.Address(t)
	pool := New(Config{})
	defer pool.Close()
	if _, err := pool.Do(t.Context(), addr, metadataFor("x")); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.Do(ctx, addr, metadataFor("x")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkDo(b *testing.B) {
	for _, parallel := range []int{1, 32} {
		b.Run(fmt.Sprint(parallel, " at once"), func(b *testing.B) {
			pool := New(Config{})
			addr := listen(b)
			b.Cleanup(pool.Close)
			b.ReportAllocs()
			b.SetParallelism(parallel)
			b.RunParallel(func(pb *testing.PB) {
				req := metadataFor("x")
				for pb.Next() {
					if _, err := pool.Do(context.Background(), addr, req); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
