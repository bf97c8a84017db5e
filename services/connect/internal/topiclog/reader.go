package topiclog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const (
	consumer      = -1 // replica id of a fetch that is no replica's
	latest        = -1 // timestamp that stands for the log's end in ListOffsets
	sessionless   = -1 // epoch of a fetch outside of sessions (KIP-227)
	readCommitted = 1
)

// Reader reads a topic from its beginning.
type Reader struct {
	config Config
	deps   Deps
	visit  func(Record)

	mu sync.Mutex
	// positions are the next offsets to read, by partition; a partition that is not there is at 0.
	positions map[int32]int64
	// moved is closed, and another made, whenever a position changes.
	moved chan struct{}
	// partitions is the greatest number of them that was seen.
	partitions int
}

// NewReader returns a reader that calls visit for each record, from the goroutine of Run.
func NewReader(c Config, d Deps, visit func(Record)) *Reader {
	return &Reader{config: c, deps: d, visit: visit, positions: map[int32]int64{}, moved: make(chan struct{})}
}

// Run reads until ctx ends, through changes of leaders and failures of brokers. An error is one that trying again does not help.
func (r *Reader) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		c, err := describe(ctx, r.deps, r.config.Bootstrap, r.config.Topic)
		if err == nil && r.outdated(c) {
			wait(ctx, r.config.RetryBackoff) // the broker that was asked does not know of them yet
			continue
		}
		if err == nil {
			err = r.read(ctx, c)
		}
		switch {
		case err == nil && ctx.Err() == nil:
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kerr.CorruptMessage), errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.UnsupportedVersion):
			return fmt.Errorf("topic %q: %w", r.config.Topic, err)
		}
		r.deps.Log.Info("reading an internal topic is interrupted", zap.String("topic", r.config.Topic), zap.Error(err))
		wait(ctx, r.config.RetryBackoff)
	}
	return nil
}

// fetched is what one broker answered.
type fetched struct {
	leader string
	resp   *kmsg.FetchResponse
	err    error
}

// read fetches from all leaders at a time, and from each again once it has answered, until a fetch fails or partitions were added. What is under way then is
// waited for, so that no broker holds the next fetch back for it.
func (r *Reader) read(ctx context.Context, c cluster) error {
	led := map[string][]int32{}
	for p, leader := range c.leaders {
		if leader == "" {
			return fmt.Errorf("partition %d: %w", p, kerr.LeaderNotAvailable)
		}
		led[leader] = append(led[leader], int32(p))
	}
	answers := make(chan fetched, len(led))
	fetch := func(leader string) {
		req := r.request(c, led[leader])
		go func() {
			answer, err := r.deps.Fetch(ctx, leader, req)
			resp, _ := answer.(*kmsg.FetchResponse)
			answers <- fetched{leader, resp, err}
		}()
	}
	for leader := range led {
		fetch(leader)
	}
	var faults []error
	for underWay := len(led); underWay > 0; {
		a := <-answers
		if a.err == nil {
			a.err = r.follow(a.resp)
		}
		if a.err != nil {
			faults = append(faults, a.err)
		}
		if len(faults) == 0 && ctx.Err() == nil && !r.outdated(c) {
			fetch(a.leader)
			continue
		}
		underWay--
	}
	return errors.Join(faults...)
}

func (r *Reader) request(c cluster, partitions []int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch, req.MinBytes = consumer, sessionless, 1
	req.MaxWaitMillis, req.MaxBytes = int32(r.config.MaxWait.Milliseconds()), r.config.MaxBytes
	if r.config.Committed {
		req.IsolationLevel = readCommitted
	}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.config.Topic, c.topicID
	for _, p := range partitions {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.FetchOffset, one.PartitionMaxBytes = p, r.position(p), r.config.MaxBytes
		topic.Partitions = append(topic.Partitions, one)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

func (r *Reader) follow(resp *kmsg.FetchResponse) error {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			if err := r.followPartition(&t.Partitions[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reader) followPartition(p *kmsg.FetchResponseTopicPartition) error {
	if p.ErrorCode == kerr.OffsetOutOfRange.Code {
		// Records were deleted by hand, or a leader that had less was elected by hand.
		r.deps.Log.Warn("an internal topic is read anew from where it begins", zap.String("topic", r.config.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", r.position(p.Partition)), zap.Int64("begins", p.LogStartOffset))
		r.move(p.Partition, max(p.LogStartOffset, 0))
		return nil
	}
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return fmt.Errorf("partition %d: %w", p.Partition, err)
	}
	var transactions []aborted
	if r.config.Committed {
		for _, t := range p.AbortedTransactions {
			transactions = append(transactions, aborted{t.ProducerID, t.FirstOffset})
		}
	}
	before := r.position(p.Partition)
	position, err := follow(p.Partition, before, p.RecordBatches, transactions, r.visit)
	if position != before {
		r.move(p.Partition, position)
	}
	return err
}

func (r *Reader) position(partition int32) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.positions[partition]
}

func (r *Reader) move(partition int32, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.positions[partition] = to
	close(r.moved)
	r.moved = make(chan struct{})
}

// ReadToEnd returns once all that was in the topic when it was called has been visited, which waits for transactions that were open. Run has to run.
func (r *Reader) ReadToEnd(ctx context.Context) error {
	ends, err := r.ends(ctx)
	for err != nil && ctx.Err() == nil {
		r.deps.Log.Info("the end of an internal topic is not known yet", zap.String("topic", r.config.Topic), zap.Error(err))
		wait(ctx, r.config.RetryBackoff)
		ends, err = r.ends(ctx)
	}
	for err == nil {
		moved, read := r.reached(ends)
		if read {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return fmt.Errorf("read topic %q to its end: %w", r.config.Topic, err)
}

// reached says whether all positions are at the ends, and what to wait for if they are not.
func (r *Reader) reached(ends map[int32]int64) (moved <-chan struct{}, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, end := range ends {
		if r.positions[p] < end {
			return r.moved, false
		}
	}
	return nil, true
}

// outdated takes down how many partitions the topic has, and says whether it was seen to have more: someone has added some.
func (r *Reader) outdated(c cluster) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions = max(r.partitions, len(c.leaders))
	return len(c.leaders) < r.partitions
}

// ends are the offsets after all that can be read, by partition.
func (r *Reader) ends(ctx context.Context) (map[int32]int64, error) {
	c, err := describe(ctx, r.deps, r.config.Bootstrap, r.config.Topic)
	if err != nil {
		return nil, err
	}
	r.outdated(c)
	requests := map[string]*kmsg.ListOffsetsRequest{}
	for p, leader := range c.leaders {
		if leader == "" {
			return nil, fmt.Errorf("partition %d: %w", p, kerr.LeaderNotAvailable)
		}
		if requests[leader] == nil {
			req := kmsg.NewPtrListOffsetsRequest()
			// The end is behind transactions that are open, too: one that has just been committed is open until the partition has its marker.
			req.ReplicaID = consumer
			req.TimeoutMillis = int32((30 * time.Second).Milliseconds())
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = r.config.Topic
			req.Topics = append(req.Topics, topic)
			requests[leader] = req
		}
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = int32(p), latest
		topic := &requests[leader].Topics[0]
		topic.Partitions = append(topic.Partitions, one)
	}
	ends := map[int32]int64{}
	for leader, req := range requests {
		answer, err := r.deps.Do(ctx, leader, req)
		if err != nil {
			return nil, err
		}
		for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
				}
				ends[p.Partition] = p.Offset
			}
		}
	}
	if len(ends) != len(c.leaders) {
		return nil, fmt.Errorf("the ends of %d partitions are known, of %d", len(ends), len(c.leaders))
	}
	return ends, nil
}
