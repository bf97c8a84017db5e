package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

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
	return &scanner{file: f, size: info.Size(), lent: scanBuffers.Get().(*[scanBufferSize]byte)}, nil
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
