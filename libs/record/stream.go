package record

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// minWindow is the memory that decompressed records pass through: two of lz4's blocks, four of Java's snappy
	// blocks, so that these are decompressed in place.
	minWindow = 128 << 10
	// maxKeptBuffer is the largest buffer that is kept for reuse.
	maxKeptBuffer = 1 << 20
	maxVarint32   = 5
)

// stream is a cursor over a batch's records: over the batch itself when they are not compressed, else over a window
// through which they pass as they are decompressed.
//
// Positions are counted from the first record's first byte. The first fault sticks; what is read after it is 0.
type stream struct {
	buf  []byte // what can be seen
	at   int    // next byte in buf
	base int    // position of buf[0]

	// With keep, a record stays in buf as a whole, from buf[start], and the window grows to hold it. Without, the window
	// keeps its size, whatever a record claims.
	keep  bool
	start int

	maxRecordBytes int // a record that claims a greater body is a fault, seen before the body is; 0 for no bound

	window *window // nil when not compressed
	err    error   // of the codec or the bound
	fault  string  // of the records
}

// window is the memory of a stream and its source.
type window struct {
	mem    []byte
	source *decoder
	max    int // bytes that may come in all
	left   int // bytes that may yet come
	ended  bool
}

var windows = sync.Pool{New: func() any { return &window{mem: make([]byte, minWindow)} }}

// openStream returns a stream over b's records, whose codec is known. It has to be closed.
func openStream(b Batch, maxBytes int) stream {
	if b.Codec() == None {
		return stream{buf: b.records()}
	}
	if maxBytes <= 0 {
		maxBytes = DefaultMaxDecompressedBytes
	}
	w := windows.Get().(*window)
	w.source = openDecoder(b.Codec(), b.records())
	w.max, w.left, w.ended = maxBytes, maxBytes, false
	return stream{window: w}
}

func (s *stream) close() {
	w := s.window
	if w == nil {
		return
	}
	w.source.close()
	w.source = nil
	if cap(w.mem) <= maxKeptBuffer {
		windows.Put(w)
	}
	*s = stream{}
}

// more makes more bytes visible, dropping those before the cursor, or before the record's start with keep.
// It reports false at the end and after a fault.
func (s *stream) more() bool {
	w := s.window
	if w == nil || w.ended || s.err != nil {
		return false
	}
	drop := s.at
	if s.keep {
		drop = s.start
	}
	rest := len(s.buf) - drop
	if rest == len(w.mem) {
		grown := make([]byte, 2*len(w.mem))
		copy(grown, s.buf[drop:])
		w.mem = grown
	} else {
		copy(w.mem, s.buf[drop:])
	}
	s.base += drop
	s.at -= drop
	s.start -= drop
	n, err := w.source.read(w.mem[rest:])
	s.buf = w.mem[:rest+n]
	w.left -= n
	w.ended = err == io.EOF
	switch {
	case w.left < 0:
		s.err = tooLarge(w.max)
	case err != nil && err != io.EOF:
		s.err = undecodable(w.source.codec, err)
	}
	return s.err == nil && n > 0
}

func (s *stream) fail(fault string) {
	if s.fault == "" {
		s.fault = fault
	}
}

func (s *stream) failed() bool { return s.fault != "" || s.err != nil }

// ended says whether nothing follows the cursor.
func (s *stream) ended() bool { return s.at == len(s.buf) && !s.more() }

func (s *stream) position() int { return s.base + s.at }

// byte reads one byte.
func (s *stream) byte() byte {
	if s.ended() {
		s.fail("is cut short")
		return 0
	}
	s.at++
	return s.buf[s.at-1]
}

// varint reads a zigzag varint of 32 bits.
func (s *stream) varint() int {
	if b := s.buf[s.at:]; len(b) >= 2 {
		v, _, n := low(uint64(binary.LittleEndian.Uint16(b)))
		if v < 1<<14 {
			s.at += n
			return int(v>>1) ^ -int(v&1)
		}
	}
	before := s.position()
	v := s.varlong()
	if v < math.MinInt32 || v > math.MaxInt32 || s.position()-before > maxVarint32 {
		s.fail("has a number that does not fit 32 bits")
		return 0
	}
	return int(v)
}

// varlong reads a zigzag varint of 64 bits.
func (s *stream) varlong() int64 {
	for len(s.buf)-s.at < binary.MaxVarintLen64 && s.more() {
	}
	v, n := binary.Uvarint(s.buf[s.at:])
	if n <= 0 || s.failed() {
		s.fail("has a number that is cut short or too long")
		return 0
	}
	s.at += n
	return int64(v>>1) ^ -int64(v&1)
}

// skip passes over n bytes, which may end at most at the position end.
func (s *stream) skip(n, end int) {
	if n < 0 || n > end-s.position() {
		s.fail("has a field that does not fit its length")
		return
	}
	for n > len(s.buf)-s.at {
		if !s.keep {
			n -= len(s.buf) - s.at
			s.at = len(s.buf)
		}
		if !s.more() {
			s.fail("is cut short")
			return
		}
	}
	s.at += n
}

// frame is where the parts of an encoded record lie, as positions of its stream. A length of -1 is null.
type frame struct {
	attributes        int8
	timestampDelta    int64
	offsetDelta       int
	keyAt, keyLen     int
	valueAt, valueLen int
	headersAt         int
	headers           int
	end               int
}

// next passes over one record.
func (s *stream) next() (f frame) {
	s.start = s.at
	size := s.varint()
	f.end = s.position() + size
	switch {
	case size < 0:
		s.fail("has a negative length")
		return f
	case s.maxRecordBytes > 0 && size > s.maxRecordBytes:
		s.fail(fmt.Sprintf("has %d bytes, more than the %d that the topic allows", size, s.maxRecordBytes))
		return f
	}
	f.attributes = int8(s.byte())
	f.timestampDelta = s.varlong()
	f.offsetDelta = s.varint()
	f.keyAt, f.keyLen = s.field(f.end)
	f.valueAt, f.valueLen = s.field(f.end)
	f.headers = s.varint()
	f.headersAt = s.position()
	if f.headers < 0 || f.headers > f.end-f.headersAt {
		s.fail("has a header count that does not fit its length")
	}
	for i := 0; i < f.headers && !s.failed(); i++ {
		if _, n := s.field(f.end); n < 0 {
			s.fail("has a header without a key")
		}
		s.field(f.end)
	}
	if s.position() != f.end {
		s.fail("has a length other than its fields'")
	}
	return f
}

// field passes over a length and as many bytes, none for a length of -1, and returns where they are.
func (s *stream) field(end int) (at, n int) {
	n = s.varint()
	at = s.position()
	if n != -1 {
		s.skip(n, end)
	}
	return at, n
}

// record is a view of the frame that a stream with keep has just passed over.
func (s *stream) record(f *frame) Record {
	return Record{
		Attributes:     f.attributes,
		TimestampDelta: f.timestampDelta,
		OffsetDelta:    int32(f.offsetDelta),
		Key:            s.bytes(f.keyAt, f.keyLen),
		Value:          s.bytes(f.valueAt, f.valueLen),
		RawHeaders:     s.bytes(f.headersAt, f.end-f.headersAt),
		HeaderCount:    int32(f.headers),
	}
}

func (s *stream) bytes(at, n int) []byte {
	if n < 0 {
		return nil
	}
	at -= s.base
	return s.buf[at : at+n : at+n]
}

// problem is the stream's fault as an error about the record at index.
func (s *stream) problem(index int) error {
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("record %d of the batch %s: %w", index, s.fault, kerr.InvalidRecord)
}
