package natsio

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
)

// fromStream is the configuration of a source that reads the stream of the tests.
func fromStream(more map[string]string) map[string]string {
	all := map[string]string{"stream": "S", "durable": "d", "topic": "t", "ack.wait.ms": "2000"}
	maps.Copy(all, more)
	return all
}

func TestAMessageOfAStream(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 0)
	_, streams := n.client()
	m := &nats.Msg{Subject: "in.a/b", Data: []byte{0xff, 'x'}, Header: nats.Header{"two": {"1", "2"}, "Id": {"k"}}}
	if _, err := streams.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := n.source(fromStream(map[string]string{"topic": "x-${subject}", "key.from": "header", "key.header": "Id"}), "")
	defer r.stop()
	got := r.read(1)[0]
	if got.Topic != "x-in.a_b" || got.Key.V != "k" || string(got.Value.V.([]byte)) != "\xffx" || time.Since(time.UnixMilli(got.TimestampMs)).Abs() > time.Minute {
		t.Errorf("%+v", got)
	}
	var headers []string
	for _, h := range got.Headers {
		headers = append(headers, h.Name+"="+h.Value.V.(string))
	}
	wantTexts(t, headers, []string{"nats.subject=in.a/b", "Id=k", "two=1", "two=2"})
	var at position
	if err := json.Unmarshal([]byte(got.offset), &at); err != nil || at.Sequence != 1 || at.CreatedMs == 0 {
		t.Errorf("offset %s, %v", got.offset, err)
	}
}

// TestWhatIsStoredIsConfirmed has some records stored: those, and no others, are confirmed.
func TestWhatIsStoredIsConfirmed(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, 10)
	r := n.source(fromStream(nil), "")
	got := r.read(10)
	n.pending("d", 10)
	r.store(got[3], got[0], got[1])
	n.pending("d", 7)
	wantTexts(t, n.contents(), []string{"2", "4", "5", "6", "7", "8", "9"})
	r.stop()
	// What is not stored comes again at once, in order.
	r = n.source(fromStream(nil), "")
	defer r.stop()
	began := time.Now()
	var texts []string
	for _, m := range r.read(7) {
		texts = append(texts, string(m.Value.V.([]byte)))
	}
	wantTexts(t, texts, []string{"2", "4", "5", "6", "7", "8", "9"})
	if took := time.Since(began); took > time.Second {
		t.Errorf("that took %v", took)
	}
}

// TestOffsetsGoBeforeConfirmations has tasks that end without a confirmation, as if they were killed: each goes on behind the
// stored offset, with nothing twice and nothing missing.
func TestOffsetsGoBeforeConfirmations(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 50)
	offset, done := "", 0
	for _, upTo := range []int{5, 6, 30, 49} {
		r := n.source(fromStream(map[string]string{"batch.size": "4"}), offset)
		got := r.read(upTo - done)
		wantNumbers(t, got, done)
		offset, done = got[upTo-done-1].offset, upTo
		r.stop()
	}
	r := n.source(fromStream(nil), offset)
	defer r.stop()
	got := r.read(1)
	wantNumbers(t, got, 49)
	r.store(got...)
	n.pending("d", 0) // what was stored by tasks before it is confirmed as it comes again
	n.publish(50, 60)
	wantNumbers(t, r.read(11), 49)
}

// TestTheServerIsRestarted has it end and start again in the middle of reading, while records are being stored.
func TestTheServerIsRestarted(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 300)
	r := n.source(fromStream(map[string]string{"batch.size": "7"}), "")
	defer r.stop()
	for round := range 3 {
		got := r.read(60 * (round + 1))
		r.store(got[50*round : 50*(round+1)]...)
		n.stop()
		r.store(got[50*(round+1) : 50*(round+1)+5]...) // their confirmations are lost
		n.run()
	}
	got := r.read(300)
	wantNumbers(t, got, 0)
	if len(got) != 300 {
		t.Errorf("%d records", len(got))
	}
	r.store(got[50:]...) // some for the second time
	n.pending("d", 0)
}

// TestConnectionsThatBreak cuts the task's connection off again and again while it reads.
func TestConnectionsThatBreak(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 2000)
	r := n.source(fromStream(map[string]string{"batch.size": "50", "max.ack.pending": "400"}), "")
	defer r.stop()
	stored := 0
	for len(r.got) < 2000 {
		before := len(r.got)
		r.read(min(before+150, 2000))
		n.cutOff()
		r.store(r.got[stored:before]...)
		stored = before
	}
	wantNumbers(t, r.got, 0)
}

// TestServersThatDeliverAgainLater breaks connections to a server that lets nobody have messages again before their time is over, as
// older ones do.
func TestServersThatDeliverAgainLater(t *testing.T) {
	n := start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "ana", Password: "secret"},
			{Username: "leo", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.RESET.>"}}}},
		}
	})
	n.stream(jetstream.StreamConfig{}, 300)
	config := fromStream(map[string]string{"batch.size": "20", "ack.wait.ms": "1000", "nats.timeout.ms": "300", "nats.user": "leo", "nats.password": "secret"})
	r := n.source(config, "")
	got := r.read(100)
	n.cutOff()
	r.read(150)
	n.cutOff()
	r.store(got[:90]...)
	got = r.read(200)
	wantNumbers(t, got, 0)
	r.stop()
	r = n.source(config, got[149].offset)
	defer r.stop()
	wantNumbers(t, r.read(150), 150)
}

// TestRecordsThatTakeLong has one stored after several times the time after which it would be delivered again.
func TestRecordsThatTakeLong(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 3)
	r := n.source(fromStream(map[string]string{"ack.wait.ms": "1000"}), "")
	defer r.stop()
	got := r.read(3)
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		if err := r.poll(ctx); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
	_, streams := n.client()
	c, err := streams.Consumer(t.Context(), "S", "d")
	if err != nil || c.CachedInfo().NumRedelivered != 0 || c.CachedInfo().NumAckPending != 3 || len(got) != 3 {
		t.Errorf("%+v, %v, %d records", c.CachedInfo(), err, len(got))
	}
}

func TestSubjectsOfAStream(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 9)
	r := n.source(fromStream(map[string]string{"subjects": "in.0, in.2", "value.format": "string", "key.from": "subject"}), "")
	var texts []string
	for _, m := range r.read(6) {
		texts = append(texts, m.Key.V.(string)+":"+m.Value.V.(string))
	}
	wantTexts(t, texts, []string{"in.0:0", "in.2:2", "in.0:3", "in.2:5", "in.0:6", "in.2:8"})
	r.stop()
	r = n.source(fromStream(map[string]string{"subjects": "in.1"}), "")
	defer r.stop()
	if err := r.poll(t.Context()); err == nil || !strings.Contains(err.Error(), `it is for the subjects ["in.0" "in.2"], not ["in.1"]`) {
		t.Error(err)
	}
}

func TestNewMessagesAlone(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 5)
	r := n.source(fromStream(map[string]string{"deliver.policy": "new"}), "")
	defer r.stop()
	ctx, cancel := context.WithCancel(t.Context())
	polled := make(chan error, 1)
	go func() { polled <- r.poll(ctx) }()
	n.pending("d", 0) // the consumer is there
	n.publish(5, 6)
	if err := <-polled; err != nil {
		t.Fatal(err)
	}
	cancel()
	wantNumbers(t, r.read(1), 5)
}

// TestAnotherStreamOfTheName has the stream made anew, whose sequences mean something else.
func TestAnotherStreamOfTheName(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 5)
	r := n.source(fromStream(nil), "")
	offset := r.read(5)[4].offset
	r.stop()
	_, streams := n.client()
	if err := streams.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	n.stream(jetstream.StreamConfig{}, 20)
	for _, test := range []struct{ offset, want string }{{offset, "was made at"}, {`{"sequence":100}`, "ends at sequence 20, and was read up to 100"}} {
		r = n.source(fromStream(nil), test.offset)
		if err := r.poll(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.offset, err)
		}
		r.stop()
	}
	r = n.source(fromStream(nil), `{"sequence":18}`)
	defer r.stop()
	wantNumbers(t, r.read(2), 18)
}

func TestOffsetsThatUsersSet(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 10)
	config := fromStream(nil)
	r := n.source(config, "")
	r.store(r.read(10)...)
	n.pending("d", 0)
	r.stop()
	tests := []struct{ partition, offset, fault string }{
		{`{"stream":"S"}`, `{"sequence":4}`, ""},
		{`{"stream":"S"}`, ``, ""},
		{`{"stream":"S"}`, `{"sequence":-1}`, "offset"},
		{`{"stream":"S"}`, `{"sequence":"4"}`, "offset"},
		{`{"stream":"S"}`, `{}`, "offset"},
		{`{"stream":"S"}`, `{"sequence":4,"x":1}`, "offset"},
		{`{"stream":"T"}`, `{"sequence":4}`, "partition"},
		{`{"name":"S"}`, `{"sequence":4}`, "partition"},
	}
	for _, test := range tests {
		o := plugin.SourceOffset{Partition: json.RawMessage(test.partition)}
		if test.offset != "" {
			o.Offset = json.RawMessage(test.offset)
		}
		handled, err := Source{}.AlterOffsets(t.Context(), n.config(config), []plugin.SourceOffset{o})
		if handled != (test.fault == "") || (err == nil) != handled || err != nil && !strings.HasPrefix(err.Error(), test.fault) {
			t.Errorf("%s %s: %t, %v", test.partition, test.offset, handled, err)
		}
	}
	// What was confirmed long ago is read again.
	r = n.source(config, `{"sequence":4}`)
	defer r.stop()
	wantNumbers(t, r.read(6), 4)
}

func TestConsumersThatAreThere(t *testing.T) {
	n := start(t)
	stream := n.stream(jetstream.StreamConfig{}, 5)
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "none", AckPolicy: jetstream.AckNonePolicy}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreatePushConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "push", DeliverSubject: "x", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ key, value, want string }{
		{"durable", "none", "must be confirmed"}, {"durable", "push", "not a pull consumer"},
	} {
		r := n.source(fromStream(map[string]string{test.key: test.value}), "")
		if err := r.poll(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.value, err)
		}
		r.stop()
	}
}

func TestConformanceOfTheSource(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 50)
	for _, result := range kit.CheckSource(t.Context(), serve(t, Source{}), kit.Case{Config: n.config(fromStream(map[string]string{"batch.size": "9"}))}) {
		if result.Fault != nil {
			t.Errorf("%s: %v", result.Name, result.Fault)
		}
		t.Log(result.Name, result.Note)
	}
}

func BenchmarkStream(b *testing.B) {
	n := start(b)
	n.stream(jetstream.StreamConfig{Storage: jetstream.MemoryStorage}, 0)
	_, streams := n.client()
	body := []byte(strings.Repeat("x", 100))
	const batch = 1000
	for range b.N {
		for range batch {
			if _, err := streams.PublishAsync("in.0", body); err != nil {
				b.Fatal(err)
			}
		}
		<-streams.PublishAsyncComplete()
	}
	r := n.source(fromStream(map[string]string{"batch.size": fmt.Sprint(batch)}), "")
	defer r.stop()
	b.ResetTimer()
	for stored := 0; stored < b.N*batch; {
		r.read(1)
		r.store(r.got...)
		stored += len(r.got)
		r.got = r.got[:0]
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "records/s")
}
