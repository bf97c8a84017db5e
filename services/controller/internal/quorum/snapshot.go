package quorum

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// After a snapshot this much of the log before it stays in memory, so that followers a little behind need no snapshot.
const (
	retainedEntries = 1024
	retainedBytes   = 1 << 20
)

// smallSnapshotBytes of log are replayed in no time, however small the state.
const smallSnapshotBytes = 1 << 20

// madeSnapshot is a snapshot whose file is on disk, or not.
type madeSnapshot struct {
	snapshot *raftpb.Snapshot
	err      error
}

// snapshotDue is how many bytes of log are worth a snapshot: no more than the state itself has, so that a restart replays
// about as much as it loads, and snapshots at most double what is written.
func (q *Quorum) snapshotDue() int64 {
	state := int64(len(q.disk.store.newest.Load().GetData()))
	return min(max(state, smallSnapshotBytes), q.cfg.SnapshotBytes)
}

// maybeSnapshot begins a snapshot when the log since the last one is long enough. One is made at a time, beside the loop.
func (q *Quorum) maybeSnapshot() error {
	applied := q.applied.Load()
	if q.making || !q.wanted && (int64(applied-q.snapshotted) < q.cfg.SnapshotEntries && q.logBytes < q.snapshotDue()) {
		return nil
	}
	term, err := q.disk.store.Term(applied)
	if err != nil {
		return fmt.Errorf("quorum: term of entry %d: %w", applied, err)
	}
	encode, disk := q.machine.Snapshot(), q.disk
	s := &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &applied, Term: &term, ConfState: q.conf}}
	q.making, q.wanted, q.snapshotted, q.logBytes = true, false, applied, 0
	go func() { // Close waits for it
		data, err := encode()
		if err == nil {
			s.Data = data
			err = disk.writeSnapshotFile(s)
		}
		q.snapshots <- madeSnapshot{s, err}
	}()
	return nil
}

// keepSnapshot makes a snapshot whose file is safe on disk the start of the log.
func (q *Quorum) keepSnapshot(made madeSnapshot) error {
	q.making = false
	if made.err != nil {
		// The log is whole without it. Another is made after as many entries again.
		q.log.Error("metadata snapshot failed", zap.Error(made.err))
		return nil
	}
	index, store := made.snapshot.GetMetadata().GetIndex(), q.disk.store
	if _, err := store.CreateSnapshot(index, q.conf, nil); errors.Is(err, raft.ErrSnapOutOfDate) {
		return nil // the leader sent a newer one meanwhile
	} else if err != nil {
		return fmt.Errorf("quorum: snapshot at %d: %w", index, err)
	}
	store.newest.Store(made.snapshot)
	if err := q.disk.markSnapshot(made.snapshot.GetMetadata()); err != nil {
		return err
	}
	if err := q.compact(index); err != nil {
		return err
	}
	q.log.Info("metadata snapshot", zap.Uint64("index", index), zap.Int("bytes", len(made.snapshot.GetData())))
	return q.disk.release()
}

// compact drops entries before a snapshot from memory, but for the last few.
func (q *Quorum) compact(index uint64) error {
	first, err := q.disk.store.FirstIndex()
	if err != nil {
		return err
	}
	if first > index {
		return nil
	}
	entries, err := q.disk.store.Entries(first, index+1, ^uint64(0))
	if err != nil {
		return fmt.Errorf("quorum: entries from %d: %w", first, err)
	}
	keep, bytes := 0, 0
	for ; keep < min(retainedEntries, len(entries)); keep++ {
		if bytes += len(entries[len(entries)-1-keep].GetData()); bytes > retainedBytes {
			break
		}
	}
	if keep == len(entries) {
		return nil
	}
	return q.disk.store.Compact(index - uint64(keep))
}

// Entry is one applied entry of the log.
type Entry struct {
	Index int64
	Data  []byte
}

// EntriesAfter returns the applied entries that follow index, in order, of about maxBytes but at least one if there is
// any. ErrCompacted: only Snapshot leads there now. Safe for concurrent use.
func (q *Quorum) EntriesAfter(index int64, maxBytes int) ([]Entry, error) {
	lo, hi := max(uint64(index+1), firstIndex+1), q.applied.Load()+1
	var found []Entry
	for lo < hi && len(found) == 0 {
		entries, err := q.disk.store.Entries(lo, hi, uint64(maxBytes))
		if errors.Is(err, raft.ErrCompacted) {
			return nil, ErrCompacted
		}
		if err != nil {
			return nil, fmt.Errorf("quorum: entries from %d: %w", lo, err)
		}
		for _, e := range entries {
			if e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
				found = append(found, Entry{int64(e.GetIndex()), e.GetData()})
			}
		}
		lo += uint64(len(entries))
	}
	return found, nil
}

// Snapshot is the newest snapshot: its index, and what Machine.Snapshot encoded there. Safe for concurrent use.
func (q *Quorum) Snapshot() (index int64, data []byte) {
	s := q.disk.store.newest.Load()
	return int64(s.GetMetadata().GetIndex()), s.GetData()
}
