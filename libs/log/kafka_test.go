package log

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testdata/kafka holds folders that Apache Kafka 4.3.1 wrote: 20 idempotent batches of 5 records, four per codec, then
// transactions: 100-102 aborted at 105, 103-104 committed at 106, 107-108 aborted at 109, 110-111 open, and in "clean",
// which was started again and closed in order, aborted at 112. Segments of rolled-0 rolled by segment.ms=60, of single-0
// by 600000; index.interval.bytes was 100. "unclean" was killed; its preallocated index files are kept without the zeros.

// kafkaFolder is a copy of one of the folders, and the options to open it as Kafka's checkpoints say.
func kafkaFolder(t *testing.T, state, name string) (dir string, o Options) {
	t.Helper()
	dir = filepath.Join(memDir(t), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata/kafka", state, name))); err != nil {
		t.Fatal(err)
	}
	o = testOptions()
	o.Config.IndexIntervalBytes = 100
	o.NowMs = 1795990000000
	if state == "clean" {
		o.CleanShutdown, o.RecoveryPoint = true, 113
		return dir, o
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Size() == 0 && strings.HasSuffix(f.Name(), "index") && !strings.Contains(name, "plain") {
			if err := os.Truncate(filepath.Join(dir, f.Name()), 10485756); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, o
}

func TestOpenKafkasFolders(t *testing.T) {
	for _, state := range []string{"clean", "unclean"} {
		for _, name := range []string{"rolled-0", "single-0"} {
			t.Run(state+"/"+name, func(t *testing.T) {
				dir, o := kafkaFolder(t, state, name)
				l := openAt(t, dir, o)
				end := int64(112)
				if state == "clean" {
					end = 113
				}
				if l.StartOffset() != 0 || l.EndOffset() != end {
					t.Fatalf("offsets %d to %d, want 0 to %d", l.StartOffset(), l.EndOffset(), end)
				}
				checkKafkaRecords(t, l)
				checkKafkaState(t, l, state == "clean", name)
			})
		}
	}
}

func checkKafkaRecords(t *testing.T, l *Log) {
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	for _, b := range readAll(t, l, 0, 1000, LogEnd) {
		for r, err := range b.Records(0) {
			if err != nil {
				t.Fatal(err)
			}
			offset := b.Offset(r)
			if offset < 100 {
				if want := fmt.Sprintf("%s-%d", codecs[offset/20], offset%5); string(r.Value) != want {
					t.Errorf("offset %d: %s, want %s", offset, r.Value, want)
				}
			}
			if b.IsControl() {
				continue
			}
			// Timestamps ascend but for the interleaved transactions, so the first record of a time is this one.
			found, ms, _, ok, err := l.OffsetForTime(b.Timestamp(r))
			if err != nil || !ok || ms < b.Timestamp(r) || found > offset {
				t.Errorf("offset for time %d: %d at %d, %v, %v; want at most %d", b.Timestamp(r), found, ms, ok, err, offset)
			}
			if offset < 100 && (found != offset || ms != b.Timestamp(r)) {
				t.Errorf("offset for time %d: %d, want %d", b.Timestamp(r), found, offset)
			}
		}
	}
}

func checkKafkaState(t *testing.T, l *Log, clean bool, name string) {
	pids := int64(7)
	if name == "rolled-0" {
		pids = 0
	}
	var got []string
	for _, p := range l.Producers(1795990000000) {
		got = append(got, fmt.Sprintf("%d:%d:%d:%d:%d", p.ProducerID-pids, p.ProducerEpoch, p.LastSequence, p.CoordinatorEpoch, p.TxnStartOffset))
	}
	want := []string{"0:0:19:-1:-1", "1:0:19:-1:-1", "2:0:19:-1:-1", "3:0:19:-1:-1", "4:0:19:-1:-1"}
	aborted := []AbortedTxn{{pids + 5, 100}, {pids + 5, 107}}
	stable := int64(110)
	if clean {
		// A snapshot keeps no sequence for producers whose epoch a marker has raised.
		want = append(want, "5:2:-1:0:-1", "6:2:-1:4:-1")
		aborted = append(aborted, AbortedTxn{pids + 6, 110})
		stable = 113
	} else {
		want = append(want, "5:2:-1:0:-1", "6:1:1:0:110")
	}
	if !slices.Equal(got, want) {
		t.Errorf("producers %v, want %v", got, want)
	}
	l.SetHighWatermark(l.EndOffset())
	if l.StableOffset() != stable {
		t.Errorf("stable offset %d, want %d", l.StableOffset(), stable)
	}
	txns, err := l.AbortedTxns(nil, 0, l.EndOffset())
	if err != nil || !slices.Equal(txns, aborted) {
		t.Errorf("aborted %v, %v; want %v", txns, err, aborted)
	}
	if txns, err = l.AbortedTxns(nil, 0, 103); err != nil || !slices.Equal(txns, aborted[:1]) {
		t.Errorf("aborted below 103: %v, %v", txns, err)
	}
	if clean {
		if e, off := l.EndOffsetForEpoch(0); e != 0 || off != 112 {
			t.Errorf("epoch 0 ends as %d at %d", e, off)
		}
	}
}

// TestRecoveryMakesKafkasIndexes recovers Kafka's segments from the start and compares the indexes with those that
// Kafka wrote.
func TestRecoveryMakesKafkasIndexes(t *testing.T) {
	for _, name := range []string{"rolled-0", "single-0"} {
		dir, o := kafkaFolder(t, "clean", name)
		o.CleanShutdown, o.RecoveryPoint = false, 0
		want := indexFiles(t, dir)
		l := openAt(t, dir, o)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		got := indexFiles(t, dir)
		for _, file := range slices.Sorted(maps.Keys(want)) {
			if name == "single-0" && strings.HasPrefix(file, "00000000000000000112.") {
				continue // Kafka's snapshot of an earlier end, which begins no segment
			}
			if !bytes.Equal(want[file], got[file]) {
				t.Errorf("%s/%s: %x, Kafka has %x", name, file, got[file], want[file])
			}
		}
	}
}

func indexFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"*index", "*.snapshot", epochsFile, metadataFile} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			raw, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(p)] = raw
		}
	}
	return files
}

func TestKafkasSnapshot(t *testing.T) {
	path := "testdata/kafka/unclean/single-0/00000000000000000105.snapshot"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := decodeProducers(raw, 105)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.firstUnstable(); got != 100 {
		t.Errorf("first unstable offset %d", got)
	}
	if p := s.get(9); p == nil || p.lastSeq() != 19 || p.last().firstSeq() != 15 || p.last().firstOffset() != 55 || p.lastMs != 1795984640966 {
		t.Errorf("producer 9: %+v", p)
	}
	if again := s.encode(); !bytes.Equal(again, raw) {
		t.Errorf("written as %x, Kafka has %x", again, raw)
	}
}
