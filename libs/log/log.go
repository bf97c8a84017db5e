package log

import (
	"errors"
	"io"
	"os"

	"go.uber.org/zap"
)

var errUnfinished = errors.New("log: not built yet")

// TopicID is a topic's 16-byte id; the zero value means "none".
type TopicID = [16]byte

// Options says how to open a log.
type Options struct {
	Config         Config
	Logger         *zap.Logger // nil logs nothing
	RecoveryPoint  int64       // records below it are known to be on disk
	LogStartOffset int64       // as checkpointed; 0 when unknown
	CleanShutdown  bool        // the folder was closed in order: recovery is skipped
	TopicID        TopicID     // written to partition.metadata when not zero
	NowMs          int64
}

// Log is one partition's log.
type Log struct{}

// Open opens the log in dir (<log dir>/<topic>-<partition>), creating the folder when it is missing and recovering
// from an unclean shutdown when o says there was one.
func Open(dir string, o Options) (*Log, error) { return nil, errUnfinished }

// AppendInfo tells where an append landed.
type AppendInfo struct {
	FirstOffset     int64
	LastOffset      int64
	LogAppendTimeMs int64 // -1 for CreateTime topics
	LogStartOffset  int64
	EndOffset       int64 // LastOffset+1: acks=all waits for the high watermark to reach it
	Duplicate       bool  // the batch was already there; the offsets are the original ones
}

// RecordError is the record-level part of a refused append (errors.As), as record_errors in a Produce response.
type RecordError struct {
	BatchIndex int32 // index of the record inside its batch
	Message    string
}

func (e *RecordError) Error() string { return e.Message }

// Append stores one batch of a client as the partition's leader. The batch is validated, given its offsets, leader epoch
// and (where the topic's config demands) timestamps in place, and is not retained. Errors wrap a *kerr.Error
// (CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge, UnsupportedCompressionType,
// OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState, KafkaStorageError) and may carry a *RecordError.
func (l *Log) Append(batch []byte, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return AppendInfo{}, errUnfinished
}

// AppendAsCoordinator is Append for batches written on behalf of a coordinator: control batches (transaction markers)
// are allowed and sequence numbers are not checked. It adds TransactionCoordinatorFenced to the errors.
func (l *Log) AppendAsCoordinator(batch []byte, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return AppendInfo{}, errUnfinished
}

// AppendAsFollower stores whole batches fetched from the leader, with the offsets and epochs they carry. Their CRCs are
// checked. Bytes after the last whole batch are ignored.
func (l *Log) AppendAsFollower(batches []byte) (AppendInfo, error) {
	return AppendInfo{}, errUnfinished
}

// Isolation is the bound of a read.
type Isolation int8

const (
	LogEnd        Isolation = iota // replicas: everything appended
	HighWatermark                  // read_uncommitted
	Stable                         // read_committed: up to the last stable offset
)

// Read returns the range of one segment that begins with the batch holding offset and has at most maxBytes; with
// minOneBatch the first batch is whole even if it is larger. The range may end inside a batch, which clients discard.
// It never crosses a segment, and is empty at the bound of iso. Errors wrap kerr.OffsetOutOfRange or
// kerr.KafkaStorageError.
func (l *Log) Read(offset int64, maxBytes int, iso Isolation, minOneBatch bool) (Slice, error) {
	return Slice{}, errUnfinished
}

// Slice is a range of one segment's file that stays readable until Release, whatever happens to the segment.
// The zero Slice is empty.
type Slice struct{}

// File is the segment's file, for sendfile with an explicit offset only: it is shared. Nil when the slice is empty.
func (s Slice) File() *os.File { return nil }

// Position is where the range begins in File, in bytes.
func (s Slice) Position() int64 { return 0 }

// Size is the length of the range in bytes.
func (s Slice) Size() int { return 0 }

// ReadAt reads len(p) bytes from off bytes into the range.
func (s Slice) ReadAt(p []byte, off int64) (int, error) { return 0, io.EOF }

// AppendTo appends the whole range to dst.
func (s Slice) AppendTo(dst []byte) ([]byte, error) { return dst, nil }

// Release gives the range up; it must be called exactly once for a non-empty Slice.
func (s Slice) Release() {}

// AbortedTxn is an aborted transaction as a Fetch response names it.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// AbortedTxns appends to dst the aborted transactions that overlap [from, upTo), ordered by first offset.
func (l *Log) AbortedTxns(dst []AbortedTxn, from, upTo int64) ([]AbortedTxn, error) { return dst, nil }

// StartOffset is the first offset a client may read.
func (l *Log) StartOffset() int64 { return 0 }

// HighWatermark is the offset below which records are committed.
func (l *Log) HighWatermark() int64 { return 0 }

// StableOffset is the last stable offset (LSO): the high watermark, or the first offset of an undecided transaction
// below it.
func (l *Log) StableOffset() int64 { return 0 }

// EndOffset is the offset the next record gets (LEO).
func (l *Log) EndOffset() int64 { return 0 }

// SetHighWatermark raises the high watermark to offset, clamped to [start, end], and returns the resulting value. It
// never goes down.
func (l *Log) SetHighWatermark(offset int64) int64 { return 0 }

// OffsetForTime finds the first record (by offset) at or after the log start whose timestamp is ms or later.
func (l *Log) OffsetForTime(ms int64) (offset, timestampMs int64, leaderEpoch int32, found bool, err error) {
	return -1, -1, -1, false, errUnfinished
}

// MaxTimestamp finds the first record that bears the largest timestamp (ListOffsets -3).
func (l *Log) MaxTimestamp() (offset, timestampMs int64, leaderEpoch int32, found bool, err error) {
	return -1, -1, -1, false, errUnfinished
}

// AssignEpoch notes that leader epoch begins at the present end offset, as on becoming leader. Epochs that are not newer
// than the latest change nothing.
func (l *Log) AssignEpoch(epoch int32) error { return errUnfinished }

// LatestEpoch is the newest leader epoch known, or -1.
func (l *Log) LatestEpoch() int32 { return -1 }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest known epoch that is not above the one asked for, and the
// offset where the next one begins. (-1, -1) when unknown.
func (l *Log) EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64) { return -1, -1 }

// EpochAt is the leader epoch in force at offset, or -1.
func (l *Log) EpochAt(offset int64) int32 { return -1 }

// DeleteRecords moves the log start offset up to offset (-1: the high watermark) and returns the new low watermark.
// An offset at or below the start changes nothing; one above the high watermark is kerr.OffsetOutOfRange.
func (l *Log) DeleteRecords(offset int64) (lowWatermark int64, err error) { return 0, errUnfinished }

// SetStartOffset follows the leader's log start offset: it raises the start to offset, clamped to the high watermark.
func (l *Log) SetStartOffset(offset int64) error { return errUnfinished }

// TruncateTo removes every record at or above offset.
func (l *Log) TruncateTo(offset int64) error { return errUnfinished }

// TruncateFullyAndStartAt empties the log and makes offset its start and end.
func (l *Log) TruncateFullyAndStartAt(offset int64) error { return errUnfinished }

// Retain removes the segments that retention.ms, retention.bytes or the log start offset no longer need. Their files are
// renamed to .deleted and unlinked by Purge after file.delete.delay.ms.
func (l *Log) Retain(nowMs int64) (removedSegments int, err error) { return 0, errUnfinished }

// Flush writes everything appended so far to the disk and moves the recovery point.
func (l *Log) Flush() error { return errUnfinished }

// RecoveryPoint is the offset below which everything is known to be on disk.
func (l *Log) RecoveryPoint() int64 { return 0 }

// Close flushes and closes the log in order. Slices held stay readable.
func (l *Log) Close() error { return nil }

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
func (l *Log) Producers(nowMs int64) []ProducerState { return nil }

// ExpireProducers forgets producers idle for producer.id.expiration.ms.
func (l *Log) ExpireProducers(nowMs int64) {}

// SetConfig replaces the config; it is in force from the next append.
func (l *Log) SetConfig(c Config) {}

// Config is the config in force.
func (l *Log) Config() Config { return DefaultConfig() }

// SizeBytes is the size of all segments.
func (l *Log) SizeBytes() int64 { return 0 }

// SegmentCount is the number of segments, at least 1.
func (l *Log) SegmentCount() int { return 1 }

// Topic and Partition name the log, from its folder.
func (l *Log) Topic() string    { return "" }
func (l *Log) Partition() int32 { return 0 }

// TopicID is the id in partition.metadata, zero when unknown.
func (l *Log) TopicID() TopicID { return TopicID{} }

// Dir is the log's folder.
func (l *Log) Dir() string { return "" }

// Err is the I/O failure that fenced the log (wrapping kerr.KafkaStorageError), or nil.
func (l *Log) Err() error { return nil }
