package log

import (
	"os"

	"golang.org/x/sys/unix"
)

// preallocate reserves blocks for size bytes without changing the file's size, so that what lies beyond the records is
// never mistaken for any. It is an optimisation: a file system that cannot do it does without.
func preallocate(f *os.File, size int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
}
