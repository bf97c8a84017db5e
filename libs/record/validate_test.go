package record

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

var strict = ValidateOptions{Strict: true}

func TestValidateAcceptsWhatIsBuilt(t *testing.T) {
	for _, codec := range codecs {
		for _, n := range []int{1, 2, 63, 64, 65, 500, 20000} {
			want := Summary{MaxTimestampMs: 999 + int64(n), MaxTimestampDelta: int32(n - 1), Count: int32(n)}
			if got, err := Validate(build(t, codec, n), strict); err != nil || got != want {
				t.Errorf("%v × %d: %+v, %v", codec, n, got, err)
			}
		}
	}
}

// Records of every size around the lengths that take another byte, and around the window that they pass through.
func TestValidateAcceptsEverySize(t *testing.T) {
	sizes := []int{0, 1, 62, 63, 64, 65, 8190, 8191, 8192, 8193, minWindow - 30, minWindow - 20, minWindow, 3*minWindow + 1, 1 << 20}
	for _, codec := range codecs {
		all := NewBuilder()
		for _, size := range sizes {
			value := bytes.Repeat([]byte("x"), size)
			one := NewBuilder()
			one.Append(5, nil, value)
			all.Append(int64(size), value, nil)
			all.Append(-int64(size), nil, value)
			all.Append(3, []byte("k"), nil, Header{Key: value, Value: value})
			if _, err := Validate(mustBuild(t, one, codec), strict); err != nil {
				t.Errorf("%v, one record of %d: %v", codec, size, err)
			}
		}
		b := mustBuild(t, all, codec)
		if s, err := Validate(b, strict); err != nil || s.MaxTimestampMs != 1<<20 {
			t.Errorf("%v, all: %+v, %v", codec, s, err)
		}
		sameRecords(t, b, mustBuild(t, all, None))
	}
}

func TestValidateRefusesHeaders(t *testing.T) {
	set16 := func(at int, v int16) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
	}
	set32 := func(at int, v int32) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	}
	set64 := func(at int, v int64) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
	}
	both := func(f, g func(Batch)) func(Batch) { return func(b Batch) { f(b); g(b) } }
	bit := func(v byte) func(Batch) { return func(b Batch) { b[AttributesAt+1] |= v } }
	for name, c := range map[string]struct {
		change func(Batch)
		want   error
	}{
		"no records":                {both(set32(CountAt, 0), set32(LastOffsetDeltaAt, -1)), kerr.InvalidRecord},
		"negative count":            {set32(CountAt, -2), kerr.InvalidRecord},
		"count below offsets":       {set32(CountAt, 2), kerr.InvalidRecord},
		"count above records":       {both(set32(CountAt, 4), set32(LastOffsetDeltaAt, 3)), kerr.InvalidRecord},
		"count below records":       {both(set32(CountAt, 2), set32(LastOffsetDeltaAt, 1)), kerr.InvalidRecord},
		"2^31-1 records":            {both(set32(CountAt, math.MaxInt32), set32(LastOffsetDeltaAt, math.MaxInt32-1)), kerr.InvalidRecord},
		"control batch":             {both(bit(controlBit), set64(ProducerIDAt, -1)), kerr.InvalidRecord},
		"base offset":               {set64(BaseOffsetAt, 1), kerr.InvalidRecord},
		"producer id -2":            {set64(ProducerIDAt, -2), kerr.InvalidRecord},
		"producer without epoch":    {both(set64(ProducerIDAt, 1), set32(BaseSequenceAt, 0)), kerr.InvalidRecord},
		"producer without sequence": {both(set64(ProducerIDAt, 1), set16(ProducerEpochAt, 0)), kerr.InvalidRecord},
		"transaction of nobody":     {bit(transactionalBit), kerr.InvalidRecord},
		"log append time":           {bit(timestampTypeBit), kerr.InvalidTimestamp},
		"codec 5":                   {bit(5), kerr.UnsupportedCompressionType},
		"codec 7":                   {bit(7), kerr.UnsupportedCompressionType},
	} {
		b := build(t, None, 3)
		c.change(b)
		b.updateCRC()
		if _, err := Validate(b, strict); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestValidateRefusesSizeAndCRC(t *testing.T) {
	b := build(t, None, 3)
	if _, err := Validate(b, ValidateOptions{MaxBytes: len(b)}); err != nil {
		t.Error(err)
	}
	if _, err := Validate(b, ValidateOptions{MaxBytes: len(b) - 1}); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("too large: %v", err)
	}
	b[len(b)-1] ^= 1
	if _, err := Validate(b, strict); !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("flipped bit: %v", err)
	}
}

func TestValidateRefusesRecords(t *testing.T) {
	for name, records := range map[string][]byte{
		"empty":                           {},
		"nothing after the length":        {12},
		"length beyond the end":           {200, 1, 0, 0, 0, 1, 1, 0},
		"negative length":                 {1, 0, 0, 0, 1, 1, 0},
		"length below the fields":         {10, 0, 0, 0, 1, 1, 0},
		"length above the fields":         {14, 0, 0, 0, 1, 1, 0, 0},
		"length that never ends":          {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"length of more than 32 bits":     {0x8c, 0x80, 0x80, 0x80, 0x80, 0x01, 0, 0, 0, 1, 1, 0},
		"length in six bytes":             {0x8c, 0x80, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 1, 1, 0},
		"trailing byte":                   {12, 0, 0, 0, 1, 1, 0, 0},
		"offset 1":                        {12, 0, 0, 2, 1, 1, 0},
		"offset -1":                       {12, 0, 0, 1, 1, 1, 0},
		"timestamp of more than 64 bits":  {30, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 1, 1, 0},
		"key of length -2":                {12, 0, 0, 0, 3, 1, 0},
		"key beyond the record":           {12, 0, 0, 0, 2, 1, 0},
		"key of 2^31-1 bytes":             {20, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0},
		"value of length -2":              {12, 0, 0, 0, 1, 3, 0},
		"value beyond the record":         {12, 0, 0, 0, 1, 4, 0},
		"header count -1":                 {12, 0, 0, 0, 1, 1, 1},
		"header count without headers":    {12, 0, 0, 0, 1, 1, 2},
		"header count of 2^31-1":          {20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f},
		"header with a null key":          {16, 0, 0, 0, 1, 1, 2, 1, 1},
		"header key beyond the record":    {16, 0, 0, 0, 1, 1, 2, 4, 1},
		"header value of length -2":       {16, 0, 0, 0, 1, 1, 2, 0, 3},
		"header value beyond the record":  {16, 0, 0, 0, 1, 1, 2, 0, 2},
		"bytes after the last header":     {18, 0, 0, 0, 1, 1, 2, 0, 1, 0},
		"second record instead of header": {26, 0, 0, 0, 1, 1, 2, 12, 0, 0, 2, 1, 1, 0},
	} {
		for _, codec := range codecs {
			if len(records) == 0 && codec != None {
				continue // an empty stream: TestBrokenCompression
			}
			b := forge(t, records, codec, 1, nil)
			if _, err := Validate(b, strict); !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%s, %v: %v", name, codec, err)
			}
			if name == "offset 1" || name == "offset -1" {
				continue // for Validate alone to say
			}
			var last error
			for _, err := range b.Records(0) {
				last = err
			}
			if !errors.Is(last, kerr.InvalidRecord) {
				t.Errorf("%s, %v: Records ends with %v", name, codec, last)
			}
		}
	}
}

func TestValidateRefusesSingleRecords(t *testing.T) {
	for _, codec := range codecs {
		builder := NewBuilder()
		builder.Append(NoTimestamp, []byte("k"), nil)
		builder.Append(1000, []byte("k"), nil)
		builder.Append(2000, nil, []byte("v"))
		b := mustBuild(t, builder, codec)
		for name, c := range map[string]struct {
			options ValidateOptions
			index   int32
			want    error
		}{
			"all in range": {ValidateOptions{MinTimestampMs: 1000, MaxTimestampMs: 2000}, -1, nil},
			"too early":    {ValidateOptions{MinTimestampMs: 1001, MaxTimestampMs: 2000}, 1, kerr.InvalidTimestamp},
			"too late":     {ValidateOptions{MinTimestampMs: 1000, MaxTimestampMs: 1999}, 2, kerr.InvalidTimestamp},
			"null key":     {ValidateOptions{RequireKeys: true}, 2, kerr.InvalidRecord},
		} {
			c.options.Strict = true
			_, err := Validate(b, c.options)
			var record *RecordError
			if !errors.Is(err, c.want) || errors.As(err, &record) && record.BatchIndex != c.index {
				t.Errorf("%v, %s: %v", codec, name, err)
			}
			if c.want != nil && record == nil {
				t.Errorf("%v, %s: no index in %v", codec, name, err)
			}
		}
	}
}

func TestValidateAllowsCoordinators(t *testing.T) {
	marker := EndTransaction(Marker{Type: Commit}, 9, 1, 1000)
	marker.SetBaseOffset(5)
	builder := NewBuilder() // a batch of a transaction's offsets
	builder.SetProducer(9, 1, NoSequence)
	builder.SetTransactional()
	builder.Append(1000, []byte("k"), nil)
	for _, b := range []Batch{marker, mustBuild(t, builder, None)} {
		if _, err := Validate(b, ValidateOptions{AllowControl: true}); err != nil {
			t.Error(err)
		}
		if _, err := Validate(b, ValidateOptions{}); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("from a client: %v", err)
		}
	}
}

func TestValidateRelaxedBelievesCompressedHeaders(t *testing.T) {
	b := forge(t, []byte("no records at all"), Zstd, 3, func(b Batch) { b.SetMaxTimestamp(CreateTime, 12) })
	want := Summary{MaxTimestampMs: 12, MaxTimestampDelta: 2, Count: 3}
	if s, err := Validate(b, ValidateOptions{}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Validate(b, strict); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("strict: %v", err)
	}
}

// BL-006: some clients leave the header's maximum timestamp at -1 or at the first record's.
func TestValidateFindsTheTrueMaxTimestamp(t *testing.T) {
	for _, codec := range codecs {
		builder := NewBuilder()
		for _, ms := range []int64{100, 300, 200, 300} {
			builder.Append(ms, nil, []byte("v"))
		}
		right := mustBuild(t, builder, codec)
		for _, claimed := range []int64{-1, 100, 299, 301, math.MaxInt64} {
			b := bytes.Clone(right)
			Batch(b).SetMaxTimestamp(CreateTime, claimed)
			s, err := Validate(b, strict)
			if err != nil || s.MaxTimestampMs != 300 || s.MaxTimestampDelta != 1 {
				t.Errorf("%v, header says %d: %+v, %v", codec, claimed, s, err)
			}
			Batch(b).SetMaxTimestamp(CreateTime, s.MaxTimestampMs)
			if !bytes.Equal(b, right) {
				t.Errorf("%v, header says %d: not put right", codec, claimed)
			}
		}
	}
}

func TestMaxTimestampWithoutTimestamps(t *testing.T) {
	builder := NewBuilder()
	builder.Append(NoTimestamp, nil, nil)
	builder.Append(NoTimestamp, nil, nil)
	s, err := Validate(mustBuild(t, builder, None), ValidateOptions{MinTimestampMs: 1, MaxTimestampMs: 2})
	if err != nil || s.MaxTimestampMs != NoTimestamp || s.MaxTimestampDelta != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// BL-009: every codec is accepted, zstd only from the version that introduced it.
func TestFromProduce(t *testing.T) {
	for _, codec := range codecs {
		for version := int16(3); version <= 13; version++ {
			var want error
			if codec == Zstd && version < 7 {
				want = kerr.UnsupportedCompressionType
			}
			b := build(t, codec, 2)
			if got, err := FromProduce(b, version); !errors.Is(err, want) || err == nil && !bytes.Equal(got, b) {
				t.Errorf("%v in version %d: %v", codec, version, err)
			}
		}
	}
	one := build(t, None, 1)
	old := bytes.Clone(one)
	old[MagicAt] = 1
	for name, records := range map[string][]byte{
		"nothing":     nil,
		"a few bytes": one[:10],
		"torn":        one[:len(one)-1],
		"two batches": append(bytes.Clone(one), one...),
		"a tail":      append(bytes.Clone(one), 0),
		"magic 1":     old,
	} {
		if _, err := FromProduce(records, 9); !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	future := bytes.Clone(one)
	future[MagicAt] = 3
	if _, err := FromProduce(future, 9); !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("magic 3: %v", err)
	}
}

func TestValidateDoesNotAllocate(t *testing.T) {
	for _, codec := range codecs {
		b := build(t, codec, 200)
		validate := func() {
			if _, err := Validate(b, strict); err != nil {
				t.Fatal(err)
			}
		}
		got := testing.AllocsPerRun(100, validate)
		if codec != None {
			// Pools lose a decoder to the collector now and then, and under the race detector often.
			for range 30 {
				got = min(got, testing.AllocsPerRun(1, validate))
			}
		}
		if got != 0 {
			t.Errorf("%v: %v allocations", codec, got)
		}
	}
}

func ExampleValidate() {
	b := NewBuilder()
	b.Append(1700000000000, []byte("key"), []byte("value"))
	batch, _ := b.Build(Zstd, 0)
	summary, err := Validate(batch, ValidateOptions{Strict: true})
	fmt.Println(summary.Count, summary.MaxTimestampMs, err)
	// Output: 1 1700000000000 <nil>
}

// A last record that reaches beyond its batch, wherever the batch is cut, is refused and read no further.
func TestValidateRefusesABatchThatIsCutShort(t *testing.T) {
	for _, headers := range [][]Header{nil, {{Key: []byte("key"), Value: []byte("a value of some length")}}} {
		builder := NewBuilder()
		for range 3 {
			builder.Append(1000, []byte("k"), []byte("a value of some length"), headers...)
		}
		whole := mustBuild(t, builder, None)
		for cut := 1; cut < len(whole)-HeaderSize; cut++ {
			b := append(Batch(nil), whole[:len(whole)-cut]...)
			binary.BigEndian.PutUint32(b[LengthAt:], uint32(len(b)-LengthOverhead))
			b.updateCRC()
			if _, err := Validate(b, ValidateOptions{Strict: true}); !errors.Is(err, kerr.InvalidRecord) && !errors.Is(err, kerr.CorruptMessage) {
				t.Fatalf("%d headers, %d bytes cut: %v", len(headers), cut, err)
			}
		}
	}
}

// Compressed records are validated through a window: wherever its end falls in a record, the batch is valid.
func TestValidateRecordsThatStraddleTheWindow(t *testing.T) {
	header := Header{Key: []byte("header"), Value: []byte("a header's value")}
	for size := range 200 {
		builder := NewBuilder()
		for builder.Size() < 3*minWindow {
			builder.Append(1000, []byte("key"), make([]byte, 100+size), header)
		}
		for _, codec := range []Codec{None, Lz4} {
			if _, err := Validate(mustBuild(t, builder, codec), ValidateOptions{Strict: true}); err != nil {
				t.Fatalf("%v, values of %d bytes: %v", codec, 100+size, err)
			}
		}
	}
}

func TestValidateRefusesLz4FramesThatJavaCannotRead(t *testing.T) {
	builder := NewBuilder()
	builder.Append(1000, nil, []byte("v"))
	b := append(Batch(nil), mustBuild(t, builder, Lz4)...)
	b[HeaderSize+lz4FlagsAt] &^= lz4IndependentBlocks
	b.updateCRC()
	if _, err := Validate(b, ValidateOptions{Strict: true}); err == nil {
		t.Error("a frame of dependent blocks is accepted")
	}
}

// TestValidateBoundsDecompressedRecords holds single records of compressed batches against max.decompressed.message.bytes,
// below and above what the quick path passes over, and reads no more of one than its length.
func TestValidateBoundsDecompressedRecords(t *testing.T) {
	body := func(valueBytes int) int { // attributes, timestamp, offset, key, headers; and the value behind its length
		return 5 + len(binary.AppendVarint(nil, int64(valueBytes))) + valueBytes
	}
	for _, size := range []int{1, 100, 5000, maxPlainBytes - 7, maxPlainBytes - 6, 3 * minWindow} {
		builder := NewBuilder()
		builder.Append(1000, nil, []byte("small"))
		builder.Append(1000, nil, make([]byte, size))
		greatest := max(body(size), body(len("small")))
		for _, codec := range []Codec{None, Gzip, Snappy, Lz4, Zstd} {
			b := mustBuild(t, builder, codec)
			for limit, want := range map[int]error{0: nil, greatest: nil, greatest - 1: kerr.InvalidRecord, 1: kerr.InvalidRecord} {
				if codec == None {
					want = nil // max.message.bytes bounds those
				}
				if _, err := Validate(b, ValidateOptions{Strict: true, MaxRecordBytes: limit}); !errors.Is(err, want) {
					t.Errorf("%v, records of up to %d bytes, %d allowed: %v, want %v", codec, greatest, limit, err, want)
				}
			}
			if _, err := Validate(b, ValidateOptions{MaxRecordBytes: 1}); err != nil {
				t.Errorf("%v: relaxed validation looks at records: %v", codec, err)
			}
		}
	}
	var claim bytes.Buffer // of a length, with nothing behind it
	w := gzip.NewWriter(&claim)
	if _, err := w.Write(binary.AppendVarint(nil, 1<<30)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := append(make(Batch, HeaderSize), claim.Bytes()...)
	builder := NewBuilder()
	builder.Append(1000, nil, []byte("v"))
	builder.putHeader(b, Gzip)
	if _, err := Validate(b, ValidateOptions{Strict: true, MaxRecordBytes: 1 << 20}); !errors.Is(err, kerr.InvalidRecord) || !strings.Contains(err.Error(), "1073741824 bytes") {
		t.Errorf("a record that claims 1 GiB: %v", err)
	}
}
