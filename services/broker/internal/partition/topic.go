package partition

import (
	"sync/atomic"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// Topic is a topic of which this broker hosts at least one partition.
type Topic struct {
	Name string
	ID   metadata.TopicID

	minISR atomic.Int32
	// Of which partitions the replica here is throttled; nil for none.
	leaderThrottled, followerThrottled atomic.Pointer[Throttled]
	counters                           Counters
	partitions                         atomic.Pointer[[]*Partition] // by partition number; nil for one that other brokers hold
}

// Config is what a topic's configs say of its partitions here.
type Config struct {
	Log log.Config
	// MinISR is min.insync.replicas.
	MinISR int
	// LeaderThrottled and FollowerThrottled are of the replicas here.
	LeaderThrottled, FollowerThrottled Throttled
}

// configure takes what concerns the topic as a whole.
func (t *Topic) configure(c Config) {
	t.minISR.Store(int32(c.MinISR))
	t.leaderThrottled.Store(&c.LeaderThrottled)
	t.followerThrottled.Store(&c.FollowerThrottled)
}

// Counters are a topic's totals since the broker started (kafka.server:type=BrokerTopicMetrics).
type Counters struct {
	MessagesIn, BytesIn, BytesOut, FailedProduceRequests, FailedFetchRequests, ProduceRequests, FetchRequests atomic.Int64
}

// MinISR is the topic's min.insync.replicas, at least 1.
func (t *Topic) MinISR() int { return int(t.minISR.Load()) }

// Counters returns the topic's totals, to be added to.
func (t *Topic) Counters() *Counters { return &t.counters }

// Partition returns the partition hosted here. Known is true when the topic has a partition of that number,
// wherever it lives.
func (t *Topic) Partition(id int32) (p *Partition, known bool) {
	all := *t.partitions.Load()
	if id < 0 || int(id) >= len(all) {
		return nil, false
	}
	return all[id], true
}

// Partitions returns the topic's partitions by number, nil where another broker hosts it. Not to be changed.
func (t *Topic) Partitions() []*Partition { return *t.partitions.Load() }
