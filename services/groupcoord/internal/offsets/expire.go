package offsets

import (
	"time"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// Retention is what a group says of how long its offsets are kept.
type Retention struct {
	// Expires is unset while nothing may expire.
	Expires bool
	// SinceMs is from when offsets.retention.minutes count, in milliseconds since 1970; -1 for the time of each commit.
	SinceMs int64
}

// Expire deletes the offsets of a group that were kept for long enough, except those of topics that are subscribed to. none says
// whether the group has no offsets any more, all whether there was room to delete what was to be deleted.
func (s *Store) Expire(o *op.Op, group string, r Retention, subscribed func(topic string) bool) (none, all bool) {
	if r.Expires {
		kept := o.Settings.Broker.Duration("offsets.retention.minutes", time.Minute)
		for _, at := range s.committed[group].ordered() {
			if subscribed(at.topic) || s.unstable(group, at) || !s.committed[group][at].expired(o.Now.UnixMilli(), kept, r) {
				continue
			}
			if !forget(o, group, at) {
				return false, false
			}
		}
	}
	return len(s.committed[group]) == 0 && len(s.pending[group]) == 0, true
}

func (e entry) expired(nowMs int64, kept time.Duration, r Retention) bool {
	if e.ExpireTimestampMs >= 0 {
		return nowMs >= e.ExpireTimestampMs
	}
	since := r.SinceMs
	if since < 0 {
		since = e.CommitTimestampMs
	}
	return nowMs-since >= kept.Milliseconds()
}
