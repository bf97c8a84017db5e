package broker

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/crc32c"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/libs/tracing/tracingtest"
)

// named are the spans of that name, and a channel that is closed when there may be more.
func named(spans *tracingtest.Spans, name string) (found []sdktrace.ReadOnlySpan, changed <-chan struct{}) {
	all, changed := spans.Until()
	return slices.DeleteFunc(slices.Clone(all), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name }), changed
}

// awaitSpans waits for so many spans of that name.
func awaitSpans(t *testing.T, spans *tracingtest.Spans, name string, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		found, changed := named(spans, name)
		if len(found) >= n {
			return found
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%d spans %q, want %d", len(found), name, n)
		}
	}
}

// batchUnder is a batch of one record whose header names its producer's span.
func batchUnder(parent trace.SpanContext) []byte {
	rec := kmsg.Record{Value: []byte("order"), Headers: []kmsg.Header{{Key: "x"}, {Key: tracing.ParentHeader, Value: tracing.AppendParent(nil, parent)}}}
	body := rec.AppendTo(nil)[1:] // its length, 0, takes a byte
	b := kmsg.RecordBatch{Magic: 2, PartitionLeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		FirstTimestamp: time.Now().UnixMilli(), Records: append(binary.AppendVarint(nil, int64(len(body))), body...)}
	b.MaxTimestamp = b.FirstTimestamp
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[record.CRCAt:], crc32c.Checksum(raw[record.AttributesAt:]))
	return raw
}

func attribute(s sdktrace.ReadOnlySpan, name string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == name {
			return a.Value.String()
		}
	}
	return ""
}

// TestARecordsTraceHasItsLeaderAndFollowers produces a record whose header names its producer's span.
func TestARecordsTraceHasItsLeaderAndFollowers(t *testing.T) {
	tracer, spans := tracingtest.New(tracing.Sampling{Rate: 0, SlowAfter: -1})
	c := startTracedMembers(t, tracer, 3)
	id := c.create("orders", 1)
	conn := c.dial(1)
	producer := tracer.Begin(trace.SpanContext{}).WithTraceFlags(trace.FlagsSampled)
	for _, b := range [][]byte{batch(record.None, "untraced"), batchUnder(producer), batch(record.None, "untraced")} {
		if p := ask[*kmsg.ProduceResponse](conn, produceRequest(13, -1, "", id, 0, b)).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(p.ErrorCode))
		}
	}
	copies := awaitSpans(t, spans, "replica append", 2)
	produces, _ := named(spans, "kafka.Produce")
	if len(produces) != 1 {
		t.Fatalf("%d requests are kept", len(produces))
	}
	request := produces[0]
	if request.Parent().SpanID() != producer.SpanID() || request.SpanContext().TraceID() != producer.TraceID() {
		t.Errorf("the request is under %v, want %v", request.Parent(), producer)
	}
	for name, want := range map[string]string{
		"messaging.destination.name": "orders", "messaging.destination.partition.id": "0", "messaging.kafka.offset": "1",
		"messaging.batch.message_count": "1", "messaging.operation.type": "send",
	} {
		if got := attribute(request, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	appended, replicated := awaitSpans(t, spans, "append", 1), awaitSpans(t, spans, "replicate", 1)
	if len(appended) != 1 || len(replicated) != 1 || appended[0].Parent().SpanID() != request.SpanContext().SpanID() || replicated[0].Parent().SpanID() != request.SpanContext().SpanID() {
		t.Fatalf("%d appends and %d replications are its parts", len(appended), len(replicated))
	}
	if replicated[0].StartTime().Before(appended[0].EndTime()) || replicated[0].EndTime().After(request.EndTime()) {
		t.Errorf("appended until %v, replicated from %v to %v, answered at %v", appended[0].EndTime(), replicated[0].StartTime(), replicated[0].EndTime(), request.EndTime())
	}
	var nodes []string
	for _, s := range copies {
		nodes = append(nodes, attribute(s, "cauce.node.id"))
		if s.Parent().SpanID() != request.SpanContext().SpanID() || attribute(s, "messaging.kafka.offset") != "1" {
			t.Errorf("the copy of offset %s is under %v", attribute(s, "messaging.kafka.offset"), s.Parent())
		}
	}
	if slices.Sort(nodes); !slices.Equal(nodes, []string{"2", "3"}) {
		t.Errorf("copied by nodes %v", nodes)
	}
}

func TestFailedRequestsAreKeptAtRate0(t *testing.T) {
	tracer, spans := tracingtest.New(tracing.Sampling{Rate: 0, SlowAfter: -1})
	b := startTraced(t, tracer)
	id := b.createTopic("quiet", 1)
	q := fetchRequest(13, 0, 1, fetchPartition{"", id, 0, 0})
	q.SessionEpoch = -1
	c := b.dial()
	ask[*kmsg.FetchResponse](c, q)
	q.Topics[0].Partitions[0].FetchOffset = 5
	ask[*kmsg.FetchResponse](c, q)
	ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "none", metadata.TopicID{}, 0, batch(record.None, "x")))
	awaitSpans(t, spans, "kafka.Produce", 1)
	for name, want := range map[string]string{"kafka.Fetch": "OFFSET_OUT_OF_RANGE", "kafka.Produce": "UNKNOWN_TOPIC_OR_PARTITION"} {
		found, _ := named(spans, name)
		if len(found) != 1 || found[0].Status().Code != codes.Error || attribute(found[0], "error.type") != want {
			t.Errorf("%d spans %s, want one with %s", len(found), name, want)
		}
	}
}

// TestAFetchThatIsWokenSaysHowLongItWaited samples all requests.
func TestAFetchThatIsWokenSaysHowLongItWaited(t *testing.T) {
	tracer, spans := tracingtest.New(tracing.Sampling{Rate: 1, SlowAfter: -1})
	b := startTraced(t, tracer)
	id := b.createTopic("busy", 1)
	q := fetchRequest(13, 60_000, 1, fetchPartition{"", id, 0, 0})
	q.SessionEpoch = -1
	c := b.dial()
	produce := produceRequest(9, -1, "busy", id, 0, batch(record.None, "x"))
	fetched, produced := c.send(q), c.send(produce) // which has its turn as the fetch waits
	c.receive(q, fetched)
	c.receive(produce, produced)
	fetch := awaitSpans(t, spans, "kafka.Fetch", 1)[0]
	waits, _ := named(spans, "wait for records")
	if len(waits) != 1 || waits[0].Parent().SpanID() != fetch.SpanContext().SpanID() || attribute(fetch, "messaging.operation.type") != "receive" {
		t.Errorf("%d waits", len(waits))
	}
}
