package topiclog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/record"
)

const topicName = "connect-configs"

// brokers are two that have a topic in memory, the partitions in turns. To be used under testing/synctest.
type brokers struct {
	t *testing.T

	mu         sync.Mutex
	partitions []*partition // nil: there is no topic
	policy     string
	grown      chan struct{}
	created    []*kmsg.CreateTopicsRequest
	// fail is what a fetch is answered with once.
	fail int16
	down map[string]bool
	// createCode is what topics are refused with.
	createCode int16
	asked      map[string]int
	log        *zap.Logger
}

type partition struct {
	batches []record.Batch
	start   int64
	// stable is the offset up to which nothing is open.
	stable int64
	// aborted are transactions with the offset of their marker.
	aborted []ended
}

type ended struct{ producerID, first, marker int64 }

// abortedSince are the transactions that a fetch from an offset is told of.
func (p *partition) abortedSince(offset int64) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	var list []kmsg.FetchResponseTopicPartitionAbortedTransaction
	for _, e := range p.aborted {
		if e.marker >= offset {
			list = append(list, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: e.producerID, FirstOffset: e.first})
		}
	}
	return list
}

func (p *partition) end() int64 {
	if len(p.batches) == 0 {
		return p.start
	}
	return p.batches[len(p.batches)-1].LastOffset() + 1
}

func newBrokers(t *testing.T, partitions int) *brokers {
	b := &brokers{t: t, policy: compact, grown: make(chan struct{}), down: map[string]bool{}, asked: map[string]int{}, log: zap.NewNop()}
	for range partitions {
		b.partitions = append(b.partitions, &partition{})
	}
	return b
}

func (b *brokers) deps() Deps { return Deps{Log: b.log, Do: b.do, Fetch: b.do} }

// batch makes a batch of records "key=value".
func batch(producerID int64, transactional bool, keys ...string) record.Batch {
	builder := record.NewBuilder()
	if producerID >= 0 {
		builder.SetProducer(producerID, 0, 0)
	}
	if transactional {
		builder.SetTransactional()
	}
	for _, key := range keys {
		builder.Append(1000, []byte(key), []byte("v-"+key))
	}
	made, err := builder.Build(record.None, 0)
	if err != nil {
		panic(err)
	}
	return made
}

func (b *brokers) add(p int, batches ...record.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range batches {
		one.SetBaseOffset(b.partitions[p].end())
		b.partitions[p].batches = append(b.partitions[p].batches, one)
	}
	b.partitions[p].stable = b.partitions[p].end()
	close(b.grown)
	b.grown = make(chan struct{})
}

func leaderOf(p int) string { return fmt.Sprintf("broker-%d:9092", p%2) }

func (b *brokers) do(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	b.mu.Lock()
	b.asked[fmt.Sprintf("%T", req)]++
	down := b.down[addr]
	b.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return b.metadata(), nil
	case *kmsg.CreateTopicsRequest:
		return b.create(req), nil
	case *kmsg.DescribeConfigsRequest:
		return b.configs(req), nil
	case *kmsg.ListOffsetsRequest:
		return b.offsets(addr, req), nil
	case *kmsg.FetchRequest:
		return b.fetch(ctx, addr, req)
	}
	return nil, fmt.Errorf("a request of type %T", req)
}

func (b *brokers) metadata() *kmsg.MetadataResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	resp := kmsg.NewPtrMetadataResponse()
	for i := range int32(2) {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: i, Host: fmt.Sprintf("broker-%d", i), Port: 9092})
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = kmsg.StringPtr(topicName)
	topic.TopicID = [16]byte{7}
	if b.partitions == nil {
		topic.ErrorCode = kerr.UnknownTopicOrPartition.Code
	}
	for p := range b.partitions {
		one := kmsg.NewMetadataResponseTopicPartition()
		one.Partition, one.Leader = int32(p), int32(p%2)
		topic.Partitions = append(topic.Partitions, one)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func (b *brokers) create(req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.created = append(b.created, req)
	resp := kmsg.NewPtrCreateTopicsResponse()
	topic := kmsg.NewCreateTopicsResponseTopic()
	topic.ErrorCode = b.createCode
	if b.createCode == 0 || b.createCode == kerr.TopicAlreadyExists.Code {
		b.partitions = []*partition{{}}
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func (b *brokers) configs(req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	if r := req.Resources[0]; r.ResourceType != kmsg.ConfigResourceTypeTopic || r.ResourceName != topicName || !slices.Equal(r.ConfigNames, []string{policyKey}) {
		b.t.Errorf("asked for configs of %+v", r)
	}
	resp := kmsg.NewPtrDescribeConfigsResponse()
	r := kmsg.NewDescribeConfigsResponseResource()
	if b.policy == "" {
		r.ErrorCode = kerr.TopicAuthorizationFailed.Code
	}
	r.Configs = append(r.Configs, kmsg.DescribeConfigsResponseResourceConfig{Name: policyKey, Value: &b.policy})
	resp.Resources = append(resp.Resources, r)
	return resp
}

func (b *brokers) offsets(addr string, req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	resp := kmsg.NewPtrListOffsetsResponse()
	topic := kmsg.NewListOffsetsResponseTopic()
	for _, p := range req.Topics[0].Partitions {
		if leaderOf(int(p.Partition)) != addr || p.Timestamp != latest {
			b.t.Errorf("%s is asked for offset %d of partition %d", addr, p.Timestamp, p.Partition)
		}
		one := kmsg.NewListOffsetsResponseTopicPartition()
		one.Partition, one.Offset = p.Partition, b.partitions[p.Partition].end()
		if req.IsolationLevel == readCommitted {
			one.Offset = b.partitions[p.Partition].stable
		}
		topic.Partitions = append(topic.Partitions, one)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func (b *brokers) fetch(ctx context.Context, addr string, req *kmsg.FetchRequest) (kmsg.Response, error) {
	timer := time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	defer timer.Stop()
	for late := false; ; {
		b.mu.Lock()
		resp, any := b.fetchNow(addr, req)
		grown := b.grown
		b.mu.Unlock()
		if any || late {
			return resp, nil
		}
		select {
		case <-grown:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetchNow answers with a batch from each partition, as little as a broker may.
func (b *brokers) fetchNow(addr string, req *kmsg.FetchRequest) (resp *kmsg.FetchResponse, any bool) {
	resp = kmsg.NewPtrFetchResponse()
	topic := kmsg.NewFetchResponseTopic()
	if req.Topics[0].Topic != topicName || req.Topics[0].TopicID != [16]byte{7} {
		b.t.Errorf("a fetch of topic %q, %v", req.Topics[0].Topic, req.Topics[0].TopicID)
	}
	for _, asked := range req.Topics[0].Partitions {
		if leaderOf(int(asked.Partition)) != addr {
			b.t.Errorf("%s is asked for partition %d", addr, asked.Partition)
		}
		p := b.partitions[asked.Partition]
		one := kmsg.NewFetchResponseTopicPartition()
		one.Partition, one.LogStartOffset = asked.Partition, p.start
		switch {
		case b.fail != 0:
			one.ErrorCode, b.fail, any = b.fail, 0, true
		case asked.FetchOffset < p.start || asked.FetchOffset > p.end():
			one.ErrorCode, any = kerr.OffsetOutOfRange.Code, true
		default:
			for _, batch := range p.batches {
				limit := p.end()
				if req.IsolationLevel == readCommitted {
					limit = p.stable
					one.AbortedTransactions = p.abortedSince(asked.FetchOffset)
				}
				if batch.LastOffset() >= asked.FetchOffset && batch.LastOffset() < limit {
					one.RecordBatches, any = append(one.RecordBatches, batch...), true
					break
				}
			}
		}
		topic.Partitions = append(topic.Partitions, one)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp, any
}
