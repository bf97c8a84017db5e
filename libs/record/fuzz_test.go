package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func FuzzNext(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(build(f, None, 2)))
	f.Add(append(bytes.Clone(golden(f, "commit")), golden(f, "zstd")...))
	f.Fuzz(func(t *testing.T, in []byte) {
		rest := in
		for {
			b, next, err := Next(rest)
			if err != nil {
				if !bytes.Equal(next, rest) && err != io.EOF {
					t.Fatalf("%v took %d bytes", err, len(rest)-len(next))
				}
				if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, kerr.CorruptMessage) {
					t.Fatalf("error of another kind: %v", err)
				}
				return
			}
			if len(b) < HeaderSize || len(b)+len(next) != len(rest) || b.Magic() != Magic {
				t.Fatalf("batch of %d bytes and %d out of %d", len(b), len(next), len(rest))
			}
			rest = next
			_, _ = Validate(b, strict)
			_, _, _ = b.Marker()
			_ = b.LastSequence()
		}
	})
}

// FuzzValidate takes a header's attributes, count and records, so that it need not find out lengths and CRCs, and holds
// Validate and Records against a reading of the records as simple as can be.
func FuzzValidate(f *testing.F) {
	for _, codec := range codecs {
		f.Add(byte(codec), int32(3), []byte(build(f, codec, 3).records()))
	}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd", "zstd-22"} {
		b := golden(f, name)
		f.Add(byte(b.Codec()), b.Count(), []byte(b.records()))
	}
	f.Fuzz(func(t *testing.T, attributes byte, count int32, records []byte) {
		const maxBytes = 1 << 20
		b := forge(t, records, None, int(count), func(b Batch) { b[AttributesAt+1] = attributes })
		summary, err := Validate(b, ValidateOptions{Strict: true, AllowControl: true, MaxDecompressedBytes: maxBytes})
		plain := records
		if b.Codec() != None {
			var decodeErr error
			if plain, decodeErr = Decompress(nil, records, b.Codec(), maxBytes); decodeErr != nil {
				if err == nil {
					t.Fatalf("valid, but: %v", decodeErr)
				}
				return
			}
		}
		want, ok := readSimply(plain, int(count))
		ok = ok && !b.IsTransactional() // without a producer id
		if ok != (err == nil) || ok && summary != want {
			t.Fatalf("%+v, %v; read simply %+v, %v", summary, err, want, ok)
		}
		n := 0
		for r, recordErr := range b.Records(maxBytes) {
			if recordErr != nil {
				if err == nil {
					t.Fatalf("valid, but: %v", recordErr)
				}
				return
			}
			n++
			for range r.Headers() {
			}
		}
		if err == nil && n != int(count) {
			t.Fatalf("%d of %d records", n, count)
		}
	})
}

func readSimply(b []byte, count int) (s Summary, ok bool) {
	s = Summary{MaxTimestampMs: NoTimestamp, Count: int32(count)}
	for i := range count {
		size, n := binary.Varint(b)
		if n <= 0 || n > 5 || size < 1 || size > int64(len(b)-n) {
			return s, false
		}
		body := b[n+1 : n+int(size)]
		b = b[n+int(size):]
		bad := false
		number := func(maxBytes int) int64 {
			v, n := binary.Varint(body)
			if n <= 0 || n > maxBytes || maxBytes == 5 && int64(int32(v)) != v {
				bad = true
				return 0
			}
			body = body[n:]
			return v
		}
		field := func(least int64) {
			n := number(5)
			if n < least || n > int64(len(body)) {
				bad = true
			} else if n > 0 {
				body = body[n:]
			}
		}
		timestamp, offset := number(10), number(5)
		field(-1)
		field(-1)
		headers := number(5)
		for j := int64(0); j < headers && !bad; j++ {
			field(0)
			field(-1)
		}
		if bad || headers < 0 || len(body) != 0 || offset != int64(i) {
			return s, false
		}
		if timestamp > s.MaxTimestampMs {
			s.MaxTimestampMs, s.MaxTimestampDelta = timestamp, int32(i)
		}
	}
	return s, count > 0 && len(b) == 0
}

func FuzzDecompress(f *testing.F) {
	for _, codec := range codecs {
		packed, err := Compress(nil, text(1000), codec, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(codec), packed)
	}
	for _, name := range []string{"gzip", "snappy", "lz4", "zstd", "zstd-22"} {
		b := golden(f, name)
		f.Add(byte(b.Codec()), []byte(b.records()))
	}
	f.Fuzz(func(t *testing.T, codec byte, src []byte) {
		const maxBytes = 1 << 20
		out, err := Decompress([]byte("kept"), src, Codec(codec), maxBytes)
		if string(out[:4]) != "kept" || len(out) > 4+maxBytes || err != nil && len(out) != 4 {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		packed, err := Compress(nil, src, Codec(codec), 0)
		if err != nil {
			return
		}
		if back, err := Decompress(nil, packed, Codec(codec), len(src)); err != nil || !bytes.Equal(back, src) {
			t.Fatalf("%d bytes come back as %d, %v", len(src), len(back), err)
		}
	})
}
