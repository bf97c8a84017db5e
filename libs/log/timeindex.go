package log

import (
	"encoding/binary"

	"github.com/cauce-stream/cauce/libs/record"
)

// timeIndex is the .timeindex file: 12-byte entries of the largest timestamp so far (64 bits) and the last offset of the
// batch that brought it, relative to the segment's base (32 bits). Both ascend.
type timeIndex struct {
	table
	// The largest timestamp so far and the last offset of its batch, under table.mu. Before the first use they are
	// those of the last entry, which a sealed index ends with: maxMs is unknownMs until then.
	maxMs, maxOffset int64
}

func (x *timeIndex) init(s *segment, suffix string, width int) {
	x.file = lazyFile{seg: s, suffix: suffix}
	x.width = width
	x.maxMs = unknownMs
}

// forget empties the index.
func (x *timeIndex) forget() {
	x.reset(0)
	x.setMax(record.NoTimestamp, x.file.seg.base)
}

func (x *timeIndex) setMax(ms, offset int64) {
	x.mu.Lock()
	x.maxMs, x.maxOffset = ms, offset
	x.mu.Unlock()
}

// max is the largest timestamp of the segment and the last offset of its batch; NoTimestamp and the base when there is
// none.
func (x *timeIndex) max() (ms, offset int64, err error) {
	x.mu.RLock()
	ms, offset = x.maxMs, x.maxOffset
	x.mu.RUnlock()
	if ms != unknownMs {
		return ms, offset, nil
	}
	if ms, offset, err = x.last(); err != nil {
		return 0, 0, err
	}
	x.mu.Lock()
	if x.maxMs == unknownMs {
		x.maxMs, x.maxOffset = ms, offset
	}
	ms, offset = x.maxMs, x.maxOffset
	x.mu.Unlock()
	return ms, offset, nil
}

// note takes a batch's largest timestamp into account. The index must be loaded, as that of an active segment is.
func (x *timeIndex) note(ms, lastOffset int64) {
	x.mu.Lock()
	if ms > x.maxMs {
		x.maxMs, x.maxOffset = ms, lastOffset
	}
	x.mu.Unlock()
}

// addMax enters the largest timestamp so far, unless the index has it.
func (x *timeIndex) addMax() error {
	ms, offset, err := x.max()
	if err != nil {
		return err
	}
	last, _, err := x.last()
	if err != nil || ms <= last {
		return err
	}
	var e [12]byte
	binary.BigEndian.PutUint64(e[:], uint64(ms))
	binary.BigEndian.PutUint32(e[8:], uint32(offset-x.file.seg.base))
	return x.append(e[:])
}

// last is the newest entry; NoTimestamp and the base when there is none.
func (x *timeIndex) last() (ms, offset int64, err error) {
	n := x.entries()
	if n == 0 {
		return record.NoTimestamp, x.file.seg.base, nil
	}
	e, err := x.at(n - 1)
	ms, offset = x.decode(e)
	return ms, offset, err
}

func (x *timeIndex) decode(e entry) (ms, offset int64) {
	return int64(binary.BigEndian.Uint64(e[:])), x.file.seg.base + int64(int32(binary.BigEndian.Uint32(e[8:])))
}

// lookup is an offset before which the segment holds no timestamp of ms or later.
func (x *timeIndex) lookup(ms int64) (offset int64, err error) {
	// Entries bear the first batch that reached their timestamp, so the last one below ms is a safe place to begin.
	n, e, err := x.search(ms-1, 0, 8)
	if n < 0 || err != nil {
		return x.file.seg.base, err
	}
	_, offset = x.decode(e)
	return offset, nil
}

// cutFrom removes the entries of offset and above.
func (x *timeIndex) cutFrom(offset int64) error {
	n, _, err := x.search(offset-x.file.seg.base-1, 8, 4)
	if err != nil {
		return err
	}
	return x.truncate(n + 1)
}
