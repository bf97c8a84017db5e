package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is a topic as Metadata shows it, with the node that leads all of its partitions.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32
	Leader     int32
}

// CreateTopic creates a topic with topic configs as key, value, …, and returns once every partition has a leader that
// answers.
func (c *Conn) CreateTopic(ctx context.Context, name string, partitions int32, configs ...string) (Topic, error) {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = configs[i], &configs[i+1]
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = 5, 30_000, append(req.Topics, topic)
	res, err := c.Do(req)
	if err != nil {
		return Topic{}, err
	}
	if err := kerr.ErrorForCode(res.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		return Topic{}, fmt.Errorf("create topic %s: %w", name, err)
	}
	return c.AwaitTopic(ctx, name)
}

// AwaitTopic returns once Metadata knows the topic and the leader of every partition answers ListOffsets.
func (c *Conn) AwaitTopic(ctx context.Context, name string) (Topic, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		t, err := c.lookUp(name)
		if err == nil {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return Topic{}, fmt.Errorf("topic %s: %w: %w", name, err, ctx.Err())
		case <-tick.C:
		}
	}
}

func (c *Conn) lookUp(name string) (Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	res, err := c.Do(req)
	if err != nil {
		return Topic{}, err
	}
	found := res.(*kmsg.MetadataResponse).Topics[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return Topic{}, err
	}
	out := Topic{Name: name, ID: found.TopicID, Partitions: int32(len(found.Partitions)), Leader: -1}
	for _, p := range found.Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return Topic{}, err
		}
		out.Leader = p.Leader
		if _, err := c.Offset(name, p.Partition, -1); err != nil {
			return Topic{}, err
		}
	}
	return out, nil
}

// Offset asks for one offset of a partition: -1 the end, -2 the start, or the first at or after a time. It returns -1
// when there is none.
func (c *Conn) Offset(topic string, partition int32, timestampMs int64) (int64, error) {
	res, err := c.Do(ListOffsets(topic, partition, timestampMs))
	if err != nil {
		return 0, err
	}
	p := res.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}

// ListOffsets is a request for one offset of one partition.
func ListOffsets(topic string, partition int32, timestampMs int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 7
	t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestampMs
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// Produce is a request that writes batches to one partition, with acks=all at version 9.
func Produce(topic string, partition int32, batches ...[]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Partition = partition
	for _, b := range batches {
		p.Records = append(p.Records, b...)
	}
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// NewProducerID asks for the id of a new idempotent producer until there is one: a node that just started may have no
// block of ids yet.
func (c *Conn) NewProducerID(ctx context.Context) (int64, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, 60_000, -1, -1
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		got := res.(*kmsg.InitProducerIDResponse)
		if err = kerr.ErrorForCode(got.ErrorCode); err == nil || !kerr.IsRetriable(err) {
			return got.ProducerID, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("producer id: %w: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Append writes one batch and returns the offset of its first record.
func (c *Conn) Append(topic string, partition int32, batch []byte) (int64, error) {
	res, err := c.Do(Produce(topic, partition, batch))
	if err != nil {
		return 0, err
	}
	p := res.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
}

// Fetch is a request at version 12, outside any session, that reads from one partition without waiting.
func Fetch(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 12, 50<<20, 0, 0
	req.SessionEpoch = -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 50<<20
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// Fetched fetches from one partition and returns what came of it.
func (c *Conn) Fetched(topic string, partition int32, offset int64) (kmsg.FetchResponseTopicPartition, error) {
	res, err := c.Do(Fetch(topic, partition, offset))
	if err != nil {
		return kmsg.FetchResponseTopicPartition{}, err
	}
	p := res.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	return p, kerr.ErrorForCode(p.ErrorCode)
}
