//go:build conformance

package protocol

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// TestLz4FramesThatJavaCannotRead: Java's client reads no frame whose blocks depend on each other, so a batch with one
// would stop every Java consumer of the partition; Kafka refuses it.
func TestLz4FramesThatJavaCannotRead(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "lz4-frames", 1)
	const version, independent = 0x40, 0x20
	for _, tc := range []struct {
		name     string
		flags    byte
		accepted bool
	}{
		{"independent blocks", version | independent, true},
		{"dependent blocks", version, false},
	} {
		code := produce(t, c, wire.Produce(topic.Name, 0, lz4Batch(tc.flags))).ErrorCode
		if (code == 0) != tc.accepted {
			t.Errorf("%s: %s, want accepted %v", tc.name, codeName(code), tc.accepted)
		}
	}
}

// lz4Batch is a batch whose records are a frame with one stored block and the given flags.
func lz4Batch(flags byte) []byte {
	plain := wire.Batch{Records: records(3, baseMs)}.Encode()
	batch, body := plain[:wire.HeaderSize:wire.HeaderSize], plain[wire.HeaderSize:]
	descriptor := []byte{flags, 0x40}
	batch = append(batch, 0x04, 0x22, 0x4d, 0x18)
	batch = append(batch, descriptor...)
	batch = append(batch, byte(xxh32(descriptor)>>8))
	batch = binary.LittleEndian.AppendUint32(batch, uint32(len(body))|1<<31)
	batch = append(batch, body...)
	batch = binary.LittleEndian.AppendUint32(batch, 0)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[22] |= 3
	wire.Seal(batch)
	return batch
}

// xxh32 is the checksum of lz4's frame descriptors, for fewer than 4 bytes.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p5 = 2654435761, 2246822519, 3266489917, 374761393
	h := uint32(p5) + uint32(len(b))
	for _, x := range b {
		h = bits.RotateLeft32(h+uint32(x)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
