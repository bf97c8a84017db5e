package log

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log/internal/crashdisk"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

// world drives a log by chance beside a model of it that keeps everything in memory.
type world struct {
	t   *testing.T
	rng *rand.Rand
	o   Options
	l   *Log
	now int64

	batches []record.Batch // all that were ever appended and not truncated, also those deleted since
	end     int64
	start   int64 // as the owner would have checkpointed it
	epoch   int32
	seq     map[int64]int32 // next sequence number of the producers 0 and 1
	txns    map[int64]bool  // producers 2 and 3: a transaction is open

	// crash tests only
	disk   *crashdisk.Disk
	onDisk int64 // what was flushed
	saved  int64 // the recovery point
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: nowMs, seq: map[int64]int32{}, txns: map[int64]bool{}}
	w.o = testOptions()
	w.o.Config.SegmentBytes = 300 + w.rng.IntN(3000)
	w.o.Config.IndexIntervalBytes = w.rng.IntN(300)
	w.o.Config.SegmentMs = int64(w.rng.IntN(100_000)) + 1
	w.o.Config.RetentionMs, w.o.Config.FileDeleteDelayMs = -1, 10
	w.o.FS = &disk.FS{Hook: func(op disk.Op) error {
		if op.Kind == disk.Sync || op.Kind == disk.SyncDir {
			return disk.Skip
		}
		return nil
	}}
	return w
}

func (w *world) open(dir string, clean bool) {
	w.t.Helper()
	o := w.o
	o.CleanShutdown, o.NowMs, o.LogStartOffset, o.RecoveryPoint = clean, w.now, w.start, w.saved
	l, err := Open(dir, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.l = l
}

// step does one thing.
func (w *world) step() {
	w.now += int64(w.rng.IntN(50))
	switch k := w.rng.IntN(100); {
	case k < 60:
		w.append()
	case k < 68:
		w.appendTxn()
	case k < 74:
		w.l.SetHighWatermark(w.l.HighWatermark() + int64(w.rng.IntN(10)))
	case k < 80:
		w.must(w.l.Flush())
	case k < 84:
		w.must(w.l.FlushRolled())
	case k < 87:
		w.must(second(w.l.Rest()))
	case k < 90:
		w.truncate()
	case k < 93:
		w.deleteRecords()
	case k < 96:
		c := w.l.Config()
		c.RetentionBytes = int64(w.rng.IntN(20_000)) - 1
		w.l.SetConfig(c)
		_, err := w.l.Retain(w.now)
		w.must(err)
		w.must(w.l.Purge(w.now))
		w.start = max(w.start, w.l.StartOffset())
	case k < 98:
		w.epoch++
		w.must(w.l.AssignEpoch(w.epoch))
	default:
		w.follow()
	}
	w.onDisk, w.saved = w.l.flushed.Load(), w.l.RecoveryPoint()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// append adds a batch: plain, idempotent (of producer 0 or 1) or sent a second time.
func (w *world) append() {
	pid := int64(w.rng.IntN(3)) - 1
	n := w.rng.IntN(5) + 1
	if w.rng.IntN(20) == 0 {
		n = 100
	}
	b := buildBatch(w.t, record.Codec(w.rng.IntN(5)), func(b *record.Builder) {
		if pid >= 0 {
			b.SetProducer(pid, 0, w.seq[pid])
		}
		for i := range n {
			b.Append(w.now-int64(w.rng.IntN(100)), fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte{byte(w.rng.IntN(256))}, w.rng.IntN(30)))
		}
	})
	if len(b) > w.o.Config.SegmentBytes {
		return
	}
	again := slices.Clone(b)
	info, err := w.l.Append(b, w.epoch, w.now)
	w.must(err)
	if info.FirstOffset != w.end || info.LastOffset != w.end+int64(n)-1 || info.Duplicate {
		w.t.Fatalf("append of %d at %d: %+v", n, w.end, info)
	}
	w.note(b)
	if pid < 0 {
		return
	}
	w.seq[pid] += int32(n)
	if w.rng.IntN(4) == 0 {
		info2, err := w.l.Append(again, w.epoch, w.now)
		if err != nil || !info2.Duplicate || info2.FirstOffset != info.FirstOffset || info2.LastOffset != info.LastOffset {
			w.t.Fatalf("again: %+v, %v; first %+v", info2, err, info)
		}
	}
}

func (w *world) note(b record.Batch) {
	w.batches = append(w.batches, b)
	w.end = b.LastOffset() + 1
}

// appendTxn adds a transactional batch or a marker, of producer 2 or 3.
func (w *world) appendTxn() {
	pid := int64(w.rng.IntN(2)) + 2
	var b record.Batch
	if w.txns[pid] && w.rng.IntN(2) == 0 {
		b = record.EndTransaction(record.Marker{Type: record.ControlType(w.rng.IntN(2)), CoordinatorEpoch: 1}, pid, 0, w.now)
		w.txns[pid] = false
	} else {
		b = buildBatch(w.t, record.None, func(b *record.Builder) {
			b.SetProducer(pid, 0, w.seq[pid])
			b.SetTransactional()
			b.Append(w.now, []byte("t"), nil)
		})
		w.seq[pid]++
		w.txns[pid] = true
	}
	_, err := w.l.AppendAsCoordinator(b, w.epoch, w.now)
	w.must(err)
	w.note(b)
}

// follow adds batches as a follower gets them: several at once, with gaps as compaction leaves them.
func (w *world) follow() {
	var chunk []byte
	var added []record.Batch
	end := w.end
	for range w.rng.IntN(4) + 1 {
		b := batchOf(w.t, w.rng.IntN(3)+1, w.now)
		b.SetBaseOffset(end + int64(w.rng.IntN(3)))
		b.SetLeaderEpoch(w.epoch)
		end = b.LastOffset() + 1
		chunk = append(chunk, b...)
		added = append(added, b)
	}
	torn := batchOf(w.t, 1, w.now)
	torn.SetBaseOffset(end)
	_, err := w.l.AppendAsFollower(append(chunk, torn[:w.rng.IntN(len(torn))]...))
	w.must(err)
	for _, b := range added {
		w.note(b)
	}
}

func (w *world) truncate() {
	back := int64(w.rng.IntN(20))
	if w.rng.IntN(10) == 0 {
		back = w.end
	}
	offset := max(w.end-back, 0)
	w.must(w.l.TruncateTo(offset))
	if offset >= w.end {
		return
	}
	n := len(w.batches)
	for n > 0 && w.batches[n-1].LastOffset() >= offset {
		n--
	}
	if n < len(w.batches) {
		offset = min(offset, w.batches[n].BaseOffset())
	}
	w.batches = w.batches[:n:n]
	w.end = offset
	w.start = min(w.start, offset)
	w.resumeProducers()
}

// resumeProducers makes the producers carry on after the batches that are left.
func (w *world) resumeProducers() {
	clear(w.seq)
	clear(w.txns)
	for _, b := range w.batches {
		if pid := b.ProducerID(); pid >= 0 {
			if b.IsControl() {
				w.txns[pid] = false
			} else {
				w.seq[pid] = b.LastSequence() + 1
				w.txns[pid] = b.IsTransactional()
			}
		}
	}
}

func (w *world) deleteRecords() {
	offset := w.l.StartOffset() + int64(w.rng.IntN(30))
	low, err := w.l.DeleteRecords(offset)
	if offset > w.l.HighWatermark() {
		if !errors.Is(err, kerr.OffsetOutOfRange) {
			w.t.Fatalf("delete to %d above %d: %v", offset, w.l.HighWatermark(), err)
		}
		return
	}
	w.must(err)
	if low != offset {
		w.t.Fatalf("delete to %d: %d", offset, low)
	}
	w.start = low
}

// check compares the log with the model.
func (w *world) check() {
	w.t.Helper()
	if w.l.EndOffset() != w.end {
		w.t.Fatalf("end %d, want %d", w.l.EndOffset(), w.end)
	}
	start := w.l.StartOffset()
	if start < w.start {
		w.t.Fatalf("start %d, want at least %d", start, w.start)
	}
	var want []record.Batch
	for _, b := range w.batches {
		if b.LastOffset() >= start {
			want = append(want, b)
		}
	}
	got := readAll(w.t, w.l, start, 1+w.rng.IntN(2000), LogEnd)
	if !slices.EqualFunc(got, want, func(a, b record.Batch) bool { return bytes.Equal(a, b) }) {
		w.t.Fatalf("from %d: %s, want %s", start, offsetsOf(got), offsetsOf(want))
	}
	w.checkBounds(want)
	w.checkProducers()
	w.checkTimes(want)
	w.checkAborted()
	checkFiles(w.t, w.l)
}

func offsetsOf(batches []record.Batch) string {
	var s []string
	for _, b := range batches {
		s = append(s, fmt.Sprintf("%d-%d", b.BaseOffset(), b.LastOffset()))
	}
	return fmt.Sprint(s)
}

// checkBounds reads up to the high watermark and from the middle of batches.
func (w *world) checkBounds(batches []record.Batch) {
	hw := w.l.HighWatermark()
	var want []record.Batch
	for _, b := range batches {
		if b.LastOffset() < hw {
			want = append(want, b)
		}
	}
	start := w.l.StartOffset()
	if got := readAll(w.t, w.l, start, 1+w.rng.IntN(2000), HighWatermark); len(got) != len(want) {
		w.t.Fatalf("below %d: %s, want %s", hw, offsetsOf(got), offsetsOf(want))
	}
	if len(batches) == 0 {
		return
	}
	i := w.rng.IntN(len(batches))
	at := max(batches[i].LastOffset(), start)
	s, err := w.l.Read(at, 1, LogEnd, true)
	w.must(err)
	raw, err := s.AppendTo(nil)
	s.Release()
	w.must(err)
	if !bytes.Equal(raw, batches[i]) {
		w.t.Fatalf("read at %d: %d bytes, want batch %s", at, len(raw), offsetsOf(batches[i:i+1]))
	}
}

func (w *world) checkProducers() {
	type state struct {
		seq      int32
		txnStart int64
	}
	want, got := map[int64]state{}, map[int64]state{}
	for _, b := range w.batches {
		pid := b.ProducerID()
		if pid < 0 {
			continue
		}
		s, ok := want[pid]
		if !ok {
			s = state{-1, -1}
		}
		if b.IsControl() {
			s.txnStart = -1
		} else {
			if s.seq = b.LastSequence(); b.IsTransactional() && s.txnStart < 0 {
				s.txnStart = b.BaseOffset()
			}
		}
		want[pid] = s
	}
	for _, p := range w.l.Producers(w.now) {
		got[p.ProducerID] = state{p.LastSequence, p.TxnStartOffset}
	}
	if !maps.Equal(got, want) {
		w.t.Fatalf("producers %v, want %v", got, want)
	}
	stable := w.l.HighWatermark()
	for _, s := range want {
		if s.txnStart >= 0 {
			stable = min(stable, max(s.txnStart, w.l.StartOffset()))
		}
	}
	if got := w.l.StableOffset(); got > stable {
		w.t.Fatalf("stable offset %d, want at most %d", got, stable)
	}
}

func (w *world) checkTimes(batches []record.Batch) {
	start := w.l.StartOffset()
	ms := w.now - int64(w.rng.IntN(2000))
	offset, found, largest := int64(-1), false, int64(-1)
	for _, b := range batches {
		for r, err := range b.Records(0) {
			w.must(err)
			if o, t := b.Offset(r), b.Timestamp(r); o >= start {
				largest = max(largest, t)
				if t >= ms && !found {
					offset, found = o, true
				}
			}
		}
	}
	got, _, _, ok, err := w.l.OffsetForTime(ms)
	w.must(err)
	if ok != found || got != offset {
		w.t.Fatalf("offset for time %d: %d %v, want %d %v", ms, got, ok, offset, found)
	}
	_, t, _, _, err := w.l.MaxTimestamp()
	w.must(err)
	if t != largest {
		w.t.Fatalf("largest timestamp %d, want %d", t, largest)
	}
}

func (w *world) checkAborted() {
	start := w.l.StartOffset()
	open := map[int64]int64{}
	var want []AbortedTxn
	for _, b := range w.batches {
		pid := b.ProducerID()
		if !b.IsTransactional() {
			continue
		}
		if first, ok := open[pid]; !b.IsControl() {
			if !ok {
				open[pid] = b.BaseOffset()
			}
		} else if ok {
			delete(open, pid)
			m, _, err := b.Marker()
			w.must(err)
			if m.Type == record.Abort && b.LastOffset() >= start {
				want = append(want, AbortedTxn{pid, first})
			}
		}
	}
	slices.SortFunc(want, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	got, err := w.l.AbortedTxns(nil, start, w.end)
	w.must(err)
	if !slices.Equal(got, want) {
		w.t.Fatalf("aborted from %d: %v, want %v", start, got, want)
	}
}

// checkFiles checks every index entry against the batches, as kafka-dump-log does.
func checkFiles(t *testing.T, l *Log) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range *l.segments.Load() {
		size := s.size.Load()
		maxAt := map[int64]int64{} // last offset of a batch: its largest timestamp
		lastAt := map[int64]int64{}
		if size > 0 {
			r, err := s.openHeaders(size)
			if err != nil {
				t.Fatal(err)
			}
			for pos := int64(0); pos < size; {
				b, n, err := r.at(pos)
				if err != nil {
					t.Fatal(err)
				}
				maxAt[b.LastOffset()], lastAt[pos] = largestMsOf(b), b.LastOffset()
				pos += n
			}
			r.close()
		}
		for i := range s.offsets.entries() {
			e, err := s.offsets.at(i)
			if err != nil {
				t.Fatal(err)
			}
			offset, pos := s.base+keyOf(e[:], 4), keyOf(e[4:], 4)
			if last, ok := lastAt[pos]; !ok || last != offset {
				t.Fatalf("%s: entry %d is offset %d at %d, where a batch ends with %d %v", s.path(indexSuffix), i, offset, pos, last, ok)
			}
		}
		prev := int64(-1)
		for i := range s.times.entries() {
			e, err := s.times.at(i)
			if err != nil {
				t.Fatal(err)
			}
			ms, offset := s.times.decode(e)
			if maxAt[offset] != ms || ms <= prev {
				t.Fatalf("%s: entry %d is %d for offset %d, whose batch has %d", s.path(timeSuffix), i, ms, offset, maxAt[offset])
			}
			prev = ms
		}
	}
}

// reopen closes the log in order and opens it again.
func (w *world) reopen() {
	w.t.Helper()
	w.must(w.l.Close())
	w.onDisk, w.saved = w.l.flushed.Load(), w.l.RecoveryPoint()
	w.open(w.l.Dir(), true)
	w.onDisk, w.saved = w.l.flushed.Load(), w.l.RecoveryPoint()
	if end := w.l.EndOffset(); end < w.end && (len(w.batches) == 0 || end > w.batches[len(w.batches)-1].LastOffset()) {
		w.end = end // a gap before the end that truncation had left is forgotten
	}
}

func TestLogAgainstModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.open(filepath.Join(memDir(t), "topic-0"), false)
			for i := range 300 {
				w.step()
				if i%10 == 0 {
					w.check()
				}
				if w.rng.IntN(60) == 0 {
					w.reopen()
					w.check()
				}
			}
			w.reopen()
			w.check()
			w.must(w.l.Close())
		})
	}
}

// TestCrash loses what was not synced at a random moment, several times over, and checks that recovery finds everything
// that was, and nothing that was never written.
func TestCrash(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashRun(t, seed) })
	}
}

func crashRun(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	root := memDir(t)
	at := func(i int) string { return filepath.Join(root, fmt.Sprint(i)) }
	if err := os.Mkdir(at(0), 0o755); err != nil {
		t.Fatal(err)
	}
	w.disk = crashdisk.New(at(0))
	w.o.FS = &w.disk.FS
	w.open(filepath.Join(at(0), "topic-0"), false)
	for i := range 4 {
		for range 20 + w.rng.IntN(80) {
			w.step()
		}
		if w.rng.IntN(4) == 0 {
			w.reopen()
		}
		if err := os.Mkdir(at(i+1), 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := w.disk.Crash(at(i+1), w.rng)
		if err != nil {
			t.Fatal(err)
		}
		w.must(w.l.Close()) // of the world that is gone: it only gives back descriptors
		w.disk = next
		w.o.FS = &next.FS
		w.open(filepath.Join(at(i+1), "topic-0"), false)
		w.survive()
		w.check()
	}
	w.reopen()
	w.check()
	w.must(w.l.Close())
}

// survive takes over what recovery found: all that was flushed and the first few batches of what followed.
func (w *world) survive() {
	w.t.Helper()
	end, start := w.l.EndOffset(), w.l.StartOffset()
	n := len(w.batches)
	for n > 0 && w.batches[n-1].LastOffset() >= end {
		n--
	}
	if n < len(w.batches) && w.batches[n].LastOffset() < w.onDisk {
		w.t.Fatalf("recovered up to %d, but %d had been flushed", end, w.onDisk)
	}
	var want []record.Batch
	for _, b := range w.batches[:n] {
		if b.LastOffset() >= start {
			want = append(want, b)
		}
	}
	got := readAll(w.t, w.l, start, 1<<20, LogEnd)
	if !slices.EqualFunc(got, want, func(a, b record.Batch) bool { return bytes.Equal(a, b) }) {
		w.t.Fatalf("recovered %s from %d to %d, want some first of %s", offsetsOf(got), start, end, offsetsOf(w.batches))
	}
	w.batches, w.end = w.batches[:n:n], end
	if w.l.SizeBytes() == 0 && start > 0 && len(w.l.Producers(w.now)) == 0 {
		w.batches = nil // the files ended below the log start offset: nothing is left to know the producers from
	}
	w.resumeProducers()
}
