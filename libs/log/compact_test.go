package log

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// openCompacted opens a log that is compacted, each batch a segment of its own.
func openCompacted(t testing.TB, change func(*Config)) *Log {
	t.Helper()
	return openNew(t, func(o *Options) {
		c := &o.Config
		c.Compact, c.Delete, c.SegmentBytes, c.FileDeleteDelayMs = true, false, 1<<20, 0
		if change != nil {
			change(c)
		}
	})
}

// put appends a batch of records key=value; "key" alone deletes the key.
func put(t testing.TB, l *Log, codec record.Codec, ms int64, pairs ...string) AppendInfo {
	t.Helper()
	return mustAppend(t, l, buildBatch(t, codec, func(b *record.Builder) {
		for _, pair := range pairs {
			key, value, ok := strings.Cut(pair, "=")
			if ok {
				b.Append(ms, []byte(key), []byte(value))
			} else {
				b.Append(ms, []byte(key), nil)
			}
		}
	}))
}

func roll(t testing.TB, l *Log) {
	t.Helper()
	l.SetHighWatermark(l.EndOffset())
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.roll(l.end.Load(), nowMs); err != nil {
		t.Fatal(err)
	}
}

func mustCompact(t testing.TB, l *Log, nowMs int64) Compacted {
	t.Helper()
	did, err := l.Compact(compactOptions(nowMs))
	if err != nil {
		t.Fatal(err)
	}
	return did
}

// pairs is what is in the log, as offset:key=value.
func pairs(t testing.TB, l *Log) (all []string) {
	t.Helper()
	for _, b := range readAll(t, l, l.StartOffset(), 1<<20, LogEnd) {
		if b.IsControl() {
			all = append(all, fmt.Sprintf("%d:control", b.BaseOffset()))
			continue
		}
		for r, err := range b.Records(0) {
			if err != nil {
				t.Fatal(err)
			}
			pair := fmt.Sprintf("%d:%s", b.Offset(r), r.Key)
			if r.Value != nil {
				pair += "=" + string(r.Value)
			}
			all = append(all, pair)
		}
	}
	return all
}

func expect(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCompactKeepsTheNewest(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			l := openCompacted(t, nil)
			put(t, l, codec, nowMs, "a=1", "b=1", "c=1", "a=2")
			put(t, l, codec, nowMs+1, "a=3", "b=2")
			roll(t, l)
			put(t, l, codec, nowMs+2, "c=2")
			did := mustCompact(t, l, nowMs)
			expect(t, pairs(t, l), "2:c=1", "4:a=3", "5:b=2", "6:c=2")
			if did.EndOffset != 6 || did.RecordsRead != 6 || did.RecordsKept != 3 || l.CleanedTo() != 6 {
				t.Errorf("%+v", did)
			}
			batches := readAll(t, l, 0, 1<<20, LogEnd)
			if got := offsetsOf(batches); got != "[0-3 4-5 6-6]" || batches[0].Codec() != codec {
				t.Errorf("batches %s of codec %v", got, batches[0].Codec())
			}
			for offset := range int64(6) {
				if got := readAll(t, l, offset, 1, LogEnd); got[0].LastOffset() < offset {
					t.Errorf("read at %d begins with the batch up to %d", offset, got[0].LastOffset())
				}
			}
		})
	}
}

// TestSegmentsGrow compacts many small segments into one, whose last offset stays although its record goes.
func TestSegmentsGrow(t *testing.T) {
	l := openCompacted(t, nil)
	for i := range 10 {
		put(t, l, record.None, nowMs, fmt.Sprintf("a=%d", i), "last=x")
		roll(t, l)
	}
	put(t, l, record.None, nowMs, "a=end", "last=y")
	roll(t, l)
	mustCompact(t, l, nowMs)
	expect(t, pairs(t, l), "20:a=end", "21:last=y")
	put(t, l, record.None, nowMs, "b")
	roll(t, l)
	put(t, l, record.None, nowMs, "last=z", "a=over")
	mustCompact(t, l, nowMs)
	if got := bases(l); !slices.Equal(got, []int64{0, 23}) {
		t.Errorf("segments at %v", got)
	}
	if got := offsetsOf(readAll(t, l, 0, 1<<20, LogEnd)); got != "[20-21 22-22 23-24]" {
		t.Errorf("batches %s", got)
	}
}

// TestTombstonesLast follows a mark of a deleted key: it stays for delete.retention.ms from when it was compacted first, and goes
// then although nothing is written any more.
func TestTombstonesLast(t *testing.T) {
	l := openCompacted(t, func(c *Config) { c.DeleteRetentionMs = 5000 })
	put(t, l, record.Lz4, nowMs, "a=1", "b=1")
	put(t, l, record.Lz4, nowMs+7, "a", "c=1")
	roll(t, l)
	const first = nowMs + 1_000_000
	mustCompact(t, l, first)
	expect(t, pairs(t, l), "1:b=1", "2:a", "3:c=1")
	b := readAll(t, l, 2, 1<<20, LogEnd)[0]
	if !b.HasDeleteHorizon() || b.BaseTimestamp() != first+5000 || b.MaxTimestamp() != nowMs+7 {
		t.Errorf("horizon %v %d, largest time %d", b.HasDeleteHorizon(), b.BaseTimestamp(), b.MaxTimestamp())
	}
	for r := range b.Records(0) {
		if b.Timestamp(r) != nowMs+7 {
			t.Errorf("time %d", b.Timestamp(r))
		}
	}
	for _, ms := range []int64{first + 10, first + 4999} {
		if found, err := l.Cleanable(ms); err != nil || found.HorizonDue || found.DirtyBytes > 0 {
			t.Errorf("%+v, %v", found, err)
		}
	}
	l = reopenCompacted(t, l) // which does not know it any more
	if found, err := l.Cleanable(first + 5000); err != nil || found.HorizonDue || !found.HorizonUnknown {
		t.Errorf("%+v, %v", found, err)
	}
	if err := l.FindHorizon(func(int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for ms, due := range map[int64]bool{first + 4999: false, first + 5000: true} {
		if found, err := l.Cleanable(ms); err != nil || found.HorizonDue != due || found.HorizonUnknown {
			t.Errorf("%+v, %v", found, err)
		}
	}
	mustCompact(t, l, first+5000)
	expect(t, pairs(t, l), "1:b=1", "3:c=1")
	l = reopenCompacted(t, l)
	if err := l.FindHorizon(func(int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if found, err := l.Cleanable(math.MaxInt64 / 2); err != nil || found.HorizonDue {
		t.Errorf("still due: %+v, %v", found, err)
	}
}

// reopenCompacted closes the log in order and opens it again.
func reopenCompacted(t testing.TB, l *Log) *Log {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o := testOptions()
	o.Config, o.CleanShutdown, o.CleanedTo, o.HighWatermark = l.Config(), true, l.CleanedTo(), l.HighWatermark()
	return openAt(t, l.Dir(), o)
}

// TestMarkersLast has a hundred transactions of as many producers compacted: no marker stands in for another, none goes before
// what it decides, and none before its time.
func TestMarkersLast(t *testing.T) {
	l := openCompacted(t, func(c *Config) { c.DeleteRetentionMs = 1000 })
	for pid := range int64(100) {
		mustAppend(t, l, buildBatch(t, record.None, func(b *record.Builder) {
			b.SetProducer(pid, 0, 0)
			b.SetTransactional()
			b.Append(nowMs, fmt.Appendf(nil, "k%d", pid), []byte("v"))
		}))
		end := record.Marker{Type: record.ControlType(pid % 2)}
		if _, err := l.AppendAsCoordinator(record.EndTransaction(end, pid, 0, nowMs), 0, nowMs); err != nil {
			t.Fatal(err)
		}
	}
	l.ExpireProducers(math.MaxInt64 / 2)
	roll(t, l)
	put(t, l, record.None, nowMs, "x=1")
	count := func() (markers, records int) {
		for _, pair := range pairs(t, l) {
			if strings.HasSuffix(pair, ":control") {
				markers++
			} else {
				records++
			}
		}
		return markers, records
	}
	slice, err := l.Read(0, 1<<20, LogEnd, true)
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Release()
	mustCompact(t, l, nowMs)
	if markers, records := count(); markers != 100 || records != 51 {
		t.Errorf("%d markers, %d records", markers, records)
	}
	// Who holds what was there before has yet to be told what was aborted.
	if txns, err := l.AbortedTxns(nil, 0, 200); err != nil || len(txns) != 50 {
		t.Errorf("%d aborted, %v", len(txns), err)
	}
	roll(t, l)
	mustCompact(t, l, nowMs+1)
	if markers, records := count(); markers != 100 || records != 51 {
		t.Errorf("%d markers, %d records before their time is over", markers, records)
	}
	mustCompact(t, l, nowMs+1001)
	if markers, records := count(); markers != 50 || records != 51 {
		t.Errorf("%d markers, %d records when the aborted ones' time is over", markers, records)
	}
}

// TestProducersLast keeps the sequence numbers of a producer whose records are all gone, through compactions and recovery.
func TestProducersLast(t *testing.T) {
	l := openCompacted(t, nil)
	send := func(pid int64, seq int32, n int) {
		t.Helper()
		mustAppend(t, l, idempotent(t, pid, 2, seq, n))
	}
	send(1, 0, 3)
	send(1, 3, 2)
	send(2, 0, 1)
	roll(t, l)
	put(t, l, record.None, nowMs, "k=over")
	roll(t, l)
	for range 2 {
		mustCompact(t, l, nowMs)
		put(t, l, record.None, nowMs, "k=over again")
		roll(t, l)
	}
	mustCompact(t, l, nowMs)
	if got := offsetsOf(readAll(t, l, 0, 1<<20, LogEnd)); got != "[3-4 5-5 8-8]" {
		t.Errorf("batches %s", got)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	abandon(l)
	o := testOptions()
	o.Config = l.Config()
	for _, name := range []string{"*.snapshot", "*.index", "*.timeindex"} {
		for _, path := range must(filepath.Glob(filepath.Join(l.Dir(), name))) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	l = openAt(t, l.Dir(), o)
	send(1, 5, 1)
	send(2, 1, 1)
	if _, err := l.Append(idempotent(t, 1, 2, 9, 1), 0, nowMs); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		t.Errorf("a gap in the sequence: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestCleanableBounds checks what may not be compacted yet.
func TestCleanableBounds(t *testing.T) {
	l := openCompacted(t, func(c *Config) { c.MinCompactionLagMs = 1000 })
	found := func(ms int64) Cleanable { return must(l.Cleanable(ms)) }
	for i := range int64(4) {
		put(t, l, record.None, nowMs+100*i, "a=1", "b=1")
		l.mu.Lock()
		if err := l.roll(l.end.Load(), nowMs); err != nil {
			t.Fatal(err)
		}
		l.mu.Unlock()
	}
	put(t, l, record.None, nowMs, "a=1")
	if got := found(nowMs + 5000); got.FirstUncleanable != 0 || got.DirtyBytes != 0 || got.DirtyRatio() != 0 {
		t.Errorf("nothing is committed: %+v", got)
	}
	l.SetHighWatermark(5)
	if got := found(nowMs + 5000); got.FirstUncleanable != 4 {
		t.Errorf("4 is the last segment below the high watermark: %+v", got)
	}
	l.SetHighWatermark(9)
	for ms, want := range map[int64]int64{nowMs + 999: 0, nowMs + 1000: 2, nowMs + 1200: 6, nowMs + 5000: 8} {
		if got := found(ms); got.FirstUncleanable != want {
			t.Errorf("at %d: %+v, want %d", ms-nowMs, got, want)
		}
	}
	mustCompact(t, l, nowMs+1100)
	if got := found(nowMs + 5000); got.FirstDirty != 4 || got.CleanBytes == 0 || got.DirtyBytes == 0 || got.OverdueMs != 0 {
		t.Errorf("%+v", got)
	}
	c := l.Config()
	c.MaxCompactionLagMs = 2000
	l.SetConfig(c)
	if got := found(nowMs + 5000); got.OverdueMs != 5000-2000-200 {
		t.Errorf("overdue %+v", got)
	}
	mustAppend(t, l, buildBatch(t, record.None, func(b *record.Builder) {
		b.SetProducer(1, 0, 0)
		b.SetTransactional()
		b.Append(nowMs, []byte("c"), []byte("1"))
	}))
	roll(t, l)
	put(t, l, record.None, nowMs, "a=1")
	roll(t, l)
	if got := found(nowMs + 5000); got.FirstUncleanable != 8 {
		t.Errorf("9 is not decided: %+v", got)
	}
}

// TestIdleLogIsCompacted rolls the active segment of a log that nobody writes to any more.
func TestIdleLogIsCompacted(t *testing.T) {
	l := openCompacted(t, func(c *Config) { c.MaxCompactionLagMs = 60_000 })
	put(t, l, record.None, nowMs, "a=1", "a=2")
	l.SetHighWatermark(2)
	for _, ms := range []int64{nowMs + 60_000, nowMs + 60_001, nowMs + 90_000_000} {
		if err := l.RollIdle(ms); err != nil {
			t.Fatal(err)
		}
	}
	if got := bases(l); !slices.Equal(got, []int64{0, 2}) {
		t.Fatalf("segments at %v", got)
	}
	if found := must(l.Cleanable(nowMs + 60_001)); found.OverdueMs != 1 || found.DirtyBytes == 0 {
		t.Errorf("%+v", found)
	}
}

// TestKeysByParts has more keys than fit: each compaction gets further.
func TestKeysByParts(t *testing.T) {
	l := openCompacted(t, nil)
	for i := range 40 {
		var many []string
		for k := range 50 {
			many = append(many, fmt.Sprintf("%d-%d=%d", i%20, k, i))
		}
		put(t, l, record.Zstd, nowMs, many...)
		if i%10 == 9 {
			roll(t, l)
		}
	}
	put(t, l, record.None, nowMs, "x=1")
	o := compactOptions(nowMs)
	o.DedupeBytes = 0 // the least, 12 KiB
	passes := 0
	for last := int64(-1); l.CleanedTo() < 2000; passes++ {
		did, err := l.Compact(o)
		if err != nil || did.EndOffset <= last {
			t.Fatalf("%+v after %d, %v", did, last, err)
		}
		last = did.EndOffset
	}
	if n := len(pairs(t, l)); passes < 3 || n != 1001 {
		t.Errorf("%d records after %d passes", n, passes)
	}
	var many []string
	for k := range 1000 {
		many = append(many, fmt.Sprintf("%d=1", k))
	}
	put(t, l, record.None, nowMs, many...)
	roll(t, l)
	if did, err := l.Compact(o); err != nil || did.EndOffset != 2001 {
		t.Errorf("%+v, %v", did, err)
	}
	if _, err := l.Compact(o); !errors.Is(err, ErrTooManyKeys) {
		t.Errorf("a batch of too many keys: %v", err)
	}
}

// TestDamagedLogStays flips a byte: compaction says so and leaves everything as it was.
func TestDamagedLogStays(t *testing.T) {
	l := openCompacted(t, nil)
	put(t, l, record.None, nowMs, "a=1")
	put(t, l, record.None, nowMs, "a=2")
	roll(t, l)
	path := filepath.Join(l.Dir(), "00000000000000000000.log")
	raw := must(os.ReadFile(path))
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := l.Compact(compactOptions(nowMs))
	if !errors.Is(err, kerr.CorruptMessage) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if got := must(os.ReadFile(path)); !bytes.Equal(got, raw) || l.Err() != nil || l.CleanedTo() != 0 {
		t.Errorf("the log has changed, %v", l.Err())
	}
	if left := must(filepath.Glob(filepath.Join(l.Dir(), "*.cleaned"))); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestChangesWhileCompacting truncates, deletes records and gives the log up while it is compacted.
func TestChangesWhileCompacting(t *testing.T) {
	for name, change := range map[string]func(*Log) error{
		"truncated": func(l *Log) error { return l.TruncateTo(2) },
		"emptied":   func(l *Log) error { return l.TruncateFullyAndStartAt(7) },
		"retention": func(l *Log) error {
			return errors.Join(second(l.DeleteRecords(4)), second(l.Retain(nowMs)))
		},
		"fenced": func(l *Log) error { l.Fence(kerr.UnknownTopicOrPartition); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := openCompacted(t, nil)
			for range 3 {
				put(t, l, record.None, nowMs, "a=1", "a=2")
				roll(t, l)
			}
			o := compactOptions(nowMs)
			calls := 0
			o.Spend = func(int) error {
				if calls++; calls == 5 {
					return change(l)
				}
				return nil
			}
			_, err := l.Compact(o)
			if name == "fenced" {
				if !errors.Is(err, kerr.UnknownTopicOrPartition) {
					t.Errorf("%v", err)
				}
				return
			}
			if !errors.Is(err, errOvertaken) {
				t.Fatalf("%v after %d calls", err, calls)
			}
			if left := must(filepath.Glob(filepath.Join(l.Dir(), "*.cleaned"))); len(left) > 0 || l.Err() != nil {
				t.Errorf("left %v, %v", left, l.Err())
			}
			checkFiles(t, l)
			put(t, l, record.None, nowMs, "a=3")
			roll(t, l)
			mustCompact(t, l, nowMs)
			want := fmt.Sprintf("%d:a=3", l.EndOffset()-1)
			expect(t, pairs(t, l), want)
		})
	}
}

// TestReadersBesideCompaction reads, and looks up offsets and times, while segments are swapped.
func TestReadersBesideCompaction(t *testing.T) {
	l := openCompacted(t, func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 2000, 0 })
	for i := range 300 {
		put(t, l, record.None, nowMs+int64(i), fmt.Sprintf("k%d=%d", i%10, i), "last=x")
	}
	l.SetHighWatermark(600)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for r := range 4 {
		wg.Go(func() {
			for i := r; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				offset := int64(i*37) % 600
				got := readAll(t, l, offset, 500, HighWatermark)
				if n := len(got); n == 0 || got[0].LastOffset() < offset || got[n-1].LastOffset() < 599 {
					t.Errorf("read from %d: %s", offset, offsetsOf(got))
					return
				}
				if _, _, _, found, err := l.OffsetForTime(nowMs + 299); !found || err != nil {
					t.Errorf("offset for time: %v, %v", found, err)
					return
				}
				if _, err := l.AbortedTxns(nil, offset, 600); err != nil {
					t.Error(err)
				}
				l.dropFiles()
			}
		})
	}
	for i := range 60 {
		if i%2 == 0 {
			l.cleanedTo.Store(0)
		}
		l.horizonMs.Store(0)
		mustCompact(t, l, nowMs)
		if err := l.Purge(nowMs + 100_000); err != nil {
			t.Fatal(err)
		}
		put(t, l, record.None, nowMs+300, fmt.Sprintf("k%d=%d", i%10, i), "late=x")
		l.SetHighWatermark(l.EndOffset())
	}
	close(done)
	wg.Wait()
}

// TestTimesOfEmptied looks for the largest timestamp when the record that bore it is gone.
func TestTimesOfEmptied(t *testing.T) {
	l := openCompacted(t, nil)
	put(t, l, record.None, nowMs+500, "a=1")
	put(t, l, record.None, nowMs, "b=1")
	put(t, l, record.None, nowMs+900, "c=1")
	roll(t, l)
	put(t, l, record.None, nowMs+10, "a=2", "c=2")
	roll(t, l)
	mustCompact(t, l, nowMs)
	for range 2 {
		offset, ms, _, found, err := l.MaxTimestamp()
		if err != nil || !found || ms != nowMs+10 || offset != 3 {
			t.Errorf("largest time %d at %d, %v %v", ms-nowMs, offset, found, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		o := testOptions()
		o.CleanShutdown = true
		l = openAt(t, l.Dir(), o)
	}
}
