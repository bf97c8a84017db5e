package log

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/log/internal/crashdisk"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

// sent is a record that was appended.
type sent struct {
	key, value string // "" for none
	ms         int64
	pid        int64
	state      txnState
}

type txnState int8

const (
	plain txnState = iota
	undecided
	committed
	aborted
)

// keyed drives a compacted log by chance beside a list of all that was ever appended.
type keyed struct {
	t    *testing.T
	rng  *rand.Rand
	o    Options
	l    *Log
	now  int64
	log  map[int64]*sent // by offset
	end  int64
	seq  map[int64]int32
	open map[int64][]int64 // offsets of the transaction that a producer has open
	last int64             // up to where a compaction went

	// truncated says that the last batch of a producer may be known from a snapshot only: the one kept for it is gone.
	truncated bool

	disk *crashdisk.Disk
}

func newKeyed(t *testing.T, seed uint64) *keyed {
	w := &keyed{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: nowMs, log: map[int64]*sent{}, seq: map[int64]int32{}, open: map[int64][]int64{}}
	w.o = testOptions()
	c := &w.o.Config
	c.Compact, c.Delete = true, false
	c.SegmentBytes = 400 + w.rng.IntN(2000)
	c.IndexIntervalBytes = w.rng.IntN(300)
	c.FileDeleteDelayMs, c.DeleteRetentionMs = 10, int64(w.rng.IntN(3000))
	if w.rng.IntN(3) == 0 {
		c.MinCompactionLagMs = int64(w.rng.IntN(2000))
	}
	w.o.FS = &disk.FS{Hook: func(op disk.Op) error {
		if op.Kind == disk.Sync || op.Kind == disk.SyncDir {
			return disk.Skip
		}
		return nil
	}}
	return w
}

func (w *keyed) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *keyed) openLog(dir string, clean bool, point, cleaned int64) {
	w.t.Helper()
	o := w.o
	o.CleanShutdown, o.NowMs, o.RecoveryPoint, o.CleanedTo = clean, w.now, point, cleaned
	l, err := Open(dir, o)
	w.must(err)
	w.l = l
}

func (w *keyed) step() {
	w.now += int64(w.rng.IntN(100))
	switch k := w.rng.IntN(100); {
	case k < 55:
		w.append(int64(w.rng.IntN(5)) - 2)
	case k < 70:
		w.append(10 + int64(w.rng.IntN(3)))
	case k < 78:
		w.decide(10 + int64(w.rng.IntN(3)))
	case k < 86:
		w.l.SetHighWatermark(w.l.HighWatermark() + int64(w.rng.IntN(60)))
	case k < 88:
		w.must(w.l.Flush())
	case k < 90:
		w.must(w.l.Purge(w.now))
	case k < 91:
		w.must(w.l.RollIdle(w.now + w.o.Config.SegmentMs + 1))
	case k < 92:
		w.must(second(w.l.Rest()))
	case k < 93:
		w.truncate()
	default:
		w.compact()
	}
}

// append appends a batch of a producer: without an id below 0, in a transaction from 10 on.
func (w *keyed) append(pid int64) {
	codec := record.Codec(w.rng.IntN(5))
	n := 1 + w.rng.IntN(6)
	var es []*sent
	b := buildBatch(w.t, codec, func(b *record.Builder) {
		if pid >= 0 {
			b.SetProducer(pid, 0, w.seq[pid])
			w.seq[pid] += int32(n)
		}
		for range n {
			e := &sent{key: fmt.Sprint("key", w.rng.IntN(8)), ms: w.now - int64(w.rng.IntN(500)), pid: pid}
			var value []byte
			if w.rng.IntN(4) > 0 {
				e.value = fmt.Sprint("value", w.end+int64(len(es)))
				value = []byte(e.value)
			}
			if pid >= 10 {
				e.state = undecided
			}
			b.Append(e.ms, []byte(e.key), value, record.Header{Key: []byte("h"), Value: []byte(e.key)})
			es = append(es, e)
		}
		if pid >= 10 {
			b.SetTransactional()
		}
	})
	info, err := w.l.Append(b, 3, w.now)
	w.must(err)
	for i, e := range es {
		offset := info.FirstOffset + int64(i)
		w.log[offset] = e
		if pid >= 10 {
			w.open[pid] = append(w.open[pid], offset)
		}
	}
	w.end = info.EndOffset
}

func (w *keyed) decide(pid int64) {
	kind, state := record.Commit, committed
	if w.rng.IntN(2) == 0 {
		kind, state = record.Abort, aborted
	}
	info, err := w.l.AppendAsCoordinator(record.EndTransaction(record.Marker{Type: kind}, pid, 0, w.now), 3, w.now)
	w.must(err)
	for _, offset := range w.open[pid] {
		w.log[offset].state = state
	}
	delete(w.open, pid)
	w.end = info.EndOffset
}

// truncate takes away some of what is not committed.
func (w *keyed) truncate() {
	hw := w.l.HighWatermark()
	w.must(w.l.TruncateTo(hw + int64(w.rng.IntN(int(w.end-hw)+1))))
	w.forget()
}

// forget takes over where the log ends, and what its transactions and producers have come to.
func (w *keyed) forget() {
	w.end = w.l.EndOffset()
	ends := map[int64][]int64{} // offsets of the markers of a producer
	for _, b := range readAll(w.t, w.l, 0, 1<<20, LogEnd) {
		if b.IsControl() {
			ends[b.ProducerID()] = append(ends[b.ProducerID()], b.BaseOffset())
		}
	}
	clear(w.open)
	for _, offset := range slices.Sorted(maps.Keys(w.log)) {
		e := w.log[offset]
		if offset >= w.end {
			delete(w.log, offset)
			continue
		}
		// Markers go when they decide nothing; those of records that are there do not.
		undone := e.pid >= 10 && offset >= w.last && !slices.ContainsFunc(ends[e.pid], func(m int64) bool { return m > offset })
		if undone {
			e.state = undecided
			w.open[e.pid] = append(w.open[e.pid], offset)
		}
	}
	w.truncated = true
	w.resume()
}

// resume takes over what the log knows of the producers.
func (w *keyed) resume() {
	clear(w.seq)
	for _, p := range w.l.Producers(w.now) {
		w.seq[p.ProducerID] = p.LastSequence + 1
	}
}

func compactOptions(nowMs int64) CompactOptions {
	return CompactOptions{NowMs: nowMs, DedupeBytes: 1 << 20, LoadFactor: 0.9, BufferBytes: 1 << 10, Spend: func(int) error { return nil }}
}

func (w *keyed) compact() {
	found, err := w.l.Cleanable(w.now)
	w.must(err)
	did, err := w.l.Compact(compactOptions(w.now))
	w.must(err)
	if did.Cleanable != found || did.EndOffset != found.FirstUncleanable && found.DirtyBytes > 0 {
		w.t.Fatalf("compacted %+v, where there was %+v", did, found)
	}
	if w.l.CleanedTo() != did.EndOffset {
		w.t.Fatalf("compacted up to %d, noted %d", did.EndOffset, w.l.CleanedTo())
	}
	if found.DirtyBytes > 0 {
		w.last = max(w.last, did.EndOffset)
		w.checkUnique(did.EndOffset)
	}
}

// visible is what a read_committed consumer gets from offset 0 on, and checks that it reaches the end.
func (w *keyed) visible() map[int64]bool {
	w.t.Helper()
	seen := map[int64]bool{}
	bound := w.l.StableOffset()
	batches := readAll(w.t, w.l, 0, 1+w.rng.IntN(3000), LogEnd)
	if n := len(batches); n > 0 && batches[n-1].LastOffset()+1 != w.end {
		w.t.Fatalf("the last batch ends before %d, the log at %d", batches[n-1].LastOffset()+1, w.end)
	}
	txns, err := w.l.AbortedTxns(nil, 0, bound)
	w.must(err)
	undone := map[int64]bool{}
	prev := int64(-1)
	for _, b := range batches {
		if b.BaseOffset() <= prev {
			w.t.Fatalf("batch at %d after %d", b.BaseOffset(), prev)
		}
		prev = b.LastOffset()
		for len(txns) > 0 && txns[0].FirstOffset <= b.LastOffset() {
			undone[txns[0].ProducerID] = true
			txns = txns[1:]
		}
		if b.IsControl() {
			if m, ok, _ := b.Marker(); ok && m.Type == record.Abort {
				delete(undone, b.ProducerID())
			}
			continue
		}
		for r, err := range b.Records(0) {
			w.must(err)
			w.compareRecord(b, r)
			if b.Offset(r) < bound && !(b.IsTransactional() && undone[b.ProducerID()]) {
				seen[b.Offset(r)] = true
			}
		}
	}
	return seen
}

func (w *keyed) compareRecord(b record.Batch, r record.Record) {
	w.t.Helper()
	offset := b.Offset(r)
	e := w.log[offset]
	if e == nil {
		w.t.Fatalf("nothing was appended at %d", offset)
	}
	var headers []string
	for h := range r.Headers() {
		headers = append(headers, string(h.Key)+"="+string(h.Value))
	}
	if string(r.Key) != e.key || string(r.Value) != e.value || (r.Value == nil) != (e.value == "") || b.Timestamp(r) != e.ms ||
		b.ProducerID() != max(e.pid, -1) || b.LeaderEpoch() != 3 || b.Timestamp(r) > b.MaxTimestamp() || !slices.Equal(headers, []string{"h=" + e.key}) {
		w.t.Fatalf("offset %d: %+v %v, appended as %+v", offset, r, headers, e)
	}
}

// check compares what consumers make of the log with what was appended.
func (w *keyed) check() {
	w.t.Helper()
	checkFiles(w.t, w.l)
	seen := w.visible()
	bound := w.l.StableOffset()
	want, got := map[string]string{}, map[string]string{}
	put := func(m map[string]string, key, value string) {
		m[key] = value
		if value == "" {
			delete(m, key)
		}
	}
	for offset := range w.end {
		if e := w.log[offset]; e != nil && offset < bound && (e.state == plain || e.state == committed) {
			put(want, e.key, e.value)
			if !seen[offset] && offset >= w.last {
				w.t.Fatalf("offset %d is gone, compacted was up to %d", offset, w.last)
			}
		}
		if seen[offset] {
			e := w.log[offset]
			if e.state == aborted || e.state == undecided {
				w.t.Fatalf("offset %d is visible in state %d", offset, e.state)
			}
			put(got, e.key, e.value)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("consumers see %v, want %v", got, want)
	}
	w.checkTime()
	for _, p := range w.l.Producers(w.now) {
		if p.ProducerID < 10 && p.LastSequence+1 != w.seq[p.ProducerID] {
			w.t.Fatalf("producer %d is known up to %d, want %d", p.ProducerID, p.LastSequence, w.seq[p.ProducerID]-1)
		}
	}
}

// checkUnique checks that a key is there once at most, and no aborted record, below end.
func (w *keyed) checkUnique(end int64) {
	w.t.Helper()
	offsets := map[string]int64{}
	for _, b := range readAll(w.t, w.l, 0, 1<<20, LogEnd) {
		for r, err := range b.Records(0) {
			w.must(err)
			if offset := b.Offset(r); !b.IsControl() && offset < end {
				if before, ok := offsets[string(r.Key)]; ok || w.log[offset].state == aborted {
					w.t.Fatalf("%s at %d (state %d) and %d after compaction up to %d", r.Key, offset, w.log[offset].state, before, end)
				}
				offsets[string(r.Key)] = offset
			}
		}
	}
}

// checkTime looks one time up.
func (w *keyed) checkTime() {
	w.t.Helper()
	ms := w.now - int64(w.rng.IntN(5000))
	want, largest := int64(-1), int64(-1)
	for _, b := range readAll(w.t, w.l, 0, 1<<20, LogEnd) {
		for r, err := range b.Records(0) {
			w.must(err)
			t := b.Timestamp(r)
			largest = max(largest, t)
			if t >= ms && want < 0 {
				want = b.Offset(r)
			}
		}
	}
	got, _, _, found, err := w.l.OffsetForTime(ms)
	w.must(err)
	if found != (want >= 0) || got != want {
		w.t.Fatalf("offset for time %d: %d %v, want %d", ms, got, found, want)
	}
	_, t, _, _, err := w.l.MaxTimestamp()
	w.must(err)
	if t != largest {
		w.t.Fatalf("largest time %d, want %d", t, largest)
	}
}

func TestCompactionAgainstModel(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newKeyed(t, seed)
			dir := filepath.Join(memDir(t), "topic-0")
			w.openLog(dir, false, 0, 0)
			for i := range 300 {
				w.step()
				if i%10 == 0 {
					w.check()
				}
				if w.rng.IntN(60) == 0 {
					w.must(w.l.Close())
					w.openLog(dir, true, w.l.RecoveryPoint(), w.l.CleanedTo())
					w.l.SetHighWatermark(w.end)
					w.check()
				}
			}
			w.must(w.l.Close())
		})
	}
}

// TestCrashWhileCompacting loses what was not synced at a random moment of a compaction, several times over.
func TestCrashWhileCompacting(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashCompaction(t, seed) })
	}
}

func crashCompaction(t *testing.T, seed uint64) {
	w := newKeyed(t, seed)
	root := memDir(t)
	at := func(i int) string { return filepath.Join(root, fmt.Sprint(i)) }
	if err := os.Mkdir(at(0), 0o755); err != nil {
		t.Fatal(err)
	}
	w.disk = crashdisk.New(at(0))
	w.o.FS = &w.disk.FS
	w.openLog(filepath.Join(at(0), "topic-0"), false, 0, 0)
	for i := range 4 {
		for range 30 + w.rng.IntN(60) {
			w.step()
		}
		w.must(w.l.Flush())
		w.l.SetHighWatermark(w.end)
		found, err := w.l.Cleanable(w.now)
		w.must(err)
		w.last = max(w.last, found.FirstUncleanable)
		point, cleaned := w.l.RecoveryPoint(), w.l.CleanedTo()
		if w.rng.IntN(3) == 0 {
			point = 0
		}
		folder := at(i + 1)
		w.crashed(w.crashAt(w.rng.IntN(60), folder, func() {
			_, err := w.l.Compact(compactOptions(w.now))
			w.must(err)
		}))
		if w.rng.IntN(2) == 0 { // recovery is cut short too
			before := folder
			folder += "-again"
			w.crashed(w.crashAt(w.rng.IntN(12), folder, func() { w.openLog(filepath.Join(before, "topic-0"), false, point, cleaned) }))
		}
		w.openLog(filepath.Join(folder, "topic-0"), false, point, cleaned)
		w.l.SetHighWatermark(w.end)
		if w.l.EndOffset() != w.end {
			t.Fatalf("recovered up to %d of %d that were flushed", w.l.EndOffset(), w.end)
		}
		if w.truncated {
			w.resume()
		}
		w.check()
	}
	w.must(w.l.Close())
}

// crashed goes on where a crash has left off.
func (w *keyed) crashed(next *crashdisk.Disk) {
	w.l.Close() // of the world that is gone: it only gives back descriptors
	w.disk, w.o.FS = next, &next.FS
}

// crashAt does something, and crashes before the change of number n or at the end, into a new folder.
func (w *keyed) crashAt(n int, to string, do func()) *crashdisk.Disk {
	w.must(os.Mkdir(to, 0o755))
	var next *crashdisk.Disk
	crash := func() {
		var err error
		next, err = w.disk.Crash(to, w.rng)
		w.must(err)
	}
	inner := w.disk.Hook
	w.disk.Hook = func(op disk.Op) error {
		if n == 0 && next == nil {
			crash()
		}
		n--
		return inner(op)
	}
	do()
	if next == nil {
		crash()
	}
	return next
}
