package record

// low takes a varint of one or two bytes off the low end of x, where a little-endian load has put it. It returns what it
// stands for before zigzag decoding, the rest of x and the bytes taken. A value of 1<<14 or more means that there
// was a third byte.
func low(x uint64) (v, rest uint64, n int) {
	if x&0x80 == 0 {
		return x & 0x7f, x >> 8, 1
	}
	return x&0x7f | x>>1&0x7f80, x >> 16, 2
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
