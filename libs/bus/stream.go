package bus

import (
	"encoding/binary"
	"fmt"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// Update is one push of an ordered stream. It names its predecessor, so that a follower sees a lost one at the next.
type Update struct {
	PrevOffset, Offset int64
	Payload            []byte
	// Trace is the span that it comes of; not valid for none. It goes with the update only when it is sampled.
	Trace trace.SpanContext
}

// Step is what a follower does with an update.
type Step int

const (
	// Stale is an update that the follower already has.
	Stale Step = iota
	// Follows is the update right after the follower's offset.
	Follows
	// Gap means that updates before this one were lost: they have to be fetched.
	Gap
)

// After says what u is to a follower that stands at offset at.
func (u Update) After(at int64) Step {
	switch {
	case u.Offset <= at:
		return Stale
	case u.PrevOffset <= at:
		return Follows
	default:
		return Gap
	}
}

const updateHeaderBytes = 16

// Push sends u to the stream's followers, in several messages if it is larger than the bus's payload. It does not wait:
// a follower that misses it sees a gap.
func (c *Conn) Push(subject string, u Update) error {
	data := make([]byte, 0, updateHeaderBytes+len(u.Payload))
	data = binary.BigEndian.AppendUint64(data, uint64(u.PrevOffset))
	data = binary.BigEndian.AppendUint64(data, uint64(u.Offset))
	data = append(data, u.Payload...)
	m := &nats.Msg{Subject: subject, Data: data}
	if u.Trace.IsSampled() {
		m.Header = nats.Header{tracing.ParentHeader: []string{string(tracing.AppendParent(nil, u.Trace))}}
	}
	if err := publishChunked(c.nc, m); err != nil {
		return sendError(subject, err)
	}
	return nil
}

// Follow hands each update of a stream to deliver, in the order pushed and one at a time; some may be missing. The payload is deliver's to keep.
func (c *Conn) Follow(subject string, deliver func(Update)) (*Subscription, error) {
	var asm assembler
	return c.subscribe(subject, "", func(m *nats.Msg) {
		header, data, whole := asm.add(m)
		if !whole {
			return
		}
		u, err := decodeUpdate(data)
		if err != nil {
			c.log.Warn(err.Error())
			return
		}
		if parent := header[tracing.ParentHeader]; len(parent) > 0 {
			u.Trace = tracing.ParseParent([]byte(parent[0]))
		}
		deliver(u)
	})
}

func decodeUpdate(data []byte) (Update, error) {
	if len(data) < updateHeaderBytes {
		return Update{}, fmt.Errorf("bus: update of %d bytes", len(data))
	}
	return Update{
		PrevOffset: int64(binary.BigEndian.Uint64(data)),
		Offset:     int64(binary.BigEndian.Uint64(data[8:])),
		Payload:    data[updateHeaderBytes:],
	}, nil
}
