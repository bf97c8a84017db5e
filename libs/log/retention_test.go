package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// bases is where the segments of a log begin.
func bases(l *Log) (offsets []int64) {
	for _, s := range *l.segments.Load() {
		offsets = append(offsets, s.base)
	}
	return offsets
}

func TestRetention(t *testing.T) {
	const day = 24 * 3600_000
	for name, c := range map[string]struct {
		config func(*Config)
		ms     []int64 // largest timestamp of each segment of one batch
		hw     int64
		want   []int64 // bases of what is left
	}{
		"by time":                    {func(c *Config) { c.RetentionMs = 1000 }, []int64{-5000, -1001, -1000, 0}, 4, []int64{2, 3}},
		"oldest first only":          {func(c *Config) { c.RetentionMs = 1000 }, []int64{0, -5000, 0}, 3, []int64{0, 1, 2}},
		"the active segment too":     {func(c *Config) { c.RetentionMs = 1000 }, []int64{-5000, -2000}, 2, []int64{2}},
		"not above the watermark":    {func(c *Config) { c.RetentionMs = 1000 }, []int64{-5000, -4000, -3000}, 1, []int64{1, 2}},
		"for ever":                   {func(c *Config) { c.RetentionMs = -1 }, []int64{-day * 3650, 0}, 2, []int64{0, 1}},
		"by size":                    {func(c *Config) { c.RetentionBytes = 240 }, []int64{0, 0, 0, 0}, 4, []int64{1, 2, 3}},
		"by size, nothing at all":    {func(c *Config) { c.RetentionBytes = 0 }, []int64{0, 0}, 2, []int64{2}},
		"compacted only: not by age": {func(c *Config) { c.Delete, c.Compact, c.RetentionMs, c.RetentionBytes = false, true, 1, 1 }, []int64{-5000, -5000, 0}, 3, []int64{0, 1, 2}},
		"compacted and deleted":      {func(c *Config) { c.Compact, c.RetentionMs = true, 1000 }, []int64{-5000, -5000, 0}, 3, []int64{2}},
		// BL-073: a record from the future keeps its segment, and those after it, from retention by time but not by size.
		"from the future":          {func(c *Config) { c.RetentionMs = 1000 }, []int64{10 * 365 * day, -5000}, 2, []int64{0, 1}},
		"from the future, by size": {func(c *Config) { c.RetentionMs, c.RetentionBytes = 1000, 70 }, []int64{10 * 365 * day, 0, 0}, 3, []int64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t, func(o *Options) {
				o.Config.SegmentBytes, o.Config.TimestampAfterMaxMs = 100, 1<<62
				c.config(&o.Config)
			})
			for _, ms := range c.ms {
				mustAppend(t, l, batchOf(t, 1, nowMs+ms))
			}
			l.SetHighWatermark(c.hw)
			before := l.SegmentCount()
			n, err := l.Retain(nowMs)
			if err != nil {
				t.Fatal(err)
			}
			if got := bases(l); !slices.Equal(got, c.want) {
				t.Errorf("segments %v, want %v", got, c.want)
			}
			if l.StartOffset() != c.want[0] || n > before || (n == 0) != (c.want[0] == 0) {
				t.Errorf("start %d, %d of %d removed", l.StartOffset(), n, before)
			}
		})
	}
}

func TestDeletedFilesStayForTheDelay(t *testing.T) {
	l := openNew(t, func(o *Options) { o.Config.SegmentBytes, o.Config.RetentionMs = 200, 1000 })
	for i := range int64(3) {
		mustAppend(t, l, idempotent(t, 1, 0, int32(i), 1))
		mustAppend(t, l, batchOf(t, 1, nowMs-5000+i))
	}
	held, err := l.Read(0, 1<<20, LogEnd, true)
	if err != nil {
		t.Fatal(err)
	}
	want, err := held.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(l.EndOffset())
	if n, err := l.Retain(nowMs + 10_000); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	deleted := func() int {
		paths, err := filepath.Glob(filepath.Join(l.Dir(), "*"+deletedSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return len(paths)
	}
	if deleted() == 0 {
		t.Error("nothing was renamed")
	}
	if _, err := l.Read(0, 1, LogEnd, true); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("read below the start: %v", err)
	}
	delay := l.Config().FileDeleteDelayMs
	if err := l.Purge(nowMs + 10_000 + delay - 1); err != nil || deleted() == 0 {
		t.Errorf("unlinked too soon: %v", err)
	}
	if err := l.Purge(nowMs + 10_000 + delay); err != nil || deleted() != 0 {
		t.Errorf("%d files are left: %v", deleted(), err)
	}
	if got, err := held.AppendTo(nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the slice held: %d bytes, %v", len(got), err)
	}
	held.Release()
	entries, err := os.ReadDir(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "00000000000000000000.") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestDeletedFilesStayWhateverTheClockSays wants the delay from what tells no time, with a clock that is put back, and for ever.
func TestDeletedFilesStayWhateverTheClockSays(t *testing.T) {
	const later = nowMs + 3600_000
	for _, c := range []struct {
		name    string
		delayMs int64
		do      func(l *Log) error
		looks   []int64 // when Purge looks and may remove nothing
		goneMs  int64   // when it removes all; 0 for never
	}{
		{"truncated", 1000, func(l *Log) error { return l.TruncateTo(2) }, []int64{later, later + 999}, later + 1000},
		{"emptied", 1000, func(l *Log) error { return l.TruncateFullyAndStartAt(50) }, []int64{later, later + 999}, later + 1000},
		{"put back", 1000, func(l *Log) error { return second(l.Retain(later)) }, []int64{later, nowMs, nowMs + 999}, nowMs + 1000},
		{"for ever", math.MaxInt64, func(l *Log) error { return second(l.Retain(later)) }, []int64{later, later + 1<<50}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := openNew(t, func(o *Options) {
				o.Config.SegmentBytes, o.Config.RetentionMs, o.Config.FileDeleteDelayMs = 200, 1000, c.delayMs
			})
			for range 6 {
				mustAppend(t, l, batchOf(t, 1, nowMs))
			}
			l.SetHighWatermark(l.EndOffset())
			if err := c.do(l); err != nil {
				t.Fatal(err)
			}
			left := func(nowMs int64) int {
				if err := l.Purge(nowMs); err != nil {
					t.Fatal(err)
				}
				paths, err := filepath.Glob(filepath.Join(l.Dir(), "*"+deletedSuffix))
				if err != nil {
					t.Fatal(err)
				}
				return len(paths)
			}
			for _, ms := range c.looks {
				if left(ms) == 0 {
					t.Errorf("removed too soon, by %d", ms)
				}
			}
			if n := left(c.goneMs); c.goneMs > 0 && n > 0 {
				t.Errorf("%d files are left", n)
			}
		})
	}
}

// TestFlushMsWithAClockPutBack wants flush.ms kept from when the clock was put back on, and no flush because of that alone.
func TestFlushMsWithAClockPutBack(t *testing.T) {
	l := openNew(t, func(o *Options) { o.Config.FlushMs, o.NowMs = 1000, nowMs+3600_000 })
	mustAppend(t, l, batchOf(t, 1, nowMs))
	for _, c := range []struct {
		ms   int64
		want bool
	}{{nowMs, false}, {nowMs + 999, false}, {nowMs + 1000, true}, {nowMs + 1001, false}} {
		if got := l.FlushDue(c.ms); got != c.want {
			t.Errorf("at %d: due is %v", c.ms, got)
		}
	}
}

// TestDeleteRecords is BL-023.
func TestDeleteRecords(t *testing.T) {
	l := openNew(t, nil)
	mustAppend(t, l, batchOf(t, 10, nowMs))
	mustAppend(t, l, batchOf(t, 2, nowMs+100))
	l.SetHighWatermark(10)
	for _, c := range []struct {
		to, low int64
		want    error
	}{{5, 5, nil}, {5, 5, nil}, {2, 5, nil}, {0, 5, nil}, {11, -1, kerr.OffsetOutOfRange}, {-2, -1, kerr.OffsetOutOfRange}, {7, 7, nil}} {
		low, err := l.DeleteRecords(c.to)
		if low != c.low || !errors.Is(err, c.want) {
			t.Errorf("to %d: %d, %v", c.to, low, err)
		}
	}
	for _, ms := range []int64{0, nowMs, nowMs + 6} {
		if offset, at, _, ok, err := l.OffsetForTime(ms); offset != 7 || at != nowMs+7 || !ok || err != nil {
			t.Errorf("offset for time %d: %d at %d, %v", ms, offset, at, err)
		}
	}
	if got := readAll(t, l, 7, 1, HighWatermark); len(got) != 1 || got[0].BaseOffset() != 0 {
		t.Errorf("read at 7: %s", offsetsOf(got))
	}
	if _, err := l.Read(6, 1, HighWatermark, true); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("read at 6: %v", err)
	}
	if low, err := l.DeleteRecords(-1); low != 10 || err != nil {
		t.Errorf("up to the high watermark: %d, %v", low, err)
	}
	if e, end := l.EndOffsetForEpoch(0); e != 0 || end != 12 {
		t.Errorf("epoch 0 ends as %d at %d", e, end)
	}
}

// TestMaxTimestampAfterDeleteRecords has the record with the largest timestamp deleted, in the middle of its batch.
func TestMaxTimestampAfterDeleteRecords(t *testing.T) {
	l := openNew(t, nil)
	mustAppend(t, l, buildBatch(t, record.Zstd, func(b *record.Builder) {
		for _, ms := range []int64{10, 900, 20, 30, 25} {
			b.Append(nowMs+ms, nil, nil)
		}
	}))
	mustAppend(t, l, batchOf(t, 1, nowMs+5))
	l.SetHighWatermark(6)
	for _, c := range []struct{ start, offset, ms int64 }{{0, 1, 900}, {1, 1, 900}, {2, 3, 30}, {4, 4, 25}, {5, 5, 5}} {
		if _, err := l.DeleteRecords(c.start); err != nil {
			t.Fatal(err)
		}
		offset, ms, _, ok, err := l.MaxTimestamp()
		if offset != c.offset || ms != nowMs+c.ms || !ok || err != nil {
			t.Errorf("from %d: %d at %d, %v %v; want %d at %d", c.start, offset, ms-nowMs, ok, err, c.offset, c.ms)
		}
	}
	if _, err := l.DeleteRecords(-1); err != nil {
		t.Fatal(err)
	}
	if _, _, _, ok, err := l.MaxTimestamp(); ok || err != nil {
		t.Errorf("empty: %v %v", ok, err)
	}
}

// TestOffsetForTime is BL-019: the first record by offset that is late enough, inside the batch.
func TestOffsetForTime(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		l := openNew(t, func(o *Options) { o.Config.IndexIntervalBytes, o.Config.SegmentBytes = 200, 6000 })
		var all []int64
		add := func(times ...int64) {
			mustAppend(t, l, buildBatch(t, codec, func(b *record.Builder) {
				for _, ms := range times {
					b.Append(nowMs+ms, []byte("key"), bytes.Repeat([]byte("v"), 20))
				}
			}))
			all = append(all, times...)
		}
		var hundred []int64
		for i := range int64(100) {
			hundred = append(hundred, 2*(i+1))
		}
		add(hundred...)
		add(5, 300, 7)
		add(150, 10)
		for i := range int64(100) {
			add(250+i%30, 400-i, 260+3*i)
		}
		for ms := int64(-1); ms < 600; ms++ {
			want := int64(slices.IndexFunc(all, func(at int64) bool { return at >= ms }))
			offset, at, epoch, ok, err := l.OffsetForTime(nowMs + ms)
			if err != nil || ok != (want >= 0) || offset != want || ok && (at != nowMs+all[want] || epoch != 0) {
				t.Fatalf("%v: time %d: offset %d at %d, %v %v; want %d", codec, ms, offset, at-nowMs, ok, err, want)
			}
		}
	}
}

// TestReadersBesideEverything has readers, appenders, retention, truncation of nothing and rest at the same time (BL-018):
// a read gives what was written, or is out of range.
func TestReadersBesideEverything(t *testing.T) {
	l := openNew(t, func(o *Options) {
		o.Config.SegmentBytes, o.Config.IndexIntervalBytes, o.Config.RetentionBytes, o.Config.FileDeleteDelayMs = 4000, 200, 20_000, 0
	})
	ctx, stop := context.WithCancel(context.Background())
	var readers, writers sync.WaitGroup
	var reads atomic.Int64
	for i := range 4 {
		readers.Go(func() {
			offset := int64(0)
			for ctx.Err() == nil {
				offset = readOnce(t, l, offset)
				reads.Add(1)
				if i == 0 {
					offset = l.StartOffset() // always at the edge
				}
				_, _, _, _, err := l.OffsetForTime(nowMs)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Go(func() {
		for ctx.Err() == nil {
			l.SetHighWatermark(l.EndOffset())
			if _, err := l.Retain(nowMs); err != nil {
				t.Error(err)
			}
			if err := errors.Join(l.Purge(nowMs), second(l.Rest()), l.FlushRolled()); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 2 {
		writers.Go(func() {
			for n := range 1500 {
				b := buildBatch(t, record.None, func(b *record.Builder) {
					b.Append(nowMs, nil, fmt.Appendf(nil, "writer %d's record %d", i, n))
				})
				if _, err := l.Append(b, 0, nowMs); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	l.SetHighWatermark(3000)
	if _, err := l.Retain(nowMs); err != nil {
		t.Fatal(err)
	}
	if l.EndOffset() != 3000 || l.SegmentCount() > 10 || reads.Load() == 0 {
		t.Errorf("end %d, %d segments, %d reads", l.EndOffset(), l.SegmentCount(), reads.Load())
	}
}

// readOnce reads at offset beside others who change the log, and returns where to go on.
func readOnce(t *testing.T, l *Log, offset int64) (next int64) {
	s, err := l.Read(offset, 3000, HighWatermark, true)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		if start := l.StartOffset(); offset >= start && offset <= l.EndOffset() {
			t.Errorf("offset %d is out of range, but the log begins at %d", offset, start)
		}
		return l.StartOffset()
	}
	if err != nil {
		t.Error(err)
		return offset
	}
	defer s.Release()
	raw, err := s.AppendTo(nil)
	if err != nil {
		t.Error(err)
		return offset
	}
	for len(raw) > 0 {
		b, rest, err := record.Next(raw)
		if err != nil {
			break
		}
		if b.CheckCRC() != nil || b.LastOffset() < offset {
			t.Errorf("read at %d gave batch at %d", offset, b.BaseOffset())
		}
		offset, raw = b.LastOffset()+1, rest
	}
	return offset
}

// TestIdleLogKeepsNoFiles has a log that rests give up its descriptors, and take them again.
func TestIdleLogKeepsNoFiles(t *testing.T) {
	l := openNew(t, func(o *Options) { o.Config.SegmentBytes, o.Config.IndexIntervalBytes = 2000, 100 })
	for range 60 {
		mustAppend(t, l, batchOf(t, 2, nowMs))
	}
	readAll(t, l, 0, 100, LogEnd)
	open := func() (n int) {
		for _, s := range *l.segments.Load() {
			for _, f := range []*lazyFile{&s.file, &s.offsets.file, &s.times.file, &s.txns.file} {
				if f.open.Load() != nil {
					n++
				}
			}
		}
		return n
	}
	if open() == 0 {
		t.Error("no file is open")
	}
	for range 4 { // the first notes where it ends, the second flushes, the third notes what that used
		if unflushed, err := l.Rest(); err != nil {
			t.Fatal(err)
		} else if unflushed {
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := open(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	if l.RecoveryPoint() < 119 {
		t.Errorf("recovery point %d", l.RecoveryPoint())
	}
	mustAppend(t, l, batchOf(t, 2, nowMs))
	if got := readAll(t, l, 0, 100, LogEnd); len(got) != 61 {
		t.Errorf("%d batches", len(got))
	}
	checkFiles(t, l)
}

func TestEpochs(t *testing.T) {
	l := openNew(t, nil)
	if e, end := l.EndOffsetForEpoch(0); e != -1 || end != -1 {
		t.Errorf("empty: %d at %d", e, end)
	}
	for _, epoch := range []int32{2, 2, 5} {
		if err := l.AssignEpoch(epoch); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(batchOf(t, 10, nowMs), epoch, nowMs); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.AssignEpoch(3); err != nil || l.LatestEpoch() != 5 {
		t.Errorf("epoch went back to %d", l.LatestEpoch())
	}
	if err := l.AssignEpoch(7); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ask, epoch int32
		end        int64
	}{{-1, -1, -1}, {0, 0, 0}, {2, 2, 20}, {4, 2, 20}, {5, 5, 30}, {6, 5, 30}, {7, 7, 30}, {8, -1, -1}} {
		if e, end := l.EndOffsetForEpoch(c.ask); e != c.epoch || end != c.end {
			t.Errorf("epoch %d ends as %d at %d, want %d at %d", c.ask, e, end, c.epoch, c.end)
		}
	}
	for offset, want := range map[int64]int32{0: 2, 19: 2, 20: 5, 29: 5, 30: 7} {
		if got := l.EpochAt(offset); got != want {
			t.Errorf("epoch at %d is %d, want %d", offset, got, want)
		}
	}
	if err := l.TruncateTo(25); err != nil { // the batch 20-29 goes as a whole
		t.Fatal(err)
	}
	if l.LatestEpoch() != 2 || l.EndOffset() != 20 {
		t.Errorf("epoch %d, end %d after truncation", l.LatestEpoch(), l.EndOffset())
	}
	l.SetHighWatermark(20)
	if _, err := l.DeleteRecords(15); err != nil {
		t.Fatal(err)
	}
	if e, end := l.EndOffsetForEpoch(0); e != 0 || end != 15 {
		t.Errorf("epoch 0 ends as %d at %d", e, end)
	}
}
