package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

func recording(s tracing.Sampling) (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	tracer, _ := tracing.New(s, "1", sdktrace.WithSpanProcessor(spans))
	return tracer, spans
}

const someParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// withParent is a request of client id test with the traceparent in its header.
func withParent(plain []byte, parent string) []byte {
	tagged := append([]byte(nil), plain[:4+8+2+len("test")]...)
	tagged = append(tagged, 1, 0xe1, 0xc6, 0x01, byte(len(parent)))
	tagged = append(append(tagged, parent...), plain[4+8+2+len("test")+1:]...)
	tagged[3] = byte(len(tagged) - 4)
	return tagged
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	m := map[string]string{}
	for _, a := range s.Attributes() {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

func TestRequestsAreTraced(t *testing.T) {
	tracer, spans := recording(tracing.Sampling{Rate: 1, SlowAfter: -1})
	inner := make(chan trace.SpanContext, 2)
	r := start(t, Config{}, Deps{Tracer: tracer}, API{Key: 3, MaxVersion: 9, Handle: func(r *Request) {
		inner <- trace.SpanContextFromContext(r.Context())
		r.Trace().Did("look")
		r.Trace().Annotate(attribute.String("messaging.destination.name", "orders"))
		r.Reply(kmsg.NewPtrMetadataResponse())
	}})
	c := r.dial()
	plain := request(metadataRequest(), 9, 1)
	c.send(withParent(plain, someParent))
	c.correlation()
	c.send(plain)
	c.correlation()
	eventually(t, "four spans", func() bool { return len(spans.Ended()) == 4 })
	part, joined, own := spans.Ended()[0], spans.Ended()[1], spans.Ended()[3]
	if joined.Name() != "kafka.Metadata" || joined.SpanContext().TraceID().String() != someParent[3:35] || joined.Parent().SpanID().String() != someParent[36:52] {
		t.Errorf("span %s of trace %s under %s", joined.Name(), joined.SpanContext().TraceID(), joined.Parent().SpanID())
	}
	if within := <-inner; !within.Equal(joined.SpanContext()) {
		t.Errorf("what the handler hands on is %v, the span is %v", within, joined.SpanContext())
	}
	if part.Name() != "look" || part.Parent().SpanID() != joined.SpanContext().SpanID() || part.StartTime().Before(joined.StartTime()) || part.EndTime().After(joined.EndTime()) {
		t.Errorf("part %s from %v to %v under %v", part.Name(), part.StartTime(), part.EndTime(), part.Parent().SpanID())
	}
	if own.Parent().IsValid() {
		t.Error("a request without context has a parent")
	}
	got := attributesOf(joined)
	for name, want := range map[string]string{
		"messaging.system": "kafka", "kafka.api": "Metadata", "kafka.api.version": "9", "messaging.client.id": "test",
		"kafka.principal": "User:ANONYMOUS", "client.address": "127.0.0.1", "messaging.destination.name": "orders",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if again := attributesOf(own); again["messaging.destination.name"] != "orders" || len(again) != len(got) {
		t.Errorf("the second request has %v", again)
	}
}

// TestOnlyWhatIsSlowOrFailsIsKeptAtRate0 has one request of each kind, and sees the kept ones with what is known of them.
func TestOnlyWhatIsSlowOrFailsIsKeptAtRate0(t *testing.T) {
	tracer, spans := recording(tracing.Sampling{Rate: 0, SlowAfter: time.Minute})
	r := start(t, Config{}, Deps{Tracer: tracer}, API{Key: 3, MaxVersion: 9, Handle: func(r *Request) {
		resp := kmsg.NewPtrMetadataResponse()
		switch r.CorrelationID {
		case 1: // slow
			r.Received = r.Received.Add(-2 * time.Minute)
			r.Trace().Did("work")
		case 2: // as slow, but the client wished to wait
			r.Received = r.Received.Add(-2 * time.Minute)
			r.Trace().Waited("wait")
		case 3, 4:
			code := map[int32]int16{3: kerr.RebalanceInProgress.Code, 4: kerr.UnknownTopicOrPartition.Code}[r.CorrelationID]
			resp.Topics = append(resp.Topics, kmsg.MetadataResponseTopic{}, kmsg.MetadataResponseTopic{ErrorCode: code})
		case 5:
			r.Fail(errors.New("broken"))
			return
		}
		r.Reply(resp)
	}})
	c := r.dial()
	for id := range int32(5) {
		c.send(request(metadataRequest(), 9, id))
		c.correlation()
	}
	c.send(request(metadataRequest(), 9, 5))
	eventually(t, "three requests and a part", func() bool { return len(spans.Ended()) >= 4 })
	r.stop()
	ended := spans.Ended()
	if len(ended) != 4 || ended[0].Name() != "work" || ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() {
		t.Fatalf("%d spans, first %s", len(ended), ended[0].Name())
	}
	if slow := ended[1]; slow.Status().Code != codes.Unset || slow.EndTime().Sub(slow.StartTime()) < 2*time.Minute {
		t.Errorf("the slow one took %v: %v", slow.EndTime().Sub(slow.StartTime()), slow.Status())
	}
	if got := attributesOf(ended[2]); ended[2].Status().Code != codes.Error || got["error.type"] != "UNKNOWN_TOPIC_OR_PARTITION" || got["kafka.error.code"] != "3" {
		t.Errorf("the failed one: %v, %v", ended[2].Status(), got)
	}
	if broken := ended[3]; broken.Status().Code != codes.Error || len(broken.Events()) != 1 {
		t.Errorf("the one that closed its connection: %v", broken.Status())
	}
	lines := r.logs.FilterMessageSnippet("request failed").All()
	if len(lines) != 1 || lines[0].ContextMap()["trace_id"] != ended[3].SpanContext().TraceID().String() {
		t.Errorf("the log line of the failure has not its trace id: %v", lines)
	}
}

func TestARequestJoinsWhatItsBodyNames(t *testing.T) {
	tracer, spans := recording(tracing.Sampling{Rate: 0, SlowAfter: -1})
	parent := tracing.ParseParent([]byte(someParent))
	r := start(t, Config{}, Deps{Tracer: tracer}, API{Key: 3, MaxVersion: 9, Handle: func(r *Request) {
		if r.Trace().Rootless() {
			r.Trace().Join(parent)
		}
		r.Trace().Link(parent)
		r.Reply(kmsg.NewPtrMetadataResponse())
	}})
	c := r.dial()
	plain := request(metadataRequest(), 9, 1)
	header := strings.Replace(someParent, "0af", "0bf", 1)
	for _, frame := range [][]byte{plain, withParent(plain, header)} {
		c.send(frame)
		c.correlation()
	}
	eventually(t, "two spans", func() bool { return len(spans.Ended()) == 2 })
	for i, want := range []string{someParent, header} {
		got := spans.Ended()[i]
		if got.SpanContext().TraceID().String() != want[3:35] || got.Parent().SpanID().String() != want[36:52] {
			t.Errorf("request %d is in trace %v under %v", i, got.SpanContext().TraceID(), got.Parent().SpanID())
		}
		if len(got.Links()) != 1 {
			t.Errorf("request %d has links %v", i, got.Links())
		}
	}
}

func TestThePartsOfATraceAreBounded(t *testing.T) {
	tracer, spans := recording(tracing.Sampling{Rate: 1, SlowAfter: -1})
	r := start(t, Config{}, Deps{Tracer: tracer}, API{Key: 3, MaxVersion: 9, Handle: func(r *Request) {
		for i := range 3 * maxParts {
			r.Trace().Did([]string{"a", "b"}[i%2])
			r.Trace().Link(r.Trace().SpanContext())
		}
		for range 2 * maxLinks {
			r.Trace().Link(r.Trace().SpanContext())
			r.Trace().Annotate(attribute.Int("n", 1))
		}
		r.Reply(kmsg.NewPtrMetadataResponse())
	}})
	c := r.dial()
	c.send(request(metadataRequest(), 9, 1))
	c.correlation()
	eventually(t, "its spans", func() bool { return len(spans.Ended()) == maxParts+1 })
	whole, last := spans.Ended()[maxParts], spans.Ended()[maxParts-1]
	if len(whole.Links()) != maxLinks {
		t.Errorf("%d links", len(whole.Links()))
	}
	if before := spans.Ended()[maxParts-2]; !last.StartTime().Equal(before.EndTime()) || !last.EndTime().After(last.StartTime()) {
		t.Errorf("the last part is from %v to %v, after one until %v", last.StartTime(), last.EndTime(), before.EndTime())
	}
}

func TestFailuresAreFoundWhereverAnAnswerHasThem(t *testing.T) {
	offsets := kmsg.NewPtrOffsetFetchResponse()
	offsets.Groups = []kmsg.OffsetFetchResponseGroup{{Topics: []kmsg.OffsetFetchResponseGroupTopic{{
		Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{}, {ErrorCode: kerr.UnstableOffsetCommit.Code}}}}}}
	join := kmsg.NewPtrJoinGroupResponse()
	join.ErrorCode = kerr.MemberIDRequired.Code
	for _, test := range []struct {
		m    kmsg.Response
		want int16
	}{
		{offsets, kerr.UnstableOffsetCommit.Code},
		{join, 0},
		{&kmsg.HeartbeatResponse{ErrorCode: kerr.UnknownMemberID.Code}, kerr.UnknownMemberID.Code},
		{&kmsg.CreateTopicsResponse{Topics: make([]kmsg.CreateTopicsResponseTopic, 3)}, 0},
	} {
		if got := failureIn(test.m); got != test.want {
			t.Errorf("%T: %d, want %d", test.m, got, test.want)
		}
	}
	many := &kmsg.CreateTopicsResponse{Topics: make([]kmsg.CreateTopicsResponseTopic, 10*maxLooked)}
	many.Topics[len(many.Topics)-1].ErrorCode = 1
	if got := failureIn(many); got != 0 {
		t.Error("an answer of any length is looked through")
	}
	var m kmsg.Response = offsets
	if n := testing.AllocsPerRun(100, func() { failureIn(m) }); n > 0 && testing.CoverMode() == "" {
		t.Errorf("%v allocations", n)
	}
}

// TestAnUnsampledRequestAllocatesNothingMore is TestAllocationsPerRequest with a tracer that keeps nothing.
func TestAnUnsampledRequestAllocatesNothingMore(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("coverage and the race detector allocate")
	}
	tracer, spans := recording(tracing.Sampling{Rate: 0, SlowAfter: time.Minute})
	api := echoProduce()
	inner := api.Handle
	api.Handle = func(r *Request) {
		r.Trace().Did("append")
		r.Trace().Failed(0)
		if r.Trace().Kept() {
			t.Error("it is kept")
		}
		inner(r)
	}
	r := start(t, Config{}, Deps{Tracer: tracer}, api)
	for _, depth := range []int{1, 16} {
		trip := roundTrips(t, r.dial(), produceRequest(1<<10), depth)
		trip()
		if got := testing.AllocsPerRun(200, trip) / float64(depth); got > 1.1 {
			t.Errorf("%.2f allocations per request, %d at a time", got, depth)
		}
	}
	if n := len(spans.Ended()); n > 0 {
		t.Errorf("%d spans", n)
	}
}
