package client

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// KafkaGo is segmentio/kafka-go.
type KafkaGo struct{ bootstrap string }

// NewKafkaGo returns a kafka-go client of the server at bootstrap.
func NewKafkaGo(bootstrap string) *KafkaGo { return &KafkaGo{bootstrap} }

func (k *KafkaGo) Name() string           { return "kafka-go" }
func (k *KafkaGo) Codecs() []string       { return Codecs }
func (k *KafkaGo) Writes() workload.Shape { return workload.Shape{} }
func (k *KafkaGo) Close() error           { return nil }

// Reads: its Reader gives nil for whatever is of length zero.
func (k *KafkaGo) Reads() workload.Shape {
	return workload.Shape{EmptyIsNull: true, EmptyHeaderIsNull: true}
}

var kafkaGoCodecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

var kafkaGoAcks = map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}

func (k *KafkaGo) CreateTopic(ctx context.Context, topic string, partitions int) error {
	cl := &kafka.Client{Addr: kafka.TCP(k.bootstrap)}
	res, err := cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: partitions, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}},
	}}})
	if err != nil {
		return err
	}
	return res.Errors[topic]
}

// chunk is how many records one WriteMessages call takes.
const chunk = 3000

func (k *KafkaGo) Produce(ctx context.Context, j Job) error {
	w := &kafka.Writer{
		Addr:         kafka.TCP(k.bootstrap),
		Topic:        j.Topic,
		Balancer:     kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
		RequiredAcks: kafkaGoAcks[j.Acks],
		Compression:  kafkaGoCodecs[j.Codec],
		BatchSize:    chunk,
		BatchTimeout: 5 * time.Millisecond,
	}
	defer w.Close()
	g := workload.NewGenerator(k.Writes())
	for from := 0; from < j.Records; from += chunk {
		var batch []kafka.Message
		for i := from; i < min(from+chunk, j.Records); i++ {
			batch = append(batch, kafkaGoMessage(g.Record(i, j.Partitions)))
		}
		if err := w.WriteMessages(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

func kafkaGoMessage(r workload.Record) kafka.Message {
	m := kafka.Message{Key: r.Key, Value: r.Value, Time: timeOf(r), WriterData: int(r.Partition)}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kafka.Header(h))
	}
	return m
}

func (k *KafkaGo) Consume(ctx context.Context, j Job) ([]workload.PartitionDigest, error) {
	d := workload.NewDigest(j.Partitions, k.Reads())
	for p := range int32(j.Partitions) {
		if err := k.consumePartition(ctx, j, p, d); err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", d.Records(), j.Records, err)
		}
	}
	return d.Partitions(), nil
}

func (k *KafkaGo) consumePartition(ctx context.Context, j Job, partition int32, d *workload.Digest) error {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.bootstrap}, Topic: j.Topic, Partition: int(partition), MaxBytes: 4 << 20, MaxWait: time.Second,
	})
	defer r.Close()
	if err := r.SetOffset(kafka.FirstOffset); err != nil {
		return err
	}
	for range j.share(partition) {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return err
		}
		out := workload.Record{
			Partition: partition, Offset: m.Offset, TimestampMs: m.Time.UnixMilli(), Key: m.Key, Value: m.Value,
		}
		for _, h := range m.Headers {
			out.Headers = append(out.Headers, workload.Header(h))
		}
		if err := d.Add(out); err != nil {
			return err
		}
	}
	return nil
}
