package log

import (
	"encoding/binary"
	"fmt"
	"sync"
)

const (
	tailMax  = 512 // entries a table holds in memory before it writes them out…
	tailKeep = 256 // …and keeps, so that lookups near the end stay out of the file
)

// table is an index file: entries of one width in ascending order, appended to at the end. The newest entries lie in
// memory, the others in the file, which is read with pread: a write through a mapping would stall on a page fault and
// turn an I/O error into a signal. Lookups are safe beside the one writer, which the log's mutex makes.
type table struct {
	mu      sync.RWMutex
	file    lazyFile
	width   int
	count   int    // entries in all
	written int    // of them in the file
	tail    []byte // the entries [count - len(tail)/width, count)
}

// reset forgets all entries but n, which are in the file.
func (t *table) reset(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count, t.written, t.tail = n, n, nil
}

func (t *table) entries() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.count
}

func (t *table) first() int { return t.count - len(t.tail)/t.width }

// append adds an entry, which must be in order. Entries reach the file tailMax at a time.
func (t *table) append(entry []byte) error {
	if len(t.tail) >= tailMax*t.width {
		if err := t.write(); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tail) >= tailMax*t.width {
		n := copy(t.tail, t.tail[len(t.tail)-tailKeep*t.width:])
		t.tail = t.tail[:n]
	}
	t.tail = append(t.tail, entry...)
	t.count++
	return nil
}

// write brings the file up to date.
func (t *table) write() error {
	if t.written == t.count {
		return nil
	}
	h, err := t.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	pending := t.tail[len(t.tail)-(t.count-t.written)*t.width:]
	if _, err := t.file.seg.fs.WriteAt(h.File, pending, int64(t.written*t.width)); err != nil {
		return err
	}
	t.mu.Lock()
	t.written = t.count
	t.mu.Unlock()
	return nil
}

// shrink writes everything out and frees the memory and the descriptor.
func (t *table) shrink() error {
	if err := t.write(); err != nil {
		return err
	}
	t.mu.Lock()
	t.tail = nil
	t.mu.Unlock()
	t.file.drop()
	return nil
}

// truncate keeps the first n entries, in memory and in the file.
func (t *table) truncate(n int) error {
	t.mu.Lock()
	if n >= t.count {
		t.mu.Unlock()
		return nil
	}
	cut := t.written > n
	if first := t.first(); n > first {
		t.tail = t.tail[:(n-first)*t.width]
	} else {
		t.tail = nil
	}
	t.count, t.written = n, min(n, t.written)
	t.mu.Unlock()
	if !cut {
		return nil
	}
	h, err := t.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return t.file.seg.fs.Truncate(h.File, int64(n*t.width))
}

// sync brings all entries to the disk.
func (t *table) sync() error {
	h, err := t.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return t.file.seg.fs.Sync(h.File)
}

// entry is one entry; a table of 8-byte entries leaves the rest zero.
type entry [12]byte

// at is entry i.
func (t *table) at(i int) (e entry, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i < 0 || i >= t.count {
		return e, fmt.Errorf("entry %d of %d in %s", i, t.count, t.file.seg.path(t.file.suffix))
	}
	if first := t.first(); i >= first {
		copy(e[:t.width], t.tail[(i-first)*t.width:])
		return e, nil
	}
	h, err := t.file.acquire()
	if err != nil {
		return e, err
	}
	defer h.release()
	return t.read(h, i)
}

func (t *table) read(h *handle, i int) (e entry, err error) {
	buf := scratch.Get().(*[scratchSize]byte)
	defer scratch.Put(buf)
	err = h.readFull(buf[:t.width], int64(i*t.width))
	copy(e[:t.width], buf[:])
	return e, err
}

// search finds the last entry whose key is not above key, and its number; -1 when there is none. Keys are the
// big-endian integers of keyWidth (4 or 8) bytes at keyAt, ascending.
func (t *table) search(key int64, keyAt, keyWidth int) (n int, e entry, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	first := t.first()
	if len(t.tail) > 0 && keyOf(t.tail[keyAt:], keyWidth) <= key {
		n = searchBlock(t.tail, t.width, key, keyAt, keyWidth)
		copy(e[:t.width], t.tail[n*t.width:])
		return first + n, e, nil
	}
	if first == 0 {
		return -1, e, nil
	}
	h, err := t.file.acquire()
	if err != nil {
		return -1, e, err
	}
	defer h.release()
	return t.searchFile(h, first, key, keyAt, keyWidth)
}

// searchFile is search among the first n entries of the file. It reads blocks, of which few are needed: 32-bit keys grow
// evenly enough that a guess from the last one mostly hits, and every other block halves what is left.
func (t *table) searchFile(h *handle, n int, key int64, keyAt, keyWidth int) (int, entry, error) {
	buf := scratch.Get().(*[scratchSize]byte)
	defer scratch.Put(buf)
	var e entry
	perBlock := scratchSize / t.width
	last := int64(0)
	if keyWidth == 4 && n > perBlock {
		if err := h.readFull(buf[:t.width], int64((n-1)*t.width)); err != nil {
			return -1, e, err
		}
		last = keyOf(buf[keyAt:], keyWidth)
	}
	lo, hi := -1, n // entry lo is not above key, entry hi is
	for guess := last > 0; hi-lo > 1; guess = !guess && last > 0 {
		at := lo + (hi-lo)/2
		if guess {
			at = min(max(int(float64(key)/float64(last)*float64(n)), lo+1), hi-1)
		}
		first := max(lo+1, at-perBlock/2)
		block := buf[:min(perBlock, hi-first)*t.width]
		if err := h.readFull(block, int64(first*t.width)); err != nil {
			return -1, e, err
		}
		i := searchBlock(block, t.width, key, keyAt, keyWidth)
		if i < 0 {
			hi = first
			continue
		}
		lo = first + i
		copy(e[:t.width], block[i*t.width:])
		if i+1 < len(block)/t.width {
			break // the next entry is above
		}
	}
	return lo, e, nil
}

// searchBlock is search among the entries in b.
func searchBlock(b []byte, width int, key int64, keyAt, keyWidth int) int {
	lo, hi := -1, len(b)/width
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if keyOf(b[mid*width+keyAt:], keyWidth) <= key {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func keyOf(b []byte, width int) int64 {
	if width == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return int64(int32(binary.BigEndian.Uint32(b)))
}

const scratchSize = 4096

// scratch lends blocks for reading headers and index entries.
var scratch = sync.Pool{New: func() any { return new([scratchSize]byte) }}
