package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record is one record of a batch.
type Record struct {
	TimestampMs int64
	Key, Value  []byte
	Headers     []kmsg.Header
}

// Batch describes a v2 record batch. The zero values of the fields below Records mean what a plain producer sends.
type Batch struct {
	Records []Record
	// Codec compresses the records; the zero value is none.
	Codec kgo.CompressionCodec
	// Attributes are set besides the codec's bits.
	Attributes int16
	// Producer is the idempotent producer that sends the batch, if any.
	Producer *Producer
	// MaxTimestampMs, when not nil, goes into the header in place of the true maximum.
	MaxTimestampMs *int64
}

// Producer is an idempotent producer with the sequence number of a batch's first record.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// HeaderSize is the number of bytes before a batch's records, and crcFrom where those that the CRC covers begin.
const (
	HeaderSize = 61
	crcAt      = 17
	crcFrom    = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the batch's bytes.
func (b Batch) Encode() []byte {
	first, last := b.Records[0].TimestampMs, b.Records[0].TimestampMs
	var records []byte
	for i, r := range b.Records {
		last = max(last, r.TimestampMs)
		records = appendRecord(records, kmsg.Record{
			TimestampDelta64: r.TimestampMs - first, OffsetDelta: int32(i), Key: r.Key, Value: r.Value, Headers: r.Headers,
		})
	}
	if b.MaxTimestampMs != nil {
		last = *b.MaxTimestampMs
	}
	records, codec := compress(records, b.Codec)
	batch := kmsg.RecordBatch{
		Length:               int32(HeaderSize - 12 + len(records)),
		PartitionLeaderEpoch: -1,
		Magic:                2,
		Attributes:           b.Attributes | codec,
		LastOffsetDelta:      int32(len(b.Records) - 1),
		FirstTimestamp:       first,
		MaxTimestamp:         last,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
		NumRecords:           int32(len(b.Records)),
		Records:              records,
	}
	if p := b.Producer; p != nil {
		batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = p.ID, p.Epoch, p.Sequence
	}
	out := batch.AppendTo(nil)
	Seal(out)
	return out
}

// Seal sets the CRC of a batch whose bytes were changed.
func Seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[crcFrom:], castagnoli))
}

// CheckCRC returns an error when a batch's CRC does not match its bytes.
func CheckCRC(batch []byte) error {
	want, got := binary.BigEndian.Uint32(batch[crcAt:]), crc32.Checksum(batch[crcFrom:], castagnoli)
	if want != got {
		return fmt.Errorf("batch says CRC %08x, its bytes have %08x", want, got)
	}
	return nil
}

// Split returns the whole batches at the beginning of the bytes of a fetch response.
func Split(b []byte) []kmsg.RecordBatch {
	var out []kmsg.RecordBatch
	for len(b) >= HeaderSize {
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			break
		}
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(b[:size]); err != nil {
			break
		}
		out = append(out, batch)
		b = b[size:]
	}
	return out
}

func appendRecord(dst []byte, r kmsg.Record) []byte {
	body := r.AppendTo(nil)[1:] // without the length of 0, which takes one byte
	return append(binary.AppendVarint(dst, int64(len(body))), body...)
}

func compress(records []byte, codec kgo.CompressionCodec) ([]byte, int16) {
	c, err := kgo.DefaultCompressor(codec)
	if err != nil || c == nil {
		return records, 0
	}
	out, used := c.Compress(new(bytes.Buffer), records)
	return out, int16(used)
}
