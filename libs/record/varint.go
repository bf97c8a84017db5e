package record

import "math"

// The cursors below return the position after what they read, or -1. A position of -1 goes in and comes out, so that a
// caller reads several fields and looks once.

// varint reads a zigzag varint of at most 32 bits at b[at].
func varint(b []byte, at int) (int, int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int(b[at]>>1) ^ -int(b[at]&1), at + 1
	}
	return longVarint(b, at)
}

func longVarint(b []byte, at int) (int, int) {
	v, at := varlong(b, at)
	if v < math.MinInt32 || v > math.MaxInt32 {
		return 0, -1
	}
	return int(v), at
}

// varlong reads a zigzag varint of at most 64 bits at b[at].
func varlong(b []byte, at int) (int64, int) {
	if at < 0 {
		return 0, -1
	}
	var v uint64
	for shift := 0; shift < 64 && at < len(b); shift += 7 {
		c := b[at]
		at++
		if c < 0x80 {
			if shift == 63 && c > 1 {
				return 0, -1
			}
			v |= uint64(c) << shift
			return int64(v>>1) ^ -int64(v&1), at
		}
		v |= uint64(c&0x7f) << shift
	}
	return 0, -1
}

// skip passes over n bytes at b[at], none when n is -1, which stands for null.
func skip(b []byte, at, n int) int {
	if at < 0 || n < -1 || n > len(b)-at {
		return -1
	}
	return at + max(n, 0)
}

// field reads a length and as many bytes, nil for a length of -1.
func field(b []byte, at int) ([]byte, int) {
	n, at := varint(b, at)
	end := skip(b, at, n)
	if end < 0 || n < 0 {
		return nil, end
	}
	return b[at:end:end], end
}

func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func varintSize(v int64) int {
	n := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
