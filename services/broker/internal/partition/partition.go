// Package partition holds what this broker knows of each partition it hosts: its log, who leads it, and the readers
// that wait at its end.
package partition

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/ack"
	"github.com/cauce-stream/cauce/services/broker/internal/watch"
)

// Partition is one replica on this broker.
//
// leadership is taken for reading by every append and for writing by every change of leader, so that no batch is
// stamped with a leader epoch that has ended, and by every change of the owner of the shard that a coordinators' partition
// stores. Lock order: leadership, then shard.mu, then leading.mu, then the log's own lock; the watchers' sources are notified
// with none held.
type Partition struct {
	Topic *Topic
	ID    int32
	// Watchers wait for more committed records; Replicas, the followers' fetches, for more records.
	Watchers, Replicas watch.Source
	// Traces are those of its newest records.
	Traces Traces

	set *Set
	// log is nil when its log directory was offline as the partition came. It changes, with leadership held for writing, when the
	// replica has moved to another directory.
	log        atomic.Pointer[log.Log]
	leadership sync.RWMutex
	state      atomic.Pointer[metadata.Partition]
	gone       atomic.Bool
	shard      shard
	leading    leading
	lag        atomic.Int64 // of a follower
}

// Log returns the partition's log, or an error wrapping KAFKA_STORAGE_ERROR while its log directory is offline.
func (p *Partition) Log() (*log.Log, error) {
	l := p.log.Load()
	if l == nil {
		return nil, fmt.Errorf("%s-%d: its log directory is offline: %w", p.Topic.Name, p.ID, kerr.KafkaStorageError)
	}
	return l, nil
}

// Failed says whether the partition has no log that works.
func (p *Partition) Failed() bool {
	l, err := p.Log()
	if err == nil {
		err = l.Err()
	}
	return errors.Is(err, kerr.KafkaStorageError)
}

// State returns the partition as the metadata has it: leader, epochs, replicas.
func (p *Partition) State() *metadata.Partition { return p.state.Load() }

// Gone reports whether the partition was deleted or moved away: whoever still holds it looks it up again.
func (p *Partition) Gone() bool { return p.gone.Load() }

// CheckLeader says whether this broker leads the partition under the leader epoch that a client believes in (-1 for
// none): NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH for an older and UNKNOWN_LEADER_EPOCH for a newer one (KIP-320).
func (p *Partition) CheckLeader(clientEpoch int32) error {
	if p.state.Load().Leader != p.set.cfg.NodeID {
		return kerr.NotLeaderForPartition
	}
	return p.checkEpoch(clientEpoch)
}

func (p *Partition) checkEpoch(clientEpoch int32) error {
	epoch := p.state.Load().LeaderEpoch
	switch {
	case p.gone.Load():
		return kerr.NotLeaderForPartition
	case clientEpoch < 0 || clientEpoch == epoch:
		return nil
	case clientEpoch < epoch:
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

// Serving returns the log of a partition that this broker leads or follows, for consumers that may read from followers
// (KIP-392), or the error for the client.
func (p *Partition) Serving(clientEpoch int32) (*log.Log, error) {
	if err := p.checkEpoch(clientEpoch); err != nil {
		return nil, err
	}
	return p.Log()
}

// Append writes a producer's batch, which it changes in place and does not keep, and whose checksum from
// record.AttributesAt on is known. With acksAll it is refused while too few replicas are in sync (kerr.NotEnoughReplicas). One that
// begins a transaction needs the guard that Verify gave, unless transactions are not verified: guard is nil then. The readers are
// not told: the caller does, with Tell, after it has answered the producer.
func (p *Partition) Append(batch []byte, checksum uint32, guard *log.Guard, acksAll bool, nowMs int64, done *Done) (info log.AppendInfo, err error) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	l, err := p.Leading(-1)
	if err != nil {
		return log.AppendInfo{}, err
	}
	if err := p.enoughReplicas(acksAll); err != nil {
		return log.AppendInfo{}, err
	}
	if guard == nil {
		info, err = l.AppendReceived(batch, checksum, p.state.Load().LeaderEpoch, nowMs)
	} else {
		info, err = l.AppendVerified(batch, checksum, *guard, p.state.Load().LeaderEpoch, nowMs)
	}
	return info, p.appended(l, info, len(batch), err, done)
}

// appended does what follows an append of size bytes, and returns its error. leadership is held for reading.
func (p *Partition) appended(l *log.Log, info log.AppendInfo, size int, err error, done *Done) error {
	if err != nil {
		p.Topic.counters.FailedProduceRequests.Add(1)
		return err
	}
	if info.Duplicate {
		return nil
	}
	if p.leading.leader == nil {
		l.SetHighWatermark(info.EndOffset)
	} else {
		p.leading.appended(p, l, info.FirstOffset, done)
	}
	p.Topic.counters.MessagesIn.Add(info.LastOffset - info.FirstOffset + 1)
	p.Topic.counters.BytesIn.Add(int64(size))
	return nil
}

// Tell has the followers, and the readers of what is committed, learn of an append of addedBytes that ended at endOffset.
func (p *Partition) Tell(addedBytes, endOffset int64, done *Done) {
	p.Replicas.Advance(addedBytes, &done.readers)
	if p.log.Load().HighWatermark() >= endOffset {
		p.Watchers.Advance(addedBytes, &done.readers)
	}
}

// become takes the partition's new state from the metadata, and ends the waits that a change of leader makes vain.
func (p *Partition) become(next *metadata.Partition) error {
	var done Done
	p.leadership.Lock()
	old := p.state.Load()
	p.state.Store(next)
	err := p.lead(old, next, &done)
	p.leadership.Unlock()
	if old != nil && (old.Leader != next.Leader || old.LeaderEpoch != next.LeaderEpoch) {
		p.Replicas.Interrupt(&done.readers)
		p.Watchers.Interrupt(&done.readers)
	}
	done.Fire()
	return err
}

func (p *Partition) leave() {
	var done Done
	p.leadership.Lock()
	p.gone.Store(true)
	p.stopLeading(&done)
	p.leadership.Unlock()
	p.Replicas.Interrupt(&done.readers)
	p.Watchers.Interrupt(&done.readers)
	done.Fire()
}

// Done collects the waits that a change has ended. Fire answers them.
type Done struct {
	readers   watch.Ended
	producers ack.Done
}

// Fire answers producers, then readers. The caller must hold no lock.
func (d *Done) Fire() {
	d.producers.Fire()
	d.readers.Fire()
}
