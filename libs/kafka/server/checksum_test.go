package server

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/crc32c"
)

// TestChecksumOfAReceivedPart sends bodies of many sizes and asks for the checksums of their parts.
func TestChecksumOfAReceivedPart(t *testing.T) {
	ask := make(chan []int, 1)
	got := make(chan bool, 1)
	handle := func(r *Request) {
		at := <-ask
		right := true
		for i, from := range at {
			for _, to := range at[i:] {
				from, to := max(min(from, to, len(r.Body)), 0), max(min(max(from, to), len(r.Body)), 0)
				right = right && r.Checksum(r.Body[from:to]) == crc32c.Checksum(r.Body[from:to])
			}
		}
		other := []byte("not of this body")
		got <- right && r.Checksum(other) == crc32c.Checksum(other)
		r.ReplyNothing()
	}
	srv := start(t, Config{MaxRequestBytes: 100 << 20}, Deps{},
		API{Key: int16(kmsg.Produce), MinVersion: 3, MaxVersion: 9, Handle: handle, Inline: true, Checksums: true})
	c := srv.dial()
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 1000, crc32c.ChunkBytes, 2*crc32c.ChunkBytes - 20, 2 * crc32c.ChunkBytes, 3*crc32c.ChunkBytes + 7, 2<<20 + 11} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(r.Uint32())
		}
		ask <- []int{0, 61, crc32c.ChunkBytes - 10, crc32c.ChunkBytes, size / 2, size - 1, size}
		head := binary.BigEndian.AppendUint32(nil, uint32(10+size))
		head = binary.BigEndian.AppendUint16(head, uint16(kmsg.Produce))
		head = append(head, 0, 3, 0, 0, 0, 1, 0xff, 0xff) // version, correlation id, no client id
		c.send(append(head, body...))
		if !<-got {
			t.Errorf("a body of %d bytes: a checksum is wrong", size)
		}
	}
}
