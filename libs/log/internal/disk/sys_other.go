//go:build !linux

package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func datasync(file *os.File) error { return file.Sync() }

func reserve(*os.File, int64) error { return errors.ErrUnsupported }

func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return fmt.Errorf("%s: %w", file.Name(), ErrLocked)
	}
	return err
}
