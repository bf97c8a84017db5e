// Package partition holds what this broker knows of each partition it hosts: its log, who leads it, and the readers
// that wait at its end.
package partition

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/watch"
)

// Partition is one replica on this broker.
//
// leadership is taken for reading by every append and for writing by every change of leader, so that no batch is
// stamped with a leader epoch that has ended, and by every change of the owner of the shard that a coordinators' partition
// stores. Lock order: leadership, then shard.mu, then the log's own lock; the watchers' source is notified with none held.
type Partition struct {
	Topic *Topic
	ID    int32
	// Watchers wait for more to read.
	Watchers watch.Source

	nodeID     int32
	log        *log.Log // nil when its log directory was offline as the partition came
	leadership sync.RWMutex
	state      atomic.Pointer[metadata.Partition]
	gone       atomic.Bool
	shard      shard
}

// Log returns the partition's log, or an error wrapping KAFKA_STORAGE_ERROR while its log directory is offline.
func (p *Partition) Log() (*log.Log, error) {
	if p.log == nil {
		return nil, fmt.Errorf("%s-%d: its log directory is offline: %w", p.Topic.Name, p.ID, kerr.KafkaStorageError)
	}
	return p.log, nil
}

// State returns the partition as the metadata has it: leader, epochs, replicas.
func (p *Partition) State() *metadata.Partition { return p.state.Load() }

// Gone reports whether the partition was deleted or moved away: whoever still holds it looks it up again.
func (p *Partition) Gone() bool { return p.gone.Load() }

// CheckLeader says whether this broker leads the partition under the leader epoch that a client believes in (-1 for
// none): NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH for an older and UNKNOWN_LEADER_EPOCH for a newer one (KIP-320).
func (p *Partition) CheckLeader(clientEpoch int32) error {
	state := p.state.Load()
	switch {
	case p.gone.Load() || state.Leader != p.nodeID:
		return kerr.NotLeaderForPartition
	case clientEpoch < 0 || clientEpoch == state.LeaderEpoch:
		return nil
	case clientEpoch < state.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	default:
		return kerr.UnknownLeaderEpoch
	}
}

// Leading returns the log of a partition that this broker leads, or the error for the client.
func (p *Partition) Leading(clientEpoch int32) (*log.Log, error) {
	if err := p.CheckLeader(clientEpoch); err != nil {
		return nil, err
	}
	return p.Log()
}

// Append writes a producer's batch, which it changes in place and does not keep, and whose checksum from
// record.AttributesAt on is known. The readers are not told: the caller does, with Advance, after it has answered the producer.
func (p *Partition) Append(batch []byte, checksum uint32, nowMs int64) (log.AppendInfo, error) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	l, err := p.Leading(-1)
	if err != nil {
		return log.AppendInfo{}, err
	}
	if err := p.replicates(); err != nil {
		return log.AppendInfo{}, err
	}
	info, err := l.AppendReceived(batch, checksum, p.state.Load().LeaderEpoch, nowMs)
	return info, p.appended(l, info, len(batch), err)
}

// replicates says why an append could not be acknowledged, or nil.
func (p *Partition) replicates() error {
	if n := len(p.state.Load().Replicas); n > 1 {
		// Nothing fetches from this leader yet: an acknowledgement would promise copies that do not exist.
		return fmt.Errorf("%s has %d replicas, and this version does not replicate: %w", p, n, kerr.NotEnoughReplicas)
	}
	return nil
}

// appended does what follows an append of size bytes, and returns its error.
func (p *Partition) appended(l *log.Log, info log.AppendInfo, size int, err error) error {
	if err != nil {
		p.Topic.counters.FailedProduceRequests.Add(1)
		return err
	}
	if info.Duplicate {
		return nil
	}
	l.SetHighWatermark(info.EndOffset)
	p.Topic.counters.MessagesIn.Add(info.LastOffset - info.FirstOffset + 1)
	p.Topic.counters.BytesIn.Add(int64(size))
	return nil
}

// Advance tells the readers that addedBytes more can be read.
func (p *Partition) Advance(addedBytes int64, ended *watch.Ended) {
	p.Watchers.Advance(addedBytes, ended)
}

// become takes the partition's new state from the metadata and tells the readers when the leader changed.
func (p *Partition) become(next *metadata.Partition) error {
	p.leadership.Lock()
	old := p.state.Load()
	p.state.Store(next)
	var err error
	if leads := next.Leader == p.nodeID; leads && p.log != nil && (old == nil || old.LeaderEpoch != next.LeaderEpoch) {
		if err = p.log.AssignEpoch(next.LeaderEpoch); err == nil && len(next.Replicas) == 1 {
			p.log.SetHighWatermark(p.log.EndOffset())
		}
	}
	p.leadership.Unlock()
	if old != nil && (old.Leader != next.Leader || old.LeaderEpoch != next.LeaderEpoch) {
		p.interrupt()
	}
	return err
}

func (p *Partition) leave() {
	p.leadership.Lock()
	p.gone.Store(true)
	p.leadership.Unlock()
	p.interrupt()
}

func (p *Partition) interrupt() {
	var ended watch.Ended
	p.Watchers.Interrupt(&ended)
	ended.Fire()
}
