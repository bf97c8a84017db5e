package quorum

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOpenWaitsForProgramsBeingStarted opens a log while what a program that is being started has of this process still holds its locks.
func TestOpenWaitsForProgramsBeingStarted(t *testing.T) {
	cfg := alone(t.TempDir())
	v := run(t, cfg)
	held := duplicates(t, cfg.Dir)
	if len(held) == 0 {
		t.Fatal("no file of the log is open")
	}
	v.stop()
	time.AfterFunc(lockWait/20, func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	})
	run(t, cfg).stop()
}

// duplicates has the open files below a directory a second time.
func duplicates(t *testing.T, dir string) []int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var of []int
	for _, name := range names {
		path, err := os.Readlink(filepath.Join("/proc/self/fd", name.Name()))
		if err != nil || !strings.HasPrefix(path, dir) {
			continue // such as that of the directory read here, closed by now
		}
		fd, err := strconv.Atoi(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		other, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, other)
	}
	return of
}
