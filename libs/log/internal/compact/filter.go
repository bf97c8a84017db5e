package compact

import (
	"math"

	"github.com/cauce-stream/cauce/libs/record"
)

// LastBatch is the last that a log knows of a producer: the last offset of its last batch of records, or -1 when there is
// only a marker of its epoch.
type LastBatch struct {
	Offset int64
	Epoch  int16
}

// Filter says what stays of each batch.
type Filter struct {
	Offsets   *OffsetMap
	Txns      *Transactions
	Producers map[int64]LastBatch // whose last batch stays, be it empty, for its sequence number
	// NowMs is the time, DeleteRetentionMs how long the marks of deleted keys stay from now on (delete.retention.ms).
	NowMs, DeleteRetentionMs int64
	// Level is the compression level for a codec, as record.Compress takes it.
	Level func(record.Codec) int

	// RecordsRead and RecordsKept count the records seen and left.
	RecordsRead, RecordsKept int64
	// NextHorizonMs is the least time at which some of what was left may go, math.MaxInt64 when there is nothing of the kind.
	NextHorizonMs int64

	keep []bool
}

// NewFilter returns a filter of a log's batches from its first one on.
func NewFilter(offsets *OffsetMap, txns *Transactions) *Filter {
	return &Filter{Offsets: offsets, Txns: txns, NextHorizonMs: math.MaxInt64}
}

// verdict is what is to become of a batch.
type verdict struct {
	discard    bool // none of its records stays
	kept       int
	mortal     bool // marks of deleted keys are among those kept, or a marker that decides nothing any more
	aborted    *Aborted
	hasHorizon bool
}

// Append appends to dst what stays of b, which may be nothing. A batch that is the last of its segment stays at least empty,
// so that segments follow each other without a gap. aborted is a transaction that belongs into the index: what it aborted
// is still there. The error wraps a *kerr.Error when the batch is broken.
func (f *Filter) Append(dst []byte, b record.Batch, last bool) (out []byte, aborted *Aborted, err error) {
	v, err := f.judge(b)
	if err != nil {
		return dst, nil, err
	}
	f.RecordsRead += int64(b.Count())
	f.RecordsKept += int64(v.kept)
	horizon := int64(-1)
	if v.hasHorizon {
		horizon = b.BaseTimestamp()
	} else if v.mortal {
		horizon = f.NowMs + min(f.DeleteRetentionMs, math.MaxInt64-f.NowMs)
	}
	if v.mortal && (!v.hasHorizon || horizon > f.NowMs) {
		f.NextHorizonMs = min(f.NextHorizonMs, horizon)
	}
	switch {
	case v.kept == 0 && !last && !f.isLastOfProducer(b):
		return dst, v.aborted, nil
	case v.kept == 0 && b.Count() > 0:
		return record.AppendEmptied(dst, b), v.aborted, nil
	case v.kept == int(b.Count()) && (v.hasHorizon || horizon < 0):
		return append(dst, b...), v.aborted, nil
	}
	out, err = record.AppendRewritten(dst, b, func(i int) bool { return f.keep[i] }, horizon, f.Level(b.Codec()))
	return out, v.aborted, err
}

// judge decides which records of b stay, in f.keep.
func (f *Filter) judge(b record.Batch) (v verdict, err error) {
	v.hasHorizon = b.HasDeleteHorizon()
	over := v.hasHorizon && b.BaseTimestamp() <= f.NowMs
	f.keep = f.keep[:0]
	if b.IsControl() {
		var marker fate
		if marker, v.aborted, err = f.Txns.Marker(b); err != nil {
			return v, err
		}
		v.mortal = marker == spent
		v.discard = marker == empty || marker == spent && over
		for range b.Count() {
			f.keep = append(f.keep, !v.discard)
		}
		if !v.discard {
			v.kept = len(f.keep)
		}
		v.mortal = v.mortal && v.kept > 0
		return v, nil
	}
	if f.Txns.Data(b) {
		return v, nil
	}
	for r, err := range b.Records(0) {
		if err != nil {
			return v, err
		}
		stays := f.stays(b.Offset(r), r, over)
		f.keep = append(f.keep, stays)
		if stays {
			v.kept++
			v.mortal = v.mortal || r.Value == nil
		}
	}
	return v, nil
}

// stays tells whether a record is the newest of its key and, if it marks its key as deleted, whether the mark's time is
// not over. A record without a key, from a time when the log was not compacted, is nobody's newest.
func (f *Filter) stays(offset int64, r record.Record, over bool) bool {
	if offset > f.Offsets.Latest() {
		return true
	}
	if r.Key == nil || r.Value == nil && over {
		return false
	}
	return offset >= f.Offsets.Get(r.Key)
}

func (f *Filter) isLastOfProducer(b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	last, ok := f.Producers[b.ProducerID()]
	if !ok {
		return false
	}
	if last.Offset >= 0 {
		return b.LastOffset() == last.Offset
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}

// Note enters the records of a batch that lie at offset from or above, unless they were aborted. full says that there was no
// room for them all: the batch then counts as not seen. Batches come in the order of the log.
func (m *OffsetMap) Note(b record.Batch, txns *Transactions, from int64) (full bool, err error) {
	if b.IsControl() {
		_, _, err = txns.Marker(b)
	} else if !txns.Data(b) {
		full, err = m.noteRecords(b, from)
	}
	if err == nil && !full {
		m.latest = b.LastOffset()
	}
	return full, err
}

func (m *OffsetMap) noteRecords(b record.Batch, from int64) (full bool, err error) {
	for r, err := range b.Records(0) {
		if err != nil {
			return false, err
		}
		if offset := b.Offset(r); r.Key != nil && offset >= from && !m.Put(r.Key, offset) {
			return true, nil
		}
	}
	return false, nil
}

// IsMortal tells whether b, which has a delete horizon, has something that goes after it. The error wraps a *kerr.Error.
func IsMortal(b record.Batch) (bool, error) {
	for r, err := range b.Records(0) {
		if err != nil {
			return false, err
		}
		if b.IsControl() || r.Value == nil {
			return true, nil
		}
	}
	return false, nil
}
