package logdir

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

// TestFailingDirectory has one of two directories fail: it goes offline alone and says so once.
func TestFailingDirectory(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	broken := ""
	var told []string
	s := open(t, Options{
		FS: &disk.FS{Hook: func(op disk.Op) error {
			if op.Kind == disk.Write && broken != "" && strings.HasPrefix(op.File.Name(), broken) {
				return errors.New("input/output error")
			}
			return nil
		}},
		OnFailure: func(dir string, err error) {
			if !errors.Is(err, kerr.KafkaStorageError) {
				t.Errorf("told of %v", err)
			}
			told = append(told, dir)
		},
	}, dirs...)
	a, b := create(t, s, "t", 0), create(t, s, "t", 1)
	if filepath.Dir(a.Dir()) == filepath.Dir(b.Dir()) {
		t.Fatal("both in one directory")
	}
	c := create(t, s, "t", 2)
	if filepath.Dir(c.Dir()) != filepath.Dir(a.Dir()) {
		b = c
	}
	broken = filepath.Dir(a.Dir())
	batch, err := record.NewBuilder(), error(nil)
	batch.Append(time.Now().UnixMilli(), nil, nil)
	raw, _ := batch.Build(record.None, 0)
	if _, err = a.Append(raw, 0, time.Now().UnixMilli()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.Create("new", 0, log.TopicID{}, log.DefaultConfig()); err != nil {
		t.Errorf("create in the directory that is left: %v", err)
	}
	if l, ok := s.Log("t", 0); !ok || !errors.Is(l.Err(), kerr.KafkaStorageError) {
		t.Error("the log in the broken directory does not say so")
	}
	for l := range s.All() {
		if down := filepath.Dir(l.Dir()) == broken; down != (l.Err() != nil) {
			t.Errorf("%s: %v", l.Dir(), l.Err())
		}
	}
	if !slices.Equal(told, []string{broken}) {
		t.Errorf("told of %v", told)
	}
	for _, d := range s.Describe() {
		if (d.Path == broken) != (d.Err != nil) {
			t.Errorf("%s: %v", d.Path, d.Err)
		}
	}
	if err := s.Delete("t", 0); err == nil {
		_, err = s.Create("t", 0, log.TopicID{}, log.DefaultConfig())
		if err != nil && !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("create: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, dir := range dirs {
		if exists(filepath.Join(dir, cleanFile)) != (dir != broken) {
			t.Errorf("%s: mark of a clean shutdown %v", dir, exists(filepath.Join(dir, cleanFile)))
		}
	}
}

// TestOfflineAtStart opens two directories of which one cannot be read. A partition that lies there is not made anew.
func TestOfflineAtStart(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	s := open(t, Options{}, dirs...)
	for i := range int32(2) {
		create(t, s, "t", i)
	}
	lost, _ := s.Log("t", 0)
	dir := filepath.Dir(lost.Dir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metaFile), []byte("version=7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{}, dirs...)
	if _, ok := s.Log("t", 0); ok {
		t.Error("the log of a directory that is offline")
	}
	if _, err := s.Create("t", 0, log.TopicID{1}, log.DefaultConfig()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("made anew: %v", err)
	}
	create(t, s, "other", 0)
	create(t, s, "t", 1)
	if _, err := Open(context.Background(), []string{dir}, Options{}); err == nil {
		t.Error("opened with no directory online")
	}
}

// What an unreadable directory holds is not known at the start; what comes later cannot be in it.
func TestUnknownAndNewPartitions(t *testing.T) {
	broken, whole := filepath.Join(t.TempDir(), "d"), t.TempDir()
	if err := os.WriteFile(broken, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{}, broken, whole)
	if _, err := s.Create("t", 0, log.TopicID{1}, log.DefaultConfig()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("a partition that may be in the broken directory: %v", err)
	}
	s.ExpectNew()
	create(t, s, "t", 1)
}

// TestPartitionInTwoDirectories has a partition twice, as a crash at the end of a move leaves it.
func TestPartitionInTwoDirectories(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		s := open(t, Options{}, dir)
		l := create(t, s, "t", 0)
		appendN(t, l, 3+i)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		s := open(t, Options{}, dirs...)
		if l := find(t, s, "t"); l.EndOffset() != 4 || filepath.Dir(l.Dir()) != dirs[1] {
			t.Errorf("%s ends at %d", l.Dir(), l.EndOffset())
		}
		if s.Failed() != 0 {
			t.Error("a directory is offline")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if aside, _ := filepath.Glob(filepath.Join(dirs[0], "t-0.*"+strayMark)); len(aside) != 1 {
		t.Errorf("set aside: %v", aside)
	}
}

// TestDirectoryVanishes takes an idle directory away. Nobody writes there, and it is missed all the same.
func TestDirectoryVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dirs := []string{t.TempDir(), t.TempDir()}
		told := 0
		s := open(t, Options{OnFailure: func(string, error) { told++ }}, dirs...)
		create(t, s, "t", 0)
		if err := errors.Join(s.CheckpointHighWatermarks(), s.CheckpointStartOffsets()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		if err := os.RemoveAll(dirs[1]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if told != 1 || s.Failed() != 1 || s.Describe()[1].Err == nil {
			t.Errorf("told %d times, %d offline", told, s.Failed())
		}
		stop()
		<-done
	})
}

// TestVanishedDirectoryIsNoticed has a directory go that nobody writes to, while every duty has the longest interval there is.
func TestVanishedDirectoryIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, whole := filepath.Join(t.TempDir(), "d"), t.TempDir()
		failed := make(chan string, 1)
		s := open(t, Options{
			RetentionCheckMs: math.MaxInt64, FlushSchedulerMs: math.MaxInt64, RecoveryPointCheckpointMs: math.MaxInt64, StartOffsetCheckpointMs: math.MaxInt64,
			HighWatermarkCheckpointMs: math.MaxInt64, ProducerExpirationCheckMs: math.MaxInt64, OnFailure: func(dir string, _ error) { failed <- dir },
		}, gone, whole)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		select {
		case dir := <-failed:
			if dir != gone {
				t.Errorf("%s has failed", dir)
			}
		default:
			t.Error("nothing has been noticed")
		}
		stop()
		<-done
	})
}
