package log

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// epochsFile is the leader-epoch checkpoint, text of a version line (0), a line with the count, and a line
// "epoch start-offset" for each.
const epochsFile = "leader-epoch-checkpoint"

var errBadEpochs = errors.New("malformed leader epoch checkpoint")

// epochStart says that the batches from start on, up to the next entry's, were written under epoch.
type epochStart struct {
	epoch int32
	start int64
}

// epochs is the history of leader epochs of a log, ascending in both fields. Methods are safe for concurrent use.
type epochs struct {
	mu      sync.RWMutex
	entries []epochStart
	dirty   bool // the file does not have them
}

// assign notes that epoch begins at start. Entries at or above either, which the new one contradicts, go.
func (e *epochs) assign(epoch int32, start int64) {
	if epoch < 0 {
		return
	}
	e.mu.RLock()
	n := len(e.entries)
	known := n > 0 && e.entries[n-1].epoch == epoch && e.entries[n-1].start <= start
	e.mu.RUnlock()
	if known {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n = len(e.entries)
	for n > 0 && (e.entries[n-1].epoch >= epoch || e.entries[n-1].start >= start) {
		n--
	}
	e.entries = append(e.entries[:n:n], epochStart{epoch, start})
	e.dirty = true
}

// latest is the newest epoch, or -1.
func (e *epochs) latest() int32 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if len(e.entries) == 0 {
		return -1
	}
	return e.entries[len(e.entries)-1].epoch
}

// at is the epoch in force at offset, or -1.
func (e *epochs) at(offset int64) int32 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, x := range slices.Backward(e.entries) {
		if x.start <= offset {
			return x.epoch
		}
	}
	return -1
}

// endOf is the largest known epoch that is not above epoch and the offset where the next one begins, which is logEnd for
// the latest (KIP-101, KIP-279). An epoch older than all known begins where the first known one does. Unknown is -1, -1.
func (e *epochs) endOf(epoch int32, logEnd int64) (int32, int64) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	n := len(e.entries)
	if epoch < 0 || n == 0 || epoch > e.entries[n-1].epoch {
		return -1, -1
	}
	if epoch == e.entries[n-1].epoch {
		return epoch, logEnd
	}
	i := 0
	for e.entries[i].epoch <= epoch {
		i++
	}
	if i == 0 {
		return epoch, e.entries[0].start
	}
	return e.entries[i-1].epoch, e.entries[i].start
}

// cutFrom removes the entries that begin at end or above.
func (e *epochs) cutFrom(end int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.entries)
	for n > 0 && e.entries[n-1].start >= end {
		n--
	}
	if n < len(e.entries) {
		e.entries, e.dirty = e.entries[:n:n], true
	}
}

// cutBefore lets the history begin at start.
func (e *epochs) cutBefore(start int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := -1
	for i+1 < len(e.entries) && e.entries[i+1].start <= start {
		i++
	}
	if i < 0 || i == 0 && e.entries[0].start == start {
		return
	}
	e.entries = slices.Clone(e.entries[i:])
	e.entries[0].start = start
	e.dirty = true
}

// take returns the file's new content, or nil when the file has it; it then counts as written.
func (e *epochs) take() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.dirty {
		return nil
	}
	e.dirty = false
	return encodeEpochs(e.entries)
}

// untake makes up for a take whose content could not be written.
func (e *epochs) untake() {
	e.mu.Lock()
	e.dirty = true
	e.mu.Unlock()
}

func encodeEpochs(entries []epochStart) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(entries))
	for _, x := range entries {
		fmt.Fprintf(&b, "%d %d\n", x.epoch, x.start)
	}
	return b.Bytes()
}

// decodeEpochs reads the file. The error wraps errBadEpochs.
func decodeEpochs(b []byte) ([]epochStart, error) {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, fmt.Errorf("version %q: %w", lines[0], errBadEpochs)
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%q entries in %d lines: %w", lines[1], len(lines)-2, errBadEpochs)
	}
	entries := make([]epochStart, 0, n)
	for _, line := range lines[2:] {
		epoch, start, _ := strings.Cut(line, " ")
		e, err1 := strconv.ParseInt(epoch, 10, 32)
		s, err2 := strconv.ParseInt(start, 10, 64)
		if err1 != nil || err2 != nil || e < 0 || s < 0 {
			return nil, fmt.Errorf("line %q: %w", line, errBadEpochs)
		}
		x := epochStart{int32(e), s}
		if k := len(entries); k > 0 && (entries[k-1].epoch >= x.epoch || entries[k-1].start >= x.start) {
			return nil, fmt.Errorf("line %q does not ascend: %w", line, errBadEpochs)
		}
		entries = append(entries, x)
	}
	return entries, nil
}
