package logdir

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
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

func open(t testing.TB, o Options, dirs ...string) *Set {
	t.Helper()
	s, err := Open(context.Background(), dirs, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// crash lets go of a Set as a killed process does.
func crash(s *Set) { s.abandon() }

func create(t testing.TB, s *Set, topic string, partition int32) *log.Log {
	t.Helper()
	l, err := s.Create(topic, partition, log.TopicID{1}, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendN(t testing.TB, l *log.Log, n int) {
	t.Helper()
	b := record.NewBuilder()
	for i := range n {
		b.Append(time.Now().UnixMilli(), nil, fmt.Appendf(nil, "value %d", i))
	}
	batch, err := b.Build(record.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(batch, 0, time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, s *Set, topic string) *log.Log {
	t.Helper()
	l, ok := s.Log(topic, 0)
	if !ok {
		t.Fatalf("%s-0 is not there", topic)
	}
	return l
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestOpenKafkasDirectory(t *testing.T) {
	for state, end := range map[string]int64{"clean": 113, "unclean": 112} {
		t.Run(state, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("../testdata/kafka", state))); err != nil {
				t.Fatal(err)
			}
			o := Options{NodeID: 1, ClusterID: "Y2F1Y2UtcGVlcnMtMDAwMQ"}
			s := open(t, o, dir)
			mark := filepath.Join(dir, cleanFile)
			if exists(mark) {
				t.Error("the mark of a clean shutdown is still there")
			}
			for topic, want := range map[string][3]int64{"rolled": {7, end, end}, "single": {0, end, end}, "plain": {0, 0, 0}} {
				if state == "unclean" {
					want[0], want[2] = 0, 0 // Kafka was killed before it wrote these checkpoints
				}
				l := find(t, s, topic)
				if got := [3]int64{l.StartOffset(), l.EndOffset(), l.HighWatermark()}; got[0] != want[0] || got[1] != want[1] || state == "clean" && got[2] != want[2] {
					t.Errorf("%s: %v, want %v", topic, got, want)
				}
				if l.TopicID() == (log.TopicID{}) {
					t.Errorf("%s has no topic id", topic)
				}
				if _, err := s.Create(topic, 0, log.TopicID{9}, log.DefaultConfig()); !errors.Is(err, kerr.InconsistentTopicID) {
					t.Errorf("%s with another id: %v", topic, err)
				}
			}
			id := s.Describe()[0].ID
			if encodeID(id) != "BO_KWqrHJr3xWj561qZ1ZQ" {
				t.Errorf("directory.id %s", encodeID(id))
			}
			appendN(t, find(t, s, "rolled"), 3)
			if err := s.Close(); err != nil || !exists(mark) {
				t.Fatalf("closed: %v, mark %v", err, exists(mark))
			}
			again := open(t, o, dir)
			if l := find(t, again, "rolled"); l.EndOffset() != end+3 || l.RecoveryPoint() != end+3 {
				t.Errorf("end %d, recovery point %d after reopening", l.EndOffset(), l.RecoveryPoint())
			}
		})
	}
}

func TestDirectoryBelongsElsewhere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{NodeID: 1, ClusterID: "here"}, dir)
	if _, err := Open(context.Background(), []string{dir}, Options{NodeID: 1}); !errors.Is(err, errMismatch) {
		t.Errorf("open twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{NodeID: 2, ClusterID: "here"}, {NodeID: 1, ClusterID: "there"}} {
		if _, err := Open(context.Background(), []string{dir}, o); !errors.Is(err, errMismatch) {
			t.Errorf("node %d of %s: %v", o.NodeID, o.ClusterID, err)
		}
	}
	open(t, Options{NodeID: 1}, dir)
}

func TestJoinCluster(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{NodeID: 1}, dir)
	for range 2 {
		if err := s.JoinCluster("here"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.JoinCluster("there"); !errors.Is(err, errMismatch) {
		t.Errorf("another cluster: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), []string{dir}, Options{NodeID: 1, ClusterID: "there"}); !errors.Is(err, errMismatch) {
		t.Errorf("another cluster after a restart: %v", err)
	}
}

func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{NodeID: 1}, dir)
	appendN(t, create(t, s, "stray", 0), 3)
	for range 2 { // the second time there is none
		if err := s.SetAside("stray", 0); err != nil {
			t.Fatal(err)
		}
	}
	aside, err := filepath.Glob(filepath.Join(dir, "stray-0.*"+strayMark, "*.log"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside: %v, %v", aside, err)
	}
	if l := create(t, s, "stray", 0); l.EndOffset() != 0 {
		t.Errorf("the new log begins with %d records", l.EndOffset())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{NodeID: 1}, dir)
	if n := len(slices.Collect(again.All())); n != 1 || len(aside) != 1 || !exists(aside[0]) {
		t.Errorf("%d logs after a restart, the one set aside: %v", n, exists(aside[0]))
	}
}

func TestCreatePlacesAndFinds(t *testing.T) {
	dirs := []string{t.TempDir(), filepath.Join(t.TempDir(), "made", "here")}
	s := open(t, Options{}, dirs...)
	for i := range int32(6) {
		create(t, s, "topic-with-dashes", i)
	}
	if again := create(t, s, "topic-with-dashes", 3); again != func() *log.Log { l, _ := s.Log("topic-with-dashes", 3); return l }() {
		t.Error("created twice")
	}
	for _, d := range s.Describe() {
		if len(d.Logs) != 3 || d.Err != nil || d.TotalBytes <= 0 || d.UsableBytes <= 0 || d.UsableBytes > d.TotalBytes {
			t.Errorf("%s: %d logs, %d of %d bytes, %v", d.Path, len(d.Logs), d.UsableBytes, d.TotalBytes, d.Err)
		}
	}
	crash(s)
	again := open(t, Options{}, dirs...)
	if n := len(slices.Collect(again.All())); n != 6 {
		t.Errorf("%d logs after a crash", n)
	}
	if l, ok := again.Log("topic-with-dashes", 5); !ok || l.TopicID() != (log.TopicID{1}) {
		t.Error("the topic id is lost")
	}
}

// TestBornAgain deletes a partition and makes it anew, and crashes before any checkpoint: the old log's offsets must not
// meet the new log.
func TestBornAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{}, dir)
	l := create(t, s, "t", 0)
	appendN(t, l, 100)
	l.SetHighWatermark(100)
	if _, err := l.DeleteRecords(90); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Flush(), s.CheckpointHighWatermarks(), s.CheckpointStartOffsets()); err != nil {
		t.Fatal(err)
	}
	s.rest(time.Now().UnixMilli())
	if err := s.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(nil, 0, 0); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("append to a deleted log: %v", err)
	}
	if err := s.Delete("t", 0); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
	l, err := s.Create("t", 0, log.TopicID{2}, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 5)
	crash(s)
	s = open(t, Options{}, dir)
	if l := find(t, s, "t"); l.StartOffset() != 0 || l.EndOffset() != 5 || l.HighWatermark() > 5 || l.TopicID() != (log.TopicID{2}) {
		t.Errorf("offsets %d to %d, high watermark %d, id %x", l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.TopicID())
	}
}

func TestDeletedFolderStaysForTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, Options{FlushSchedulerMs: math.MaxInt64}, dir) // Kafka's default
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		long := strings.Repeat("x", 249)
		for _, topic := range []string{"short", long} {
			appendN(t, create(t, s, topic, 0), 3)
			if err := s.Delete(topic, 0); err != nil {
				t.Fatal(err)
			}
		}
		doomed := func() []string {
			paths, err := filepath.Glob(filepath.Join(dir, "*"+deleteMark))
			if err != nil {
				t.Fatal(err)
			}
			return paths
		}
		if got := doomed(); len(got) != 2 || exists(filepath.Join(dir, "short-0")) {
			t.Errorf("%v", got)
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(doomed()) != 2 {
			t.Error("removed too soon")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := doomed(); len(got) != 0 {
			t.Errorf("%v are left", got)
		}
		stop()
		<-done
	})
}

// TestDuties lets time pass and looks at what Run has done by itself.
func TestDuties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := log.DefaultConfig()
		c.SegmentBytes, c.RetentionMs, c.FlushMs = 200, 3600_000, 10_000
		s := open(t, Options{}, dir)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		l, err := s.Create("t", 0, log.TopicID{}, c)
		if err != nil {
			t.Fatal(err)
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		checkpoint := func(name string) string {
			raw, _ := os.ReadFile(filepath.Join(dir, name))
			return string(raw)
		}
		for range 4 {
			appendN(t, l, 5)
		}
		synctest.Wait() // the flusher has flushed the segments that rolled
		if got := l.RecoveryPoint(); got != 15 {
			t.Errorf("recovery point %d after rolls", got)
		}
		pass(11 * time.Second)
		if got := l.RecoveryPoint(); got != 19 {
			t.Errorf("recovery point %d after flush.ms", got)
		}
		l.SetHighWatermark(20)
		if _, err := l.DeleteRecords(3); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		if got := checkpoint(highWatermarkFile); got != "0\n1\nt 0 20\n" {
			t.Errorf("high watermarks %q", got)
		}
		pass(time.Minute)
		if got := checkpoint(recoveryPointFile) + checkpoint(startOffsetFile); got != "0\n1\nt 0 19\n0\n1\nt 0 3\n" {
			t.Errorf("recovery points and start offsets %q", got)
		}
		if err := l.TruncateTo(10); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := checkpoint(recoveryPointFile); got != "0\n1\nt 0 10\n" && got != "0\n1\nt 0 9\n" {
			t.Errorf("recovery points %q after truncation", got)
		}
		l.SetHighWatermark(10)
		pass(2 * time.Hour)
		if l.StartOffset() != 10 || l.SegmentCount() != 1 {
			t.Errorf("start %d, %d segments after retention", l.StartOffset(), l.SegmentCount())
		}
		stop()
		<-done
	})
}

// TestDutiesAreDoneAtEachTick has every other tick handled some milliseconds late, as on a busy machine: the next one comes that much sooner.
func TestDutiesAreDoneAtEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{NowMs: func() int64 {
			now := time.Now()
			return now.UnixMilli() + now.Unix()%2*5
		}}, t.TempDir())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		c := log.DefaultConfig()
		c.FlushMs = 1
		l, err := s.Create("t", 0, log.TopicID{}, c)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			appendN(t, l, 1)
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := l.RecoveryPoint(), l.EndOffset()-1; got != want {
				t.Errorf("recovery point %d a second after an append, want %d", got, want)
			}
		}
		stop()
		<-done
	})
}

// TestFlushHoldsUpNoOtherDuty has the disk keep a flush by flush.ms waiting, and wants the high watermarks written down meanwhile.
func TestFlushHoldsUpNoOtherDuty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ready := t.TempDir(), make(chan struct{})
		s := open(t, Options{FS: &disk.FS{Hook: func(op disk.Op) error {
			if op.Kind == disk.Sync && strings.HasSuffix(op.File.Name(), ".log") {
				<-ready
			}
			return nil
		}}}, dir)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		c := log.DefaultConfig()
		c.FlushMs = 1000
		l, err := s.Create("t", 0, log.TopicID{}, c)
		if err != nil {
			t.Fatal(err)
		}
		appendN(t, l, 5)
		time.Sleep(3 * time.Second)
		l.SetHighWatermark(5)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if raw, _ := os.ReadFile(filepath.Join(dir, highWatermarkFile)); string(raw) != "0\n1\nt 0 5\n" || l.RecoveryPoint() != 0 {
			t.Errorf("recovery point %d, high watermarks %q", l.RecoveryPoint(), raw)
		}
		close(ready)
		synctest.Wait()
		if got := l.RecoveryPoint(); got != 4 {
			t.Errorf("recovery point %d after the flush", got)
		}
		stop()
		<-done
	})
}

func TestMetaProperties(t *testing.T) {
	kafkas, err := os.ReadFile("../testdata/kafka/clean/meta.properties")
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeMeta(kafkas)
	if err != nil || m.nodeID != 1 || m.clusterID != "Y2F1Y2UtcGVlcnMtMDAwMQ" || encodeID(m.dirID) != "BO_KWqrHJr3xWj561qZ1ZQ" {
		t.Errorf("%+v, %v", m, err)
	}
	if again, err := decodeMeta(m.encode()); err != nil || again != m {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{"", "version=0\nnode.id=1\n", "version=1\n", "version=1\nnode.id=x\n", "version=1\nnode.id=1\ndirectory.id=short\n"} {
		if m, err := decodeMeta([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, m)
		}
	}
}

func TestCheckpointFormat(t *testing.T) {
	want := map[key]int64{{"a", 0}: 5, {"topic-x", 12}: 1 << 40}
	content := encodeCheckpoint(len(want), func(yield func(key, int64) bool) {
		for _, k := range []key{{"a", 0}, {"topic-x", 12}} {
			if !yield(k, want[k]) {
				return
			}
		}
	})
	if string(content) != "0\n2\na 0 5\ntopic-x 12 1099511627776\n" {
		t.Errorf("%q", content)
	}
	got, err := decodeCheckpoint(content)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"1\n0\n", "0", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\n1\na x 5\n", "0\n1\na 0 -5\n", "0\n1\na -1 5\n"} {
		if got, err := decodeCheckpoint([]byte(bad)); !errors.Is(err, errBadCheckpoint) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
	if got, err := decodeCheckpoint(nil); err != nil || len(got) != 0 {
		t.Errorf("empty: %v, %v", got, err)
	}
}

// TestBadCheckpointsCostNoRecord opens a directory whose checkpoint files are garbage.
func TestBadCheckpointsCostNoRecord(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{}, dir)
	l := create(t, s, "t", 0)
	appendN(t, l, 10)
	crash(s)
	for _, name := range []string{recoveryPointFile, startOffsetFile, highWatermarkFile} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("garbage\n"), 3), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if l := find(t, open(t, Options{}, dir), "t"); l.EndOffset() != 10 || l.StartOffset() != 0 {
		t.Errorf("offsets %d to %d", l.StartOffset(), l.EndOffset())
	}
}

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add([]byte("0\n2\na 0 5\ntopic-x 12 7\n"))
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decodeCheckpoint(b)
		if err != nil {
			if !errors.Is(err, errBadCheckpoint) {
				t.Error(err)
			}
			return
		}
		again, err := decodeCheckpoint(encodeCheckpoint(len(entries), func(yield func(key, int64) bool) {
			for k, offset := range entries {
				if !yield(k, offset) {
					return
				}
			}
		}))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(entries) {
			t.Errorf("%v became %v, %v", entries, again, err)
		}
	})
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add([]byte("#comment\nversion=1\ncluster.id=x\nnode.id=1\ndirectory.id=BO_KWqrHJr3xWj561qZ1ZQ\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMeta(b); err == nil {
			if again, err := decodeMeta(m.encode()); err != nil || again != m {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
	})
}
