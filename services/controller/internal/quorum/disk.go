package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// walSegmentBytes is allocated ahead, twice. etcd's own 64 MB suit a busier log.
const walSegmentBytes = 4 << 20

func init() { wal.SegmentSizeBytes = walSegmentBytes }

// firstIndex is where every log begins: with a snapshot of nothing, which names the voters.
const (
	firstIndex uint64 = 1
	firstTerm  uint64 = 1
)

// keptSnapshots are left on disk, with the WAL from the oldest of them on, lest the newest prove unreadable.
const keptSnapshots = 2

// disk is the durable log: Dir/wal and Dir/snap, in etcd's formats, and the part of it that is kept in memory.
type disk struct {
	log      *zap.Logger
	walDir   string
	snapDir  string
	wal      *wal.WAL
	files    *snap.Snapshotter
	store    *store
	released []uint64 // indexes of the snapshots on disk, oldest first
}

// store is raft's view of the log. The newest snapshot's data is kept once, where MemoryStorage would copy it at every look.
type store struct {
	*raft.MemoryStorage
	newest atomic.Pointer[raftpb.Snapshot] // never changed once stored
}

func (s *store) Snapshot() (*raftpb.Snapshot, error) { return s.newest.Load(), nil }

func (s *store) apply(snapshot *raftpb.Snapshot) error {
	if err := s.ApplySnapshot(&raftpb.Snapshot{Metadata: snapshot.GetMetadata()}); err != nil {
		return fmt.Errorf("quorum: snapshot at %d: %w", snapshot.GetMetadata().GetIndex(), err)
	}
	s.newest.Store(snapshot)
	return nil
}

func hasLog(dir string) bool { return wal.Exist(filepath.Join(dir, "wal")) }

// openDisk recovers the log of cfg.Dir.
func openDisk(ctx context.Context, cfg Config, log *zap.Logger) (*disk, error) {
	d := newDisk(cfg.Dir, log)
	if err := d.recover(ctx, cfg); err != nil {
		return nil, fmt.Errorf("quorum: recover the log in %s: %w", cfg.Dir, err)
	}
	return d, nil
}

func newDisk(dir string, log *zap.Logger) *disk {
	d := &disk{log: log, walDir: filepath.Join(dir, "wal"), snapDir: filepath.Join(dir, "snap"), store: &store{MemoryStorage: raft.NewMemoryStorage()}}
	d.files = snap.New(log, d.snapDir)
	return d
}

// bootstrap makes the directory in one step: it is there whole, or not. Without founders the log is empty, for a member of
// a group that exists.
func bootstrap(cfg Config, founders []uint64, log *zap.Logger) error {
	tmp := filepath.Clean(cfg.Dir) + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	d := newDisk(tmp, log)
	if err := os.MkdirAll(d.snapDir, 0o750); err != nil {
		return err
	}
	var err error
	if d.wal, err = wal.Create(log, d.walDir, owner(cfg)); err != nil {
		return err
	}
	if len(founders) > 0 {
		first, term := firstIndex, firstTerm
		conf := &raftpb.ConfState{Voters: founders}
		err = d.saveSnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &first, Term: &term, ConfState: conf}})
		if err == nil {
			err = d.save(&raftpb.HardState{Term: &term, Commit: &first}, nil)
		}
	}
	if err = errors.Join(err, d.close()); err != nil {
		return err
	}
	// An empty directory may be there already, a mount point's for instance; what is in it stays.
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "snap")); err != nil {
		return err
	}
	// The WAL comes last: with it the log exists.
	for _, name := range []string{"snap", "wal"} {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(cfg.Dir, name)); err != nil {
			return err
		}
		if err := syncDir(cfg.Dir); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(filepath.Dir(filepath.Clean(cfg.Dir))), os.RemoveAll(tmp))
}

// owner is written at the head of each WAL file, so that no node takes another's log for its own.
func owner(cfg Config) []byte { return fmt.Appendf(nil, "node.id=%d", cfg.ID) }

// recover loads the newest snapshot that the WAL knows of and the entries after it.
func (d *disk) recover(ctx context.Context, cfg Config) error {
	known, err := wal.ValidSnapshotEntries(d.log, d.walDir)
	if err != nil {
		return err
	}
	snapshot := &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64), Term: new(uint64), ConfState: &raftpb.ConfState{}}}
	d.store.newest.Store(snapshot) // of a log that began empty and got nothing yet
	if slices.ContainsFunc(known, func(s *walpb.Snapshot) bool { return s.GetIndex() > 0 }) {
		if snapshot, err = d.files.LoadNewestAvailable(known); err != nil {
			return err
		}
		if err := d.store.apply(snapshot); err != nil {
			return err
		}
	}
	meta := snapshot.GetMetadata()
	state, entries, err := d.openWAL(ctx, cfg, &walpb.Snapshot{Index: meta.Index, Term: meta.Term})
	if err != nil {
		return err
	}
	for _, s := range known {
		if s.GetIndex() > 0 && s.GetIndex() <= meta.GetIndex() {
			d.released = append(d.released, s.GetIndex())
		}
	}
	if err := d.store.SetHardState(state); err != nil {
		return err
	}
	return d.store.Append(entries)
}

// A program that is being started, such as a plugin, has this process's files until the kernel has closed them for it, and so the locks of those that were
// closed a moment ago.
const (
	lockWait  = 2 * time.Second
	lockPause = 5 * time.Millisecond
)

// openLocked is wal.Open that waits for a lock as long as a program's start may hold it.
func openLocked(ctx context.Context, log *zap.Logger, dir string, from *walpb.Snapshot) (*wal.WAL, error) {
	deadline := time.Now().Add(lockWait)
	for {
		w, err := wal.Open(log, dir, from)
		if !errors.Is(err, fileutil.ErrLocked) {
			return w, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("it is in use by another process, still after %v: %w", lockWait, err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(lockPause):
		}
	}
}

// openWAL reads the WAL from a snapshot on and leaves it open for writing. A record that a crash cut short at the very
// end was never acknowledged and is removed; any other damage is refused.
func (d *disk) openWAL(ctx context.Context, cfg Config, from *walpb.Snapshot) (*raftpb.HardState, []*raftpb.Entry, error) {
	for repaired := false; ; repaired = true {
		w, err := openLocked(ctx, d.log, d.walDir, from)
		if err != nil {
			return nil, nil, err
		}
		got, state, entries, err := w.ReadAll()
		switch {
		case err == nil && string(got) != string(owner(cfg)):
			err = fmt.Errorf("this log belongs to %s, not to %s", got, owner(cfg))
		case err == nil:
			d.wal = w
			return state, entries, nil
		case !repaired && errors.Is(err, io.ErrUnexpectedEOF):
			if err := w.Close(); err != nil {
				return nil, nil, err
			}
			if wal.Repair(d.log, d.walDir) {
				d.log.Warn("removed a torn record from the end of the metadata log", zap.String("dir", d.walDir))
				continue
			}
			return nil, nil, fmt.Errorf("torn record cannot be removed: %w", err)
		}
		return nil, nil, errors.Join(err, w.Close())
	}
}

// save makes entries and state durable; state alone is only written.
func (d *disk) save(state *raftpb.HardState, entries []*raftpb.Entry) error {
	if err := d.wal.Save(state, entries); err != nil {
		return fmt.Errorf("quorum: write the log: %w", err)
	}
	return nil
}

// saveSnapshot writes a snapshot's file, and then its mark in the WAL.
func (d *disk) saveSnapshot(s *raftpb.Snapshot) error {
	if err := d.writeSnapshotFile(s); err != nil {
		return err
	}
	return d.markSnapshot(s.GetMetadata())
}

func (d *disk) writeSnapshotFile(s *raftpb.Snapshot) error {
	if err := d.files.SaveSnap(s); err != nil {
		return fmt.Errorf("quorum: write the snapshot at %d: %w", s.GetMetadata().GetIndex(), err)
	}
	return syncDir(d.snapDir)
}

func (d *disk) markSnapshot(m *raftpb.SnapshotMetadata) error {
	if err := d.wal.SaveSnapshot(&walpb.Snapshot{Index: m.Index, Term: m.Term, ConfState: m.GetConfState()}); err != nil {
		return fmt.Errorf("quorum: mark the snapshot at %d: %w", m.GetIndex(), err)
	}
	d.released = append(d.released, m.GetIndex())
	return nil
}

// release removes what no kept snapshot needs: older snapshots, and the WAL files that end before the oldest kept one.
func (d *disk) release() error {
	if extra := len(d.released) - keptSnapshots; extra > 0 {
		d.released = slices.Delete(d.released, 0, extra)
	}
	oldest := d.released[0]
	if err := d.wal.ReleaseLockTo(oldest); err != nil {
		return fmt.Errorf("quorum: release the log to %d: %w", oldest, err)
	}
	if err := removeOlder(d.snapDir, ".snap", oldest, func(name string, _ string) (uint64, bool) { return secondIndex(name) }); err != nil {
		return err
	}
	// A WAL file is named by its first entry's index: it is not needed once the next one begins at or before the snapshot's successor.
	return removeOlder(d.walDir, ".wal", oldest, func(_, next string) (uint64, bool) { return secondIndex(next) })
}

// removeOlder removes the files of dir, in order of name, for which end says an index below limit.
func removeOlder(dir, suffix string, limit uint64, end func(name, next string) (uint64, bool)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("quorum: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	for i, name := range names {
		next := ""
		if i+1 < len(names) {
			next = names[i+1]
		}
		if index, ok := end(name, next); ok && index < limit {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("quorum: %w", err)
			}
		}
	}
	return nil
}

// secondIndex reads the index of a name such as <term or sequence>-<index>.wal, both in hexadecimal.
func secondIndex(name string) (uint64, bool) {
	var first, index uint64
	n, err := fmt.Sscanf(name, "%016x-%016x.", &first, &index)
	return index, err == nil && n == 2
}

func (d *disk) close() error {
	if err := d.wal.Close(); err != nil {
		return fmt.Errorf("quorum: close the log: %w", err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("quorum: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}
