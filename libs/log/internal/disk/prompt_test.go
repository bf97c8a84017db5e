package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestGateLetsOnePassAndNoneAfterASlowOne(t *testing.T) {
	var g gate
	if !g.enter(0) {
		t.Fatal("closed to the first")
	}
	if g.enter(0) {
		t.Fatal("a second passed beside the first")
	}
	g.leave(0, promptTime)
	if !g.enter(promptTime) {
		t.Fatal("closed after one that was not slow")
	}
	slow := 2*promptTime + 1
	g.leave(promptTime, slow)
	if g.enter(slow + promptsAfter - 1) {
		t.Error("open too soon after a slow one")
	}
	if !g.enter(slow + promptsAfter) {
		t.Error("still closed")
	}
}

// What is small and what is not, and what lies partly behind the end, is read and written as by [os.File].
func TestReadAndWriteAt(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content := make([]byte, 3*promptBytes)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	var off int64
	for _, size := range []int{1, promptBytes, promptBytes + 1, 0, promptBytes - 2} {
		part := content[off:][:size]
		if n, err := writeAt(file, part, off); n != size || err != nil {
			t.Fatalf("write of %d at %d: %d, %v", size, off, n, err)
		}
		off += int64(size)
	}
	for _, size := range []int{0, 1, 100, promptBytes, promptBytes + 1} {
		for _, at := range []int64{0, 1, off - int64(size)} {
			got := make([]byte, size)
			if n, err := ReadAt(file, got, at); n != size || err != nil || !bytes.Equal(got, content[at:][:size]) {
				t.Errorf("read of %d at %d: %d, %v", size, at, n, err)
			}
		}
	}
	got := make([]byte, 20)
	if n, err := ReadAt(file, got, -1); n != 0 || err == nil {
		t.Errorf("read before the beginning: %d, %v", n, err)
	}
	if n, err := writeAt(file, got, -1); n != 0 || err == nil {
		t.Errorf("write before the beginning: %d, %v", n, err)
	}
	if n, err := ReadAt(file, got, off-5); n != 5 || err != io.EOF || !bytes.Equal(got[:5], content[off-5:off]) {
		t.Errorf("read behind the end: %d, %v", n, err)
	}
}

// A write that fails tells why: which file, and what the system said.
func TestWriteAtOfAFileThatIsReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n, err := writeAt(file, []byte("x"), 0)
	var where *fs.PathError
	if n != 0 || !errors.As(err, &where) || where.Path != path {
		t.Errorf("%d, %v", n, err)
	}
	if writes.taken.Load() {
		t.Error("the gate stays taken")
	}
}

func TestSmallReadsAndWritesAllocateNothing(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := make([]byte, 1000)
	allocs := testing.AllocsPerRun(100, func() {
		_, err1 := writeAt(file, b, 0)
		_, err2 := ReadAt(file, b, 0)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%.1f allocations", allocs)
	}
}
