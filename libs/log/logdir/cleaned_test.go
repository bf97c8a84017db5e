package logdir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/record"
)

// TestCleanedCheckpoint has a log compacted: what was is known after a crash, and forgotten with what is truncated and with the
// partition.
func TestCleanedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{}, dir)
	c := log.DefaultConfig()
	c.Compact, c.Delete, c.SegmentBytes = true, false, 100
	l, err := s.Create("t", 0, log.TopicID{1}, c)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	for range 10 {
		b := record.NewBuilder()
		b.Append(now, []byte("key"), []byte("value"))
		raw, err := b.Build(record.None, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(raw, 0, now); err != nil {
			t.Fatal(err)
		}
	}
	l.SetHighWatermark(10)
	did, err := l.Compact(log.CompactOptions{NowMs: now, DedupeBytes: 1 << 20, LoadFactor: 0.9, BufferBytes: 1 << 10, Spend: func(int) error { return nil }})
	if err != nil || did.EndOffset != 9 {
		t.Fatalf("%+v, %v", did, err)
	}
	if err := s.CheckpointCleaned(l); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, cleanedFile)); err != nil || string(raw) != "0\n1\nt 0 9\n" {
		t.Errorf("%q, %v", raw, err)
	}
	crash(s)
	s = open(t, Options{}, dir)
	l = find(t, s, "t")
	if l.CleanedTo() != 9 || l.EndOffset() != 10 {
		t.Errorf("compacted up to %d of %d", l.CleanedTo(), l.EndOffset())
	}
	if err := l.TruncateTo(8); err != nil {
		t.Fatal(err)
	}
	if l.CleanedTo() != l.EndOffset() {
		t.Errorf("compacted up to %d after truncation to %d", l.CleanedTo(), l.EndOffset())
	}
	if err := s.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	if l = create(t, s, "t", 0); l.CleanedTo() != 0 {
		t.Errorf("a new log is compacted up to %d", l.CleanedTo())
	}
	crash(s)
	if l := find(t, open(t, Options{}, dir), "t"); l.CleanedTo() != 0 {
		t.Errorf("a new log is compacted up to %d after a restart", l.CleanedTo())
	}
}
