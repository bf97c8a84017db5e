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
// for it. A read that would have to wait says so instead (RWF_NOWAIT), but may first have the disk read ahead; a write cannot say
// so on most file systems. So a gate lets one of them pass at a time, and none for a while once one was slow.
const (
	promptBytes  = 16 << 10
	promptTime   = time.Millisecond
	promptsAfter = 10 * time.Second // one that took longer than promptTime
)

// gate admits calls that the scheduler is not told of. It is the process's, as the processors are.
type gate struct {
	taken atomic.Bool
	opens atomic.Int64 // since started, in ns
}

var (
	reads, writes gate
	started       = time.Now()
	// several says that one processor may be kept busy. It is as of the start.
	several = runtime.GOMAXPROCS(0) > 1
)

// enter reports whether a call may pass, whose caller then has to leave.
func (g *gate) enter(now time.Duration) bool {
	return int64(now) >= g.opens.Load() && g.taken.CompareAndSwap(false, true)
}

func (g *gate) leave(entered, now time.Duration) {
	if now-entered > promptTime {
		g.opens.Store(int64(now + promptsAfter))
	}
	g.taken.Store(false)
}

// pass makes call, which returns how many of the bytes are done, if they are few and the gate is open.
func (g *gate) pass(call func(*os.File, []byte, int64) int, file *os.File, b []byte, off int64) int {
	// The system takes an offset below zero for the file's own position.
	if !several || len(b) == 0 || len(b) > promptBytes || off < 0 {
		return 0
	}
	entered := time.Since(started)
	if !g.enter(entered) {
		return 0
	}
	n := call(file, b, off)
	g.leave(entered, time.Since(started))
	return n
}

// ReadAt reads len(b) bytes at off, as [io.ReaderAt].
func ReadAt(file *os.File, b []byte, off int64) (int, error) {
	if n := reads.pass(readCached, file, b, off); n > 0 && n == len(b) {
		return n, nil
	}
	return file.ReadAt(b, off)
}

// writeAt writes b at off, as [io.WriterAt]. The file must not be one that is only appended to (O_APPEND).
func writeAt(file *os.File, b []byte, off int64) (int, error) {
	n := writes.pass(writeRaw, file, b, off)
	if n > 0 && n == len(b) {
		return n, nil
	}
	rest, err := file.WriteAt(b[n:], off+int64(n)) // which tells what is wrong, if anything is
	return n + rest, err
}
