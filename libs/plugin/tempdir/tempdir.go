// Package tempdir makes temporary folders that do not stay behind: a process that is killed removes nothing, so that the next one that makes a folder of
// the kind removes those whose owner has ended.
package tempdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// attempts bounds how often a name is chosen anew because another process took the folder for one left behind, between its making and its locking.
const attempts = 100

// Dir is a folder that this process owns, by a lock on the folder itself, until Remove or the end of the process.
type Dir struct {
	Path string
	lock *os.File
}

// New makes a folder among the system's temporary ones, which this user alone can read, with a name that begins with prefix. Folders of this user whose
// names begin so and whose owner has ended are removed; what of them cannot be is told to complain. A prefix must be used with New alone.
func New(prefix string, complain func(error)) (*Dir, error) {
	if err := sweep(prefix); err != nil {
		complain(fmt.Errorf("temporary folders left behind: %w", err))
	}
	for range attempts {
		path, err := os.MkdirTemp("", prefix)
		if err != nil {
			return nil, err
		}
		lock, err := own(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), os.Remove(path))
		}
		if lock != nil {
			return &Dir{Path: path, lock: lock}, nil
		}
	}
	return nil, fmt.Errorf("%s: no temporary folder %s… could be kept in %d attempts", os.TempDir(), prefix, attempts)
}

// Remove removes the folder with all that is in it.
func (d *Dir) Remove() error {
	return errors.Join(os.RemoveAll(d.Path), d.lock.Close())
}

// sweep removes the folders whose owners have ended.
func sweep(prefix string) error {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return err
	}
	var faults []error
	for _, e := range entries {
		path := filepath.Join(os.TempDir(), e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) || !ours(path) {
			continue
		}
		switch lock, err := own(path); {
		case err != nil:
			faults = append(faults, err)
		case lock != nil:
			faults = append(faults, (&Dir{Path: path, lock: lock}).Remove())
		}
	}
	return errors.Join(faults...)
}

// ours says whether a folder belongs to this user: root could remove those of others as well.
func ours(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false // it has just been removed
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// own locks a folder. It returns nil when another process has it, or when it is no longer there. Only who holds the lock of a folder removes it, so that the
// path goes on leading to what was locked.
func own(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && leadsTo(path, f) {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// leadsTo says whether a path still leads to a file that was opened by it.
func leadsTo(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(there, opened)
}
