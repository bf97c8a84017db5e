package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/snappy"
)

const (
	// snappyFrameMagic begins the framed form of Java's snappy library, which Kafka's Java clients write: the magic, two
	// 32-bit versions, then blocks behind their 32-bit lengths. Other clients write one block without any of it.
	snappyFrameMagic  = "\x82SNAPPY\x00"
	snappyFrameHeader = len(snappyFrameMagic) + 8
	// snappyFrameBlock is what Java puts into one block, uncompressed.
	snappyFrameBlock = 32 << 10
	// snappyMaxRatio is above what any block can expand by: 64 bytes out of a 3-byte copy.
	snappyMaxRatio = 22
)

var errSnappy = errors.New("snappy: corrupt input")

type snappyReader struct {
	src    []byte
	framed bool
	// held is the rest of a block that did not fit its reader, decoded into buf.
	held, buf []byte
}

func (r *snappyReader) reset(src []byte) {
	*r = snappyReader{src: src, buf: r.buf}
	if len(src) >= snappyFrameHeader && string(src[:len(snappyFrameMagic)]) == snappyFrameMagic {
		r.src, r.framed = src[snappyFrameHeader:], true
	}
}

// release keeps the buffer unless a great block has made it great.
func (r *snappyReader) release() {
	if cap(r.buf) > maxKeptBuffer {
		r.buf = nil
	}
	*r = snappyReader{buf: r.buf}
}

func (r *snappyReader) Read(p []byte) (int, error) {
	if len(r.held) > 0 {
		n := copy(p, r.held)
		r.held = r.held[n:]
		return n, nil
	}
	block, err := r.block()
	if err != nil {
		return 0, err
	}
	size, err := snappy.DecodedLen(block)
	if err != nil {
		return 0, err
	}
	if size > snappyMaxRatio*len(block) {
		return 0, fmt.Errorf("snappy: %d bytes cannot hold %d", len(block), size)
	}
	if size <= len(p) {
		out, err := snappy.Decode(p, block)
		return len(out), err
	}
	if r.buf, err = snappy.Decode(r.buf[:cap(r.buf)], block); err != nil {
		return 0, err
	}
	n := copy(p, r.buf)
	r.held = r.buf[n:]
	return n, nil
}

// block takes the next block off the source.
func (r *snappyReader) block() ([]byte, error) {
	if len(r.src) == 0 {
		return nil, io.EOF
	}
	if !r.framed {
		block := r.src
		r.src = nil
		return block, nil
	}
	if len(r.src) < 4 {
		return nil, errSnappy
	}
	n := int64(binary.BigEndian.Uint32(r.src))
	if n > int64(len(r.src)-4) {
		return nil, errSnappy
	}
	block := r.src[4 : 4+n]
	r.src = r.src[4+n:]
	return block, nil
}

// appendSnappy compresses in the framed form.
func appendSnappy(dst, src []byte) []byte {
	dst = append(dst, snappyFrameMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		n := min(len(src), snappyFrameBlock)
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = slices.Grow(dst, snappy.MaxEncodedLen(n))
		block := snappy.Encode(dst[len(dst):cap(dst)], src[:n])
		dst = dst[:len(dst)+len(block)]
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		src = src[n:]
	}
	return dst
}
