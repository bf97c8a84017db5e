package sinktask

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

const queueKey = "errors.deadletterqueue.topic.name"

// queued are properties of a connector with a dead letter queue that says what has happened.
func queued(more ...string) []string {
	return append([]string{queueKey, "dlq", "errors.deadletterqueue.topic.replication.factor", "1", "errors.deadletterqueue.context.headers.enable", "true"}, more...)
}

// poison has each stage fail for the record "poison" only.
var poison = []struct {
	stage, class, exception, message string
	properties                       []string
}{
	{"KEY_CONVERTER", "org.apache.kafka.connect.json.JsonConverter", "DataException", "", []string{"key.converter", "JsonConverter", "key.converter.schemas.enable", "false"}},
	{"VALUE_CONVERTER", "org.apache.kafka.connect.json.JsonConverter", "DataException", "", []string{"value.converter", "JsonConverter", "value.converter.schemas.enable", "false"}},
	{"HEADER_CONVERTER", "org.apache.kafka.connect.converters.IntegerConverter", "DataException", "", []string{"header.converter", "IntegerConverter"}},
	{"TRANSFORMATION", "org.apache.kafka.connect.transforms.Cast$Value", "DataException", "", []string{"transforms", "c", "transforms.c.type", "Cast$Value", "transforms.c.spec", "int32"}},
	{"TASK_PUT", "org.apache.kafka.connect.sink.SinkTask", "ConnectException", "too long", nil},
}

// producePoison writes three records, of which the one in the middle fails at each stage that is made to fail.
func (f *fixture) producePoison() {
	f.t.Helper()
	good := func(n string) *kgo.Record {
		return &kgo.Record{Topic: "orders", Key: []byte(n), Value: []byte(n), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0, 0, 0, 1}}}}
	}
	bad := &kgo.Record{Topic: "orders", Key: []byte("{k"), Value: []byte("{v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}
	if err := f.client.ProduceSync(f.t.Context(), good("1"), bad, good("2")).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		for i := range records {
			if records[i].Value.V == "{v" && len(f.properties["transforms"]) == 0 {
				return c.Report(&records[i], errors.New("too long"))
			}
		}
		return nil
	}
}

func TestPoison(t *testing.T) {
	for _, test := range poison {
		for _, tolerance := range []string{"all", "none"} {
			t.Run(test.stage+"/"+tolerance, func(t *testing.T) {
				f := newFixture(t, 1, queued(append(slices.Clone(test.properties), "errors.tolerance", tolerance)...)...)
				f.producePoison()
				r := f.run()
				if tolerance == "all" {
					f.has("1", "2")
					r.stop()
					if f.committed() != "0@3" {
						t.Errorf("committed %s", f.committed())
					}
				} else {
					err := r.end()
					var failure *pipeline.Failure
					if !errors.As(err, &failure) || !strings.Contains(err.Error(), "orders-0@1") || !strings.Contains(err.Error(), test.stage) || !strings.Contains(err.Error(), test.class) {
						t.Errorf("ended with %v", err)
					}
					if f.committed() != "" {
						t.Errorf("committed %s", f.committed())
					}
				}
				dead := f.read("dlq", 1)
				original := f.read("orders", 3)[1]
				if len(dead) != 1 || string(dead[0].Key) != "{k" || string(dead[0].Value) != "{v" || !dead[0].Timestamp.Equal(original.Timestamp) {
					t.Fatalf("written are %v", dead)
				}
				checkHeaders(t, headers(dead[0]), test.stage, test.class, test.exception, test.message)
				if n := f.failures.DeadLetterRequests.Load(); n != 1 || f.failures.DeadLetterFailures.Load() != 0 {
					t.Errorf("%d requests, %d failures", n, f.failures.DeadLetterFailures.Load())
				}
			})
		}
	}
}

func checkHeaders(t *testing.T, got map[string]string, stage, class, exception, message string) {
	t.Helper()
	const prefix = "__connect.errors."
	exception = "org.apache.kafka.connect.errors." + exception
	if message == "" {
		message = got[prefix+"exception.message"]
	}
	want := map[string]string{"h": "x", prefix + "topic": "orders", prefix + "partition": "0", prefix + "offset": "1", prefix + "connector.name": "shop", prefix + "task.id": "0",
		prefix + "stage": stage, prefix + "class.name": class, prefix + "exception.class.name": exception, prefix + "exception.message": message,
		prefix + "exception.stacktrace": exception + ": " + message}
	if !maps.Equal(got, want) || message == "" {
		t.Errorf("headers\n%v\nwant\n%v", got, want)
	}
}

// A record that was put long before may be reported when offsets are asked for.
func TestReportedLate(t *testing.T) {
	f := newFixture(t, 1, queued("errors.tolerance", "all", "consumer.override.max.poll.records", "1")...)
	var kept []plugin.SinkRecord
	f.sink.put = func(_ *plugin.SinkContext, records []plugin.SinkRecord) error {
		kept = append(kept, records...)
		return nil
	}
	f.sink.preCommit = func(c *plugin.SinkContext, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
		return offsets, c.Report(&kept[0], errors.New("refused"))
	}
	f.produce(0, "a", "b", "c")
	r := f.run()
	f.has("a", "b", "c")
	r.stop()
	if dead := f.read("dlq", 1); string(dead[0].Value) != "a" || headers(dead[0])["__connect.errors.exception.message"] != "refused" {
		t.Errorf("written is %v", dead[0])
	}
	if f.committed() != "0@3" {
		t.Errorf("committed %s", f.committed())
	}
}

// Offsets of records that are not safely in the dead letter queue are not committed.
func TestDeadLetterQueueRefuses(t *testing.T) {
	f := newFixture(t, 1, queued("errors.tolerance", "all", "value.converter", "JsonConverter")...)
	f.worker["offset.flush.interval.ms"] = "20"
	f.producePoison()
	f.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.MessageTooLarge.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	err := f.run().end()
	if !errors.Is(err, kerr.MessageTooLarge) || !strings.Contains(err.Error(), `"dlq"`) {
		t.Errorf("ended with %v", err)
	}
	if f.committed() != "" {
		t.Errorf("committed %s", f.committed())
	}
	if f.failures.DeadLetterFailures.Load() == 0 {
		t.Error("not counted")
	}
}

func TestNoTopicForDeadLetters(t *testing.T) {
	f := newFixture(t, 1, queueKey, "dlq") // three replicas on one broker
	err := f.run().end()
	if err == nil || !strings.Contains(err.Error(), "errors.deadletterqueue.topic.replication.factor=3") {
		t.Errorf("ended with %v", err)
	}
	if len(f.seen()) != 0 {
		t.Errorf("the connector was started: %v", f.seen())
	}
}

// Without tolerance, log or queue a connector may report nothing, and fails by its own error.
func TestNoReports(t *testing.T) {
	f := newFixture(t, 1)
	f.producePoison()
	err := f.run().end()
	if err == nil || !strings.Contains(err.Error(), "record orders-0@1: ") || !strings.Contains(err.Error(), plugin.ErrNoReports.Error()) {
		t.Errorf("ended with %v", err)
	}
}

func TestToleratedWithoutQueue(t *testing.T) {
	f := newFixture(t, 1, "errors.tolerance", "all")
	f.producePoison()
	r := f.run()
	f.has("1", "2")
	r.stop()
	if f.committed() != "0@3" {
		t.Errorf("committed %s", f.committed())
	}
}

// A batch that is put again has its reports again: twice in the queue, as all is at least once.
func TestReportedAndRetried(t *testing.T) {
	f := newFixture(t, 1, queued("errors.tolerance", "all")...)
	var calls atomic.Int32
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) == 0 {
			return nil
		}
		err := c.Report(&records[0], fmt.Errorf("refused %d", calls.Add(1)))
		if calls.Load() == 1 {
			return plugin.Retriable(errors.New("busy"))
		}
		return err
	}
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.stop()
	if dead := f.read("dlq", 2); len(dead) != 2 {
		t.Errorf("written are %v", dead)
	}
}
