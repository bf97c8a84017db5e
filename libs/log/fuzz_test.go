package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/record"
)

func FuzzDecodeEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n0 7\n4 112\n"))
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decodeEpochs(b)
		if err != nil {
			if !errors.Is(err, errBadEpochs) {
				t.Error(err)
			}
			return
		}
		if again, err := decodeEpochs(encodeEpochs(entries)); err != nil || !slices.Equal(again, entries) {
			t.Errorf("%v became %v, %v", entries, again, err)
		}
	})
}

func FuzzDecodeMetadata(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: avd1pckITR-31pmHHnbRKg"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeMetadata(b)
		if err != nil {
			if !errors.Is(err, errBadMetadata) {
				t.Error(err)
			}
			return
		}
		if again, err := decodeMetadata(encodeMetadata(id)); err != nil || again != id {
			t.Errorf("%x became %x, %v", id, again, err)
		}
	})
}

// FuzzDecodeProducers reads arbitrary snapshots. The CRC is set right, so that what is behind it is reached.
func FuzzDecodeProducers(f *testing.F) {
	kafkas, err := os.ReadFile("testdata/kafka/unclean/single-0/00000000000000000105.snapshot")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(kafkas)
	f.Add((&producers{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > snapshotHeader {
			binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[snapshotHeader:], castagnoli))
		}
		s, err := decodeProducers(b, 10)
		if err != nil {
			if !errors.Is(err, errBadSnapshot) {
				t.Error(err)
			}
			return
		}
		s.firstUnstable()
		s.expire(0, 0)
		again, err := decodeProducers(s.encode(), 10)
		if err != nil || !bytes.Equal(again.encode(), s.encode()) {
			t.Errorf("%x was not read back: %v", b, err)
		}
	})
}

// fuzzFolder is a log of a few batches in two segments, closed in order.
func fuzzFolder(f *testing.F) (dir string, o Options, end int64) {
	dir = filepath.Join(memDir(f), "topic-0")
	o = testOptions()
	o.Config.SegmentBytes, o.Config.IndexIntervalBytes = 1200, 0
	l := openAt(f, dir, o)
	for i := range 10 {
		mustAppend(f, l, idempotent(f, 1, 0, int32(3*i), 3))
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	o.RecoveryPoint = l.RecoveryPoint()
	return dir, o, l.EndOffset()
}

// use does all that reads a log; it may fail but not go wrong.
func use(t *testing.T, l *Log) {
	for offset := l.StartOffset(); offset < l.EndOffset(); {
		s, err := l.Read(offset, 300, LogEnd, true)
		if err != nil || s.Size() == 0 {
			break
		}
		raw, err := s.AppendTo(nil)
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := record.Next(raw)
		if err != nil || b.LastOffset() < offset {
			break
		}
		offset = b.LastOffset() + 1
	}
	for _, ms := range []int64{0, nowMs, nowMs + 1} {
		_, _, _, _, _ = l.OffsetForTime(ms)
	}
	_, _, _, _, _ = l.MaxTimestamp()
	_, _ = l.AbortedTxns(nil, 0, l.EndOffset())
	_, _ = l.Append(batchOf(t, 1, nowMs), 0, nowMs)
	_ = l.TruncateTo(4)
}

// FuzzIndexFiles opens a log whose offset, time or transaction index holds arbitrary bytes.
func FuzzIndexFiles(f *testing.F) {
	dir, o, _ := fuzzFolder(f)
	for i, suffix := range []string{indexSuffix, timeSuffix} {
		raw, err := os.ReadFile(filepath.Join(dir, fileName(0, suffix)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), raw)
	}
	f.Add(uint8(2), abortedTxn{1, 0, 5, 6}.encode())
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		copied := filepath.Join(memDir(t), "topic-0")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		name := fileName(0, []string{indexSuffix, timeSuffix, txnSuffix}[which%3])
		if which%2 == 1 { // the active segment's
			name = filepath.Base(lastSegment(t, dir, logSuffix))
			name = name[:len(name)-len(logSuffix)] + []string{indexSuffix, timeSuffix, txnSuffix}[which%3]
		}
		if err := os.WriteFile(filepath.Join(copied, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, clean := range []bool{true, false} {
			o := o
			o.CleanShutdown = clean
			if l, err := Open(copied, o); err == nil {
				use(t, l)
				l.Close()
			}
		}
	})
}

// FuzzSegment recovers arbitrary bytes behind a valid segment. What is valid stays.
func FuzzSegment(f *testing.F) {
	dir, o, end := fuzzFolder(f)
	path := lastSegment(f, dir, logSuffix)
	f.Add([]byte("garbage that is no batch at all, but longer than the header of one would be, which counts"))
	next := batchOf(f, 2, nowMs)
	next.SetBaseOffset(end)
	f.Add([]byte(next))
	f.Add(make([]byte, 500))
	f.Fuzz(func(t *testing.T, tail []byte) {
		copied := filepath.Join(memDir(t), "topic-0")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(copied, filepath.Base(path))
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(raw, tail...), 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := Open(copied, o)
		if err != nil {
			if !errors.Is(err, errOldFormat) {
				t.Fatal(err)
			}
			return
		}
		if l.EndOffset() < end {
			t.Errorf("end %d, want at least %d", l.EndOffset(), end)
		}
		checkFiles(t, l)
		use(t, l)
		l.Close()
	})
}
