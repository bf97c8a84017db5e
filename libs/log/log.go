// Package log keeps one partition's records on disk exactly as Apache Kafka lays them out: segments with sparse
// offset and time indexes, the leader-epoch checkpoint, producer-state snapshots and the transaction index. A folder
// written by Kafka opens here, and Kafka's own tools read what is written here.
//
// A [Log] owns no goroutine, timer or map: time comes in as an argument and periodic work is a plain method that the
// owner (package logdir) calls. Methods are safe for concurrent use unless they say otherwise.
package log

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log/internal/disk"
)

// TopicID is a topic's 16-byte id; the zero value means "none".
type TopicID = [16]byte

// Options says how to open a log. Offsets are as checkpointed; 0 when unknown.
type Options struct {
	Config         Config
	Logger         *zap.Logger // nil logs nothing
	RecoveryPoint  int64       // everything below it is known to be on disk
	LogStartOffset int64
	HighWatermark  int64
	CleanedTo      int64   // everything below it was compacted
	CleanShutdown  bool    // the folder was closed in order: recovery is skipped
	TopicID        TopicID // written to partition.metadata unless zero; must be the one that is there
	NowMs          int64
	Name           string // <topic>-<partition>, where the folder is called otherwise for now

	// OnRoll is told when a segment is complete and waits to be flushed (FlushRolled), OnTruncate when the recovery point
	// went back and its checkpoint has to follow, OnFailure when an I/O error has fenced the log. They are called with the
	// log locked and must not call it back.
	OnRoll     func(*Log)
	OnTruncate func(*Log)
	OnFailure  func(*Log, error)

	FS *disk.FS // for tests; nil is the file system
}

// Log is one partition's log.
//
// Lock order: compacting, flushMu, mu, tail.mu, then the locks inside segments and epochs. Readers take neither of the first two, and
// mu is held over an fsync only while the log is truncated or closed.
//
// What is appended is published size first, then the mark in tail, then the end, so that a reader who has seen an end finds
// all that is below it. Everything below flushed is on the disk; below sealed, the indexes are too.
type Log struct {
	dir        string
	topic      string
	partition  int32
	topicID    TopicID
	logger     *zap.Logger
	fs         *disk.FS
	onRoll     func(*Log)
	onTruncate func(*Log)
	onFailure  func(*Log, error)
	config     atomic.Pointer[Config]

	// start ≤ highWatermark ≤ end, but for a moment while records are truncated.
	start         atomic.Int64
	highWatermark atomic.Int64
	end           atomic.Int64
	unstable      atomic.Int64 // first offset of a transaction that is not settled, -1 for none
	flushed       atomic.Int64
	sealed        atomic.Int64
	failure       atomic.Pointer[failure]
	cleanedTo     atomic.Int64 // everything below was compacted
	horizonMs     atomic.Int64 // when some of what compaction left may go; unknownMs, math.MaxInt64 for never
	truncations   atomic.Int64
	nameless      atomic.Bool // partition.metadata is not on the disk yet

	segments atomic.Pointer[[]*segment] // ascending, never empty; replaced, not changed; the last one is active
	tail     tail
	epochs   epochs

	mu        sync.Mutex // every change but SetHighWatermark
	producers producers
	snapshots []int64 // offsets of the .snapshot files, ascending
	trash     []trash
	lastMs    int64 // when the last append as leader came, or the log was opened
	restEnd   int64 // end at the last Rest
	rolled    bool  // a complete segment or a snapshot waits to be synced

	compacting sync.Mutex // one compaction at a time; taken before flushMu

	flushMu     sync.Mutex // one flush at a time
	lastFlushMs atomic.Int64
	dirLinked   bool // under flushMu: the folder's own entry is on the disk
}

// failure is why the log answers nothing but errors.
type failure struct{ err error }

// mark says that the batch before offset ends at pos of seg.
type mark struct {
	offset int64
	seg    *segment
	pos    int64
}

// tail remembers where the last appends ended. Consumers and replicas near the end, and the high watermark, nearly always
// stand at one of these offsets, so that a read there needs no index.
type tail struct {
	mu    sync.Mutex
	marks [16]mark
	next  uint32
}

func (t *tail) push(m mark) {
	t.mu.Lock()
	t.marks[t.next%uint32(len(t.marks))] = m
	t.next++
	t.mu.Unlock()
}

// find is the position of offset in s.
func (t *tail) find(offset int64, s *segment) (pos int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range uint32(len(t.marks)) {
		m := &t.marks[(t.next-1-i)%uint32(len(t.marks))]
		if m.seg == nil {
			return 0, false
		}
		if m.offset == offset && m.seg == s {
			return m.pos, true
		}
	}
	return 0, false
}

// reset forgets all marks but m.
func (t *tail) reset(m mark) {
	t.mu.Lock()
	clear(t.marks[:])
	t.marks[0], t.next = m, 1
	t.mu.Unlock()
}

// ParseDirName splits the name of a partition folder, <topic>-<partition>. ok is false for any other name.
func ParseDirName(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	p, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || p < 0 || strconv.Itoa(int(p)) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], int32(p), true
}

func (l *Log) active() *segment {
	segs := *l.segments.Load()
	return segs[len(segs)-1]
}

func (l *Log) setSegments(segs []*segment) { l.segments.Store(&segs) }

// floor is the number of the last segment whose base is not above offset, or -1.
func floor(segs []*segment, offset int64) int {
	i, found := slices.BinarySearchFunc(segs, offset, func(s *segment, offset int64) int { return cmp.Compare(s.base, offset) })
	if !found {
		i--
	}
	return i
}

// fail fences the log for good: what the disk holds is no longer known. It returns what callers are told.
func (l *Log) fail(doing string, cause error) error {
	err := fmt.Errorf("%s-%d: %s: %w: %w", l.topic, l.partition, doing, kerr.KafkaStorageError, cause)
	if l.failure.CompareAndSwap(nil, &failure{err}) {
		l.logger.Error("log is offline", zap.String("dir", l.dir), zap.String("doing", doing), zap.Error(cause))
		if l.onFailure != nil {
			l.onFailure(l, err)
		}
	}
	return err
}

// Fence makes every further call fail with err, which wraps a *kerr.Error, as when the directory or the partition is
// gone. The first fence stays.
func (l *Log) Fence(err error) { l.failure.CompareAndSwap(nil, &failure{err}) }

// Err is why the log answers nothing but errors (an I/O failure wraps kerr.KafkaStorageError), or nil.
func (l *Log) Err() error {
	if f := l.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// StartOffset is the first offset a client may read.
func (l *Log) StartOffset() int64 { return l.start.Load() }

// HighWatermark is the offset below which records are committed.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// StableOffset is the last stable offset (LSO): the high watermark, or the first offset of an unsettled transaction
// below it.
func (l *Log) StableOffset() int64 {
	hw := l.highWatermark.Load()
	if u := l.unstable.Load(); u >= 0 && u < hw {
		return u
	}
	return hw
}

// EndOffset is the offset the next record gets (LEO).
func (l *Log) EndOffset() int64 { return l.end.Load() }

// RecoveryPoint is the offset to checkpoint: everything below it is known to be on disk, and recovery begins in the
// segment that holds it.
func (l *Log) RecoveryPoint() int64 {
	sealed, flushed := l.sealed.Load(), l.flushed.Load()
	if flushed > sealed {
		// The indexes of the last flushed record's segment are not on the disk. One less lets recovery begin in that
		// segment also if it is complete by then and the next one begins at flushed.
		return flushed - 1
	}
	return flushed
}

// SetHighWatermark raises the high watermark to offset, clamped to [start, end], and returns the resulting value. It
// never goes down.
func (l *Log) SetHighWatermark(offset int64) int64 {
	l.tail.mu.Lock()
	hw := max(l.highWatermark.Load(), min(max(offset, l.start.Load()), l.end.Load()))
	l.highWatermark.Store(hw)
	l.tail.mu.Unlock()
	if l.unstable.Load() >= 0 {
		l.mu.Lock()
		l.settle()
		l.mu.Unlock()
	}
	return hw
}

// settle brings the first unstable offset up to date with the producers and the high watermark. mu is held.
func (l *Log) settle() {
	l.producers.replicated(l.highWatermark.Load())
	u := l.producers.firstUnstable()
	if u >= 0 {
		u = max(u, l.start.Load())
	}
	l.unstable.Store(u)
}

// AssignEpoch notes that leader epoch begins at the present end offset, as on becoming leader. Epochs that are not newer
// than the latest change nothing.
func (l *Log) AssignEpoch(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	if epoch > l.epochs.latest() {
		l.epochs.assign(epoch, l.end.Load())
	}
	return nil
}

// LatestEpoch is the newest leader epoch known, or -1.
func (l *Log) LatestEpoch() int32 { return l.epochs.latest() }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest known epoch that is not above the one asked for, and the
// offset where the next one begins. (-1, -1) when unknown.
func (l *Log) EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64) {
	return l.epochs.endOf(epoch, l.end.Load())
}

// EpochAt is the leader epoch in force at offset, or -1.
func (l *Log) EpochAt(offset int64) int32 { return l.epochs.at(offset) }

// ProducerState is what the log knows of one producer, as DescribeProducers reports it.
type ProducerState struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32 // -1 when none
	LastTimestampMs  int64
	CoordinatorEpoch int32
	TxnStartOffset   int64 // -1 when no transaction is open
}

// Producers lists the producers that have not expired at nowMs, by id.
func (l *Log) Producers(nowMs int64) []ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var states []ProducerState
	for _, p := range l.producers.byID {
		if !p.expired(nowMs, l.config.Load().ProducerIDExpirationMs) {
			states = append(states, ProducerState{p.id, p.epoch, p.lastSeq(), p.lastMs, p.coordinatorEpoch, p.txnStart})
		}
	}
	return states
}

// ExpireProducers forgets producers idle for producer.id.expiration.ms.
func (l *Log) ExpireProducers(nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.expire(nowMs, l.config.Load().ProducerIDExpirationMs)
}

// SetConfig replaces the config; it is in force from the next append.
func (l *Log) SetConfig(c Config) {
	resolved, err := c.resolved()
	if err != nil {
		l.logger.Warn("batches are kept as sent", zap.String("dir", l.dir), zap.Error(err))
	}
	l.config.Store(resolved)
}

// Config is the config in force.
func (l *Log) Config() Config { return *l.config.Load() }

// SizeBytes is the size of all segments.
func (l *Log) SizeBytes() int64 {
	var n int64
	for _, s := range *l.segments.Load() {
		n += s.size.Load()
	}
	return n
}

// SegmentCount is the number of segments, at least 1.
func (l *Log) SegmentCount() int { return len(*l.segments.Load()) }

// Topic is the topic, from the folder's name.
func (l *Log) Topic() string { return l.topic }

// Partition is the partition's number, from the folder's name.
func (l *Log) Partition() int32 { return l.partition }

// TopicID is the id in partition.metadata, zero when unknown.
func (l *Log) TopicID() TopicID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topicID
}

// Dir is the log's folder.
func (l *Log) Dir() string { return l.dir }

// writeEpochs brings the leader-epoch checkpoint up to date, with sync on the disk too.
func (l *Log) writeEpochs(sync bool) error {
	content := l.epochs.take()
	if content == nil {
		return nil
	}
	if err := l.fs.WriteFile(filepath.Join(l.dir, epochsFile), content, sync); err != nil {
		l.epochs.untake()
		return err
	}
	return nil
}

// Retire takes the log out of use, because the partition is deleted, and renames its folder to dir. Slices held stay
// readable; everything else fails with kerr.UnknownTopicOrPartition from now on.
func (l *Log) Retire(dir string) error {
	l.Fence(fmt.Errorf("%s-%d was deleted: %w", l.topic, l.partition, kerr.UnknownTopicOrPartition))
	l.compacting.Lock() // which ends soon, and makes no files where a later log of the name lies
	defer l.compacting.Unlock()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropFiles()
	err := l.fs.Rename(l.dir, dir)
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func (l *Log) dropFiles() {
	for _, s := range *l.segments.Load() {
		s.drop()
	}
}
