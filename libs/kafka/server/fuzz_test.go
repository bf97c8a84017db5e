package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// everyAPI registers all keys that kmsg knows, with all versions.
func everyAPI() *Router {
	rt := NewRouter()
	for key := range int16(maxAPIKey) {
		if m := kmsg.RequestForKey(key); m != nil {
			rt.Register(API{Key: key, MaxVersion: m.MaxVersion(), Inline: true, Handle: func(*Request) {}})
		}
	}
	return rt
}

// FuzzHeader decodes request headers: whatever is accepted lies within the frame.
func FuzzHeader(f *testing.F) {
	f.Add(request(metadataRequest("t"), 9, 1)[4:])
	f.Add(request(kmsg.NewPtrApiVersionsRequest(), 0, 1)[4:])
	f.Add([]byte{0, 18, 0x7f, 0xff, 0, 0, 0, 1, 0xff, 0xff})
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 2, 0xff, 0xff, 2, 5, 1, 'x', 0xe1, 0xc6, 1, 2, 'a', 'b'})
	rt := everyAPI()
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b, rt)
		if err != nil {
			return
		}
		if h.size > len(b) || h.size < minHeaderBytes || h.route == nil || h.route.Key != h.key {
			t.Fatalf("%+v of %d bytes", h, len(b))
		}
		if len(h.clientID)+len(h.traceParent)+minHeaderBytes > h.size {
			t.Fatalf("client id and trace context of %d bytes in a header of %d", len(h.clientID)+len(h.traceParent), h.size)
		}
	})
}

// FuzzFrames cuts a byte stream into frames: exactly those that its lengths announce, however it arrives, with
// all memory accounted for.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 7, 0, 0, 0, 0})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 1, 2})
	f.Add([]byte{0, 1, 0, 0, 1, 2, 3})
	f.Add(append([]byte{0, 2, 0, 0}, make([]byte, 2<<16+3)...))
	s := New(Config{MaxRequestBytes: 1 << 20}, Deps{Router: NewRouter(), Log: zap.NewNop()})
	f.Fuzz(func(t *testing.T, stream []byte) {
		for _, source := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream))} {
			c := &Conn{s: s, ctx: context.Background()}
			fr := frameReader{c: c, br: bufio.NewReaderSize(source, readBufferBytes)}
			rest := stream
			for {
				got, err := fr.read()
				if err != nil {
					checkFrameError(t, rest, err)
					break
				}
				size := int(binary.BigEndian.Uint32(rest))
				if !bytes.Equal(got.buf, rest[4:4+size]) {
					t.Fatalf("frame of %d bytes, %d announced", len(got.buf), size)
				}
				rest = rest[4+size:]
				s.discard(&got)
			}
			if held := s.metrics.heldBytes.Load(); held != 0 || c.midFrame.Load() {
				t.Fatalf("%d bytes held", held)
			}
		}
	})
}

// checkFrameError fails unless rest is the end of a stream that gives the error.
func checkFrameError(t *testing.T, rest []byte, err error) {
	t.Helper()
	switch {
	case len(rest) == 0:
		if err != io.EOF {
			t.Fatalf("between frames: %v", err)
		}
	case len(rest) >= 4 && binary.BigEndian.Uint32(rest) > 1<<20:
		if !errors.Is(err, errFrameLength) {
			t.Fatalf("length out of range: %v", err)
		}
	case len(rest) < 4 || int(binary.BigEndian.Uint32(rest)) > len(rest)-4:
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut frame: %v", err)
		}
	default:
		t.Fatalf("a whole frame was refused: %v", err)
	}
}

// FuzzRequest decodes the body of every API at every version: it fails or succeeds, and what it decoded can
// be encoded again.
func FuzzRequest(f *testing.F) {
	rt := everyAPI()
	for _, r := range rt.apis {
		if r == nil {
			continue
		}
		for _, v := range []int16{0, r.MaxVersion} {
			m := kmsg.RequestForKey(r.Key)
			m.SetVersion(v)
			f.Add(r.Key, v, m.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		r := rt.lookup(key)
		if r == nil || version < 0 || version > r.MaxVersion {
			return
		}
		m := kmsg.RequestForKey(key)
		m.SetVersion(version)
		if decode(m, body) == nil {
			m.AppendTo(nil)
		}
	})
}
