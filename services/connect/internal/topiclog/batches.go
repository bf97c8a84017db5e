package topiclog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cauce-stream/cauce/libs/record"
)

// aborted is a transaction that came to nothing: the producer's records from the offset on, to its next marker.
type aborted struct {
	producerID, firstOffset int64
}

// follow calls visit for the records of fetched batches from the position on, and returns the position after them. Those of transactions that were
// aborted are left out, and so is what is no record of a client's. A batch that is cut short at the end is for the next fetch.
func follow(partition int32, position int64, batches []byte, transactions []aborted, visit func(Record)) (int64, error) {
	slices.SortFunc(transactions, func(a, b aborted) int { return int(max(-1, min(1, a.firstOffset-b.firstOffset))) })
	open := map[int64]bool{}
	for {
		batch, rest, err := record.Next(batches)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return position, nil
		}
		if err != nil {
			return position, fmt.Errorf("partition %d from offset %d: %w", partition, position, err)
		}
		batches = rest
		if err := batch.CheckCRC(); err != nil {
			return position, fmt.Errorf("partition %d, batch at offset %d: %w", partition, batch.BaseOffset(), err)
		}
		for len(transactions) > 0 && transactions[0].firstOffset <= batch.LastOffset() {
			open[transactions[0].producerID] = true
			transactions = transactions[1:]
		}
		switch {
		case batch.IsControl():
			m, ended, err := batch.Marker()
			if err != nil {
				return position, fmt.Errorf("partition %d, batch at offset %d: %w", partition, batch.BaseOffset(), err)
			}
			if ended && m.Type == record.Abort {
				delete(open, batch.ProducerID())
			}
		case !batch.IsTransactional() || !open[batch.ProducerID()]:
			if err := records(partition, position, batch, visit); err != nil {
				return position, err
			}
		}
		position = max(position, batch.LastOffset()+1)
	}
}

func records(partition int32, position int64, batch record.Batch, visit func(Record)) error {
	for r, err := range batch.Records(0) {
		if err != nil {
			return fmt.Errorf("partition %d, batch at offset %d: %w", partition, batch.BaseOffset(), err)
		}
		if offset := batch.Offset(r); offset >= position {
			visit(Record{partition, offset, batch.Timestamp(r), bytes.Clone(r.Key), bytes.Clone(r.Value)})
		}
	}
	return nil
}
