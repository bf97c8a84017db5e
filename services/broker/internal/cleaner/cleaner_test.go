package cleaner

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/libs/record"
)

// world is a cleaner that runs, and the logs it compacts.
type world struct {
	*Cleaner
	t    *testing.T
	dir  string
	logs *logdir.Set
	seen *observer.ObservedLogs
}

// start starts a cleaner inside a bubble of synctest.
func start(t *testing.T, change func(*Settings)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	logs, err := logdir.Open(t.Context(), []string{w.dir}, logdir.Options{NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Threads: 1, Backoff: 15 * time.Second, DedupeBytes: 1 << 20, LoadFactor: 0.9, BufferBytes: 64 << 10, MaxBytesPerSecond: math.MaxFloat64}
	if change != nil {
		change(&s)
	}
	core, seen := observer.New(zap.InfoLevel)
	w.logs, w.seen = logs, seen
	w.Cleaner = New(logs, func() Settings { return s }, zap.New(core))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	t.Cleanup(func() {
		stop()
		<-done
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// create makes a log of a segment for each batch.
func (w *world) create(topic string, policy string) *log.Log {
	w.t.Helper()
	c, err := log.ParseConfig(map[string]string{"cleanup.policy": policy, "segment.bytes": "200", "delete.retention.ms": "60000", "max.compaction.lag.ms": "600000"})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := w.logs.Create(topic, 0, log.TopicID{1}, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// write appends n records, each a segment, whose keys repeat after every ten.
func (w *world) write(l *log.Log, n int, value []byte) {
	w.t.Helper()
	for i := range n {
		b := record.NewBuilder()
		ms := time.Now().UnixMilli()
		b.Append(ms, fmt.Appendf(nil, "key %d with what makes it a batch of more than half of a segment", i%10), value)
		raw, err := b.Build(record.None, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := l.Append(raw, 0, ms); err != nil {
			w.t.Fatal(err)
		}
	}
	l.SetHighWatermark(l.EndOffset())
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestDirtyLogsAreCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(s *Settings) { s.Threads = 2 })
		plain, dirty, young := w.create("plain", "delete"), w.create("dirty", "compact"), w.create("young", "compact,delete")
		for _, l := range []*log.Log{plain, dirty} {
			w.write(l, 100, []byte("v"))
		}
		w.write(young, 1, []byte("v"))
		w.pass(16 * time.Second)
		if plain.CleanedTo() != 0 || dirty.CleanedTo() != 99 || young.CleanedTo() != 0 {
			t.Errorf("compacted up to %d, %d, %d", plain.CleanedTo(), dirty.CleanedTo(), young.CleanedTo())
		}
		if raw, err := os.ReadFile(filepath.Join(w.dir, "cleaner-offset-checkpoint")); err != nil || string(raw) != "0\n1\ndirty 0 99\n" {
			t.Errorf("checkpoint %q, %v", raw, err)
		}
		f := w.Figures()
		if f.RecopyPercent <= 0 || f.RecopyPercent >= 50 || f.SinceLastRunMs > 15_000 || f.Uncleanable[w.dir] != (Uncleanable{}) {
			t.Errorf("%+v", f)
		}
		before := dirty.CleanedTo()
		w.write(dirty, 3, []byte("v"))
		w.pass(16 * time.Second)
		if dirty.CleanedTo() != before {
			t.Error("compacted although little is dirty")
		}
		w.pass(11 * time.Minute)
		if dirty.CleanedTo() != 103 || young.CleanedTo() != 1 {
			t.Errorf("compacted up to %d and %d after max.compaction.lag.ms", dirty.CleanedTo(), young.CleanedTo())
		}
	})
}

// TestMarksGoFromIdleLogs deletes keys and writes nothing more: the marks go once their time is over.
func TestMarksGoFromIdleLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		l := w.create("t", "compact")
		w.write(l, 10, []byte("v"))
		w.write(l, 10, nil)
		w.pass(16 * time.Second)
		size := l.SizeBytes()
		if l.CleanedTo() != 19 {
			t.Fatalf("compacted up to %d", l.CleanedTo())
		}
		w.pass(40 * time.Second)
		if l.SizeBytes() != size {
			t.Error("marks went before their time")
		}
		w.pass(40 * time.Second)
		if l.SizeBytes() >= size {
			t.Error("marks stay beyond their time")
		}
	})
}

// TestDamagedLog has one log damaged: it is left alone, said once, and the others go on.
func TestDamagedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil)
		bad, good := w.create("bad", "compact"), w.create("good", "compact")
		w.write(bad, 20, []byte("v"))
		w.write(good, 10, []byte("v"))
		path := filepath.Join(bad.Dir(), "00000000000000000003.log")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)-1] ^= 1
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if good.CleanedTo() != 9 || bad.CleanedTo() != 0 || bad.Err() != nil {
			t.Errorf("compacted up to %d and %d, %v", good.CleanedTo(), bad.CleanedTo(), bad.Err())
		}
		if f := w.Figures().Uncleanable[w.dir]; f != (Uncleanable{1, bad.SizeBytes()}) {
			t.Errorf("%+v", f)
		}
		if n := w.seen.FilterLevelExact(zap.ErrorLevel).Len(); n != 1 {
			t.Errorf("%d errors are logged", n)
		}
		if err := w.logs.Delete("bad", 0); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if f := w.Figures().Uncleanable[w.dir]; f != (Uncleanable{}) {
			t.Errorf("%+v after the partition is deleted", f)
		}
	})
}

// TestRate compacts at a bounded rate.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(s *Settings) { s.MaxBytesPerSecond = 100 })
		l := w.create("t", "compact")
		w.write(l, 40, []byte("v"))
		read := 2 * l.SizeBytes() // once for the keys, once for the records
		w.pass(15 * time.Second)
		w.pass(time.Duration(read/100) * time.Second * 9 / 10)
		if l.CleanedTo() != 0 {
			t.Error("compacted too quickly")
		}
		w.pass(time.Duration(read/100) * time.Second * 6 / 10)
		if l.CleanedTo() != 39 {
			t.Errorf("compacted up to %d", l.CleanedTo())
		}
	})
}

// TestDeletedMeanwhile deletes a partition whose compaction waits for its turn, which ends it soon.
func TestDeletedMeanwhile(t *testing.T) {
	w := start(t, func(s *Settings) { s.MaxBytesPerSecond, s.Backoff = 1, minBackoff })
	l := w.create("t", "compact")
	w.write(l, 40, []byte("v"))
	busy := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		s := w.logOf[l]
		return s != nil && s.busy
	}
	for end := time.Now().Add(20 * time.Second); !busy(); {
		if time.Now().After(end) {
			t.Fatal("not compacted")
		}
		runtime.Gosched()
	}
	if err := w.logs.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	if n := w.seen.FilterLevelExact(zap.WarnLevel).Len() + w.seen.FilterLevelExact(zap.ErrorLevel).Len(); n > 0 {
		t.Errorf("%d complaints", n)
	}
}
