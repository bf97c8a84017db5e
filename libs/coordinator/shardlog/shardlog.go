// Package shardlog stores the shards of a coordinator where brokers keep them: in the partitions of an internal topic, over
// the Kafka protocol.
package shardlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator/fence"
	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
)

const (
	acksAll     = -1
	consumer    = -1 // replica id of a fetch that is no replica's
	sessionless = -1 // epoch of a fetch outside of sessions (KIP-227)
	earliest    = -2 // timestamp that stands for the log's start in ListOffsets
)

// Config says where shards are stored.
type Config struct {
	// Topic whose partitions are the shards.
	Topic string
	// Listener of the brokers (Kafka config inter.broker.listener.name); empty for the first one without encryption and
	// authentication.
	Listener string
	// ClientID is sent with every request.
	ClientID string
	// Timeout bounds one request. 5 s.
	Timeout time.Duration
	// Linger is how long an append waits for those of other shards, to share a request with them (Kafka config
	// group.coordinator.append.linger.ms): 0 is not at all, and below 0 a little while many shards append.
	Linger time.Duration
}

// Log is the coordinator.Log of one topic. Its methods are safe for concurrent use.
type Log struct {
	cfg   Config
	image func() *metadata.Image
	// writes and reads have connections of their own: an append does not wait behind what another shard loads.
	writes [writeConnections]*client.Pool
	reads  *client.Pool

	mu      sync.Mutex
	writers map[string]*writer // by address; as many as there have been addresses of leaders
}

// New makes a log that finds the topic, its leaders and their addresses in the node's image. Close must be called.
func New(cfg Config, image func() *metadata.Image) *Log {
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	pool := client.Config{ClientID: cfg.ClientID}
	l := &Log{cfg: cfg, image: image, reads: client.New(pool), writers: map[string]*writer{}}
	for i := range l.writes {
		l.writes[i] = client.New(pool)
	}
	return l
}

// Close ends all connections, and the calls under way with an error.
func (l *Log) Close() {
	for _, pool := range l.writes {
		pool.Close()
	}
	l.reads.Close()
}

// leader is where requests about a shard go.
type leader struct {
	topic metadata.TopicID
	epoch int32
	addr  string
}

func (l *Log) leader(shard int32) (to leader, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s-%d: %w", l.cfg.Topic, shard, err)
		}
	}()
	im := l.image()
	t, ok := im.Topic(l.cfg.Topic)
	if !ok || shard < 0 || int(shard) >= len(t.Partitions) {
		return to, kerr.UnknownTopicOrPartition
	}
	p := t.Partitions[shard]
	n, ok := im.Node(p.Leader)
	if !p.HasLeader() || !ok {
		return to, kerr.LeaderNotAvailable
	}
	listener, ok := n.PeerListener(l.cfg.Listener)
	if !ok {
		return to, fmt.Errorf("node %d: %w", n.ID, kerr.ListenerNotFound)
	}
	return leader{t.ID, p.LeaderEpoch, net.JoinHostPort(listener.Host, strconv.Itoa(int(listener.Port)))}, nil
}

// Append is coordinator.Log's.
func (l *Log) Append(ctx context.Context, shard, epoch int32, sequence int64, batch record.Batch) (offset int64, err error) {
	to, err := l.leader(shard)
	if err != nil {
		return 0, err
	}
	return l.writer(to.addr).append(&write{
		ctx: ctx, shard: shard, topic: to.topic, batch: batch,
		fence: fence.Token{Epoch: epoch, LeaderEpoch: to.epoch, Sequence: sequence},
	})
}

func (l *Log) writer(addr string) *writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.writers[addr]
	if w == nil {
		w = &writer{log: l, addr: addr, alone: map[int32]bool{}}
		l.writers[addr] = w
	}
	return w
}

// Start is coordinator.Log's.
func (l *Log) Start(ctx context.Context, shard int32) (offset int64, err error) {
	to, err := l.leader(shard)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = consumer
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = shard, to.epoch, earliest
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: l.cfg.Topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	resp, err := ask[*kmsg.ListOffsetsResponse](ctx, l, l.reads, to.addr, req)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errUnasked
	}
	answer := &resp.Topics[0].Partitions[0]
	return answer.Offset, fault(answer.ErrorCode, nil)
}

// Read is coordinator.Log's.
func (l *Log) Read(ctx context.Context, shard int32, offset int64, maxBytes int) ([]byte, error) {
	to, err := l.leader(shard)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = consumer, sessionless
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, int32(maxBytes)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = shard, to.epoch, offset, int32(maxBytes)
	req.Topics = []kmsg.FetchRequestTopic{{Topic: l.cfg.Topic, TopicID: to.topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	resp, err := ask[*kmsg.FetchResponse](ctx, l, l.reads, to.addr, req)
	if err != nil {
		return nil, err
	}
	if err := fault(resp.ErrorCode, nil); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errUnasked
	}
	answer := &resp.Topics[0].Partitions[0]
	return answer.RecordBatches, fault(answer.ErrorCode, nil)
}

// errUnasked is an answer that is not about what was asked.
var errUnasked = errors.New("the answer is not about one partition")

func ask[R kmsg.Response](ctx context.Context, l *Log, pool *client.Pool, addr string, req kmsg.Request) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	var none R
	resp, err := pool.Do(ctx, addr, req)
	if err != nil {
		return none, err
	}
	return resp.(R), nil
}

func fault(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		return fmt.Errorf("%s: %w", *message, err)
	}
	return err
}
