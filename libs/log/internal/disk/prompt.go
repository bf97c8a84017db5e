package disk

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// A small read or write of what the page cache holds is over in 10 µs. To tell Go's scheduler of it costs several times that in
// a process that is otherwise idle, because it wakes the runtime's monitor, a thread of its own (package socket has the same
// story). What the scheduler is not told of keeps a processor, though, for as long as it lasts, and the garbage collector waits
// for it. A read that would have to wait says so instead (RWF_NOWAIT). A write cannot, on most file systems: so the gate lets one
// pass at a time, and none for a while once one was slow.
const (
	promptBytes  = 16 << 10
	promptTime   = time.Millisecond
	promptsAfter = 10 * time.Second // one that took longer than promptTime
)

// gate admits writes that the scheduler is not told of. It is the process's, as the processors are.
type gate struct {
	taken atomic.Bool
	opens atomic.Int64 // since started, in ns
}

var (
	writes  gate
	started = time.Now()
	// several says that one processor may be kept busy.
	several = runtime.GOMAXPROCS(0) > 1
)

// enter reports whether a write may pass, who then has to leave.
func (g *gate) enter(now time.Duration) bool {
	return int64(now) >= g.opens.Load() && g.taken.CompareAndSwap(false, true)
}

func (g *gate) leave(entered, now time.Duration) {
	if now-entered > promptTime {
		g.opens.Store(int64(now + promptsAfter))
	}
	g.taken.Store(false)
}

// ReadAt reads len(b) bytes at off, as [io.ReaderAt].
func ReadAt(file *os.File, b []byte, off int64) (int, error) {
	if 0 < len(b) && len(b) <= promptBytes && readCached(file, b, off) == len(b) {
		return len(b), nil
	}
	return file.ReadAt(b, off)
}

// writeAt writes b at off, as [io.WriterAt].
func writeAt(file *os.File, b []byte, off int64) (int, error) {
	n := 0
	if 0 < len(b) && len(b) <= promptBytes && several {
		if entered := time.Since(started); writes.enter(entered) {
			n = writeRaw(file, b, off)
			writes.leave(entered, time.Since(started))
		}
	}
	if n == len(b) {
		return n, nil
	}
	rest, err := file.WriteAt(b[n:], off+int64(n)) // which tells what is wrong, if anything is
	return n + rest, err
}
