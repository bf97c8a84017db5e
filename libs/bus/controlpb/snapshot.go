package controlpb

import (
	"encoding/binary"
	"fmt"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// A snapshot is the image's offset in 8 bytes, then its records in batches (package metadata) of a bounded number each.
const snapshotBatchRecords = 1000

// EncodeSnapshot writes an image down as controllers keep and send it.
func EncodeSnapshot(im *metadata.Image) ([]byte, error) {
	b := binary.BigEndian.AppendUint64(nil, uint64(im.Offset()))
	batch := make([]*metadatapb.Record, 0, snapshotBatchRecords)
	var err error
	for r := range im.Records() {
		if batch = append(batch, r); len(batch) == snapshotBatchRecords {
			if b, err = metadata.AppendBatch(b, batch); err != nil {
				return nil, err
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		b, err = metadata.AppendBatch(b, batch)
	}
	return b, err
}

// DecodeSnapshot reads what EncodeSnapshot wrote; no bytes at all are the empty image.
func DecodeSnapshot(b []byte) (*metadata.Image, error) {
	if len(b) == 0 {
		return metadata.Empty(), nil
	}
	if len(b) < 8 {
		return nil, fmt.Errorf("metadata snapshot of %d bytes", len(b))
	}
	offset, b := int64(binary.BigEndian.Uint64(b)), b[8:]
	if offset < 0 {
		return metadata.Empty(), nil
	}
	return metadata.Restore(offset, func(yield func([]*metadatapb.Record, error) bool) {
		for len(b) > 0 {
			recs, rest, err := metadata.NextBatch(b)
			if !yield(recs, err) || err != nil {
				return
			}
			b = rest
		}
	})
}
