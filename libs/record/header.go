package record

import "encoding/binary"

// maxFirstHeaders bounds the headers that FirstHeader looks at.
const maxFirstHeaders = 16

// FirstHeader is the value of a header of the batch's first record, a view into the batch; nil when there is none, when the batch is
// compressed, or when it is not well-formed, which nobody need have checked before. It allocates nothing.
func (b Batch) FirstHeader(key string) []byte {
	if b.Codec() != None || b.IsControl() || b.Count() < 1 {
		return nil
	}
	rest, ok := b.records(), true
	number := func() int {
		n, size := binary.Varint(rest)
		if size <= 0 || n > int64(len(rest)) || n < -1 {
			ok = false
			return 0
		}
		rest = rest[size:]
		return int(n)
	}
	field := func() []byte {
		n := number()
		if n < 0 {
			return nil
		}
		if n > len(rest) {
			ok = false
			return nil
		}
		value := rest[:n:n]
		rest = rest[n:]
		return value
	}
	body := field() // the record without its length
	if !ok || len(body) < 1 {
		return nil
	}
	rest = body[1:] // attributes
	for range 2 {   // deltas of timestamp and offset, of any size
		_, size := binary.Varint(rest)
		if size <= 0 {
			return nil
		}
		rest = rest[size:]
	}
	field() // key
	field() // value
	for n := min(number(), maxFirstHeaders); ok && n > 0; n-- {
		name := field()
		value := field()
		if ok && string(name) == key {
			return value
		}
	}
	return nil
}
