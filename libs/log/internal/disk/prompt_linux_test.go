//go:build amd64 || arm64

package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The ordinary way would hide it if these calls never did anything.
func TestRawCalls(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := bytes.Repeat([]byte("0123456789"), 500)
	if n := writeRaw(file, want, 3); n != len(want) {
		t.Fatalf("%d of %d bytes written", n, len(want))
	}
	got := make([]byte, len(want))
	n := readCached(file, got, 3)
	if uncertain.Load() {
		t.Skip("this file system does not say that a read would have to wait")
	}
	if n != len(want) || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes read back: %.20q", n, len(want), got)
	}
	if n := readCached(file, got, 3+int64(len(want))-10); n != 10 {
		t.Errorf("%d bytes before the end, of 10", n)
	}
}
