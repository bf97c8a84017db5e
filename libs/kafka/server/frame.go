package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cauce-stream/cauce/libs/crc32c"
)

const (
	readBufferBytes   = 4 << 10
	trustedFrameBytes = 64 << 10 // allocated at a client's word; more only as bytes arrive or once it has sent as much
	stepBytes         = 1 << 20  // a frame in progress counts as alive when as much arrives within FrameTimeout
	minHeaderBytes    = 10       // key, version, correlation id, client id length
)

// TraceContextTag is the tagged field of the request header in which our own services carry a W3C
// traceparent ("00-<trace id>-<span id>-<flags>", 55 bytes). Servers that do not know it skip it (KIP-482).
const TraceContextTag = 0x6361

var (
	errFrameLength = errors.New("frame length out of range")
	errShortHeader = errors.New("request header is cut short")
	errUnknownAPI  = errors.New("unknown API key")
	errVersion     = errors.New("unsupported version")
)

// frame is one request as it came off the wire, without its length.
type frame struct {
	buf       []byte
	checksums crc32c.Chunks // of buf, if its API wants them
	grant     grant
}

// header is a decoded request header. Its slices alias the frame.
type header struct {
	key, version  int16
	correlationID int32
	clientID      []byte
	traceParent   []byte
	size          int // bytes of the frame that the header takes
	route         *route
}

// parseHeader decodes a request header of version 1 or 2 (KIP-482) and finds its route. With errUnknownAPI or
// errVersion, key and version are set. An unsupported version of ApiVersions has a route and no error beyond
// errVersion: it is answered (KIP-511), and whatever its header holds after the client id is not looked at.
func parseHeader(b []byte, rt *Router) (header, error) {
	var h header
	if len(b) < minHeaderBytes {
		return h, errShortHeader
	}
	h.key = int16(binary.BigEndian.Uint16(b))
	h.version = int16(binary.BigEndian.Uint16(b[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(b[4:]))
	if h.route = rt.lookup(h.key); h.route == nil {
		return h, errUnknownAPI
	}
	h.size = minHeaderBytes
	if n := int(int16(binary.BigEndian.Uint16(b[8:]))); n >= 0 {
		if len(b)-h.size < n {
			return h, errShortHeader
		}
		h.clientID = b[h.size : h.size+n]
		h.size += n
	} else if n < -1 {
		return h, errShortHeader
	}
	if h.version < h.route.MinVersion || h.version > h.route.MaxVersion {
		return h, errVersion
	}
	if h.version >= h.route.flexibleFrom {
		n, err := h.parseTags(b[h.size:])
		if err != nil {
			return h, err
		}
		h.size += n
	}
	return h, nil
}

// parseTags walks the tagged fields of a header and returns their size.
func (h *header) parseTags(b []byte) (int, error) {
	count, pos := binary.Uvarint(b)
	if pos <= 0 {
		return 0, errShortHeader
	}
	for ; count > 0; count-- {
		tag, n := binary.Uvarint(b[pos:])
		if n <= 0 {
			return 0, errShortHeader
		}
		pos += n
		size, n := binary.Uvarint(b[pos:])
		if n <= 0 || size > uint64(len(b)-pos-n) {
			return 0, errShortHeader
		}
		pos += n
		if tag == TraceContextTag {
			h.traceParent = b[pos : pos+int(size)]
		}
		pos += int(size)
	}
	return pos, nil
}

// frameReader reads the frames of one connection.
type frameReader struct {
	c       *Conn
	br      *bufio.Reader
	largest int // bytes of the largest frame this client has completed
}

// buffered reports whether the next frame is already here as a whole.
func (fr *frameReader) buffered() bool {
	n := fr.br.Buffered()
	if n < 4 {
		return false
	}
	b, _ := fr.br.Peek(4)
	return uint64(binary.BigEndian.Uint32(b)) <= uint64(n-4)
}

// read returns the next frame. io.EOF means that the client closed between frames.
func (fr *frameReader) read() (frame, error) {
	prefix, err := fr.br.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) && len(prefix) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix)))
	if most := fr.limit(size); size < 0 || size > most {
		return frame{}, fmt.Errorf("%w: %d bytes, the limit is %d", errFrameLength, size, most)
	}
	fr.br.Discard(4)

	f, err := fr.readBody(size)
	if err != nil {
		fr.c.s.discard(&f)
		return frame{}, err
	}
	fr.largest = max(fr.largest, size)
	return f, nil
}

// limit is the most bytes that the next frame may have. What is large for a plain request depends on its key,
// the first field, which is looked at before any memory is spent.
func (fr *frameReader) limit(size int) int {
	most := int(fr.c.s.cfg.MaxRequestBytes)
	if size <= plainMaxBodyBytes || size > most {
		return most
	}
	b, err := fr.br.Peek(6)
	if err != nil {
		return most // the same error awaits whoever reads on
	}
	route := fr.c.s.router.lookup(int16(binary.BigEndian.Uint16(b[4:])))
	if route == nil {
		route = unknownRoute
	}
	return min(most, route.maxBodyBytes())
}

// readBody reads size bytes, growing the buffer with what has arrived.
func (fr *frameReader) readBody(size int) (frame, error) {
	s := fr.c.s
	have := min(size, max(trustedFrameBytes, 2*fr.largest))
	var f frame
	if !s.budget.tryStart(&f.grant, have) {
		fr.c.uncork() // answers held back for this request must not wait for memory
		if err := s.budget.start(fr.c.ctx, &f.grant, have); err != nil {
			return f, err
		}
	}
	f.buf = s.buffers.get(have)
	if size > fr.br.Buffered() {
		fr.c.midFrame.Store(true)
		defer fr.c.midFrame.Store(false)
	}
	filled := 0
	for {
		if err := fr.fill(&f, filled); err != nil {
			return f, err
		}
		filled = len(f.buf)
		if filled == size {
			return f, nil
		}
		next := min(size, 2*filled)
		fr.c.midFrame.Store(false) // now the client waits for us
		if err := s.budget.extend(fr.c.ctx, &f.grant, next-filled); err != nil {
			return f, err
		}
		fr.c.midFrame.Store(true)
		grown := s.buffers.get(next)
		copy(grown, f.buf)
		s.buffers.put(f.buf)
		f.buf = grown
	}
}

// fill reads the rest of a frame's buffer, noting progress for the janitor and taking checksums while the bytes are in the
// processor's cache.
func (fr *frameReader) fill(f *frame, filled int) error {
	for filled < len(f.buf) {
		step := stepBytes
		summed := filled == 0 || fr.checksummed(f.buf)
		if summed {
			step = crc32c.ChunkBytes
		}
		n, err := io.ReadFull(fr.br, f.buf[filled:min(len(f.buf), filled+step)])
		fr.c.activity.Add(1)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		filled += n
		if summed && fr.checksummed(f.buf) {
			f.checksums.Extend(f.buf[:filled])
		}
	}
	return nil
}

// checksummed says whether the frame that starts with b is large and of an API that wants checksums.
func (fr *frameReader) checksummed(b []byte) bool {
	if len(b) < 2*crc32c.ChunkBytes {
		return false
	}
	route := fr.c.s.router.lookup(int16(binary.BigEndian.Uint16(b)))
	return route != nil && route.Checksums
}

// discard gives a frame's memory back.
func (s *Server) discard(f *frame) {
	if f.buf != nil {
		s.buffers.put(f.buf)
		f.buf = nil
	}
	s.budget.end(&f.grant)
}
