package coordinator

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// Log is where shards are stored. Errors that say what the brokers answered wrap a *kerr.Error; any other error is that of
// the way to them. Batches are not kept after a call.
type Log interface {
	// Append has the batch appended to the shard's partition with acks=all and returns its base offset. It is refused with
	// kerr.NotCoordinator once the shard has a newer epoch. A batch that is sent again keeps its sequence, a later one has a
	// greater one: an append that has failed may still take effect, but not after one of a greater sequence or a newer epoch.
	Append(ctx context.Context, shard, epoch int32, sequence int64, batch record.Batch) (offset int64, err error)
	// Start is the offset of the log's first record.
	Start(ctx context.Context, shard int32) (offset int64, err error)
	// Read returns batches that are committed, from the one that holds offset on: about maxBytes, but one whole batch at
	// least. The last one may be cut short. Nothing is returned at the end.
	Read(ctx context.Context, shard int32, offset int64, maxBytes int) ([]byte, error)
}

// verdict is what a failed append means for its shard.
type verdict int8

const (
	again   verdict = iota // the same batch may be sent again
	lost                   // the shard is another's
	refused                // the log will never take the batch
)

func judge(err error) verdict {
	var k *kerr.Error
	switch {
	case errors.Is(err, kerr.NotCoordinator):
		return lost
	case !errors.As(err, &k) || k.Retriable:
		return again
	default:
		return refused
	}
}

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}
