package client

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// StableCommitted returns the offsets that a group has committed of a topic, by partition, -1 where there is none, once no transaction
// that is yet to end holds one. Partitions are asked for by name: among all offsets of a group, those that have only a transaction's
// are missing.
func (f *Franz) StableCommitted(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	asked := kmsg.NewOffsetFetchRequestGroupTopic()
	asked.Topic = topic
	for p := range int32(partitions) {
		asked.Partitions = append(asked.Partitions, p)
	}
	of := kmsg.NewOffsetFetchRequestGroup()
	of.Group, of.Topics = group, append(of.Topics, asked)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups, req.RequireStable = append(req.Groups, of), true
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return nil, err
		}
		out, err := groupOffsets(res.Groups[0])
		if !errors.Is(err, kerr.UnstableOffsetCommit) {
			return out, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// groupOffsets are the offsets of the only topic of an answer.
func groupOffsets(g kmsg.OffsetFetchResponseGroup) (map[int32]int64, error) {
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, p := range g.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, err
		}
		out[p.Partition] = p.Offset
	}
	return out, nil
}

// ProduceValues writes values to the partitions of a topic in turn, beginning with the first.
func (f *Franz) ProduceValues(ctx context.Context, topic string, partitions int, values []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(v)}
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}

// EachCommitted hands over the keys and values of what is committed of a topic, from its beginning, until take wants no more.
func (f *Franz) EachCommitted(ctx context.Context, topic string, partitions int, take func(partition int32, key, value string) bool) error {
	cl, err := f.reader(topic, partitions, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for more := true; more; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for it := fetches.RecordIter(); !it.Done() && more; {
			r := it.Next()
			more = take(r.Partition, string(r.Key), string(r.Value))
		}
	}
	return nil
}

// ReadCommitted returns the values in each partition that are committed and below one that ends it.
func (f *Franz) ReadCommitted(ctx context.Context, topic string, partitions int, end string) ([][]string, error) {
	out, ended := make([][]string, partitions), 0
	err := f.EachCommitted(ctx, topic, partitions, func(p int32, _, value string) bool {
		if value == end {
			ended++
		} else {
			out[p] = append(out[p], value)
		}
		return ended < partitions
	})
	return out, err
}
