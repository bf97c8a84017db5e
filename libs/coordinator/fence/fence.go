// Package fence is how the owner of a shard proves to the leader of the shard's partition that it still is the owner, and in
// which order its appends belong.
//
// A partition of a Produce request to a coordinators' topic carries a [Token] as a tagged field, which every server that
// does not know it skips (KIP-482). The leader appends the batch only if
//   - LeaderEpoch is the epoch under which it leads, so that nothing sent to an earlier leader can be appended later;
//   - Epoch is the shard's epoch in the leader's metadata image; it waits for its image when Epoch is newer;
//   - Sequence is greater than that of every batch it has appended for the epoch. A batch with the last one's sequence is
//     that batch again, and is answered without being appended.
//
// So a batch that was sent, given up and overtaken by later ones is never appended, however late it arrives.
package fence

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tag is the number of the tagged field, far above those that Kafka gives out one by one.
const tag = 0x6373

const size = 4 + 4 + 8

// Token is the right to append one batch to a shard.
type Token struct {
	// Epoch is the shard's (metadata.Shard), at least 1.
	Epoch int32
	// LeaderEpoch is that of the partition's leader to whom the batch is sent.
	LeaderEpoch int32
	// Sequence numbers the batches under one Epoch, rising. A batch that is sent again keeps its number.
	Sequence int64
}

// Put adds the token to the tagged fields of a partition.
func (t Token) Put(tags *kmsg.Tags) {
	b := make([]byte, 0, size)
	b = binary.BigEndian.AppendUint32(b, uint32(t.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(t.LeaderEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Sequence))
	tags.Set(tag, b)
}

// Get finds the token among the tagged fields of a partition. The error wraps kerr.InvalidRequest when there is one that
// cannot be read.
func Get(tags *kmsg.Tags) (t Token, ok bool, err error) {
	if tags.Len() == 0 {
		return t, false, nil
	}
	tags.Each(func(key uint32, b []byte) {
		switch {
		case key != tag:
		case len(b) != size:
			err = fmt.Errorf("coordinator's token of %d bytes instead of %d: %w", len(b), size, kerr.InvalidRequest)
		default:
			t = Token{
				Epoch:       int32(binary.BigEndian.Uint32(b)),
				LeaderEpoch: int32(binary.BigEndian.Uint32(b[4:])),
				Sequence:    int64(binary.BigEndian.Uint64(b[8:])),
			}
			ok = true
		}
	})
	return t, ok, err
}
