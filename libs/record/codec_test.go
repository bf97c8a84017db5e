package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestCodecNames(t *testing.T) {
	for _, c := range codecs {
		if got, err := ParseCodec(c.String()); got != c || err != nil {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	for _, name := range []string{"", "producer", "ZSTD", "codec(5)"} {
		if c, err := ParseCodec(name); err == nil {
			t.Errorf("%q is %v", name, c)
		}
	}
	if got := Codec(5).String(); got != "codec(5)" {
		t.Error(got)
	}
}

// noise does not compress, text does.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func text(n int) []byte { return bytes.Repeat([]byte("all work and no play "), n/21+1)[:n] }

func TestCompressionComesBack(t *testing.T) {
	levels := map[Codec][]int{
		None: {0}, Snappy: {0}, Gzip: {-1, 1, 50}, Lz4: {0, 1, 17}, Zstd: {-200000, 0, 6, 50},
	}
	for codec, levels := range levels {
		for _, level := range levels {
			for _, n := range []int{1, 100, snappyFrameBlock, snappyFrameBlock + 1, minWindow, minWindow + 1, 300000} {
				for _, src := range [][]byte{text(n), noise(n)} {
					packed, err := Compress([]byte("head"), src, codec, level)
					if err != nil || string(packed[:4]) != "head" {
						t.Fatalf("%v level %d: %v", codec, level, err)
					}
					got, err := Decompress([]byte("before"), packed[4:], codec, n)
					if err != nil || string(got[:6]) != "before" || !bytes.Equal(got[6:], src) {
						t.Fatalf("%v level %d, %d bytes: %d back, %v", codec, level, n, len(got)-6, err)
					}
					if got, err := Decompress([]byte("before"), packed[4:], codec, n-1); !errors.Is(err, kerr.MessageTooLarge) || string(got) != "before" {
						t.Fatalf("%v level %d, one byte less than %d: %v", codec, level, n, err)
					}
				}
			}
		}
	}
}

// What other clients write: one raw snappy block, zstd with its size up front and a checksum, lz4 with blocks of 4 MiB
// and checksums.
func TestDecompressOtherForms(t *testing.T) {
	for _, n := range []int{1, 1000, minWindow + 1, 5 << 20} {
		src := text(n)
		sized, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true))
		if err != nil {
			t.Fatal(err)
		}
		var frame bytes.Buffer
		w := lz4.NewWriter(&frame)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.BlockChecksumOption(true), lz4.ChecksumOption(true)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(src); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for codec, packed := range map[Codec][]byte{
			Snappy: snappy.Encode(nil, src),
			Zstd:   sized.EncodeAll(src, nil),
			Lz4:    frame.Bytes(),
		} {
			if got, err := Decompress(nil, packed, codec, n); err != nil || !bytes.Equal(got, src) {
				t.Errorf("%v, %d bytes: %d back, %v", codec, n, len(got), err)
			}
		}
	}
}

func TestBrokenCompression(t *testing.T) {
	records := text(100000)
	for _, codec := range codecs[1:] {
		packed, err := Compress(nil, records, codec, 0)
		if err != nil {
			t.Fatal(err)
		}
		broken := map[string][]byte{
			"nothing":      {},
			"other bytes":  []byte("nothing of the kind, whatever is done with it"),
			"a tail":       append(bytes.Clone(packed), 1, 2, 3),
			"half":         packed[:len(packed)/2],
			"no last byte": packed[:len(packed)-1],
			"no last four": packed[:len(packed)-4],
		}
		for name, src := range broken {
			b := forge(t, src, None, 1, func(b Batch) { b[AttributesAt+1] |= byte(codec) })
			if _, err := Validate(b, strict); !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%v, %s: Validate says %v", codec, name, err)
			}
			if name == "nothing" && codec != Gzip {
				continue // decompresses to nothing
			}
			if _, err := Decompress(nil, src, codec, 1<<20); !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%v, %s: %v", codec, name, err)
			}
		}
	}
	if _, err := Decompress(nil, records, Codec(6), 1<<20); !errors.Is(err, kerr.UnsupportedCompressionType) {
		t.Errorf("codec 6: %v", err)
	}
}

// allocated is what f allocates, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileBatchesCostBoundedMemory(t *testing.T) {
	const bound = 12 << 20 // one zstd window of 8 MiB, and the rest
	bomb := NewBuilder()
	bomb.Append(0, nil, make([]byte, 24<<20))
	batches := map[string]Batch{}
	for _, codec := range codecs[1:] {
		level := 0
		if codec == Gzip {
			level = 1
		}
		b, err := bomb.Build(codec, level)
		if err != nil {
			t.Fatal(err)
		}
		batches["24 MiB as "+codec.String()] = b
	}
	var huge [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(huge[:], math.MaxUint32)
	raw := func(codec Codec, payload []byte) Batch {
		return forge(t, payload, None, math.MaxInt32, func(b Batch) { b[AttributesAt+1] |= byte(codec) })
	}
	batches["snappy block that claims 4 GiB"] = raw(Snappy, append(huge[:n:n], 0, 0, 0))
	batches["framed snappy block that claims 4 GiB"] = raw(Snappy, append([]byte(snappyFrameMagic+"\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"), 1, 0, 0))
	// Frame header: single segment of 2^62 bytes; window of 2^37 bytes.
	batches["zstd frame that claims 4 EiB"] = raw(Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0})
	batches["zstd window of 128 GiB"] = raw(Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 27 << 3, 1, 0, 0})
	batches["2^31-1 records, none there"] = forge(t, []byte{12, 0, 0, 0, 1, 1, 0}, None, math.MaxInt32, nil)
	batches["record that claims 2 GiB"] = forge(t, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f}, Gzip, 1, nil)
	for name, b := range batches {
		var err error
		got := allocated(func() { _, err = Validate(b, ValidateOptions{Strict: true, MaxDecompressedBytes: 16 << 20}) })
		if err == nil || got > bound {
			t.Errorf("%s: %d bytes allocated, %v", name, got, err)
		}
		// Iterating keeps one record as a whole, so here the bound is a bound of memory.
		got = allocated(func() {
			for _, e := range b.Records(1 << 20) {
				err = e
			}
		})
		if err == nil || got > bound {
			t.Errorf("%s: Records: %d bytes allocated, %v", name, got, err)
		}
	}
}

// Level 22 declares a window of 128 MiB for every batch; one that fits the reader's memory must not pay for it.
func TestZstdWideWindow(t *testing.T) {
	builder := NewBuilder()
	builder.Append(0, nil, text(10000))
	plain := mustBuild(t, builder, None)
	small, err := Compress(nil, plain.records(), Zstd, 0)
	if err != nil {
		t.Fatal(err)
	}
	var h zstd.Header
	if err := h.Decode(small); err != nil {
		t.Fatal(err)
	}
	wide := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3}, small[h.HeaderSize:]...)
	b := forge(t, wide, None, 1, func(b Batch) { b[AttributesAt+1] |= byte(Zstd) })
	got := allocated(func() {
		if _, err := Validate(b, strict); err != nil {
			t.Error(err)
		}
	})
	if got > 4<<20 {
		t.Errorf("%d bytes allocated", got)
	}
	sameRecords(t, b, plain)
}
