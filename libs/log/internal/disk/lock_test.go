package disk

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockIsGivenBackWhateverElseHasTheFile closes a lock while another descriptor of it is open, as in a program that is being started.
func TestLockIsGivenBackWhateverElseHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := unix.Dup(int(first.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
