package record

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// BL-019: the first record, by offset, at or after a time, with its own timestamp, however timestamps jump.
func TestOffsetForTime(t *testing.T) {
	rising, jumping := NewBuilder(), NewBuilder()
	for ms := int64(1); ms <= 100; ms++ {
		rising.Append(ms*10, nil, []byte("v"))
	}
	for _, ms := range []int64{50, 10, 90, 20, 90} {
		jumping.Append(ms, nil, nil)
	}
	for _, codec := range codecs {
		b := mustBuild(t, rising, codec)
		b.SetBaseOffset(1000)
		for ms := int64(0); ms <= 1005; ms++ {
			offset, ts, found, err := b.OffsetForTime(ms, 0)
			index := max(ms+9, 10)/10 - 1
			if err != nil || found != (ms <= 1000) || found && (offset != 1000+index || ts != (index+1)*10) {
				t.Fatalf("%v, %d ms: %d@%d, %v, %v", codec, ms, offset, ts, found, err)
			}
		}
		j := mustBuild(t, jumping, codec)
		for _, c := range []struct{ ms, from, offset, ts int64 }{
			{0, 0, 0, 50}, {50, 0, 0, 50}, {51, 0, 2, 90}, {90, 0, 2, 90}, {15, 1, 2, 90}, {15, 3, 3, 20}, {50, 3, 4, 90},
			{91, 0, 0, 0}, {0, 5, 0, 0},
		} {
			offset, ts, found, err := j.OffsetForTime(c.ms, c.from)
			if err != nil || found != (c.ts != 0) || offset != c.offset || ts != c.ts {
				t.Errorf("%v, %d ms from %d: %d@%d, %v, %v", codec, c.ms, c.from, offset, ts, found, err)
			}
		}
	}
}

func TestOffsetForTimeInLogAppendTime(t *testing.T) {
	b := build(t, Gzip, 3)
	b.SetMaxTimestamp(LogAppendTime, 5)
	if offset, ts, found, err := b.OffsetForTime(5, 0); offset != 0 || ts != 5 || !found || err != nil {
		t.Errorf("%d@%d, %v, %v", offset, ts, found, err)
	}
	if _, _, found, _ := b.OffsetForTime(6, 0); found {
		t.Error("found after the append time")
	}
}

func TestRecordsStopsWhenAsked(t *testing.T) {
	for _, codec := range codecs {
		seen := 0
		for range build(t, codec, 10).Records(0) {
			if seen++; seen == 3 {
				break
			}
		}
		if seen != 3 {
			t.Errorf("%v: %d records", codec, seen)
		}
	}
}

func TestRecordsCanBeNested(t *testing.T) {
	for _, codec := range codecs {
		outer, inner := build(t, codec, 20), build(t, codec, 30)
		for r, err := range outer.Records(0) {
			if err != nil {
				t.Fatal(err)
			}
			sameRecords(t, inner, inner)
			if string(r.Value) != "value" {
				t.Fatalf("%v: %q", codec, r.Value)
			}
		}
	}
}

func TestRecordsIsBounded(t *testing.T) {
	builder := NewBuilder()
	builder.Append(0, nil, make([]byte, 1<<20))
	for _, codec := range codecs[1:] {
		b := mustBuild(t, builder, codec)
		for max, want := range map[int]error{builder.Size() - HeaderSize: nil, builder.Size() - HeaderSize - 1: kerr.MessageTooLarge} {
			var last error
			for _, err := range b.Records(max) {
				last = err
			}
			if !errors.Is(last, want) {
				t.Errorf("%v, %d bytes: %v", codec, max, last)
			}
		}
	}
}

func TestHeadersStopWhenAsked(t *testing.T) {
	builder := NewBuilder()
	builder.Append(0, nil, nil, Header{Key: []byte("a")}, Header{Key: []byte("b")})
	for r := range mustBuild(t, builder, None).Records(0) {
		for h := range r.Headers() {
			if string(h.Key) == "b" {
				t.Error("went on")
			}
			break
		}
	}
}

func TestRecompress(t *testing.T) {
	for _, from := range codecs {
		for _, to := range codecs {
			builder := NewBuilder()
			goldenRecords(builder, 3000)
			b := mustBuild(t, builder, from)
			b.SetBaseOffset(77)
			b.SetLeaderEpoch(5)
			before := bytes.Clone(b)
			got, err := Recompress(b, to, 0)
			if err != nil {
				t.Fatal(err)
			}
			if whole, rest, err := Next(got); err != nil || len(rest) != 0 || whole.Codec() != to || whole.CheckCRC() != nil {
				t.Errorf("%v to %v: %v %v", from, to, whole.Codec(), err)
			}
			if got.BaseOffset() != 77 || got.LeaderEpoch() != 5 || !bytes.Equal(got[LastOffsetDeltaAt:HeaderSize], b[LastOffsetDeltaAt:HeaderSize]) {
				t.Errorf("%v to %v: header %x", from, to, got[:HeaderSize])
			}
			sameRecords(t, got, b)
			if !bytes.Equal(b, before) {
				t.Errorf("%v to %v: the source changed", from, to)
			}
		}
	}
	marker := EndTransaction(Marker{Type: Abort}, 1, 1, 1)
	if got, err := Recompress(marker, Zstd, 0); err != nil || got.Codec() != None {
		t.Errorf("marker: %v, %v", got.Codec(), err)
	}
}

func TestMarkerOfOtherBatches(t *testing.T) {
	if _, ok, err := build(t, None, 1).Marker(); ok || err != nil {
		t.Errorf("plain batch: %v, %v", ok, err)
	}
	control := func(key, value []byte) Batch {
		b := NewBuilder()
		b.attributes |= controlBit
		b.Append(0, key, value)
		return mustBuild(t, b, None)
	}
	if _, ok, err := LeaderChange(1, 0).Marker(); ok || err != nil {
		t.Errorf("leader change: %v, %v", ok, err)
	}
	for name, b := range map[string]Batch{
		"short key":              control([]byte{0, 0, 0}, nil),
		"negative key version":   control([]byte{255, 0, 0, 1}, make([]byte, 6)),
		"null value":             control([]byte{0, 0, 0, 1}, nil),
		"negative value version": control([]byte{0, 0, 0, 1}, bytes.Repeat([]byte{255}, 6)),
	} {
		if _, ok, err := b.Marker(); ok || !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// The bytes are those of KIP-595's LeaderChangeMessage, which Kafka's dump tool reads.
func TestLeaderChange(t *testing.T) {
	b := LeaderChange(0x01020304, 1000)
	if _, err := Validate(b, ValidateOptions{Strict: true, AllowControl: true}); err != nil {
		t.Fatal(err)
	}
	if !b.IsControl() || b.IsTransactional() || b.ProducerID() != NoProducerID || b.MaxTimestamp() != 1000 {
		t.Errorf("header %x", b[:HeaderSize])
	}
	for r, err := range b.Records(0) {
		if err != nil || !bytes.Equal(r.Key, []byte{0, 0, 0, 2}) || !bytes.Equal(r.Value, []byte{0, 0, 1, 2, 3, 4, 1, 1, 0}) {
			t.Errorf("record %x %x, %v", r.Key, r.Value, err)
		}
	}
}

func TestRecordsAtTheEndsOfNumbers(t *testing.T) {
	builder := NewBuilder()
	for _, ms := range []int64{0, math.MaxInt64, math.MinInt64, -1, 1 << 40} {
		builder.Append(ms, nil, nil)
	}
	for _, codec := range codecs {
		b := mustBuild(t, builder, codec)
		if s, err := Validate(b, strict); err != nil || s.MaxTimestampMs != math.MaxInt64 || s.MaxTimestampDelta != 1 {
			t.Errorf("%v: %+v, %v", codec, s, err)
		}
		sameRecords(t, b, mustBuild(t, builder, None))
	}
}
