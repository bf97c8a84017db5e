package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// sweep forgets the transactional ids that have not been used for long, but none with an open transaction. What one batch has no
// room for is due at once.
func (s *step) sweep(now time.Time) {
	m := s.m
	before := now.Add(-m.settings.ExpireAfter).UnixMilli()
	for _, id := range slices.Sorted(maps.Keys(m.txns)) {
		if id < m.sweepFrom || !m.txns[id].idleSince(before) {
			continue
		}
		if s.bytes+len(id) > m.settings.MaxBatchBytes/2 {
			m.sweepFrom, m.sweepAt = id, now
			return
		}
		s.emit(id, nil)
	}
	m.sweepFrom, m.sweepAt = "", now.Add(m.settings.SweepEvery)
}

func (t *transaction) idleSince(ms int64) bool {
	return t.State != schema.Ongoing && !t.State.Decided() && t.initializing == 0 && t.UpdateMs <= ms
}
