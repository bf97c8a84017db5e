package logdir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
)

// content is all bytes of a log from its start on.
func content(t testing.TB, l *log.Log) (all []byte) {
	t.Helper()
	for from := l.StartOffset(); from < l.EndOffset(); {
		slice, err := l.Read(from, 1<<20, log.LogEnd, true)
		if err != nil {
			t.Fatal(err)
		}
		all, err = slice.AppendTo(all)
		slice.Release()
		if err != nil {
			t.Fatal(err)
		}
		from = l.EndOffset() // the logs of these tests have one segment
	}
	return all
}

// copyOver brings a future up to its log.
func copyOver(t testing.TB, from, to *log.Log) {
	t.Helper()
	if _, err := to.AppendAsFollower(content(t, from)); err != nil {
		t.Fatal(err)
	}
	to.SetHighWatermark(from.HighWatermark())
}

func otherDir(l *log.Log, dirs []string) string {
	if filepath.Dir(l.Dir()) == dirs[0] {
		return dirs[1]
	}
	return dirs[0]
}

func TestMove(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	now := int64(1_000_000)
	s := open(t, Options{NowMs: func() int64 { return now }}, dirs...)
	l := create(t, s, "t", 0)
	appendN(t, l, 5)
	l.SetHighWatermark(4)
	want := content(t, l)
	to := otherDir(l, dirs)
	future, err := s.Move("t", 0, to)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Move("t", 0, to+"/"); again != future || err != nil {
		t.Errorf("asked again: another log, %v", err)
	}
	if in := s.Describe()[slices.Index(dirs, to)]; len(in.Futures) != 1 || len(in.Logs) != 0 {
		t.Errorf("described as %+v", in)
	}
	copyOver(t, l, future)
	fresh, err := s.Promote("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := find(t, s, "t"); found != fresh || filepath.Dir(fresh.Dir()) != to || !bytes.Equal(content(t, fresh), want) || fresh.HighWatermark() != 4 {
		t.Errorf("%s: %d bytes up to %d, high watermark %d", fresh.Dir(), len(content(t, fresh)), fresh.EndOffset(), fresh.HighWatermark())
	}
	if _, err := l.Read(0, 1, log.LogEnd, true); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("read of the old log: %v", err)
	}
	now += fresh.Config().FileDeleteDelayMs
	s.tidy(now)
	for _, dir := range dirs {
		if left, _ := filepath.Glob(filepath.Join(dir, "t-0*")); (dir == to) != (len(left) == 1) {
			t.Errorf("in %s are %v", dir, left)
		}
	}
	appendN(t, fresh, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if l := find(t, open(t, Options{}, dirs...), "t"); l.EndOffset() != 6 {
		t.Errorf("ends at %d after a restart", l.EndOffset())
	}
}

func TestMoveRefused(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	s := open(t, Options{}, dirs...)
	l := create(t, s, "t", 0)
	to := otherDir(l, dirs)
	if _, err := s.Move("t", 0, "/nowhere"); !errors.Is(err, kerr.LogDirNotFound) {
		t.Errorf("to a directory of others: %v", err)
	}
	future, err := s.Move("t", 0, to)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := s.Move("t", 0, filepath.Dir(l.Dir())); back != nil || err != nil {
		t.Errorf("back: %v", err)
	}
	if _, ok := s.Future("t", 0); ok || future.Err() == nil {
		t.Error("still moves")
	}
	if _, err := s.Promote("t", 0); !errors.Is(err, kerr.ReplicaNotAvailable) {
		t.Errorf("the end of a move that was called off: %v", err)
	}
	for range 2 { // the second directory is the emptier one only once
		if _, err := s.Move("later", 0, to); !errors.Is(err, kerr.ReplicaNotAvailable) {
			t.Errorf("of a partition that is not here yet: %v", err)
		}
	}
	for i := range int32(3) {
		create(t, s, "fill", i)
	}
	if l := create(t, s, "later", 0); filepath.Dir(l.Dir()) != to {
		t.Errorf("made in %s, not where it was asked to be", l.Dir())
	}
	if future, err = s.Move("t", 0, to); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Future("t", 0); ok || future.Err() == nil {
		t.Error("a deleted partition moves")
	}
}

// TestMoveIsTakenUp stops in the middle of a move, in order and not.
func TestMoveIsTakenUp(t *testing.T) {
	for _, end := range []func(*Set){crash, func(s *Set) { s.Close() }} {
		dirs := []string{t.TempDir(), t.TempDir()}
		s := open(t, Options{}, dirs...)
		l := create(t, s, "t", 0)
		appendN(t, l, 3)
		future, err := s.Move("t", 0, otherDir(l, dirs))
		if err != nil {
			t.Fatal(err)
		}
		copyOver(t, l, future)
		appendN(t, l, 2)
		end(s)
		s = open(t, Options{}, dirs...)
		futures := s.Futures()
		if len(futures) != 1 || futures[0].EndOffset() != 3 || find(t, s, "t").EndOffset() != 5 {
			t.Fatalf("after the restart: %v", futures)
		}
		end(s)
		// The disk that it came from is gone: what was copied is no replica, and stays for somebody to look at.
		if err := os.RemoveAll(filepath.Dir(l.Dir())); err != nil {
			t.Fatal(err)
		}
		s = open(t, Options{}, dirs...)
		if _, ok := s.Log("t", 0); ok || len(s.Futures()) > 0 {
			t.Error("half a copy passes for a replica")
		}
		if aside, _ := filepath.Glob(filepath.Join(filepath.Dir(future.Dir()), "t-0.*"+strayMark)); len(aside) != 1 {
			t.Errorf("set aside: %v", aside)
		}
	}
}

// TestMoveEndsInACrash stops before each change that the end of a move makes on the disks.
func TestMoveEndsInACrash(t *testing.T) {
	n := 0
	for !moveAndCrash(t, n) {
		n++
	}
	if n < 5 {
		t.Errorf("the end of a move is %d changes", n)
	}
}

// moveAndCrash lets the n-th change of Promote, and all that follow, fail. It reports whether there were fewer.
func moveAndCrash(t *testing.T, n int) (done bool) {
	var mu sync.Mutex // of left: directories are opened beside each other
	left, dirs := -1, []string{t.TempDir(), t.TempDir()}
	s := open(t, Options{FS: &disk.FS{Hook: func(disk.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			return errors.New("the process has ended")
		}
		left = max(left-1, -1)
		return nil
	}}}, dirs...)
	l := create(t, s, "t", 0)
	appendN(t, l, 5)
	l.SetHighWatermark(5)
	want := content(t, l)
	future, err := s.Move("t", 0, otherDir(l, dirs))
	if err != nil {
		t.Fatal(err)
	}
	copyOver(t, l, future)
	mu.Lock()
	left = n
	mu.Unlock()
	_, err = s.Promote("t", 0)
	mu.Lock()
	done = left > 0
	mu.Unlock()
	if done && err != nil {
		t.Fatal(err)
	}
	crash(s)
	s = open(t, Options{}, dirs...)
	if l := find(t, s, "t"); !bytes.Equal(content(t, l), want) || s.Failed() > 0 {
		t.Errorf("after %d changes (%v): %d of %d bytes, %d directories offline", n, err, len(content(t, l)), len(want), s.Failed())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return done
}
