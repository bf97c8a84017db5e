package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

const nowMs = 1_700_000_000_000

// batchOf is a batch of n records with timestamps from ms on, one apart.
func batchOf(t testing.TB, n int, ms int64) record.Batch {
	return buildBatch(t, record.None, func(b *record.Builder) {
		for i := range n {
			b.Append(ms+int64(i), fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "value %d of %d", i, n))
		}
	})
}

func buildBatch(t testing.TB, codec record.Codec, fill func(*record.Builder)) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	fill(b)
	batch, err := b.Build(codec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return append(record.Batch(nil), batch...)
}

// idempotent is a batch of n records of a producer.
func idempotent(t testing.TB, pid int64, epoch int16, seq int32, n int) record.Batch {
	return buildBatch(t, record.None, func(b *record.Builder) {
		b.SetProducer(pid, epoch, seq)
		for range n {
			b.Append(nowMs, []byte("k"), []byte("v"))
		}
	})
}

func testOptions() Options {
	c := DefaultConfig()
	return Options{Config: c, NowMs: nowMs}
}

func openAt(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func openNew(t testing.TB, change func(*Options)) *Log {
	t.Helper()
	o := testOptions()
	if change != nil {
		change(&o)
	}
	return openAt(t, filepath.Join(memDir(t), "topic-0"), o)
}

func mustAppend(t testing.TB, l *Log, b record.Batch) AppendInfo {
	t.Helper()
	info, err := l.Append(b, 0, nowMs)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// readAll is every batch from offset on, read in pieces of maxBytes.
func readAll(t testing.TB, l *Log, offset int64, maxBytes int, iso Isolation) []record.Batch {
	t.Helper()
	var all []record.Batch
	for {
		s, err := l.Read(offset, maxBytes, iso, true)
		if err != nil {
			t.Fatal(err)
		}
		if s.Size() == 0 {
			return all
		}
		raw, err := s.AppendTo(nil)
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for len(raw) > 0 {
			b, rest, err := record.Next(raw)
			if err != nil {
				break // cut inside a batch
			}
			if err := b.CheckCRC(); err != nil {
				t.Fatal(err)
			}
			all = append(all, b)
			offset, raw = b.LastOffset()+1, rest
			n++
		}
		if n == 0 {
			t.Fatalf("no whole batch at offset %d", offset)
		}
	}
}

func TestAppendAndRead(t *testing.T) {
	l := openNew(t, func(o *Options) { o.Config.SegmentBytes = 1000 })
	var want []string
	for i := range 50 {
		n := i%3 + 1
		info := mustAppend(t, l, batchOf(t, n, nowMs+int64(i)))
		want = append(want, fmt.Sprintf("%d-%d", info.FirstOffset, info.LastOffset))
	}
	if l.SegmentCount() < 3 {
		t.Errorf("%d segments", l.SegmentCount())
	}
	for _, maxBytes := range []int{1, 100, 350, 1 << 20} {
		var got []string
		for _, b := range readAll(t, l, 0, maxBytes, LogEnd) {
			got = append(got, fmt.Sprintf("%d-%d", b.BaseOffset(), b.LastOffset()))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("maxBytes %d: read %v, want %v", maxBytes, got, want)
		}
	}
	for _, offset := range []int64{-1, l.EndOffset() + 1} {
		if _, err := l.Read(offset, 100, LogEnd, true); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("read at %d: %v", offset, err)
		}
	}
}

func TestReadStopsAtTheHighWatermark(t *testing.T) {
	l := openNew(t, nil)
	for range 40 {
		mustAppend(t, l, batchOf(t, 2, nowMs))
	}
	for _, hw := range []int64{0, 2, 30, 31, 78, 80} {
		l.SetHighWatermark(hw)
		got := readAll(t, l, 0, 1<<20, HighWatermark)
		if want := int(hw / 2); len(got) != want {
			t.Errorf("high watermark %d: %d batches, want %d", hw, len(got), want)
		}
	}
	if hw := l.SetHighWatermark(1000); hw != 80 {
		t.Errorf("high watermark went to %d", hw)
	}
	if hw := l.SetHighWatermark(3); hw != 80 {
		t.Errorf("high watermark went back to %d", hw)
	}
}

func TestReopen(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			o := testOptions()
			o.Config.SegmentBytes, o.Config.IndexIntervalBytes = 2000, 100
			dir := filepath.Join(memDir(t), "topic-0")
			l := openAt(t, dir, o)
			for i := range 100 {
				mustAppend(t, l, idempotent(t, 7, 0, int32(2*i), 2))
			}
			if clean {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				o.CleanShutdown, o.RecoveryPoint = true, l.RecoveryPoint()
			}
			again := openAt(t, dir, o)
			if again.EndOffset() != 200 || again.SegmentCount() != l.SegmentCount() || again.LatestEpoch() != 0 {
				t.Fatalf("end %d, %d segments, epoch %d", again.EndOffset(), again.SegmentCount(), again.LatestEpoch())
			}
			if got := readAll(t, again, 0, 500, LogEnd); len(got) != 100 {
				t.Errorf("%d batches", len(got))
			}
			if info, err := again.Append(idempotent(t, 7, 0, 198, 2), 0, nowMs); err != nil || !info.Duplicate || info.FirstOffset != 198 {
				t.Errorf("last batch again: %+v, %v", info, err)
			}
			if _, err := again.Append(idempotent(t, 7, 0, 202, 2), 0, nowMs); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
				t.Errorf("gap: %v", err)
			}
			mustAppend(t, again, idempotent(t, 7, 0, 200, 2))
		})
	}
}
