package bench

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// stampSize is how many bytes at the start of a value tell when its record was due, so that a
// consumer can measure the way from there. Smaller values carry no stamp.
const stampSize = 16

var stampMagic = []byte("cauce\x01bm")

func stamp(value []byte, due time.Time) {
	if len(value) >= stampSize {
		copy(value, stampMagic)
		binary.BigEndian.PutUint64(value[len(stampMagic):], uint64(due.UnixNano()))
	}
}

// stamped returns when the record with this value was due.
func stamped(value []byte) (due time.Time, ok bool) {
	if len(value) < stampSize || !bytes.HasPrefix(value, stampMagic) {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value[len(stampMagic):]))), true
}

const words = "the river carried silt and song past orchards quarries mills until every stream had found its bed "

// payload makes values of one size out of a block of prepared bytes.
type payload struct {
	block []byte
	size  int
	next  int
}

// newPayload prepares values: random does not compress, text compresses about as logs do, zero
// compresses to nothing.
func newPayload(kind string, size int) (*payload, error) {
	block := make([]byte, 1<<20+size)
	random := rand.New(rand.NewPCG(1, 1))
	switch kind {
	case "random":
		for i := 0; i < len(block); i += 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], random.Uint64())
			copy(block[i:], word[:])
		}
	case "text":
		list := bytes.SplitAfter([]byte(words), []byte(" "))
		for i := 0; i < len(block); {
			i += copy(block[i:], list[random.IntN(len(list)-1)])
		}
	case "zero":
	default:
		return nil, exit.Usagef("--payload %q: must be random, text or zero", kind)
	}
	return &payload{block: block, size: size}, nil
}

// fill returns the next value in dst, which grows as needed.
func (p *payload) fill(dst []byte) []byte {
	p.next = (p.next + 4099) % (len(p.block) - p.size + 1)
	return append(dst[:0], p.block[p.next:p.next+p.size]...)
}
