package logdir

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/internal/crashdisk"
	"github.com/cauce-stream/cauce/libs/record"
)

// TestCrash loses what was not synced to a whole log directory. What the recovery-point checkpoint, or the close of the
// Set, promised is there again, and every log holds some first part of what was appended to it.
func TestCrash(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashRun(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

// appended is what a log was given, and how much of it must survive.
type appended struct {
	batches []record.Batch
	safe    int64
}

func crashRun(t *testing.T, rng *rand.Rand) {
	root, err := os.MkdirTemp(tmpfs(), "cauce-logdir-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	at := func(i int) string { return filepath.Join(root, fmt.Sprint(i)) }
	c := log.DefaultConfig()
	c.SegmentBytes = 300 + rng.IntN(2000)
	now := int64(1_700_000_000_000)
	o := Options{ConfigFor: func(string) log.Config { return c }, NowMs: func() int64 { return now }}
	logs := map[int32]*appended{}

	if err := os.Mkdir(at(0), 0o755); err != nil {
		t.Fatal(err)
	}
	d := crashdisk.New(at(0))
	o.FS = &d.FS
	s := open(t, o, at(0))
	for i := range 4 {
		for range 10 + rng.IntN(60) {
			now += int64(rng.IntN(30_000))
			crashStep(t, s, rng, c, logs, now)
		}
		if rng.IntN(3) == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, a := range logs {
				if n := len(a.batches); n > 0 {
					a.safe = a.batches[n-1].LastOffset() + 1
				}
			}
		}
		if err := os.Mkdir(at(i+1), 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := d.Crash(at(i+1), rng)
		if err != nil {
			t.Fatal(err)
		}
		crash(s)
		d, o.FS = next, &next.FS
		s = open(t, o, at(i+1))
		checkSurvivors(t, s, logs)
	}
}

func crashStep(t *testing.T, s *Set, rng *rand.Rand, c log.Config, logs map[int32]*appended, now int64) {
	t.Helper()
	p := int32(rng.IntN(5))
	l, err := s.Create("t", p, log.TopicID{byte(p + 1)}, c)
	if err != nil {
		t.Fatal(err)
	}
	if logs[p] == nil {
		logs[p] = &appended{}
	}
	switch rng.IntN(12) {
	case 0:
		s.rest(now)
		for q, a := range logs {
			if l, ok := s.Log("t", q); ok {
				a.safe = max(a.safe, l.RecoveryPoint())
			}
		}
	case 1:
		s.flushQueued(context.Background(), s.dirs[0])
	case 2:
		s.tidy(now)
	case 3:
		l.SetHighWatermark(l.EndOffset())
		if err := s.CheckpointHighWatermarks(); err != nil {
			t.Fatal(err)
		}
	default:
		b := record.NewBuilder()
		for range 1 + rng.IntN(4) {
			b.Append(now, nil, bytes.Repeat([]byte{byte(p)}, rng.IntN(50)))
		}
		raw, err := b.Build(record.None, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(raw, 0, now); err != nil {
			t.Fatal(err)
		}
		logs[p].batches = append(logs[p].batches, raw)
	}
}

func checkSurvivors(t *testing.T, s *Set, logs map[int32]*appended) {
	t.Helper()
	for p, a := range logs {
		l, ok := s.Log("t", p)
		if !ok {
			if a.safe > 0 {
				t.Fatalf("t-%d is gone, of which %d offsets were safe", p, a.safe)
			}
			delete(logs, p)
			continue
		}
		if id := l.TopicID(); id != (log.TopicID{byte(p + 1)}) && l.EndOffset() > 0 {
			t.Fatalf("t-%d has the id %x", p, id)
		}
		end := l.EndOffset()
		n := len(a.batches)
		for n > 0 && a.batches[n-1].LastOffset() >= end {
			n--
		}
		if end < a.safe || n > 0 && a.batches[n-1].LastOffset()+1 != end || n == 0 && end != 0 {
			t.Fatalf("t-%d ends at %d, %d were safe", p, end, a.safe)
		}
		if l.HighWatermark() > end || l.StartOffset() != 0 {
			t.Fatalf("t-%d: start %d, high watermark %d, end %d", p, l.StartOffset(), l.HighWatermark(), end)
		}
		a.batches = a.batches[:n:n]
		for _, b := range a.batches {
			r, err := l.Read(b.BaseOffset(), len(b), log.LogEnd, true)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := r.AppendTo(nil)
			r.Release()
			if err != nil || !bytes.Equal(raw, b) {
				t.Fatalf("t-%d: batch at %d is not what was appended: %v", p, b.BaseOffset(), err)
			}
		}
	}
}

// tmpfs is a folder in memory, where the system has one.
func tmpfs() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}
