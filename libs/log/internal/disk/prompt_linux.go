//go:build amd64 || arm64

package disk

import (
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uncertain is set once a file system cannot say that a read would have to wait, as memory's own, tmpfs, or the system does not
// have or allow the call. It holds for all files of the process, most of which have all of theirs on one file system.
var uncertain atomic.Bool

// readCached reads what the page cache holds of the range, and returns how much that is.
func readCached(file *os.File, b []byte, off int64) int {
	if uncertain.Load() {
		return 0
	}
	part := unix.Iovec{Base: &b[0]}
	part.SetLen(len(b))
	// The offset comes in two halves, of which a kernel of 64 bits takes all from the first.
	n, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, file.Fd(), uintptr(unsafe.Pointer(&part)), 1, uintptr(off), uintptr(off>>32), unix.RWF_NOWAIT)
	switch errno {
	case unix.EOPNOTSUPP, unix.ENOSYS, unix.EPERM:
		uncertain.Store(true)
	}
	return count(file, n, errno)
}

// writeRaw writes b, and returns how much of it was written.
func writeRaw(file *os.File, b []byte, off int64) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, file.Fd(), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(off), 0, 0)
	return count(file, n, errno)
}

func count(file *os.File, n uintptr, errno unix.Errno) int {
	runtime.KeepAlive(file)
	if errno != 0 {
		return 0
	}
	return int(n)
}
