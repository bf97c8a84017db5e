package record

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

const goldenTime = 1700000000000

// goldenRecords appends what testdata/golden/Golden.java puts into its batches.
func goldenRecords(b *Builder, large int) {
	b.SetProducer(4711, 3, 42)
	b.SetTransactional()
	b.Append(goldenTime+5, nil, nil)
	b.Append(goldenTime, []byte{}, []byte{})
	b.Append(goldenTime+100000, []byte("key"), []byte("value"),
		Header{[]byte("naïve"), []byte("ja")}, Header{[]byte("null"), nil}, Header{[]byte("empty"), []byte{}})
	value := make([]byte, large)
	for i := range value {
		value[i] = byte('a' + i%23)
	}
	b.Append(goldenTime-3, []byte("large"), value)
	for i := range 100 {
		b.Append(goldenTime+int64(i), fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "value number %d", i))
	}
}

func golden(t testing.TB, name string) Batch {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "golden", name+".batch"))
	if err != nil {
		t.Fatal(err)
	}
	b, rest, err := Next(raw)
	if err != nil || len(rest) != 0 {
		t.Fatalf("%s: %v, %d bytes left", name, err, len(rest))
	}
	return b
}

func TestKafkasUncompressedBatchIsOurs(t *testing.T) {
	b := NewBuilder()
	goldenRecords(b, 10)
	if want, got := golden(t, "none"), mustBuild(t, b, None); !bytes.Equal(want, got) {
		t.Errorf("ours:\n%x\nKafka's:\n%x", got, want)
	}
}

func TestKafkasMarkersAreOurs(t *testing.T) {
	for name, kind := range map[string]ControlType{"commit": Commit, "abort": Abort} {
		want := golden(t, name)
		m := Marker{Type: kind, CoordinatorEpoch: 7}
		if got := EndTransaction(m, 4711, 3, goldenTime); !bytes.Equal(want, got) {
			t.Errorf("ours:\n%x\nKafka's:\n%x", got, want)
		}
		if got, ok, err := want.Marker(); got != m || !ok || err != nil {
			t.Errorf("%s reads as %+v, %v, %v", name, got, ok, err)
		}
		if _, err := Validate(want, ValidateOptions{AllowControl: true}); err != nil {
			t.Error(err)
		}
	}
}

func TestKafkasCompressedBatches(t *testing.T) {
	builder := NewBuilder()
	goldenRecords(builder, 200000)
	plain := mustBuild(t, builder, None)
	for name, codec := range map[string]Codec{"gzip": Gzip, "snappy": Snappy, "lz4": Lz4, "zstd": Zstd, "zstd-22": Zstd} {
		t.Run(name, func(t *testing.T) {
			b := golden(t, name)
			if b.Codec() != codec {
				t.Fatalf("codec %v", b.Codec())
			}
			s, err := Validate(b, ValidateOptions{Strict: true})
			if want := (Summary{MaxTimestampMs: goldenTime + 100000, MaxTimestampDelta: 2, Count: 104}); s != want || err != nil {
				t.Errorf("summary %+v, %v, want %+v", s, err, want)
			}
			sameRecords(t, b, plain)
			uncompressed, err := Recompress(b, None, 0)
			if err != nil || !bytes.Equal(uncompressed, plain) {
				t.Errorf("without its compression it differs: %v", err)
			}
		})
	}
}

func sameRecords(t *testing.T, got, want Batch) {
	t.Helper()
	var list []string
	for r, err := range want.Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, describe(want, r))
	}
	i := 0
	for r, err := range got.Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(list) || describe(got, r) != list[i] {
			t.Fatalf("record %d is %.200s", i, describe(got, r))
		}
		i++
	}
	if i != len(list) {
		t.Fatalf("%d records, want %d", i, len(list))
	}
}

// describe tells null from empty, and long fields by their CRC.
func describe(b Batch, r Record) string {
	s := fmt.Sprintf("%d@%d %s=%s", b.Offset(r), b.Timestamp(r), describeBytes(r.Key), describeBytes(r.Value))
	for h := range r.Headers() {
		s += fmt.Sprintf(" %s=%s", describeBytes(h.Key), describeBytes(h.Value))
	}
	return s
}

func describeBytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%.20q…%d/%08x", b, len(b), crc32.Checksum(b, castagnoli))
}
