package deadletter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

func TestParse(t *testing.T) {
	none := func(string) bool { return false }
	c, err := Parse(map[string]string{}, none)
	if err != nil || c != (Config{ReplicationFactor: 3}) {
		t.Errorf("by default %+v, %v", c, err)
	}
	c, err = Parse(map[string]string{topicKey: " dlq ", factorKey: "-1", headerKey: "true"}, none)
	if err != nil || c != (Config{Topic: "dlq", ReplicationFactor: -1, ContextHeaders: true}) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err = Parse(map[string]string{topicKey: "dlq"}, func(topic string) bool { return topic == "dlq" }); err == nil || !strings.Contains(err.Error(), topicKey) {
		t.Errorf("a topic that the connector reads: %v", err)
	}
	if _, err = Parse(map[string]string{factorKey: "many"}, none); err == nil || !strings.Contains(err.Error(), factorKey) {
		t.Errorf("many replicas: %v", err)
	}
}

func open(t *testing.T, c Config, topics ...string) (*Queue, *kfake.Cluster, *pipeline.Metrics) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	metrics := &pipeline.Metrics{}
	seeds := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	q, err := Open(t.Context(), c, "shop", 7, Deps{Log: zap.NewNop(), Metrics: metrics, Producer: append(seeds, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()), Admin: seeds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q, cluster, metrics
}

func failure(headers ...string) *pipeline.Failure {
	c := &kgo.Record{Topic: "orders", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1234), Key: []byte("k"), LeaderEpoch: 9}
	for _, h := range headers {
		c.Headers = append(c.Headers, kgo.RecordHeader{Key: h, Value: []byte(h)})
	}
	return pipeline.Put(c, errors.New("too long"))
}

func TestRecord(t *testing.T) {
	f := failure("h", "h")
	q := &Queue{config: Config{Topic: "dlq"}, connector: "shop", task: 7}
	r := q.record(f)
	if r.Topic != "dlq" || string(r.Key) != "k" || r.Value != nil || r.Timestamp.UnixMilli() != 1234 || len(r.Headers) != 2 {
		t.Errorf("%+v", r)
	}
	q.config.ContextHeaders = true
	r = q.record(f)
	var got []string
	for _, h := range r.Headers {
		got = append(got, h.Key+"="+string(h.Value))
	}
	// As Kafka's worker writes them, in its order.
	want := []string{"h=h", "h=h", "__connect.errors.topic=orders", "__connect.errors.partition=3", "__connect.errors.offset=42", "__connect.errors.connector.name=shop",
		"__connect.errors.task.id=7", "__connect.errors.stage=TASK_PUT", "__connect.errors.class.name=org.apache.kafka.connect.sink.SinkTask",
		"__connect.errors.exception.class.name=org.apache.kafka.connect.errors.ConnectException", "__connect.errors.exception.message=too long",
		"__connect.errors.exception.stacktrace=org.apache.kafka.connect.errors.ConnectException: too long"}
	if !slices.Equal(got, want) {
		t.Errorf("headers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(f.Consumed.Headers) != 2 {
		t.Error("the record that was consumed has changed")
	}
}

// The topic is created with one partition if it is not there, and left as it is otherwise. Whatever the producer's properties say, records are
// acknowledged by all replicas.
func TestOpen(t *testing.T) {
	for _, there := range []bool{false, true} {
		topics, partitions := []string{"other"}, 1
		if there {
			topics, partitions = []string{"dlq"}, 2
		}
		q, cluster, _ := open(t, Config{Topic: "dlq", ReplicationFactor: 1}, topics...)
		acks := make(chan int16, 1)
		cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			select {
			case acks <- req.(*kmsg.ProduceRequest).Acks:
			default:
			}
			return nil, nil, false
		})
		q.Report(t.Context(), failure())
		if err := q.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-acks; got != -1 {
			t.Errorf("acks=%d", got)
		}
		req := kmsg.NewPtrMetadataRequest()
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = kmsg.StringPtr("dlq")
		req.Topics = append(req.Topics, one)
		resp, err := req.RequestWith(t.Context(), q.client)
		if err != nil || len(resp.Topics[0].Partitions) != partitions {
			t.Errorf("%d partitions, %v", len(resp.Topics[0].Partitions), err)
		}
	}
}

// What is not acknowledged is not flushed.
func TestFlush(t *testing.T) {
	q, cluster, metrics := open(t, Config{Topic: "dlq", ReplicationFactor: 1})
	if err := q.Flush(t.Context()); err != nil {
		t.Errorf("nothing to flush: %v", err)
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	var first sync.Once
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		first.Do(func() { close(asked) })
		cluster.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	q.Report(t.Context(), failure())
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("flushed before the answer: %v", err)
	}
	close(answer)
	if err := q.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if metrics.DeadLetterRequests.Load() != 1 || metrics.DeadLetterFailures.Load() != 0 {
		t.Errorf("%d requests, %d failures", metrics.DeadLetterRequests.Load(), metrics.DeadLetterFailures.Load())
	}
}
