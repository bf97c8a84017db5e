package logfiles

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/recordjson"
	"github.com/cauce-stream/cauce/libs/record"
)

type batchRow struct {
	File          string            `json:"file"`
	Position      int64             `json:"position"`
	Bytes         int               `json:"bytes"`
	BaseOffset    int64             `json:"base_offset"`
	LastOffset    int64             `json:"last_offset"`
	Count         int32             `json:"count"`
	LeaderEpoch   int32             `json:"leader_epoch"`
	Codec         string            `json:"codec"`
	TimestampType string            `json:"timestamp_type"`
	BaseTimestamp int64             `json:"base_timestamp"` // milliseconds since 1970; -1: none
	MaxTimestamp  int64             `json:"max_timestamp"`
	ProducerID    int64             `json:"producer_id"` // -1: none
	ProducerEpoch int16             `json:"producer_epoch"`
	BaseSequence  int32             `json:"base_sequence"`
	LastSequence  int32             `json:"last_sequence"`
	Transactional bool              `json:"transactional"`
	Control       bool              `json:"control"`
	DeleteHorizon bool              `json:"delete_horizon"`
	CRC           uint32            `json:"crc"`
	Valid         bool              `json:"valid"` // the CRC is right and the records can be read
	Records       []json.RawMessage `json:"records,omitempty"`
}

func (batchRow) columns() []column {
	return []column{{"POSITION", 10}, {"BYTES", 8}, {"OFFSETS", -15}, {"COUNT", 6}, {"EPOCH", 5}, {"CODEC", -6}, {"MAX TIMESTAMP", -24},
		{"PRODUCER", 8}, {"SEQUENCES", -11}, {"FLAGS", -12}, {"CRC", 3}}
}

func (b batchRow) cells() []any {
	producer, sequences := "", ""
	if b.ProducerID != record.NoProducerID {
		producer = fmt.Sprintf("%d/%d", b.ProducerID, b.ProducerEpoch)
	}
	if b.BaseSequence != record.NoSequence {
		sequences = fmt.Sprintf("%d-%d", b.BaseSequence, b.LastSequence)
	}
	valid := "ok"
	if !b.Valid {
		valid = "BAD"
	}
	return []any{b.Position, b.Bytes, fmt.Sprintf("%d-%d", b.BaseOffset, b.LastOffset), b.Count, b.LeaderEpoch, b.Codec, instant(b.MaxTimestamp),
		producer, sequences, b.flags(), valid}
}

func (b batchRow) flags() string {
	var flags []string
	for _, flag := range []struct {
		set  bool
		name string
	}{{b.Transactional, "txn"}, {b.Control, "control"}, {b.DeleteHorizon, "horizon"}, {b.TimestampType == record.LogAppendTime.String(), "append-time"}} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	return strings.Join(flags, ",")
}

// instant words a timestamp in milliseconds.
func instant(ms int64) string {
	if ms < 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// batches yields the batches of a segment with their positions, and ends with an error where one is
// torn or no batch at all. A batch lives until the next one.
func batches(path string) iter.Seq2[int64, batchOrFault] {
	return func(yield func(int64, batchOrFault) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(0, batchOrFault{err: err})
			return
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			yield(0, batchOrFault{err: err})
			return
		}
		in := bufio.NewReaderSize(file, 1<<20)
		var buffer []byte
		for position := int64(0); position < info.Size(); {
			batch, err := nextBatch(in, &buffer, info.Size()-position)
			if !yield(position, batchOrFault{batch, err}) || err != nil {
				return
			}
			position += int64(len(batch))
		}
	}
}

type batchOrFault struct {
	record.Batch
	err error
}

// nextBatch reads the batch at in, of which left bytes remain, into the buffer.
func nextBatch(in *bufio.Reader, buffer *[]byte, left int64) (record.Batch, error) {
	head, err := in.Peek(int(min(record.HeaderSize, left)))
	if err != nil {
		return nil, err
	}
	if _, _, err := record.Next(head); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		if len(bytes.Trim(head, "\x00")) == 0 {
			return nil, fmt.Errorf("%d bytes to the end that begin with zeros, as in a preallocated file", left)
		}
		return nil, err
	}
	size := int64(record.HeaderSize)
	if len(head) >= record.LeaderEpochAt {
		size = int64(binary.BigEndian.Uint32(head[record.LengthAt:])) + record.LengthOverhead
	}
	if size > left {
		return nil, fmt.Errorf("torn: the batch has %d bytes and the file %d more", size, left)
	}
	if int64(cap(*buffer)) < size {
		*buffer = make([]byte, size)
	}
	*buffer = (*buffer)[:size]
	if _, err := io.ReadFull(in, *buffer); err != nil {
		return nil, err
	}
	batch, _, err := record.Next(*buffer)
	return batch, err
}

func (d *dump) segment(path string) error {
	next := int64(-1)
	for position, batch := range batches(path) {
		if batch.err != nil {
			d.fault(path, "at %d: %w", position, batch.err)
			return nil
		}
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if batch.BaseOffset() < next {
			d.fault(path, "at %d: offset %d comes after %d", position, batch.BaseOffset(), next-1)
		}
		next = batch.LastOffset() + 1
		if err := d.batch(path, position, batch.Batch); err != nil {
			return err
		}
	}
	return nil
}

func (d *dump) batch(path string, position int64, b record.Batch) error {
	r := batchRow{
		File: path, Position: position, Bytes: len(b), BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Count: b.Count(),
		LeaderEpoch: b.LeaderEpoch(), Codec: b.Codec().String(), TimestampType: b.TimestampType().String(),
		BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), LastSequence: b.LastSequence(),
		Transactional: b.IsTransactional(), Control: b.IsControl(), DeleteHorizon: b.HasDeleteHorizon(), CRC: b.CRC(), Valid: true,
	}
	var lines []byte
	err := b.CheckCRC()
	if err == nil {
		lines, err = d.readRecords(path, b, &r)
	}
	if err != nil {
		r.Valid = false
		d.fault(path, "at %d: batch %d-%d: %w", position, r.BaseOffset, r.LastOffset, err)
	}
	if err := d.emit.row(r); err != nil {
		return err
	}
	return d.emit.text(lines)
}

// readRecords walks the records, which shows whether they can be read, and returns their lines if
// they are to be printed. JSON output gets them into the row.
func (d *dump) readRecords(path string, b record.Batch, r *batchRow) (lines []byte, err error) {
	topic, partition := partitionOf(path)
	n := int32(0)
	for rec, err := range b.Records(0) {
		if err != nil {
			return lines, err
		}
		n++
		if !d.records {
			continue
		}
		printed := &kgo.Record{
			Topic: topic, Partition: partition, Offset: b.Offset(rec), LeaderEpoch: b.LeaderEpoch(),
			Timestamp: time.UnixMilli(b.Timestamp(rec)), Key: rec.Key, Value: rec.Value,
		}
		for header := range rec.Headers() {
			printed.Headers = append(printed.Headers, kgo.RecordHeader{Key: string(header.Key), Value: header.Value})
		}
		if d.emit.json {
			r.Records = append(r.Records, bytes.TrimSpace(recordjson.AppendTyped(nil, printed, b.TimestampType() == record.LogAppendTime)))
		} else if marker, ok, _ := b.Marker(); ok {
			lines = fmt.Appendf(lines, "    %d  %s of producer %d, coordinator epoch %d\n", printed.Offset, markerName(marker.Type), b.ProducerID(), marker.CoordinatorEpoch)
		} else {
			lines = d.format.Append(lines, printed)
		}
	}
	if n != b.Count() {
		return lines, fmt.Errorf("holds %d records instead of %d", n, b.Count())
	}
	return lines, nil
}

func markerName(t record.ControlType) string {
	switch t {
	case record.Abort:
		return "abort"
	case record.Commit:
		return "commit"
	}
	return fmt.Sprintf("control type %d", t)
}

// partitionOf reads topic and partition off the name of the folder that a file is in.
func partitionOf(path string) (topic string, partition int32) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", -1
	}
	topic, id, ok := splitFolder(filepath.Base(filepath.Dir(absolute)))
	if !ok {
		return "", -1
	}
	return topic, id
}

// splitFolder reads the name of a partition's folder, TOPIC-PARTITION.
func splitFolder(name string) (topic string, partition int32, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 1 {
		return "", 0, false
	}
	id, err := strconv.ParseUint(name[dash+1:], 10, 31)
	return name[:dash], int32(id), err == nil
}
