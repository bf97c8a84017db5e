package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/log/internal/disk"
	"github.com/cauce-stream/cauce/libs/record"
)

// memDir is a temporary folder in memory where the system has one: these tests play with the disk, they do not measure it.
func memDir(t testing.TB) string {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		if dir, err := os.MkdirTemp("/dev/shm", "cauce-log-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	return t.TempDir()
}

// abandon lets go of a log as a killed process does: nothing is written.
func abandon(l *Log) {
	l.Fence(kerr.KafkaStorageError)
	l.Close()
}

// written is a log of three segments or more that was abandoned, with the batches in it.
func written(t *testing.T, dir string, change func(*Options)) (o Options, batches []record.Batch) {
	t.Helper()
	o = testOptions()
	o.Config.SegmentBytes, o.Config.IndexIntervalBytes = 2000, 100
	if change != nil {
		change(&o)
	}
	l := openAt(t, dir, o)
	for i := range 60 {
		b := idempotent(t, 1, 0, int32(2*i), 2)
		mustAppend(t, l, b)
		batches = append(batches, b)
	}
	abandon(l)
	return o, batches
}

func lastSegment(t testing.TB, dir, suffix string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	return slices.Max(paths)
}

func samePrefix(got, want []record.Batch) bool {
	return len(got) <= len(want) && slices.EqualFunc(got, want[:len(got)], func(a, b record.Batch) bool { return bytes.Equal(a, b) })
}

func TestTornTail(t *testing.T) {
	base := memDir(t)
	dir := filepath.Join(base, "topic-0")
	o, batches := written(t, dir, nil)
	path := lastSegment(t, dir, logSuffix)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := len(batches) - len(whole)/len(batches[0]) // of the last segment
	for cut := range len(whole) {
		copied := filepath.Join(base, fmt.Sprint(cut), "topic-0")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(copied, filepath.Base(path)), int64(cut)); err != nil {
			t.Fatal(err)
		}
		l := openAt(t, copied, o)
		want := batches[:first+cut/len(batches[0])]
		if got := readAll(t, l, 0, 1000, LogEnd); len(got) != len(want) || !samePrefix(got, want) {
			t.Fatalf("cut at %d: %s, want %s", cut, offsetsOf(got), offsetsOf(want))
		}
		if _, err := l.Append(idempotent(t, 1, 0, int32(2*len(want)), 2), 0, nowMs); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		checkFiles(t, l)
		if aside, _ := filepath.Glob(filepath.Join(copied, "*"+corruptSuffix)); len(aside) > 0 {
			t.Fatalf("cut at %d: %v kept aside", cut, aside)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(filepath.Dir(copied))
	}
}

// TestFlippedByte damages one byte anywhere. Batches before it stay; what comes after it is out of the log but still in the
// folder.
func TestFlippedByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	base := memDir(t)
	dir := filepath.Join(base, "topic-0")
	o, batches := written(t, dir, nil)
	segments, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		copied := filepath.Join(base, fmt.Sprint(i), "topic-0")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(copied, filepath.Base(segments[rng.IntN(len(segments))]))
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Base offset and leader epoch are outside the CRC: the one is checked by order, the other cannot be.
		at := rng.IntN(len(raw))
		for in := at % len(batches[0]); in >= record.LeaderEpochAt && in < record.MagicAt || in < record.LengthAt; in = at % len(batches[0]) {
			at = rng.IntN(len(raw))
		}
		raw[at] ^= 1 << rng.IntN(8)
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		l := openAt(t, copied, o)
		before, _, _ := parseFileName(filepath.Base(path))
		want := batches[:int(before)/2+at/len(batches[0])]
		got := readAll(t, l, 0, 1000, LogEnd)
		if len(got) != len(want) || !samePrefix(got, want) {
			t.Fatalf("%s byte %d: %s, want %s", filepath.Base(path), at, offsetsOf(got), offsetsOf(want))
		}
		if total := sizes(t, copied); len(want) < len(batches)-1 && total < len(batches)*len(batches[0]) {
			t.Fatalf("%s byte %d: %d bytes are left of %d", filepath.Base(path), at, total, len(batches)*len(batches[0]))
		}
		checkFiles(t, l)
		l.Close()
		os.RemoveAll(filepath.Dir(copied))
	}
}

// sizes is the total of what the folder keeps of its batches, in the log or aside.
func sizes(t *testing.T, dir string) (total int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && (strings.HasSuffix(e.Name(), logSuffix) || strings.HasSuffix(e.Name(), corruptSuffix)) {
			total += int(info.Size())
		}
	}
	return total
}

func TestMissingFiles(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, pattern := range []string{"*index", "*.index", "*.timeindex", "*.snapshot", epochsFile, "00000000000000000000.index", metadataFile} {
			t.Run(fmt.Sprintf("clean=%v/%s", clean, pattern), func(t *testing.T) {
				dir := filepath.Join(memDir(t), "topic-0")
				o, batches := written(t, dir, func(o *Options) { o.TopicID = TopicID{1} })
				l := openAt(t, dir, o)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				o.RecoveryPoint, o.CleanShutdown = l.RecoveryPoint(), clean
				paths, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(paths) == 0 {
					t.Fatal(paths, err)
				}
				for _, p := range paths {
					if err := os.Remove(p); err != nil {
						t.Fatal(err)
					}
				}
				l = openAt(t, dir, o)
				if got := readAll(t, l, 0, 1000, LogEnd); len(got) != len(batches) || !samePrefix(got, batches) {
					t.Fatalf("%s, want %s", offsetsOf(got), offsetsOf(batches))
				}
				checkFiles(t, l)
				if e, end := l.EndOffsetForEpoch(0); e != 0 || end != l.EndOffset() {
					t.Errorf("epoch 0 ends as %d at %d", e, end)
				}
				if info, err := l.Append(idempotent(t, 1, 0, 118, 2), 0, nowMs); err != nil || !info.Duplicate {
					t.Errorf("last batch again: %+v, %v", info, err)
				}
				if offset, _, _, ok, err := l.OffsetForTime(nowMs); !ok || offset != 0 || err != nil {
					t.Errorf("offset for time: %d %v %v", offset, ok, err)
				}
			})
		}
	}
}

// TestDamagedIndex scribbles over the indexes of a log that was closed in order. They carry no checksum, so that reads must
// not believe them blindly.
func TestDamagedIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	base := memDir(t)
	dir := filepath.Join(base, "topic-0")
	o, batches := written(t, dir, nil)
	l := openAt(t, dir, o)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.RecoveryPoint, o.CleanShutdown = l.RecoveryPoint(), true
	paths, err := filepath.Glob(filepath.Join(dir, "*.index"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		copied := filepath.Join(base, fmt.Sprint(i), "topic-0")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(copied, filepath.Base(paths[rng.IntN(len(paths))]))
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(4) {
			raw[rng.IntN(len(raw))] = byte(rng.IntN(256))
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		l := openAt(t, copied, o)
		for _, b := range batches {
			s, err := l.Read(b.LastOffset(), 1, LogEnd, true)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := s.AppendTo(nil)
			s.Release()
			if err != nil || !bytes.Equal(raw, b) {
				t.Fatalf("%s: read at %d: %d bytes, %v", filepath.Base(path), b.LastOffset(), len(raw), err)
			}
		}
		l.Close()
		os.RemoveAll(filepath.Dir(copied))
	}
}

func TestOldFormatIsNotCutOff(t *testing.T) {
	dir := filepath.Join(memDir(t), "topic-0")
	o, _ := written(t, dir, nil)
	// A message of format 0 as Kafka 0.8 wrote it: offset, size, CRC, magic, attributes, null key, value "hello".
	old := []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x13\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x05hello")
	copy(old[12:], []byte{0x87, 0xa7, 0x7a, 0xb2})
	path := lastSegment(t, dir, logSuffix)
	if err := os.WriteFile(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, o); !errors.Is(err, errOldFormat) {
		t.Errorf("open: %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || !bytes.Equal(raw, old) {
		t.Errorf("the file was changed: %v", err)
	}
}

// TestFailedWrite has the disk fail, and with it the log, until it is opened again.
func TestFailedWrite(t *testing.T) {
	eio := errors.New("input/output error")
	for _, kind := range []disk.Kind{disk.Write, disk.Create, disk.Sync, disk.Rename} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			broken := false
			dir := filepath.Join(memDir(t), "topic-0")
			o := testOptions()
			o.Config.SegmentBytes = 500
			o.FS = &disk.FS{Hook: func(op disk.Op) error {
				if broken && op.Kind == kind {
					return eio
				}
				return nil
			}}
			var told error
			o.OnFailure = func(_ *Log, err error) { told = err }
			l := openAt(t, dir, o)
			n := 0
			for ; n < 5; n++ {
				mustAppend(t, l, batchOf(t, 1, nowMs))
			}
			held, err := l.Read(0, 1<<20, LogEnd, true)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Release()
			l.SetHighWatermark(3)
			broken = true
			for err == nil {
				if _, err = l.Append(batchOf(t, 1, nowMs), 0, nowMs); err == nil {
					n++
					err = l.Flush()
				}
				if err == nil {
					c := l.Config()
					c.RetentionBytes = 0
					l.SetConfig(c)
					_, err = l.Retain(nowMs)
				}
			}
			if !errors.Is(err, kerr.KafkaStorageError) || !errors.Is(err, eio) || !errors.Is(told, eio) {
				t.Errorf("failed with %v, told %v", err, told)
			}
			for what, err := range map[string]error{
				"append": second(l.Append(batchOf(t, 1, nowMs), 0, nowMs)), "read": second(l.Read(0, 1, LogEnd, true)),
				"flush": l.Flush(), "truncate": l.TruncateTo(0), "retain": second(l.Retain(nowMs)), "offset for time": l.Err(),
			} {
				if !errors.Is(err, kerr.KafkaStorageError) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := held.AppendTo(nil); err != nil {
				t.Errorf("slice held: %v", err)
			}
			l.Close()
			broken = false
			again := openAt(t, dir, o)
			if again.EndOffset() != int64(n) && again.EndOffset() != int64(n)+1 {
				t.Errorf("end %d after %d appends", again.EndOffset(), n)
			}
			mustAppend(t, again, batchOf(t, 1, nowMs))
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestShortWrite has the disk take a part of a batch only.
func TestShortWrite(t *testing.T) {
	dir := filepath.Join(memDir(t), "topic-0")
	o := testOptions()
	full := false
	o.FS = &disk.FS{Hook: func(op disk.Op) error {
		if full && op.Kind == disk.Write {
			if _, err := op.File.WriteAt(op.Data[:len(op.Data)/2], op.Offset); err != nil {
				t.Error(err)
			}
			return errors.New("no space left on device")
		}
		return nil
	}}
	l := openAt(t, dir, o)
	mustAppend(t, l, batchOf(t, 3, nowMs))
	size := l.SizeBytes()
	full = true
	if _, err := l.Append(batchOf(t, 3, nowMs), 0, nowMs); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("append: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "00000000000000000000.log"))
	if err != nil || info.Size() != size {
		t.Errorf("the file has %d bytes, want %d: %v", info.Size(), size, err)
	}
}

// A segment that somebody has taken away is missed by who reads it, and the log is not to be trusted then.
func TestReadOfAVanishedSegment(t *testing.T) {
	dir := filepath.Join(memDir(t), "t-0")
	var told error
	o, _ := written(t, dir, nil)
	o.OnFailure = func(_ *Log, err error) { told = err }
	l := openAt(t, dir, o)
	first := (*l.segments.Load())[0]
	if err := os.Rename(first.path(logSuffix), first.path(logSuffix)+".gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(0, 1, LogEnd, true); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("read: %v", err)
	}
	if told == nil || l.Err() == nil {
		t.Errorf("the log goes on (told %v)", told)
	}
}
