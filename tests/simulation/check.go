package simulation

import (
	"fmt"
	"slices"
)

// truth is what has happened, that every replica is held against.
type truth struct {
	// history is the records below some leader's high watermark: readers may have seen them, producers been told.
	history      []entry
	acknowledged int
	appenders    map[int32]appender // of each leader epoch
	violations   []string
}

// appender is a process that appends as the leader.
type appender struct {
	id  int32
	run int
}

func (w *world) violated(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf("at %d ms ", w.nowMs)+fmt.Sprintf(format, args...))
}

func (w *world) hasCommitted(b *broker) bool {
	n := len(w.history)
	return len(b.disk.entries) >= n && slices.Equal(b.disk.entries[:n], w.history)
}

// commitRecords takes what lies below a leader's high watermark for committed.
func (w *world) commitRecords(b *broker) {
	below := b.disk.entries[:b.disk.hw]
	known := min(len(below), len(w.history))
	if !slices.Equal(below[:known], w.history[:known]) {
		w.violated("node %d leads epoch %d and has other records below its high watermark %d than were committed", b.id, b.state.LeaderEpoch, b.disk.hw)
		return
	}
	w.history = append(w.history, below[known:]...)
	w.tell("node %d commits up to %d; in sync %v", b.id, b.disk.hw, b.leader.ISR())
}

// checkReadable looks at what a follower lets readers see.
func (w *world) checkReadable(b *broker) {
	below := b.disk.entries[:b.disk.hw]
	if len(below) > len(w.history) || !slices.Equal(below, w.history[:len(below)]) {
		w.violated("node %d shows records below its high watermark %d that are not committed; %d are", b.id, b.disk.hw, len(w.history))
	}
}

func (w *world) acknowledge(e entry, end int64) {
	w.acknowledged++
	if end > int64(len(w.history)) || w.history[end-1] != e {
		w.violated("record %d is acknowledged and not committed", end-1)
	}
}

// checkAppends has one process at most append under a leader epoch.
func (w *world) checkAppends(b *broker, e entry) {
	a := appender{b.id, b.run}
	if first, ok := w.appenders[e.epoch]; ok && first != a {
		w.violated("node %d appends under epoch %d, as node %d did", b.id, e.epoch, first.id)
	}
	w.appenders[e.epoch] = a
}

// checkLeader looks at a leader as its epoch begins.
func (w *world) checkLeader(b *broker) {
	if !w.hasCommitted(b) {
		w.lost = true
		w.violated("node %d leads epoch %d and lacks committed records: it has %d records, %d are committed", b.id, b.state.LeaderEpoch, len(b.disk.entries), len(w.history))
	}
}

// checkTruncation has no high watermark go back under its readers.
func (w *world) checkTruncation(b *broker, to int64) {
	if to < b.disk.hw {
		w.violated("node %d truncates to %d, below its high watermark %d", b.id, to, b.disk.hw)
	}
}

// converged says what is not yet as it has to become once nothing fails any more; empty when all is well.
func (w *world) converged() string {
	p := partitionOf(w.committed())
	if p != nil && !p.HasLeader() && len(p.ISR)+len(p.ELR)+len(p.LastKnownELR) == 0 {
		w.offline = true // whoever had all records is no replica any more, or has lost some: it is for people to decide
		return ""
	}
	if p == nil || !p.HasLeader() || p.Reassigning() || len(p.ISR) != len(p.Replicas) {
		return fmt.Sprintf("the partition is %+v", p)
	}
	l := w.broker(p.Leader)
	if l.leader == nil || int(l.disk.hw) != len(l.disk.entries) || !w.hasCommitted(l) {
		return fmt.Sprintf("leader %d has %d records, a high watermark of %d, and %d are committed", l.id, len(l.disk.entries), l.disk.hw, len(w.history))
	}
	for _, id := range p.Replicas {
		if b := w.broker(id); !slices.Equal(b.disk.entries, l.disk.entries) || b.disk.hw != l.disk.hw {
			return fmt.Sprintf("node %d has %d records and a high watermark of %d, the leader %d and %d", id, len(b.disk.entries), b.disk.hw, len(l.disk.entries), l.disk.hw)
		}
	}
	return ""
}
