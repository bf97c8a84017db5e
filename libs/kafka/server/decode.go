package server

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var errTooManyTopics = errors.New("more topics than the request can hold data for")

// decode reads body into m, whose version is set.
//
// kmsg refuses arrays that the remaining bytes could not hold at the smallest size of an element, so what a
// request allocates is proportional to its size. The factor is up to some tens, which the bound on plain
// requests (plainMaxBodyBytes) makes harmless. Produce has no such bound, hence its own check.
func decode(m kmsg.Request, body []byte) error {
	if m.Key() != int16(kmsg.Produce) {
		return m.ReadFrom(body)
	}
	if err := checkProduceTopics(body, m.IsFlexible()); err != nil {
		return err
	}
	if u, ok := m.(kmsg.UnsafeReadFrom); ok {
		return u.UnsafeReadFrom(body)
	}
	return m.ReadFrom(body)
}

// minProduceTopicBytes is less than any topic takes that has a batch, whose header alone is 61 bytes.
const minProduceTopicBytes = 64

// checkProduceTopics refuses a topic count that only topics without data could reach. Small requests may
// hold as many as they like.
func checkProduceTopics(body []byte, flexible bool) error {
	const smallBody = 64 << 10
	if len(body) <= smallBody {
		return nil
	}
	count := uint64(0)
	if flexible {
		size, n := binary.Uvarint(body) // transactional id, length+1
		if size > 0 {
			size--
		}
		if n <= 0 || size > uint64(len(body)-n-6) {
			return io.ErrUnexpectedEOF
		}
		count, _ = binary.Uvarint(body[n+int(size)+6:]) // after acks and timeout
	} else {
		size := max(int(int16(binary.BigEndian.Uint16(body))), 0)
		count = uint64(max(0, int32(binary.BigEndian.Uint32(body[2+size+6:])))) // size < 32 KiB, the body is larger
	}
	if count > uint64(len(body)/minProduceTopicBytes) {
		return errTooManyTopics
	}
	return nil
}
