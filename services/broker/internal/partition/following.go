package partition

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/broker/internal/replication"
)

// ErrNotFollowing says that this broker does not, or no more, follow the leader epoch that a step of replication belongs to.
var ErrNotFollowing = errors.New("this broker does not follow that leader epoch")

// following calls do with the log while this broker follows the leader of the epoch.
func (p *Partition) following(epoch int32, do func(l *log.Log) error) error {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	state := p.state.Load()
	if p.gone.Load() || state.Leader == p.set.cfg.NodeID || state.LeaderEpoch != epoch {
		return fmt.Errorf("%s: leader epoch %d: %w", p, epoch, ErrNotFollowing)
	}
	l, err := p.Log()
	if err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	return do(l)
}

// Lag is how many records that are committed this broker lacked at its last fetch.
func (p *Partition) Lag() int64 { return p.lag.Load() }

// Copy is what a leader has answered to a follower's fetch.
type Copy struct {
	LeaderEpoch   int32 // under which it was fetched
	Offset        int64 // from which
	Records       []byte
	HighWatermark int64
	StartOffset   int64
}

// Replicate stores what was fetched and follows the leader's high watermark and log start. Errors wrap ErrNotFollowing,
// kerr.CorruptMessage, log.ErrUnexpectedOffset or kerr.KafkaStorageError.
func (p *Partition) Replicate(c Copy) error {
	var done Done
	err := p.following(c.LeaderEpoch, func(l *log.Log) error {
		if c.Offset != l.EndOffset() {
			return fmt.Errorf("%s ends at %d, fetched from %d: %w", p, l.EndOffset(), c.Offset, log.ErrUnexpectedOffset)
		}
		if len(c.Records) > 0 {
			// A batch of a later epoch than that of the fetch was cut and written over as it was sent (KAFKA-18723).
			if err := checkEpochs(c.Records, c.LeaderEpoch); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			if _, err := l.AppendAsFollower(c.Records); err != nil {
				return err
			}
		}
		p.lag.Store(max(c.HighWatermark-l.EndOffset(), 0))
		before := l.HighWatermark()
		moved := l.SetHighWatermark(c.HighWatermark) > before
		if start := l.StartOffset(); c.StartOffset > start {
			if err := l.SetStartOffset(c.StartOffset); err != nil {
				return err
			}
			moved = moved || l.StartOffset() > start
		}
		if moved {
			p.Watchers.Advance(anyBytes, &done.readers)
		}
		return nil
	})
	done.Fire()
	return err
}

func checkEpochs(records []byte, epoch int32) error {
	for rest := records; len(rest) > 0; {
		b, next, err := record.Next(rest)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if b.LeaderEpoch() > epoch {
			return fmt.Errorf("batch at offset %d has leader epoch %d, fetched under %d: %w", b.BaseOffset(), b.LeaderEpoch(), epoch, kerr.CorruptMessage)
		}
		rest = next
	}
	return nil
}

// Truncate cuts the log where it leaves that of the leader, who named its largest epoch that is not above that of the last
// record here, and its end. It returns where the log ends then.
func (p *Partition) Truncate(leaderEpoch, epoch int32, endOffset int64) (end int64, err error) {
	err = p.following(leaderEpoch, func(l *log.Log) error {
		err := l.TruncateTo(replication.TruncateTo(l, epoch, endOffset))
		end = l.EndOffset()
		return err
	})
	return end, err
}

// Resume brings the log into the range of the leader's, which had none of what was asked for. It returns where the log ends
// then.
func (p *Partition) Resume(leaderEpoch int32, leaderStart, leaderEnd int64) (end int64, err error) {
	err = p.following(leaderEpoch, func(l *log.Log) error {
		var err error
		if to := replication.OutOfRange(l.EndOffset(), leaderStart, leaderEnd); to.Restart {
			err = l.TruncateFullyAndStartAt(to.Offset)
		} else {
			err = l.TruncateTo(to.Offset)
		}
		end = l.EndOffset()
		return err
	})
	return end, err
}
