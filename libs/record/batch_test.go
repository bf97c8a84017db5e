package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

var codecs = []Codec{None, Gzip, Snappy, Lz4, Zstd}

// build makes a batch of n small records with timestamps from 1000 on.
func build(t testing.TB, codec Codec, n int) Batch {
	t.Helper()
	b := NewBuilder()
	for i := range n {
		b.Append(1000+int64(i), []byte("key"), []byte("value"), Header{Key: []byte("h")})
	}
	return mustBuild(t, b, codec)
}

func mustBuild(t testing.TB, b *Builder, codec Codec) Batch {
	t.Helper()
	batch, err := b.Build(codec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// forge makes a batch of given record bytes, which may be anything, under a header that fits them but for change.
func forge(t testing.TB, records []byte, codec Codec, count int, change func(Batch)) Batch {
	t.Helper()
	payload, err := Compress(make([]byte, HeaderSize), records, codec, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := Batch(payload)
	(&Builder{count: count, producerID: NoProducerID, producerEpoch: -1, baseSequence: NoSequence}).putHeader(b, codec)
	if change != nil {
		change(b)
	}
	b.updateCRC()
	return b
}

func TestNextSplitsBatches(t *testing.T) {
	one, two := build(t, None, 1), build(t, Gzip, 2)
	first, rest, err := Next(append(bytes.Clone(one), two...))
	if err != nil || !bytes.Equal(first, one) {
		t.Fatalf("first: %x, %v", first, err)
	}
	second, rest, err := Next(rest)
	if err != nil || !bytes.Equal(second, two) || len(rest) != 0 {
		t.Fatalf("second: %x, %d left, %v", second, len(rest), err)
	}
	if _, _, err = Next(rest); err != io.EOF {
		t.Fatalf("at the end: %v", err)
	}
}

func TestNextTellsTornFromCorrupt(t *testing.T) {
	b := build(t, None, 1)
	for n := 1; n < len(b); n++ {
		if _, _, err := Next(b[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, length := range []int32{-1, 0, HeaderSize - LengthOverhead - 1, math.MinInt32, math.MaxInt32} {
		bad := bytes.Clone(b)
		binary.BigEndian.PutUint32(bad[LengthAt:], uint32(length))
		if _, _, err := Next(bad); !errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("length %d: %v", length, err)
		}
	}
	for _, magic := range []byte{0, 1, 3, 255} {
		bad := bytes.Clone(b)
		bad[MagicAt] = magic
		if _, _, err := Next(bad); !errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("magic %d: %v", magic, err)
		}
	}
}

func TestHeaderFields(t *testing.T) {
	builder := NewBuilder()
	builder.SetProducer(1<<40, 7, 100)
	builder.SetTransactional()
	for i := range 3 {
		builder.Append(int64(5000-i), nil, nil)
	}
	b := mustBuild(t, builder, Lz4)
	b.SetBaseOffset(1 << 50)
	b.SetLeaderEpoch(12)
	if err := b.CheckCRC(); err != nil {
		t.Errorf("base offset and leader epoch are under the CRC: %v", err)
	}
	for name, pair := range map[string][2]any{
		"BaseOffset":       {b.BaseOffset(), int64(1 << 50)},
		"LastOffset":       {b.LastOffset(), int64(1<<50 + 2)},
		"LeaderEpoch":      {b.LeaderEpoch(), int32(12)},
		"Magic":            {b.Magic(), int8(2)},
		"Codec":            {b.Codec(), Lz4},
		"TimestampType":    {b.TimestampType(), CreateTime},
		"IsTransactional":  {b.IsTransactional(), true},
		"IsControl":        {b.IsControl(), false},
		"HasDeleteHorizon": {b.HasDeleteHorizon(), false},
		"BaseTimestamp":    {b.BaseTimestamp(), int64(5000)},
		"MaxTimestamp":     {b.MaxTimestamp(), int64(5000)},
		"ProducerID":       {b.ProducerID(), int64(1 << 40)},
		"ProducerEpoch":    {b.ProducerEpoch(), int16(7)},
		"BaseSequence":     {b.BaseSequence(), int32(100)},
		"LastSequence":     {b.LastSequence(), int32(102)},
		"Count":            {b.Count(), int32(3)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestLastSequenceBeginsAgainAtZero(t *testing.T) {
	builder := NewBuilder()
	builder.SetProducer(1, 0, math.MaxInt32-1)
	for range 4 {
		builder.Append(0, nil, nil)
	}
	if got := mustBuild(t, builder, None).LastSequence(); got != 1 {
		t.Errorf("last sequence is %d, want 1", got)
	}
	if got := build(t, None, 4).LastSequence(); got != NoSequence {
		t.Errorf("last sequence without a producer is %d", got)
	}
}

func TestSetMaxTimestamp(t *testing.T) {
	for _, codec := range codecs {
		b := build(t, codec, 3)
		b.SetMaxTimestamp(LogAppendTime, 77)
		if err := b.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		if b.TimestampType() != LogAppendTime || b.MaxTimestamp() != 77 || b.Codec() != codec {
			t.Errorf("%v: %v %d %v", codec, b.TimestampType(), b.MaxTimestamp(), b.Codec())
		}
		for r, err := range b.Records(0) {
			if err != nil || b.Timestamp(r) != 77 {
				t.Fatalf("%v: timestamp %d, %v", codec, b.Timestamp(r), err)
			}
		}
		b.SetMaxTimestamp(CreateTime, 1002)
		if b.TimestampType() != CreateTime || !bytes.Equal(b, build(t, codec, 3)) {
			t.Errorf("%v: not what it was", codec)
		}
	}
}

func TestCheckCRCCoversAttributesToEnd(t *testing.T) {
	b := build(t, None, 2)
	for at := range b {
		bad := bytes.Clone(b)
		bad[at] ^= 1
		err := Batch(bad).CheckCRC()
		if covered := at >= CRCAt; covered != errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

func TestBuilderRefusesWhatCannotBe(t *testing.T) {
	b := NewBuilder()
	if _, err := b.Build(None, 0); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("no records: %v", err)
	}
	b.Append(0, nil, nil)
	dst := []byte("kept")
	if out, err := b.AppendTo(dst, Codec(5), 0); !errors.Is(err, kerr.UnsupportedCompressionType) || string(out) != "kept" {
		t.Errorf("codec 5: %q, %v", out, err)
	}
}

func TestBuilderAfterReset(t *testing.T) {
	b := NewBuilder()
	b.SetProducer(1, 2, 3)
	b.SetTransactional()
	b.Append(99, []byte("k"), nil)
	first := mustBuild(t, b, None)
	if b.Len() != 1 || b.Size() != len(first) {
		t.Errorf("%d records of %d bytes, the batch has %d", b.Len(), b.Size(), len(first))
	}
	kept := bytes.Clone(first)
	b.Reset()
	b.Append(1000, []byte("key"), []byte("value"), Header{Key: []byte("h")})
	if got := mustBuild(t, b, None); !bytes.Equal(got, build(t, None, 1)) {
		t.Errorf("%x", got)
	}
	if !bytes.Equal(first, kept) {
		t.Error("the earlier batch changed")
	}
}
