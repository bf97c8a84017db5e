package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A .snapshot file is the producer state before the offset that names it: version int16 (1), CRC-32C of what follows
// uint32, count int32, and per producer id int64, epoch int16, last sequence int32, last offset int64, offset delta of
// the last batch int32, timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (-1).
const (
	snapshotVersion   = 1
	snapshotHeader    = 2 + 4
	snapshotEntrySize = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
)

var (
	castagnoli     = crc32.MakeTable(crc32.Castagnoli)
	errBadSnapshot = errors.New("malformed producer snapshot")
)

func (s *producers) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, snapshotHeader, snapshotHeader+4+len(s.byID)*snapshotEntrySize)
	be.PutUint16(b, snapshotVersion)
	b = be.AppendUint32(b, uint32(len(s.byID)))
	for _, p := range s.byID {
		last := batchMeta{lastOffset: -1, lastSeq: -1}
		if m := p.last(); m != nil {
			last = *m
		}
		b = be.AppendUint64(b, uint64(p.id))
		b = be.AppendUint16(b, uint16(p.epoch))
		b = be.AppendUint32(b, uint32(last.lastSeq))
		b = be.AppendUint64(b, uint64(last.lastOffset))
		b = be.AppendUint32(b, uint32(last.offsetDelta))
		b = be.AppendUint64(b, uint64(p.lastMs))
		b = be.AppendUint32(b, uint32(p.coordinatorEpoch))
		b = be.AppendUint64(b, uint64(p.txnStart))
	}
	be.PutUint32(b[2:], crc32.Checksum(b[snapshotHeader:], castagnoli))
	return b
}

// decodeProducers reads a snapshot taken at offset end. The error wraps errBadSnapshot.
func decodeProducers(b []byte, end int64) (*producers, error) {
	be := binary.BigEndian
	if len(b) < snapshotHeader+4 || be.Uint16(b) != snapshotVersion {
		return nil, fmt.Errorf("%d bytes of version %x: %w", len(b), b[:min(2, len(b))], errBadSnapshot)
	}
	if crc32.Checksum(b[snapshotHeader:], castagnoli) != be.Uint32(b[2:]) {
		return nil, fmt.Errorf("CRC differs: %w", errBadSnapshot)
	}
	n := int64(be.Uint32(b[snapshotHeader:]))
	b = b[snapshotHeader+4:]
	if n*snapshotEntrySize != int64(len(b)) {
		return nil, fmt.Errorf("%d entries in %d bytes: %w", n, len(b), errBadSnapshot)
	}
	s := &producers{end: end}
	for ; len(b) > 0; b = b[snapshotEntrySize:] {
		p := s.getOrAdd(int64(be.Uint64(b)))
		p.epoch = int16(be.Uint16(b[8:]))
		m := batchMeta{
			lastSeq:     int32(be.Uint32(b[10:])),
			lastOffset:  int64(be.Uint64(b[14:])),
			offsetDelta: int32(be.Uint32(b[22:])),
			timestampMs: int64(be.Uint64(b[26:])),
		}
		p.lastMs = m.timestampMs
		p.coordinatorEpoch = int32(be.Uint32(b[34:]))
		p.txnStart = int64(be.Uint64(b[38:]))
		p.kept = 0
		if m.lastOffset >= 0 {
			p.keep(m)
		}
		if p.txnStart >= 0 {
			s.open = append(s.open, txn{producerID: p.id, first: p.txnStart})
		}
	}
	sortTxns(s.open)
	return s, nil
}
