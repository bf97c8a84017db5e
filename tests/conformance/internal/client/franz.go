package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// Franz is twmb/franz-go. It also reads every topic that the others write, since it shows how batches are stored.
type Franz struct{ bootstrap string }

// NewFranz returns a franz-go client of the server at bootstrap.
func NewFranz(bootstrap string) *Franz { return &Franz{bootstrap} }

func (f *Franz) Name() string           { return "franz-go" }
func (f *Franz) Codecs() []string       { return Codecs }
func (f *Franz) Writes() workload.Shape { return workload.Shape{} }
func (f *Franz) Reads() workload.Shape  { return workload.Shape{} }
func (f *Franz) Close() error           { return nil }

var franzCodecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (f *Franz) admin() (*kadm.Client, error) {
	return kadm.NewOptClient(kgo.SeedBrokers(f.bootstrap))
}

func (f *Franz) CreateTopic(ctx context.Context, topic string, partitions int) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.CreateTopic(ctx, int32(partitions), 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic)
	return err
}

// DeleteTopic deletes a topic.
func (f *Franz) DeleteTopic(ctx context.Context, topic string) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.DeleteTopic(ctx, topic)
	return err
}

// EndOffsets returns the end offset of every partition of a topic, by partition.
func (f *Franz) EndOffsets(ctx context.Context, topic string) (map[int32]int64, error) {
	admin, err := f.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return offsetsOf(topic)(admin.ListEndOffsets(ctx, topic))
}

// StableOffsets returns the last stable offset of every partition of a topic, by partition.
func (f *Franz) StableOffsets(ctx context.Context, topic string) (map[int32]int64, error) {
	admin, err := f.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return offsetsOf(topic)(admin.ListCommittedOffsets(ctx, topic))
}

func offsetsOf(topic string) func(kadm.ListedOffsets, error) (map[int32]int64, error) {
	return func(listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
		if err != nil {
			return nil, err
		}
		out := map[int32]int64{}
		for p, o := range listed[topic] {
			if o.Err != nil {
				return nil, fmt.Errorf("offset of %s-%d: %w", topic, p, o.Err)
			}
			out[p] = o.Offset
		}
		return out, nil
	}
}

// Committed returns the offsets that a group has committed of a topic, by partition.
func (f *Franz) Committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	admin, err := f.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	offsets, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for p, o := range offsets[topic] {
		if o.Err != nil {
			return nil, fmt.Errorf("offset of %s in %s-%d: %w", group, topic, p, o.Err)
		}
		out[p] = o.At
	}
	return out, nil
}

// SetGroupConfig sets one config of a group.
func (f *Franz) SetGroupConfig(ctx context.Context, group, key, value string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap))
	if err != nil {
		return err
	}
	defer cl.Close()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(res.Resources[0].ErrorCode)
}

// AwaitLeaders returns once every partition of a topic answers ListOffsets: before that, acks=0 may lose records.
func (f *Franz) AwaitLeaders(ctx context.Context, topic string, partitions int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := f.EndOffsets(ctx, topic)
		if err == nil && len(ends) == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("leaders of %s: %v, %w: %w", topic, ends, err, ctx.Err())
		case <-tick.C:
		}
	}
}

func (f *Franz) Produce(ctx context.Context, j Job) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(franzCodecs[j.Codec]),
		kgo.ProducerBatchMaxBytes(1 << 20),
	}
	switch j.Acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var (
		once  sync.Once
		first error
		g     = workload.NewGenerator(f.Writes())
	)
	for i := range j.Records {
		cl.Produce(ctx, franzRecord(j.Topic, g.Record(i, j.Partitions)), func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return first
}

func franzRecord(topic string, r workload.Record) *kgo.Record {
	out := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: timeOf(r)}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader(h))
	}
	return out
}

func (f *Franz) Consume(ctx context.Context, j Job) ([]workload.PartitionDigest, error) {
	d, _, err := f.Read(ctx, j, f.Reads())
	return d, err
}

// reader is a client that reads all of a topic.
func (f *Franz) reader(topic string, partitions int, opts ...kgo.Opt) (*kgo.Client, error) {
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	return kgo.NewClient(append(opts, kgo.SeedBrokers(f.bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
}

// Read consumes as a reader of the given shape, and counts the records by the codec that their batches are stored with.
func (f *Franz) Read(ctx context.Context, j Job, shape workload.Shape) ([]workload.PartitionDigest, map[string]int, error) {
	cl, err := f.reader(j.Topic, j.Partitions)
	if err != nil {
		return nil, nil, err
	}
	defer cl.Close()
	d, codecs := workload.NewDigest(j.Partitions, shape), map[string]int{}
	for d.Records() < j.Records {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return nil, nil, fmt.Errorf("after %d of %d records: %w", d.Records(), j.Records, e.Err)
		}
		var fault error
		fetches.EachRecord(func(r *kgo.Record) {
			codecs[Codecs[r.Attrs.CompressionType()]]++
			fault = errors.Join(fault, d.Add(workloadRecord(r)))
		})
		if fault != nil {
			return nil, nil, fault
		}
	}
	return d.Partitions(), codecs, nil
}

func workloadRecord(r *kgo.Record) workload.Record {
	out := workload.Record{
		Partition: r.Partition, Offset: r.Offset, TimestampMs: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, workload.Header(h))
	}
	return out
}
