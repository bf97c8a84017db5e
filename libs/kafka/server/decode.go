package server

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errTooManyTopics = errors.New("more topics and partitions than the request can hold data for")

// decode reads body into m, whose version is set.
//
// kmsg refuses arrays that the remaining bytes could not hold at the smallest size of an element, so what a
// request allocates is proportional to its size. The factor is up to some tens, which the bound on plain
// requests (plainMaxBodyBytes) makes harmless. Produce has no such bound, hence its own check.
func decode(m kmsg.Request, body []byte) error {
	if m.Key() != int16(kmsg.Produce) {
		return m.ReadFrom(body)
	}
	if err := checkProduceTopics(body, m.GetVersion(), m.IsFlexible()); err != nil {
		return err
	}
	if u, ok := m.(kmsg.UnsafeReadFrom); ok {
		return u.UnsafeReadFrom(body)
	}
	return m.ReadFrom(body)
}

// minProducePartitionBytes is less than any partition takes that has a batch, whose header alone is 61 bytes.
const minProducePartitionBytes = 64

// checkProduceTopics refuses more topics and partitions than could have data each: they cost hundreds of bytes of memory and
// of answer for six bytes of request. Small requests may hold as many as they like. It allocates nothing, and leaves a body
// that is cut short to the decoder.
func checkProduceTopics(body []byte, version int16, flexible bool) error {
	const smallBody = 64 << 10
	if len(body) <= smallBody {
		return nil
	}
	b := kbin.Reader{Src: body}
	most := len(body) / minProducePartitionBytes
	left := most
	array := func() int {
		n := b.ArrayLen
		if flexible {
			n = b.CompactArrayLen
		}
		return int(n())
	}
	if flexible {
		b.UnsafeCompactNullableString()
	} else {
		b.UnsafeNullableString()
	}
	b.Span(6) // acks, timeout
	topics := array()
	if topics > most {
		return errTooManyTopics
	}
	for ; topics > 0 && b.Ok(); topics-- {
		switch {
		case version >= 13:
			b.Span(16)
		case flexible:
			b.UnsafeCompactString()
		default:
			b.UnsafeString()
		}
		partitions := array()
		if left -= max(partitions, 0); left < 0 {
			return errTooManyTopics
		}
		for ; partitions > 0 && b.Ok(); partitions-- {
			b.Span(4)
			if flexible {
				b.CompactNullableBytes()
				kmsg.SkipTags(&b)
			} else {
				b.NullableBytes()
			}
		}
		if flexible {
			kmsg.SkipTags(&b)
		}
	}
	return nil
}
