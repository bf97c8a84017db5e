package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync: the content and the size reach the disk, times need not.
func datasync(file *os.File) error {
	for {
		err := unix.Fdatasync(int(file.Fd()))
		switch err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &fs.PathError{Op: "fdatasync", Path: file.Name(), Err: err}
		}
	}
}

func reserve(file *os.File, offset, size int64) error {
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, size)
}

func syncAll(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

// lock takes an exclusive lock that Apache Kafka's (fcntl) respects and is respected by, and that other holders in this
// process respect too.
func lock(file *os.File) error {
	err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s: %w", file.Name(), ErrLocked)
	}
	return err
}

func unlock(file *os.File) error {
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}
