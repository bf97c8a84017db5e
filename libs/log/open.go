package log

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
)

// Open opens the log in dir (<log dir>/<topic>-<partition>, or see Options.Name), creating the folder when it is missing and recovering
// from an unclean shutdown when o says there was one: every segment that reaches above the recovery point is read,
// cut off at the first byte that is no valid batch, and gets new indexes.
func Open(dir string, o Options) (*Log, error) {
	dir = filepath.Clean(dir)
	topic, partition, ok := ParseDirName(cmp.Or(o.Name, filepath.Base(dir)))
	if !ok {
		return nil, fmt.Errorf("%s is not the name of a partition folder", cmp.Or(o.Name, dir))
	}
	l := &Log{
		dir: dir, topic: topic, partition: partition, topicID: o.TopicID,
		logger: o.Logger, fs: o.FS, onRoll: o.OnRoll, onTruncate: o.OnTruncate, onFailure: o.OnFailure, lastMs: o.NowMs,
	}
	if l.logger == nil {
		l.logger = zap.NewNop()
	}
	l.SetConfig(o.Config)
	l.lastFlushMs.Store(o.NowMs)
	l.unstable.Store(-1)
	l.cleanedTo.Store(o.CleanedTo)
	l.horizonMs.Store(unknownMs)
	err := l.load(o)
	if l.segments.Load() != nil {
		l.dropFiles() // many logs are opened that nobody uses soon
	}
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w: %w", dir, kerr.KafkaStorageError, err)
	}
	return l, nil
}

func (l *Log) load(o Options) error {
	files, err := l.listFiles(o.NowMs)
	if err != nil {
		return err
	}
	if err := l.loadMetadata(files.metadata); err != nil {
		return err
	}
	l.setSegments(files.segments)
	l.snapshots = files.snapshots
	epochsKnown, err := l.loadEpochs(files.epochs)
	if err != nil {
		return err
	}
	end, err := l.recover(o, epochsKnown)
	if err != nil {
		return err
	}
	segs := *l.segments.Load()
	if len(segs) > 0 && end < o.LogStartOffset {
		// The files are older than the checkpoint, or some are gone. Nothing of what is left may be read.
		l.logger.Warn("removing all segments, which end below the log start offset", zap.String("dir", l.dir),
			zap.Int64("end", end), zap.Int64("start", o.LogStartOffset))
		if err := l.discard(segs); err != nil {
			return err
		}
		segs, l.producers = nil, producers{}
		l.epochs.cutFrom(0)
	}
	if len(segs) == 0 {
		s := newSegment(l.fs, l.dir, o.LogStartOffset, o.NowMs)
		if err := s.create(l.config.Load()); err != nil {
			return err
		}
		s.times.forget()
		segs, end = []*segment{s}, o.LogStartOffset
		l.producers.end = end
		l.setSegments(segs)
	}
	return l.settleAt(end, segs, o)
}

// settleAt publishes the offsets of a log that has been loaded.
func (l *Log) settleAt(end int64, segs []*segment, o Options) error {
	start := max(segs[0].base, o.LogStartOffset)
	l.start.Store(start)
	l.end.Store(end)
	if o.CleanedTo > end {
		l.cleanedTo.Store(0) // the checkpoint is of another log, or of records that are lost
	}
	l.highWatermark.Store(min(max(o.HighWatermark, start), end))
	l.flushed.Store(end)
	if !o.CleanShutdown {
		l.flushed.Store(min(o.RecoveryPoint, end))
	}
	l.sealed.Store(end)
	for _, s := range slices.Backward(segs) {
		s.linked = s.durable.Load()
		if !s.linked {
			l.sealed.Store(s.base)
			l.rolled = l.rolled || s != segs[len(segs)-1]
		}
	}
	active := segs[len(segs)-1]
	l.tail.reset(mark{end, active, active.size.Load()})
	l.epochs.cutFrom(end)
	l.epochs.cutBefore(o.LogStartOffset)
	l.producers.expire(o.NowMs, l.config.Load().ProducerIDExpirationMs)
	l.settle()
	l.removeStraySnapshots(segs)
	return nil
}

// folder is what a partition folder holds.
type folder struct {
	segments  []*segment
	snapshots []int64
	epochs    bool // there is a leader-epoch checkpoint
	metadata  bool // there is a partition.metadata
}

// listFiles reads the folder, makes it if it is missing, and clears away what interrupted work has left.
func (l *Log) listFiles(nowMs int64) (folder, error) {
	var found folder
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return found, l.fs.MkdirAll(l.dir)
	}
	if err != nil {
		return found, err
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() {
			names[e.Name()] = true
		}
	}
	if err := l.finishSwaps(names); err != nil {
		return found, err
	}
	for name := range names {
		offset, suffix, ok := parseFileName(name)
		switch {
		case strings.HasSuffix(name, deletedSuffix) || strings.HasSuffix(name, ".tmp"):
			err = l.fs.Remove(filepath.Join(l.dir, name))
		case name == epochsFile:
			found.epochs = true
		case name == metadataFile:
			found.metadata = true
		case ok && suffix == snapshotSuffix:
			found.snapshots = append(found.snapshots, offset)
		case ok && suffix == logSuffix:
			var s *segment
			if s, err = l.openSegment(offset, nowMs, names); err == nil {
				found.segments = append(found.segments, s)
			}
		case ok && !names[fileName(offset, logSuffix)]:
			err = l.fs.Remove(filepath.Join(l.dir, name)) // an index without its log
		}
		if err != nil {
			return found, err
		}
	}
	slices.Sort(found.snapshots)
	slices.SortFunc(found.segments, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
	return found, nil
}

// parseFileName splits the name of a segment file or snapshot.
func parseFileName(name string) (offset int64, suffix string, ok bool) {
	i := strings.IndexByte(name, '.')
	if i <= 0 {
		return 0, "", false
	}
	switch suffix = name[i:]; suffix {
	case logSuffix, indexSuffix, timeSuffix, txnSuffix, snapshotSuffix:
	default:
		return 0, "", false
	}
	offset, err := strconv.ParseInt(name[:i], 10, 64)
	return offset, suffix, err == nil && offset >= 0 && fileName(offset, suffix) == name
}

// openSegment takes up a segment that is in the folder. Its indexes are complete only if their files are there and of a
// length that can be.
func (l *Log) openSegment(base, nowMs int64, names map[string]bool) (*segment, error) {
	s := newSegment(l.fs, l.dir, base, nowMs)
	info, err := os.Stat(s.path(logSuffix))
	if err != nil {
		return nil, err
	}
	s.size.Store(info.Size())
	s.createdMs = info.ModTime().UnixMilli()
	s.txns.exists.Store(names[fileName(base, txnSuffix)])
	for _, t := range []*table{&s.offsets.table, &s.times.table} {
		size := int64(-1)
		if names[fileName(base, t.file.suffix)] {
			info, err := os.Stat(s.path(t.file.suffix))
			if err != nil {
				return nil, err
			}
			size = info.Size()
		}
		if size < 0 || size%int64(t.width) != 0 {
			s.needsIndexes = true
			continue
		}
		t.reset(int(size / int64(t.width)))
	}
	return s, nil
}

// loadEpochs reads the leader-epoch checkpoint. known is false when it has to be made from the batches.
func (l *Log) loadEpochs(exists bool) (known bool, err error) {
	if !exists {
		return false, nil
	}
	raw, err := os.ReadFile(filepath.Join(l.dir, epochsFile))
	if err != nil {
		return false, err
	}
	entries, err := decodeEpochs(raw)
	if err != nil {
		l.logger.Warn("making the leader epochs anew", zap.String("dir", l.dir), zap.Error(err))
		l.epochs.dirty = true
		return false, nil
	}
	l.epochs.entries = entries
	return true, nil
}

// removeStraySnapshots keeps the snapshots that begin a segment and the newest one.
func (l *Log) removeStraySnapshots(segs []*segment) {
	newest := int64(-1)
	if n := len(l.snapshots); n > 0 {
		newest = l.snapshots[n-1]
	}
	l.snapshots = slices.DeleteFunc(l.snapshots, func(offset int64) bool {
		i := floor(segs, offset)
		if offset == newest || i >= 0 && segs[i].base == offset {
			return false
		}
		_ = l.fs.Remove(l.snapshotPath(offset)) // what stays is tried again at the next start
		return true
	})
	if len(l.snapshots) == 0 {
		l.snapshots = nil
	}
}

// finishSwaps completes or undoes a compaction that was interrupted: .cleaned files are unfinished and go; .swap files are
// finished and take the place of the segments whose range they cover. names is brought up to date.
func (l *Log) finishSwaps(names map[string]bool) error {
	lowest := int64(-1) // base of the lowest unfinished segment
	var swaps []string
	for name := range names {
		switch {
		case strings.HasSuffix(name, cleanedSuffix):
			if offset, _, ok := parseFileName(strings.TrimSuffix(name, cleanedSuffix)); ok && (lowest < 0 || offset < lowest) {
				lowest = offset
			}
		case strings.HasSuffix(name, swapSuffix):
			swaps = append(swaps, name)
		}
	}
	if lowest < 0 && len(swaps) == 0 {
		return nil
	}
	from, upTo := int64(-1), int64(-1) // what the swapped segments cover
	var valid []string
	for _, name := range swaps {
		offset, suffix, ok := parseFileName(strings.TrimSuffix(name, swapSuffix))
		if !ok || lowest >= 0 && offset >= lowest {
			continue
		}
		if suffix != logSuffix {
			valid = append(valid, name)
			continue
		}
		valid = slices.Insert(valid, 0, name) // while there is a .log to swap, what is in place is taken for old
		next, err := nextOffsetOf(filepath.Join(l.dir, name), offset)
		if err != nil {
			return err
		}
		if from < 0 || offset < from {
			from = offset
		}
		upTo = max(upTo, next)
	}
	for name := range names {
		offset, suffix, ok := parseFileName(name)
		replaced := ok && suffix != snapshotSuffix && from >= 0 && offset >= from && offset < upTo
		stale := strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, swapSuffix) && !slices.Contains(valid, name)
		if replaced || stale {
			if err := l.fs.Remove(filepath.Join(l.dir, name)); err != nil {
				return err
			}
			delete(names, name)
		}
	}
	for _, name := range valid {
		to := strings.TrimSuffix(name, swapSuffix)
		if err := l.fs.Rename(filepath.Join(l.dir, name), filepath.Join(l.dir, to)); err != nil {
			return err
		}
		delete(names, name)
		names[to] = true
	}
	return nil
}

// nextOffsetOf is the offset after the last batch of a segment file.
func nextOffsetOf(path string, base int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sc, err := newScanner(f)
	if err != nil {
		return 0, err
	}
	defer sc.close()
	next := base
	for {
		b, _, err := sc.next()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, kerr.CorruptMessage) {
				return next, nil
			}
			return 0, err
		}
		next = b.LastOffset() + 1
	}
}

// metadataFile names the topic's id, as the lines "version: 0" and "topic_id: " with the id in URL-safe base64.
const metadataFile = "partition.metadata"

func encodeMetadata(id TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", base64.RawURLEncoding.EncodeToString(id[:]))
}

var errBadMetadata = errors.New("malformed partition.metadata")

// decodeMetadata reads the file. The error wraps errBadMetadata.
func decodeMetadata(b []byte) (id TopicID, err error) {
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			values[key] = strings.TrimSpace(value)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(values["topic_id"])
	if err != nil || len(raw) != len(id) || values["version"] != "0" {
		return id, fmt.Errorf("version %q, topic_id %q: %w", values["version"], values["topic_id"], errBadMetadata)
	}
	return TopicID(raw), nil
}

// loadMetadata compares the topic id with that of the folder, or gives the folder one.
func (l *Log) loadMetadata(exists bool) error {
	if exists {
		raw, err := os.ReadFile(filepath.Join(l.dir, metadataFile))
		if err != nil {
			return err
		}
		id, err := decodeMetadata(raw)
		if err == nil {
			return l.agreeOn(id)
		}
		l.logger.Warn("ignoring the topic id of a folder", zap.String("dir", l.dir), zap.Error(err))
	}
	l.nameless.Store(l.topicID != TopicID{})
	return l.writeMetadata(false)
}

// SetTopicID gives a folder that has none its topic's id. The error wraps kerr.InconsistentTopicID when it has another.
func (l *Log) SetTopicID(id TopicID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == (TopicID{}) || id == l.topicID {
		return nil
	}
	if l.topicID != (TopicID{}) {
		return fmt.Errorf("%s holds topic id %x, not %x: %w", l.dir, l.topicID, id, kerr.InconsistentTopicID)
	}
	l.topicID = id
	if err := l.writeMetadata(true); err != nil {
		return l.fail("topic id", err)
	}
	return nil
}

func (l *Log) writeMetadata(sync bool) error {
	if l.topicID == (TopicID{}) {
		return nil
	}
	return l.fs.WriteFile(filepath.Join(l.dir, metadataFile), encodeMetadata(l.topicID), sync)
}

func (l *Log) agreeOn(id TopicID) error {
	if l.topicID != (TopicID{}) && l.topicID != id {
		return fmt.Errorf("%s holds topic id %x, not %x: %w", l.dir, id, l.topicID, kerr.InconsistentTopicID)
	}
	l.topicID = id
	return nil
}

// syncMetadata brings partition.metadata to the disk before the first append: records that outlive a crash without their
// topic's id could pass for those of a later topic of the same name.
func (l *Log) syncMetadata() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if !l.nameless.Load() || l.Err() != nil {
		return l.Err()
	}
	f, err := os.OpenFile(filepath.Join(l.dir, metadataFile), os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(l.fs.Sync(f), f.Close(), l.fs.SyncDir(l.dir))
	}
	if err != nil {
		return l.fail("topic id", err)
	}
	l.nameless.Store(false)
	return nil
}
