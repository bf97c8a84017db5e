package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

// The files of a segment, named by its base offset, and what their names gain on the way out.
const (
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	txnSuffix      = ".txnindex"
	snapshotSuffix = ".snapshot"
	deletedSuffix  = ".deleted"
	cleanedSuffix  = ".cleaned" // compaction has not finished it
	swapSuffix     = ".swap"    // it is to take the place of those that it was made from
)

// stage is where a segment stands: what its files' names end with.
type stage int32

const (
	inPlace stage = iota
	cleaned
	swapping
	deleted
	replaced // by what compaction made of it, to which readers turn: its files are not to be found any more
)

var stageSuffixes = [...]string{inPlace: "", cleaned: cleanedSuffix, swapping: swapSuffix, deleted: deletedSuffix, replaced: ".replaced"}

// unknownMs stands for a timestamp that has not been looked up yet.
const unknownMs = math.MinInt64

// segment is one .log file and its indexes. Its size and indexes may be read beside the one writer; the fields below
// the mark belong to the log's mutex.
type segment struct {
	base    int64 // no record in it has a lower offset
	dir     string
	fs      *disk.FS
	file    lazyFile
	offsets offsetIndex
	times   timeIndex
	txns    txnIndex
	size    atomic.Int64 // bytes of whole batches; a reader goes no further
	stage   atomic.Int32 // changed with Log.mu held
	durable atomic.Bool  // it is on the disk with its indexes, and unchanged since

	// --- under Log.mu
	sinceIndex   int   // bytes since the last offset index entry
	firstMs      int64 // largest timestamp of the first batch, which segment.ms counts from; unknownMs, or -1 for none
	createdMs    int64 // what segment.ms counts from while there is no timestamp
	needsIndexes bool  // on loading: the index files cannot be used
	linked       bool  // its directory entries are known to be on the disk
	reserved     int64 // bytes that the file system was asked to keep blocks for
}

func newSegment(fs *disk.FS, dir string, base, nowMs int64) *segment {
	s := &segment{base: base, dir: dir, fs: fs, firstMs: unknownMs, createdMs: nowMs}
	s.file = lazyFile{seg: s, suffix: logSuffix}
	s.offsets.init(s, indexSuffix, 8)
	s.times.init(s, timeSuffix, 12)
	s.txns.file = lazyFile{seg: s, suffix: txnSuffix}
	return s
}

// fileName is Kafka's name of a file that belongs to an offset.
func fileName(offset int64, suffix string) string { return fmt.Sprintf("%020d%s", offset, suffix) }

func (s *segment) path(suffix string) string {
	return filepath.Join(s.dir, fileName(s.base, suffix+stageSuffixes[s.stage.Load()]))
}

// create makes the segment's files, empty. The .log stays open.
func (s *segment) create(c *Config) error {
	for _, suffix := range []string{indexSuffix, timeSuffix} {
		f, err := s.fs.Create(s.path(suffix))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	f, err := s.fs.Create(s.path(logSuffix))
	if err != nil {
		return err
	}
	if c.Preallocate {
		s.reserved = int64(c.SegmentBytes)
		s.fs.Reserve(f, 0, s.reserved)
	}
	s.file.adopt(f).release()
	return nil
}

// reaches tells whether the indexes can name offset, which they keep as a 32-bit distance from the base.
func (s *segment) reaches(offset int64) bool { return offset-s.base <= math.MaxInt32 }

// noteBatch enters a batch that was written at pos in the indexes.
func (s *segment) noteBatch(b record.Batch, size int, pos int64, c *Config) error {
	last, ms := b.LastOffset(), largestMsOf(b)
	if pos == 0 {
		s.firstMs = ms
	}
	s.times.note(ms, last)
	if s.sinceIndex > c.IndexIntervalBytes {
		if err := s.offsets.add(last, pos); err != nil {
			return err
		}
		if err := s.times.addMax(); err != nil {
			return err
		}
		s.sinceIndex = 0
	}
	s.sinceIndex += size
	return nil
}

// largestMsOf is the largest timestamp of the records in b: what compaction has emptied has none, whatever its header says.
func largestMsOf(b record.Batch) int64 {
	if b.Count() == 0 {
		return record.NoTimestamp
	}
	return b.MaxTimestamp()
}

// headers reads batch headers of one file through a window, so that small batches share a read.
type headers struct {
	h     *handle
	buf   *[scratchSize]byte
	start int64 // file position of the window
	n     int   // its length
	limit int64 // no batch goes beyond
}

// openHeaders is for batches below limit. The caller closes it.
func (s *segment) openHeaders(limit int64) (headers, error) {
	h, err := s.file.acquire()
	if err != nil {
		return headers{}, err
	}
	return headers{h: h, buf: scratch.Get().(*[scratchSize]byte), limit: limit}, nil
}

func (r *headers) close() {
	r.h.release()
	scratch.Put(r.buf)
}

// at is the header of the batch at pos, of which only the accessors may be used, until the next call; and its whole
// size. The error is io.EOF at the limit, and wraps errBadHeader when no batch can begin there.
func (r *headers) at(pos int64) (record.Batch, int64, error) {
	if pos >= r.limit {
		return nil, 0, io.EOF
	}
	if pos < 0 {
		return nil, 0, errBadHeader
	}
	if pos < r.start || pos+record.HeaderSize > r.start+int64(r.n) {
		n := min(scratchSize, r.limit-pos)
		if n < record.HeaderSize {
			return nil, 0, errBadHeader
		}
		if err := r.h.readFull(r.buf[:n], pos); err != nil {
			r.n = 0
			return nil, 0, err
		}
		r.start, r.n = pos, int(n)
	}
	b := record.Batch(r.buf[pos-r.start:][:record.HeaderSize])
	length := int32(binary.BigEndian.Uint32(b[record.LengthAt:]))
	size := int64(length) + record.LengthOverhead
	if b.Magic() != record.Magic || size < record.HeaderSize || size > r.limit-pos || b.LastOffsetDelta() < 0 {
		return nil, 0, errBadHeader
	}
	return b, size, nil
}

var errBadHeader = fmt.Errorf("no batch begins there: %w", kerr.CorruptMessage)

// place is where a batch lies in a segment.
type place struct {
	pos, size  int64
	base, last int64 // offsets
	epoch      int32
}

// locate finds the first batch below limit whose last offset is at least offset. found is false when there is none.
func (s *segment) locate(offset, limit int64) (p place, found bool, err error) {
	if limit == 0 {
		return p, false, nil
	}
	pos, err := s.offsets.lookup(offset)
	if err != nil {
		return p, false, err
	}
	return s.locateFrom(offset, limit, pos)
}

// locateFrom is locate, beginning at pos, which is that of a batch at or below offset as far as the caller knows.
func (s *segment) locateFrom(offset, limit, pos int64) (p place, found bool, err error) {
	r, err := s.openHeaders(limit)
	if err != nil {
		return p, false, err
	}
	defer r.close()
	if pos != 0 {
		// The index is not checksummed: an entry that does not lead to a batch at or below offset is not believed.
		if b, _, err := r.at(pos); err != nil || b.BaseOffset() < s.base || b.BaseOffset() > offset {
			pos = 0
		}
	}
	for {
		b, size, err := r.at(pos)
		if err == io.EOF {
			return p, false, nil
		}
		if err != nil {
			return p, false, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if b.LastOffset() >= offset {
			return place{pos, size, b.BaseOffset(), b.LastOffset(), b.LeaderEpoch()}, true, nil
		}
		pos += size
	}
}

// position is where the first batch that is not wholly below offset begins; the segment's size when there is none.
func (s *segment) position(offset int64) (int64, error) {
	size := s.size.Load()
	p, found, err := s.locate(offset, size)
	if err != nil || !found {
		return size, err
	}
	return p.pos, nil
}

// first is the header of the first batch, copied; nil when the segment is empty.
func (s *segment) first() (record.Batch, error) {
	size := s.size.Load()
	if size == 0 {
		return nil, nil
	}
	r, err := s.openHeaders(size)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b, _, err := r.at(0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path(logSuffix), err)
	}
	return append(record.Batch(nil), b...), nil
}

// waitedMs is how long the segment has waited to be rolled when a batch of timestamp ms arrives at nowMs.
func (s *segment) waitedMs(ms, nowMs int64) (int64, error) {
	if s.firstMs == unknownMs {
		b, err := s.first()
		if err != nil {
			return 0, err
		}
		if b != nil {
			s.firstMs = b.MaxTimestamp()
		}
	}
	if s.firstMs >= 0 {
		return ms - s.firstMs, nil
	}
	return nowMs - s.createdMs, nil
}

// seal makes the indexes complete when the segment takes no more batches, and gives back what was reserved for more, by this
// run or by one that was killed.
func (s *segment) seal() error {
	if size := s.size.Load(); size >= reserveFromBytes || s.reserved > size {
		if err := s.trim(); err != nil {
			return err
		}
	}
	if err := s.times.addMax(); err != nil {
		return err
	}
	if err := s.offsets.shrink(); err != nil {
		return err
	}
	return s.times.shrink()
}

const (
	reserveFromBytes = 4 << 20  // segments below are too many and too small to keep blocks for
	reserveStepBytes = 16 << 20 // blocks kept beyond the end
)

// reserveAhead has the file system keep blocks for what a growing segment will hold next: taken in large pieces they cost a
// third less of each write than one by one, and lie together. end is where the next write ends.
func (s *segment) reserveAhead(h *handle, end int64, c *Config) {
	if end <= s.reserved || end < reserveFromBytes {
		return
	}
	from := max(s.reserved, s.size.Load())
	s.reserved = max(end, min(end+reserveStepBytes, int64(c.SegmentBytes)))
	s.fs.Reserve(h.File, from, s.reserved-from)
}

// trim gives back what was reserved behind the records.
func (s *segment) trim() error {
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	s.reserved = 0
	return s.fs.Truncate(h.File, s.size.Load())
}

// sync brings the segment to the disk. The indexes of the active segment are left out: recovery rebuilds them.
func (s *segment) sync(withIndexes bool) error {
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	if err := s.fs.Sync(h.File); err != nil {
		return err
	}
	if !withIndexes {
		return nil
	}
	if err := s.offsets.sync(); err != nil {
		return err
	}
	if err := s.times.sync(); err != nil {
		return err
	}
	return s.txns.sync()
}

// drop closes the segment's files once their readers are done.
func (s *segment) drop() {
	s.file.drop()
	s.offsets.file.drop()
	s.times.file.drop()
	s.txns.file.drop()
}

// errOldFormat says that a segment holds messages of Kafka's formats before 0.11, which are whole but cannot be served.
var errOldFormat = errors.New("message format 0 or 1 is not supported")

const scanBufferSize = 1 << 20

var scanBuffers = sync.Pool{New: func() any { return new([scanBufferSize]byte) }}

// scanner reads the batches of a segment file one after the other, whole.
type scanner struct {
	file   io.ReaderAt
	size   int64 // of the file
	pos    int64 // of the next batch
	window []byte
	start  int64 // file position of the window
	lent   *[scanBufferSize]byte
}

func newScanner(f *os.File) (*scanner, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return scannerOf(f, info.Size()), nil
}

// scannerOf scans the first size bytes of f. The caller closes it.
func scannerOf(f *os.File, size int64) *scanner {
	return &scanner{file: f, size: size, lent: scanBuffers.Get().(*[scanBufferSize]byte)}
}

func (s *scanner) close() { scanBuffers.Put(s.lent) }

// fill makes the window hold n bytes from pos on.
func (s *scanner) fill(n int64) error {
	if at := s.pos - s.start; at >= 0 && at+n <= int64(len(s.window)) {
		return nil
	}
	buf := s.lent[:]
	if n > scanBufferSize {
		buf = make([]byte, n)
	}
	buf = buf[:min(int64(len(buf)), s.size-s.pos)]
	s.start, s.window = s.pos, nil
	if _, err := io.ReadFull(io.NewSectionReader(s.file, s.pos, int64(len(buf))), buf); err != nil {
		return err
	}
	s.window = buf
	return nil
}

// next is the next batch, valid until the following call, and its position. The error is io.EOF at the end of the file,
// errOldFormat, or wraps kerr.CorruptMessage when no whole batch follows; the position then is where it was looked for.
// The CRC is not checked.
func (s *scanner) next() (b record.Batch, pos int64, err error) {
	pos = s.pos
	left := s.size - pos
	if left == 0 {
		return nil, pos, io.EOF
	}
	if left <= record.MagicAt {
		return nil, pos, fmt.Errorf("%d bytes are less than a batch: %w", left, kerr.CorruptMessage)
	}
	if err := s.fill(record.MagicAt + 1); err != nil {
		return nil, pos, err
	}
	head := s.window[pos-s.start:]
	n := int64(int32(binary.BigEndian.Uint32(head[record.LengthAt:]))) + record.LengthOverhead
	if n <= record.MagicAt || n > left {
		return nil, pos, fmt.Errorf("batch of %d bytes where %d follow: %w", n, left, kerr.CorruptMessage)
	}
	if err := s.fill(n); err != nil {
		return nil, pos, err
	}
	raw := s.window[pos-s.start:][:n]
	b, _, err = record.Next(raw)
	if err != nil {
		if isOldFormat(raw) {
			err = errOldFormat
		}
		return nil, pos, err
	}
	if b.LastOffsetDelta() < 0 {
		return nil, pos, fmt.Errorf("last offset delta %d: %w", b.LastOffsetDelta(), kerr.CorruptMessage)
	}
	s.pos += n
	return b, pos, nil
}

// batchFollows tells whether a valid batch of offset end or above begins anywhere in the n bytes at pos, where none should
// be needed any more: a torn write leaves none.
func (s *scanner) batchFollows(pos, n, end int64) bool {
	raw := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(s.file, pos, n), raw); err != nil {
		return false
	}
	for ; len(raw) >= record.HeaderSize; raw = raw[1:] {
		if raw[record.MagicAt] != record.Magic {
			continue
		}
		if b, _, err := record.Next(raw); err == nil && b.BaseOffset() >= end && b.CheckCRC() == nil {
			return true
		}
	}
	return false
}

// isOldFormat tells whether raw is a valid message of format 0 or 1, whose CRC covers all from the magic on.
func isOldFormat(raw []byte) bool {
	magic := raw[record.MagicAt]
	return magic < 2 && binary.BigEndian.Uint32(raw[record.MagicAt-4:]) == crc32.ChecksumIEEE(raw[record.MagicAt:])
}
