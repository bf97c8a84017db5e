package log

import (
	"os"
	"syscall"
	"testing"
)

// blockBytes is what a file takes on the disk.
func blockBytes(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// TestReservedBlocksAreGivenBack: a segment that grows keeps blocks for more, which never show in its size and are gone
// once it takes no more, also when a kill came in between.
func TestReservedBlocksAreGivenBack(t *testing.T) {
	dir := t.TempDir() + "/topic-0" // on a file system with blocks
	o := testOptions()
	o.Config.SegmentBytes = 24 << 20
	l := openAt(t, dir, o)
	grow := func(bytes int) {
		for range bytes / (900 << 10) {
			mustAppend(t, l, bytesOf(t, 900<<10))
		}
	}
	grow(2 << 20)
	path := lastSegment(t, dir, logSuffix)
	size := l.active().size.Load()
	if got := blockBytes(t, path); got > size+1<<20 {
		t.Errorf("a small segment of %d bytes takes %d", size, got)
	}
	grow(6 << 20)
	size = l.active().size.Load()
	if info, err := os.Stat(path); err != nil || info.Size() != size {
		t.Errorf("the file is %d bytes long, its batches %d (%v)", info.Size(), size, err)
	}
	if got := blockBytes(t, path); got < size+4<<20 {
		t.Skipf("the file system keeps no blocks: %d bytes take %d", size, got)
	}

	abandon(l)
	o.CleanShutdown = false
	l = openAt(t, dir, o)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := blockBytes(t, path); got > size+1<<20 {
		t.Errorf("closed, %d bytes take %d", size, got)
	}

	o.CleanShutdown = true
	l = openAt(t, dir, o)
	grow(20 << 20)
	if lastSegment(t, dir, logSuffix) == path {
		t.Fatal("the segment has not been rolled")
	}
	if got, size := blockBytes(t, path), (*l.segments.Load())[0].size.Load(); got > size+1<<20 {
		t.Errorf("rolled, %d bytes take %d", size, got)
	}
}
