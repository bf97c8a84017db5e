package partition

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/services/broker/internal/replication"
)

// ErrNotMoving says that the replica does not, or no more, move to another log directory.
var ErrNotMoving = errors.New("the replica does not move")

// copyBytes is about how much one step of a move copies.
const copyBytes = 1 << 20

// MoveStep takes the move of the replica to another log directory (logdir.Set.Move) one step on: it copies what comes next, or
// puts the copy in the log's place once that has everything. The copy follows the log as a follower does its leader, so that
// what is truncated or removed meanwhile is so there too. Errors that wrap ErrNotMoving, kerr.CorruptMessage or
// kerr.KafkaStorageError end the move; others may pass.
func (p *Partition) MoveStep() (copiedBytes int, moved bool, err error) {
	future, ok := p.set.cfg.Logs.Future(p.Topic.Name, p.ID)
	if !ok || p.gone.Load() {
		return 0, false, fmt.Errorf("%s: %w", p, ErrNotMoving)
	}
	l, err := p.Log()
	if err != nil {
		return 0, false, err
	}
	copiedBytes, complete, err := copyOn(l, future)
	if err != nil || !complete {
		return copiedBytes, false, err
	}
	if err := future.Flush(); err != nil { // so that there is little to wait for below
		return copiedBytes, false, err
	}
	return copiedBytes, true, p.switchTo(future)
}

// copyOn brings the future on by one read of the log, and tells whether it was complete then.
func copyOn(l, future *log.Log) (copiedBytes int, complete bool, err error) {
	if err := align(l, future); err != nil {
		return 0, false, err
	}
	if future.EndOffset() < l.EndOffset() {
		records, err := next(l, future)
		if err != nil {
			return 0, false, err
		}
		if _, err := future.AppendAsFollower(records); err != nil && !errors.Is(err, log.ErrUnexpectedOffset) {
			return 0, false, err
		}
		copiedBytes = len(records)
	}
	future.SetHighWatermark(l.HighWatermark())
	return copiedBytes, future.EndOffset() == l.EndOffset(), future.SetStartOffset(l.StartOffset())
}

// next reads what follows in the log after the end of the future; nothing when the log was truncated meanwhile.
func next(l, future *log.Log) ([]byte, error) {
	slice, err := l.Read(future.EndOffset(), copyBytes, log.LogEnd, true)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer slice.Release()
	records, err := slice.AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
	}
	// What was read before the log is seen to go on from the future does go on from it. Truncated later, it is found by align.
	if diverges, _, _, err := replication.Diverges(l, future.EndOffset(), future.LatestEpoch()); err != nil || diverges {
		return nil, nil
	}
	return records, nil
}

// maxTruncations bounds how often the future is cut in one go: each time one leader epoch at least goes.
const maxTruncations = 1000

// align cuts off of the future what the log does not have.
func align(l, future *log.Log) error {
	for range maxTruncations {
		end := future.EndOffset()
		if end < l.StartOffset() {
			return future.TruncateFullyAndStartAt(l.StartOffset())
		}
		diverges, epoch, endOffset, err := replication.Diverges(l, end, future.LatestEpoch())
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			return future.TruncateFullyAndStartAt(l.StartOffset())
		case err != nil:
			return err
		case diverges:
			err = future.TruncateTo(replication.TruncateTo(future, epoch, endOffset))
		case end > l.EndOffset():
			err = future.TruncateTo(l.EndOffset())
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the copy does not become like the log")
}

// lastReads bounds how much is copied while nobody may append.
const lastReads = 16

// switchTo copies what was appended since, and puts the copy in the log's place.
func (p *Partition) switchTo(future *log.Log) error {
	p.leadership.Lock()
	defer p.leadership.Unlock()
	l, err := p.Log()
	if err != nil {
		return err
	}
	complete := false
	for n := 0; !complete; n++ {
		if n == lastReads || p.gone.Load() {
			return errors.New("the copy does not catch up")
		}
		if _, complete, err = copyOn(l, future); err != nil {
			return err
		}
	}
	if diverges, _, _, err := replication.Diverges(l, future.EndOffset(), future.LatestEpoch()); err != nil {
		return fmt.Errorf("the copy differs from the log: %w", err)
	} else if diverges {
		return errors.New("the copy differs from the log")
	}
	if state := p.state.Load(); state.Leader == p.set.cfg.NodeID {
		if err := future.AssignEpoch(state.LeaderEpoch); err != nil {
			return err
		}
	}
	fresh, err := p.set.cfg.Logs.Promote(p.Topic.Name, p.ID)
	if err != nil {
		return err
	}
	p.log.Store(fresh)
	return nil
}
