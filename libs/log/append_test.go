package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

// send is one idempotent batch and what comes of it.
type send struct {
	epoch int16
	seq   int32
	n     int
	want  error
	again int64 // offset of the first time, when it is a duplicate; -1 otherwise
}

func TestSequences(t *testing.T) {
	ok := func(epoch int16, seq int32, n int) send { return send{epoch, seq, n, nil, -1} }
	dup := func(epoch int16, seq int32, n int, at int64) send { return send{epoch, seq, n, nil, at} }
	no := func(epoch int16, seq int32, n int, err error) send { return send{epoch, seq, n, err, -1} }
	for name, sends := range map[string][]send{
		"in order":                 {ok(0, 0, 1), ok(0, 1, 3), ok(0, 4, 1)},
		"begins anywhere":          {ok(3, 77, 1), ok(3, 78, 1)},
		"gap":                      {ok(0, 0, 2), no(0, 3, 1, kerr.OutOfOrderSequenceNumber), ok(0, 2, 1)},
		"duplicate of the last":    {ok(0, 0, 2), dup(0, 0, 2, 0), ok(0, 2, 1)},
		"duplicates of five":       {ok(0, 0, 1), ok(0, 1, 1), ok(0, 2, 2), ok(0, 4, 1), ok(0, 5, 1), dup(0, 0, 1, 0), dup(0, 2, 2, 2), dup(0, 5, 1, 5), ok(0, 6, 1)},
		"the sixth is forgotten":   {ok(0, 0, 1), ok(0, 1, 1), ok(0, 2, 1), ok(0, 3, 1), ok(0, 4, 1), ok(0, 5, 1), no(0, 0, 1, kerr.OutOfOrderSequenceNumber), dup(0, 1, 1, 1)},
		"part of a batch":          {ok(0, 0, 4), no(0, 0, 2, kerr.OutOfOrderSequenceNumber), no(0, 2, 2, kerr.OutOfOrderSequenceNumber)},
		"new epoch":                {ok(0, 0, 2), ok(1, 0, 1), ok(1, 1, 1)},
		"new epoch begins at 0":    {ok(0, 0, 2), no(1, 2, 1, kerr.OutOfOrderSequenceNumber)},
		"old epoch":                {ok(1, 0, 2), no(0, 2, 1, kerr.InvalidProducerEpoch), ok(1, 2, 1)},
		"old epoch's duplicate":    {ok(0, 0, 2), ok(1, 0, 1), no(0, 0, 2, kerr.InvalidProducerEpoch)},
		"sequence wraps":           {ok(0, math.MaxInt32, 1), ok(0, 0, 1), ok(0, 1, 1)},
		"sequence wraps inside":    {ok(0, math.MaxInt32-1, 4), ok(0, 2, 1), dup(0, math.MaxInt32-1, 4, 0)},
		"wraps only from the last": {ok(0, math.MaxInt32-1, 1), no(0, 0, 1, kerr.OutOfOrderSequenceNumber)},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t, nil)
			for i, s := range sends {
				end := l.EndOffset()
				info, err := l.Append(idempotent(t, 5, s.epoch, s.seq, s.n), 0, nowMs)
				if !errors.Is(err, s.want) || s.want == nil && err != nil {
					t.Fatalf("%d: %v, want %v", i, err, s.want)
				}
				switch {
				case err != nil || s.again >= 0:
					if l.EndOffset() != end {
						t.Fatalf("%d: end moved", i)
					}
					if err == nil && (!info.Duplicate || info.FirstOffset != s.again || info.EndOffset != s.again+int64(s.n)) {
						t.Fatalf("%d: %+v, want duplicate of %d", i, info, s.again)
					}
				case info.Duplicate || info.FirstOffset != end:
					t.Fatalf("%d: %+v", i, info)
				}
			}
		})
	}
}

// TestProducerStateOutlivesRecords is BL-003: (a) a forgotten producer may begin anywhere, (b) deleting records forgets
// nobody.
func TestProducerStateOutlivesRecords(t *testing.T) {
	dir := filepath.Join(memDir(t), "topic-0")
	o := testOptions()
	l := openAt(t, dir, o)
	mustAppend(t, l, idempotent(t, 1, 0, 0, 7))
	l.SetHighWatermark(7)
	if low, err := l.DeleteRecords(-1); err != nil || low != 7 {
		t.Fatal(low, err)
	}
	l.ExpireProducers(nowMs + 1000)
	for range 2 { // before and after a restart
		if info, err := l.Append(idempotent(t, 1, 0, 6, 1), 0, nowMs); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
			t.Errorf("part of the last batch: %+v, %v", info, err)
		}
		if info, err := l.Append(idempotent(t, 1, 0, 0, 7), 0, nowMs); err != nil || !info.Duplicate || info.LastOffset != 6 {
			t.Errorf("again: %+v, %v", info, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		o.CleanShutdown, o.LogStartOffset = true, 7
		l = openAt(t, dir, o)
	}
	mustAppend(t, l, idempotent(t, 1, 0, 7, 1))
	l.ExpireProducers(nowMs + l.Config().ProducerIDExpirationMs)
	if n := len(l.Producers(nowMs)); n != 0 {
		t.Errorf("%d producers are left", n)
	}
	mustAppend(t, l, idempotent(t, 1, 0, 9, 1))
}

// TestDuplicatesAfterRestart sends the last five batches again after a restart, in order or not, with a segment that has
// just begun: a snapshot alone knows only one of them.
func TestDuplicatesAfterRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, batches := range []int32{7, 8, 9, 12} {
			dir := filepath.Join(memDir(t), "topic-0")
			o := testOptions()
			o.Config.SegmentBytes = 7 * len(idempotent(t, 1, 0, 0, 1))
			l := openAt(t, dir, o)
			for seq := range batches {
				mustAppend(t, l, idempotent(t, 1, 0, seq, 1))
			}
			if clean {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				if err := l.Flush(); err != nil {
					t.Fatal(err)
				}
				abandon(l)
			}
			o.RecoveryPoint, o.CleanShutdown = l.RecoveryPoint(), clean
			l = openAt(t, dir, o)
			for seq := batches - 5; seq < batches; seq++ {
				info, err := l.Append(idempotent(t, 1, 0, seq, 1), 0, nowMs)
				if err != nil || !info.Duplicate || info.FirstOffset != int64(seq) {
					t.Errorf("clean=%v, %d of %d again: %+v, %v", clean, seq, batches, info, err)
				}
			}
			if _, err := l.Append(idempotent(t, 1, 0, batches-6, 1), 0, nowMs); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
				t.Errorf("the sixth: %v", err)
			}
		}
	}
}

func TestRefusedBatches(t *testing.T) {
	old := nowMs - int64(3600_000)
	for name, c := range map[string]struct {
		config func(*Config)
		batch  func(record.Batch) []byte
		want   *kerr.Error
	}{
		"empty":           {nil, func(record.Batch) []byte { return nil }, kerr.InvalidRecord},
		"torn":            {nil, func(b record.Batch) []byte { return b[:len(b)-1] }, kerr.CorruptMessage},
		"two batches":     {nil, func(b record.Batch) []byte { return append(b, b...) }, kerr.InvalidRecord},
		"CRC":             {nil, func(b record.Batch) []byte { b[len(b)-1]++; return b }, kerr.CorruptMessage},
		"magic":           {nil, func(b record.Batch) []byte { b[record.MagicAt] = 1; return b }, kerr.CorruptMessage},
		"base offset":     {nil, func(b record.Batch) []byte { b.SetBaseOffset(5); return b }, kerr.InvalidRecord},
		"too large":       {func(c *Config) { c.MaxMessageBytes = 100 }, nil, kerr.MessageTooLarge},
		"above a segment": {func(c *Config) { c.SegmentBytes = 100 }, nil, kerr.RecordListTooLarge},
		"from the future": {nil, func(record.Batch) []byte { return batchOf(t, 1, nowMs+3600_001) }, kerr.InvalidTimestamp},
		"from the past":   {func(c *Config) { c.TimestampBeforeMaxMs = 3599_999 }, func(record.Batch) []byte { return batchOf(t, 1, old) }, kerr.InvalidTimestamp},
		"control": {nil, func(record.Batch) []byte {
			return record.EndTransaction(record.Marker{Type: record.Commit}, 1, 0, nowMs)
		}, kerr.InvalidRecord},
		"no key on a compacted topic": {func(c *Config) { c.Compact = true }, func(record.Batch) []byte {
			return buildBatch(t, record.None, func(b *record.Builder) { b.Append(nowMs, nil, []byte("v")) })
		}, kerr.InvalidRecord},
		"larger record once decompressed": {func(c *Config) { c.MaxDecompressedMessageBytes = 5000 }, func(record.Batch) []byte {
			return buildBatch(t, record.Gzip, func(b *record.Builder) { b.Append(nowMs, nil, make([]byte, 5000)) })
		}, kerr.InvalidRecord},
		"larger once compressed otherwise": {func(c *Config) { c.CompressionType, c.MaxMessageBytes = "uncompressed", 3000 }, func(record.Batch) []byte {
			return buildBatch(t, record.Gzip, func(b *record.Builder) { b.Append(nowMs, nil, make([]byte, 5000)) })
		}, kerr.MessageTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t, func(o *Options) {
				if c.config != nil {
					c.config(&o.Config)
				}
			})
			raw := []byte(batchOf(t, 3, nowMs))
			if c.batch != nil {
				raw = c.batch(raw)
			}
			if _, err := l.Append(raw, 0, nowMs); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if l.EndOffset() != 0 || l.SizeBytes() != 0 || l.Err() != nil {
				t.Errorf("end %d, %d bytes, %v", l.EndOffset(), l.SizeBytes(), l.Err())
			}
		})
	}
}

func TestRecordErrorNamesTheRecord(t *testing.T) {
	l := openNew(t, nil)
	b := buildBatch(t, record.Lz4, func(b *record.Builder) {
		b.Append(nowMs, nil, []byte("fine"))
		b.Append(nowMs+3600_001, nil, []byte("from the future"))
	})
	_, err := l.Append(b, 0, nowMs)
	var r *RecordError
	if !errors.As(err, &r) || r.BatchIndex != 1 || !errors.Is(err, kerr.InvalidTimestamp) {
		t.Errorf("%v", err)
	}
}

// TestTimestamps is BL-006 and BL-073: the stored header has the true largest timestamp whatever the client wrote, and
// with LogAppendTime the client's time counts nowhere.
func TestTimestamps(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip} {
		for _, header := range []int64{-1, nowMs + 1, nowMs + 1000} {
			l := openNew(t, nil)
			b := buildBatch(t, codec, func(b *record.Builder) {
				for _, ms := range []int64{nowMs, nowMs + 50, nowMs + 20} {
					b.Append(ms, nil, []byte("v"))
				}
			})
			b.SetMaxTimestamp(record.CreateTime, header)
			if info := mustAppend(t, l, b); info.LogAppendTimeMs != -1 {
				t.Errorf("log append time %d", info.LogAppendTimeMs)
			}
			got := readAll(t, l, 0, 1000, LogEnd)[0]
			if got.MaxTimestamp() != nowMs+50 || got.TimestampType() != record.CreateTime {
				t.Errorf("%v, header %d: stored %d", codec, header, got.MaxTimestamp())
			}
			if offset, ms, _, ok, err := l.OffsetForTime(nowMs + 21); offset != 1 || ms != nowMs+50 || !ok || err != nil {
				t.Errorf("%v, header %d: found %d at %d", codec, header, offset, ms)
			}
		}
	}
	l := openNew(t, func(o *Options) { o.Config.LogAppendTime = true })
	info := mustAppend(t, l, batchOf(t, 3, nowMs+10*365*24*3600_000))
	got := readAll(t, l, 0, 1000, LogEnd)[0]
	if info.LogAppendTimeMs != nowMs || got.MaxTimestamp() != nowMs || got.TimestampType() != record.LogAppendTime {
		t.Errorf("%+v, stored %d %v", info, got.MaxTimestamp(), got.TimestampType())
	}
	if _, ms, _, _, err := l.MaxTimestamp(); ms != nowMs || err != nil {
		t.Errorf("largest timestamp %d, %v", ms, err)
	}
}

func TestCompressionType(t *testing.T) {
	for typ, want := range map[string]record.Codec{
		"producer": record.Snappy, "uncompressed": record.None, "gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.Lz4, "zstd": record.Zstd,
	} {
		l := openNew(t, func(o *Options) { o.Config.CompressionType = typ })
		mustAppend(t, l, buildBatch(t, record.Snappy, func(b *record.Builder) {
			b.SetProducer(3, 0, 0)
			for i := range 10 {
				b.Append(nowMs+int64(i), fmt.Appendf(nil, "k%d", i), []byte("the same value every time"))
			}
		}))
		got := readAll(t, l, 0, 100_000, LogEnd)[0]
		if got.Codec() != want || got.MaxTimestamp() != nowMs+9 || got.ProducerID() != 3 {
			t.Errorf("%s: stored by %v", typ, got.Codec())
		}
		n := 0
		for r, err := range got.Records(0) {
			if err != nil || string(r.Key) != fmt.Sprintf("k%d", n) || got.Timestamp(r) != nowMs+int64(n) {
				t.Errorf("%s: record %d: %s %v", typ, n, r.Key, err)
			}
			n++
		}
		if n != 10 {
			t.Errorf("%s: %d records", typ, n)
		}
	}
}

func TestRoll(t *testing.T) {
	for name, c := range map[string]struct {
		config func(*Config)
		ms     []int64 // largest timestamp of each batch
		bases  []int64
	}{
		"by time of the records":      {func(c *Config) { c.SegmentMs = 100 }, []int64{0, 100, 101, 150, 202}, []int64{0, 2, 4}},
		"not when time goes back":     {func(c *Config) { c.SegmentMs = 100 }, []int64{0, -5000, 50, -1000}, []int64{0}},
		"by a full offset index":      {func(c *Config) { c.SegmentIndexBytes, c.IndexIntervalBytes = 40, 0 }, []int64{0, 0, 0, 0, 0, 0, 0, 0}, []int64{0, 6}},
		"by a full time index":        {func(c *Config) { c.SegmentIndexBytes, c.IndexIntervalBytes = 40, 0 }, []int64{0, 1, 2, 3, 4, 5}, []int64{0, 3}},
		"by the smallest indexes":     {func(c *Config) { c.SegmentIndexBytes, c.IndexIntervalBytes = 4, 0 }, []int64{0, 0, 1, 1}, []int64{0, 2}},
		"jitter rolls at most sooner": {func(c *Config) { c.SegmentMs, c.SegmentJitterMs = 100, 100 }, []int64{0, 101}, []int64{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t, func(o *Options) { c.config(&o.Config) })
			for _, ms := range c.ms {
				mustAppend(t, l, batchOf(t, 1, nowMs+ms))
			}
			var bases []int64
			for _, s := range *l.segments.Load() {
				bases = append(bases, s.base)
			}
			if !slices.Equal(bases, c.bases) {
				t.Errorf("segments %v, want %v", bases, c.bases)
			}
		})
	}
}

// TestFollowerOffsets appends what only a follower gets: gaps, offsets beyond the reach of an index, and batches that do
// not continue the log.
func TestFollowerOffsets(t *testing.T) {
	l := openNew(t, nil)
	at := func(offset int64, epoch int32) record.Batch {
		b := batchOf(t, 2, nowMs)
		b.SetBaseOffset(offset)
		b.SetLeaderEpoch(epoch)
		return b
	}
	far := int64(5 + math.MaxInt32)
	chunk := slices.Concat(at(3, 1), at(9, 1), at(far, 4))
	if info, err := l.AppendAsFollower(chunk); err != nil || info.FirstOffset != 3 || info.LastOffset != far+1 {
		t.Fatal(info, err)
	}
	if l.SegmentCount() != 2 || l.EndOffset() != far+2 {
		t.Errorf("%d segments, end %d", l.SegmentCount(), l.EndOffset())
	}
	if e, end := l.EndOffsetForEpoch(2); e != 1 || end != far {
		t.Errorf("epoch 2 ends as %d at %d", e, end)
	}
	if got := readAll(t, l, 0, 1, LogEnd); len(got) != 3 {
		t.Errorf("%s", offsetsOf(got))
	}
	for _, bad := range [][]byte{at(far, 4), slices.Concat(at(far+5, 4), at(far+3, 4))} {
		if _, err := l.AppendAsFollower(bad); !errors.Is(err, ErrUnexpectedOffset) {
			t.Errorf("%v", err)
		}
	}
	broken := at(far+2, 4)
	binary.BigEndian.PutUint32(broken[record.CRCAt:], 1)
	if _, err := l.AppendAsFollower(broken); !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("%v", err)
	}
	if info, err := l.AppendAsFollower(nil); err != nil || info.EndOffset != l.EndOffset() {
		t.Errorf("nothing: %+v, %v", info, err)
	}
}

// TestFollowerBeginsInsideABatch is a follower that starts at the leader's log start offset after DeleteRecords in the
// middle of a batch: the first batch begins below it.
func TestFollowerBeginsInsideABatch(t *testing.T) {
	l := openNew(t, nil)
	if err := l.TruncateFullyAndStartAt(5); err != nil {
		t.Fatal(err)
	}
	b := batchOf(t, 10, nowMs)
	if _, err := l.AppendAsFollower(b); err != nil {
		t.Fatal(err)
	}
	if l.StartOffset() != 5 || l.EndOffset() != 10 || l.HighWatermark() != 5 {
		t.Errorf("start %d, end %d, high watermark %d", l.StartOffset(), l.EndOffset(), l.HighWatermark())
	}
	if got := readAll(t, l, 5, 1, LogEnd); len(got) != 1 || got[0].BaseOffset() != 0 {
		t.Errorf("%s", offsetsOf(got))
	}
	if _, _, _, ok, err := l.OffsetForTime(nowMs); !ok || err != nil {
		t.Errorf("offset for time: %v %v", ok, err)
	}
}

func TestTransactions(t *testing.T) {
	l := openNew(t, nil)
	data := func(pid int64, seq int32, transactional bool) record.Batch {
		return buildBatch(t, record.None, func(b *record.Builder) {
			b.SetProducer(pid, 0, seq)
			if transactional {
				b.SetTransactional()
			}
			b.Append(nowMs, nil, []byte("v"))
		})
	}
	end := func(pid int64, how record.ControlType, coordinator int32) error {
		_, err := l.AppendAsCoordinator(record.EndTransaction(record.Marker{Type: how, CoordinatorEpoch: coordinator}, pid, 0, nowMs), 0, nowMs)
		return err
	}
	stable := func(want int64) {
		t.Helper()
		l.SetHighWatermark(l.EndOffset())
		if got := l.StableOffset(); got != want {
			t.Errorf("stable offset %d, want %d", got, want)
		}
	}
	mustAppend(t, l, data(9, 0, false)) // 0
	stable(1)
	mustAppend(t, l, data(1, 0, true)) // 1
	mustAppend(t, l, data(2, 0, true)) // 2
	stable(1)
	if got := readAll(t, l, 0, 1000, Stable); len(got) != 1 {
		t.Errorf("below the stable offset: %s", offsetsOf(got))
	}
	if _, err := l.Append(data(1, 1, false), 0, nowMs); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("outside the transaction: %v", err)
	}
	if err := end(1, record.Abort, 7); err != nil { // 3
		t.Fatal(err)
	}
	if got := l.StableOffset(); got != 1 {
		t.Errorf("the marker is above the high watermark, the stable offset %d", got)
	}
	stable(2)
	if err := end(2, record.Commit, 7); err != nil { // 4
		t.Fatal(err)
	}
	stable(5)
	if err := end(2, record.Commit, 6); !errors.Is(err, kerr.TransactionCoordinatorFenced) {
		t.Errorf("old coordinator: %v", err)
	}
	mustAppend(t, l, data(1, 1, true)) // 5
	if err := end(1, record.Abort, 8); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, upTo int64
		want       []AbortedTxn
	}{{0, 7, []AbortedTxn{{1, 1}, {1, 5}}}, {0, 5, []AbortedTxn{{1, 1}}}, {4, 7, []AbortedTxn{{1, 5}}}, {3, 4, []AbortedTxn{{1, 1}}}, {0, 1, nil}} {
		if got, err := l.AbortedTxns(nil, c.from, c.upTo); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("aborted in [%d, %d): %v, want %v", c.from, c.upTo, got, c.want)
		}
	}
}

// TestFlushMessages has eight appends wait for the disk at the same time: two syncs serve them all.
func TestFlushMessages(t *testing.T) {
	const writers = 8
	var syncs atomic.Int32
	var l *Log
	l = openNew(t, func(o *Options) {
		o.Config.FlushMessages = 1
		o.FS = &disk.FS{Hook: func(op disk.Op) error {
			if op.Kind == disk.Sync && strings.HasSuffix(op.File.Name(), logSuffix) && syncs.Add(1) == 1 {
				for l.EndOffset() < writers {
					runtime.Gosched()
				}
			}
			return nil
		}}
	})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			info, err := l.Append(batchOf(t, 1, nowMs), 0, nowMs)
			if err != nil || l.flushed.Load() < info.EndOffset {
				t.Errorf("append of %d: flushed %d, %v", info.FirstOffset, l.flushed.Load(), err)
			}
		})
	}
	wg.Wait()
	if n := syncs.Load(); n != 2 {
		t.Errorf("%d syncs", n)
	}
}

// TestAllocations holds the budgets of the hot path.
func TestAllocations(t *testing.T) {
	l := openNew(t, nil)
	plain := bytesOf(t, 2000)
	appendPlain := func() {
		plain.SetBaseOffset(0)
		if _, err := l.Append(plain, 0, nowMs); err != nil {
			t.Fatal(err)
		}
	}
	var sequenced []record.Batch
	for seq := range int32(3000) {
		sequenced = append(sequenced, idempotent(t, 1, 0, seq, 1))
	}
	appendSequenced := func() {
		if _, err := l.Append(sequenced[0], 0, nowMs); err != nil {
			t.Fatal(err)
		}
		sequenced = sequenced[1:]
	}
	read := func(offset int64) func() {
		return func() {
			s, err := l.Read(offset, 500, LogEnd, true)
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
		}
	}
	for range 2000 {
		appendPlain()
		appendSequenced()
	}
	for name, c := range map[string]struct {
		run    func()
		budget float64
	}{
		"append": {appendPlain, 1}, "append idempotent": {appendSequenced, 1}, "read at the end": {read(l.EndOffset() - 1), 0},
		"read by the index in memory": {read(l.EndOffset() - 100), 0}, "read by the index on disk": {read(10), 0},
		"high watermark": {func() { l.SetHighWatermark(l.EndOffset()) }, 0},
	} {
		if n := testing.AllocsPerRun(500, c.run); n > c.budget {
			t.Errorf("%s: %v allocations, budget %v", name, n, c.budget)
		}
	}
}
