package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// Sarama is IBM/sarama, which speaks as the Kafka version it is told, whatever the server advertises.
type Sarama struct {
	bootstrap string
	version   sarama.KafkaVersion
}

// NewSarama returns a client that speaks as Kafka of the given version, such as "2.8.0".
func NewSarama(bootstrap, version string) (*Sarama, error) {
	v, err := sarama.ParseKafkaVersion(version)
	return &Sarama{bootstrap, v}, err
}

func (s *Sarama) Name() string           { return "sarama-" + s.version.String() }
func (s *Sarama) Codecs() []string       { return Codecs }
func (s *Sarama) Writes() workload.Shape { return workload.Shape{} }
func (s *Sarama) Reads() workload.Shape  { return workload.Shape{} }
func (s *Sarama) Close() error           { return nil }

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func (s *Sarama) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = s.version
	c.ClientID = "conformance-sarama"
	return c
}

func (s *Sarama) CreateTopic(_ context.Context, topic string, partitions int) error {
	admin, err := sarama.NewClusterAdmin([]string{s.bootstrap}, s.config())
	if err != nil {
		return err
	}
	forever := "-1"
	detail := &sarama.TopicDetail{
		NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &forever},
	}
	return errors.Join(admin.CreateTopic(topic, detail, false), admin.Close())
}

func (s *Sarama) Produce(ctx context.Context, j Job) error {
	c := s.config()
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Compression = saramaCodecs[j.Codec]
	c.Producer.Return.Errors = true
	c.Producer.MaxMessageBytes = 1 << 20
	c.Producer.Flush.Frequency = 5 * time.Millisecond
	switch j.Acks {
	case "0":
		c.Producer.RequiredAcks = sarama.NoResponse
	case "1":
		c.Producer.RequiredAcks = sarama.WaitForLocal
	default:
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Producer.Idempotent = true
	}
	c.Net.MaxOpenRequests = 1 // sarama keeps the order only so
	p, err := sarama.NewAsyncProducer([]string{s.bootstrap}, c)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		var first error
		for e := range p.Errors() {
			if first == nil {
				first = e
			}
		}
		failed <- first
	}()
	g := workload.NewGenerator(s.Writes())
	for i := 0; i < j.Records && ctx.Err() == nil; i++ {
		p.Input() <- saramaMessage(j.Topic, g.Record(i, j.Partitions))
	}
	p.AsyncClose()
	return errors.Join(<-failed, ctx.Err())
}

func saramaMessage(topic string, r workload.Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: timeOf(r)}
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return m
}

func (s *Sarama) Consume(ctx context.Context, j Job) ([]workload.PartitionDigest, error) {
	c := s.config()
	c.Consumer.Fetch.Default = 4 << 20
	consumer, err := sarama.NewConsumer([]string{s.bootstrap}, c)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	d := workload.NewDigest(j.Partitions, s.Reads())
	for p := range int32(j.Partitions) {
		pc, err := consumer.ConsumePartition(j.Topic, p, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		for range j.share(p) {
			select {
			case m := <-pc.Messages():
				if err := d.Add(fromSarama(m)); err != nil {
					return nil, err
				}
			case <-ctx.Done():
				return nil, fmt.Errorf("after %d of %d records: %w", d.Records(), j.Records, ctx.Err())
			}
		}
		if err := pc.Close(); err != nil {
			return nil, err
		}
	}
	return d.Partitions(), nil
}

func fromSarama(m *sarama.ConsumerMessage) workload.Record {
	out := workload.Record{
		Partition: m.Partition, Offset: m.Offset, TimestampMs: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value,
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, workload.Header{Key: string(h.Key), Value: h.Value})
	}
	return out
}

// share is how many of the job's records lie in a partition.
func (j Job) share(partition int32) int {
	return (j.Records - int(partition) + j.Partitions - 1) / j.Partitions
}

func timeOf(r workload.Record) time.Time { return time.UnixMilli(r.TimestampMs) }
