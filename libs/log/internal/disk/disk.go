// Package disk is the one place where the log and its directories change the file system, so that a test can see every
// change, refuse it, or lose what was not synced.
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Kind is what an Op does.
type Kind uint8

const (
	Create   Kind = iota // Path is made or emptied; File is its handle
	Write                // Data goes to Offset of File
	Truncate             // File gets the size Offset
	Sync                 // File reaches the disk
	Rename               // Path becomes To
	Remove               // Path goes away, with all it holds when it is a folder
	Mkdir                // Path is a new folder
	SyncDir              // the entries of folder Path reach the disk
	SyncAll              // everything on the file system of Path does
)

// Op is one change about to be made.
type Op struct {
	Kind     Kind
	Path, To string
	File     *os.File
	Offset   int64
	Data     []byte
}

// FS changes the file system. A nil *FS is the ordinary one.
type FS struct {
	// Hook is asked before every change (after it, for Create, which has no handle before). An error stops the change
	// and is returned to the caller, but for Skip from a sync, which counts as success.
	Hook func(Op) error
}

// Skip makes a sync count as made: a test that plays the disk itself need not wait for the real one.
var Skip = errors.New("skip")

func (f *FS) hook(op Op) error {
	if f == nil || f.Hook == nil {
		return nil
	}
	return f.Hook(op)
}

// Create opens path for reading and writing, making it or emptying it.
func (f *FS) Create(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := f.hook(Op{Kind: Create, Path: path, File: file}); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// WriteAt writes all of p at off, or returns how much of it was written.
func (f *FS) WriteAt(file *os.File, p []byte, off int64) (int, error) {
	if f != nil {
		if err := f.hook(Op{Kind: Write, File: file, Offset: off, Data: p}); err != nil {
			return 0, err
		}
	}
	return writeAt(file, p, off)
}

// Truncate sets the size of file.
func (f *FS) Truncate(file *os.File, size int64) error {
	if err := f.hook(Op{Kind: Truncate, File: file, Offset: size}); err != nil {
		return err
	}
	return file.Truncate(size)
}

// Reserve takes blocks for size bytes from offset on without changing the file's size, so that what lies beyond its content is never
// mistaken for any. It is an optimisation: a file system that cannot do it does without.
func (f *FS) Reserve(file *os.File, offset, size int64) {
	_ = reserve(file, offset, size)
}

// Sync brings the content and size of file to the disk.
func (f *FS) Sync(file *os.File) error {
	if err := f.hook(Op{Kind: Sync, File: file}); err != nil {
		return unlessSkip(err)
	}
	return datasync(file)
}

func unlessSkip(err error) error {
	if err == Skip {
		return nil
	}
	return err
}

// SetModified sets the time at which a file last changed.
func (f *FS) SetModified(path string, t time.Time) error { return os.Chtimes(path, time.Time{}, t) }

// Rename moves a file or folder.
func (f *FS) Rename(from, to string) error {
	if err := f.hook(Op{Kind: Rename, Path: from, To: to}); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Remove takes a file, or a folder with all it holds, away. One that is gone already is no error.
func (f *FS) Remove(path string) error {
	if err := f.hook(Op{Kind: Remove, Path: path}); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// MkdirAll makes a folder and its missing parents.
func (f *FS) MkdirAll(path string) error {
	if err := f.hook(Op{Kind: Mkdir, Path: path}); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o755)
}

// SyncDir brings the entries of a folder to the disk.
func (f *FS) SyncDir(path string) error {
	if err := f.hook(Op{Kind: SyncDir, Path: path}); err != nil {
		return unlessSkip(err)
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncAll brings everything on the file system that path lies on to the disk.
func (f *FS) SyncAll(path string) error {
	if err := f.hook(Op{Kind: SyncAll, Path: path}); err != nil {
		return unlessSkip(err)
	}
	return syncAll(path)
}

// WriteFile replaces path by a file of that content so that, whatever happens, path holds the old content or the new.
// With sync it has reached the disk on return.
func (f *FS) WriteFile(path string, content []byte, sync bool) error {
	tmp := path + ".tmp"
	file, err := f.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(file, content, 0)
	if err == nil && sync {
		err = f.Sync(file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Rename(tmp, path); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	return f.SyncDir(filepath.Dir(path))
}

// ErrLocked says that somebody else holds a lock.
var ErrLocked = errors.New("locked by somebody else")

// FileLock is a file's exclusive lock that is held.
type FileLock struct{ file *os.File }

// Lock takes the exclusive lock of a file, making it if it is missing, until it is closed. It does not wait: the
// error wraps ErrLocked when somebody holds it.
func Lock(path string) (*FileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		file.Close()
		return nil, err
	}
	return &FileLock{file}, nil
}

// Close gives the lock back at once, where closing the file alone would leave it with a program that is just being started, such as a plugin: it has this
// process's files until the kernel has closed them for it.
func (l *FileLock) Close() error { return errors.Join(unlock(l.file), l.file.Close()) }
