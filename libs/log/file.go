package log

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cauce-stream/cauce/libs/log/internal/disk"
)

// handle is an open file that closes when its last holder lets go. A descriptor number that outlived its file would
// name another one, so nobody uses a handle without holding it.
type handle struct {
	*os.File
	refs atomic.Int32
}

// hold takes a share of h unless it is closed already.
func (h *handle) hold() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *handle) release() {
	if h.refs.Add(-1) == 0 {
		// What was written is synced through a handle before anybody relies on it, so this error has no reader.
		_ = h.Close()
	}
}

// lazyFile is one of a segment's files, opened when it is first needed and closed when it has been idle: ten thousand
// quiet partitions keep no descriptors.
type lazyFile struct {
	seg    *segment
	suffix string
	open   atomic.Pointer[handle] // owns one share
	mu     sync.Mutex             // serialises opening and closing
	used   atomic.Bool            // since the last dropIdle
}

// acquire returns a share of the file, opening it for reading and writing if need be. The caller releases it. The error wraps
// fs.ErrNotExist when the segment has just been replaced.
func (f *lazyFile) acquire() (*handle, error) {
	if !f.used.Load() {
		f.used.Store(true)
	}
	if h := f.open.Load(); h != nil && h.hold() {
		return h, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.open.Load(); h != nil && h.hold() {
		return h, nil
	}
	before := f.seg.stage.Load()
	file, err := os.OpenFile(f.seg.path(f.suffix), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if before != f.seg.stage.Load() { // it may be the file of what has taken the segment's place
		return nil, errors.Join(fs.ErrNotExist, file.Close())
	}
	return f.adopt(file), nil
}

// adopt makes file the open handle and returns a share of it. There must be none yet.
func (f *lazyFile) adopt(file *os.File) *handle {
	h := &handle{File: file}
	h.refs.Store(2)
	f.open.Store(h)
	return h
}

// drop lets go of the file; it closes once all who hold it have released it.
func (f *lazyFile) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.open.Swap(nil); h != nil {
		h.release()
	}
}

// dropIdle drops the file if it has not been used since the last call.
func (f *lazyFile) dropIdle() {
	if f.open.Load() != nil && !f.used.Swap(false) {
		f.drop()
	}
}

// readFull reads len(p) bytes at off; a file that ends before is io.ErrUnexpectedEOF.
func (h *handle) readFull(p []byte, off int64) error {
	n, err := disk.ReadAt(h.File, p, off)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Slice is a range of one segment's file that stays readable until Release, whatever happens to the segment: the
// descriptor closes with the last Release. The zero Slice is empty.
type Slice struct {
	h    *handle
	at   int64
	size int
	more bool // the segment is not the last one that the reader may see
	upTo int64
}

// File is the segment's file, for sendfile with an explicit offset only: it is shared, and must not be used after
// Release. Nil when the slice is empty.
func (s Slice) File() *os.File {
	if s.h == nil {
		return nil
	}
	return s.h.File
}

// More says that what the reader may see goes on in a later segment, whatever the range had room for.
func (s Slice) More() bool { return s.more }

// UpTo is an offset that no record of the range reaches, as AbortedTxns wants it. Only reads of committed records know it.
func (s Slice) UpTo() int64 { return s.upTo }

// Position is where the range begins in File, in bytes.
func (s Slice) Position() int64 { return s.at }

// Size is the length of the range in bytes.
func (s Slice) Size() int { return s.size }

// ReadAt reads len(p) bytes from off bytes into the range, as io.ReaderAt.
func (s Slice) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(s.size) {
		return 0, io.EOF
	}
	short := int64(len(p)) > int64(s.size)-off
	if short {
		p = p[:int64(s.size)-off]
	}
	n, err := disk.ReadAt(s.h.File, p, s.at+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// AppendTo appends the whole range to dst. A file that has become shorter is io.ErrUnexpectedEOF.
func (s Slice) AppendTo(dst []byte) ([]byte, error) {
	if s.h == nil {
		return dst, nil
	}
	n := len(dst)
	if cap(dst)-n < s.size {
		dst = append(make([]byte, 0, n+s.size), dst...)
	}
	dst = dst[:n+s.size]
	if err := s.h.readFull(dst[n:], s.at); err != nil {
		return dst[:n], err
	}
	return dst, nil
}

// Release gives the range up; it must be called exactly once for a non-empty Slice.
func (s Slice) Release() {
	if s.h != nil {
		s.h.release()
	}
}
