package log

import "encoding/binary"

// offsetIndex is the .index file: 8-byte entries of a batch's last offset, relative to the segment's base, and the
// batch's position in the .log, both 32 bits big-endian.
type offsetIndex struct{ table }

func (x *offsetIndex) init(s *segment, suffix string, width int) {
	x.file = lazyFile{seg: s, suffix: suffix}
	x.width = width
}

// add enters a batch. Its offset must be above all before.
func (x *offsetIndex) add(lastOffset, pos int64) error {
	var e [8]byte
	binary.BigEndian.PutUint32(e[:], uint32(lastOffset-x.file.seg.base))
	binary.BigEndian.PutUint32(e[4:], uint32(pos))
	return x.append(e[:])
}

// lookup is the position of a batch at or before the one that holds offset.
func (x *offsetIndex) lookup(offset int64) (pos int64, err error) {
	n, e, err := x.search(offset-x.file.seg.base, 0, 4)
	if n < 0 || err != nil {
		return 0, err
	}
	return int64(int32(binary.BigEndian.Uint32(e[4:]))), nil
}

// before is the position of a batch at or before pos.
func (x *offsetIndex) before(pos int64) (int64, error) {
	n, e, err := x.search(pos, 4, 4)
	if n < 0 || err != nil {
		return 0, err
	}
	return int64(int32(binary.BigEndian.Uint32(e[4:]))), nil
}

// after is the last offset of a batch that begins at pos or behind it; false when the index knows none.
func (x *offsetIndex) after(pos int64) (offset int64, ok bool, err error) {
	n, _, err := x.search(pos-1, 4, 4)
	if err != nil || n+1 >= x.entries() {
		return 0, false, err
	}
	e, err := x.at(n + 1)
	return x.file.seg.base + int64(int32(binary.BigEndian.Uint32(e[:]))), err == nil, err
}

// last is the newest entry; the base and 0 when there is none.
func (x *offsetIndex) last() (offset, pos int64, err error) {
	n := x.entries()
	if n == 0 {
		return x.file.seg.base, 0, nil
	}
	e, err := x.at(n - 1)
	offset = x.file.seg.base + int64(int32(binary.BigEndian.Uint32(e[:])))
	return offset, int64(int32(binary.BigEndian.Uint32(e[4:]))), err
}

// cutFrom removes the entries of offset and above.
func (x *offsetIndex) cutFrom(offset int64) error {
	n, _, err := x.search(offset-x.file.seg.base-1, 0, 4)
	if err != nil {
		return err
	}
	return x.truncate(n + 1)
}
