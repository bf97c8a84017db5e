//go:build conformance

package protocol

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

func produce(t *testing.T, c *wire.Conn, req *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return do[*kmsg.ProduceResponse](t, c, req).Topics[0].Partitions[0]
}

// TestZstdNeedsANewProduce: before version 7, clients could not know zstd (BL-009).
func TestZstdNeedsANewProduce(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "zstd", 1)
	batch := wire.Batch{Records: records(100, baseMs), Codec: kgo.ZstdCompression()}.Encode()
	for version := int16(produceServedFrom); version <= 9; version++ {
		req := wire.Produce(topic.Name, 0, batch)
		req.Version = version
		want := kerr.UnsupportedCompressionType
		if version >= 7 {
			want = nil
		}
		wantCode(t, wire.Name(req), produce(t, c, req).ErrorCode, want)
	}
}

// producerID asks for the id of a new idempotent producer.
func producerID(t *testing.T, c *wire.Conn) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := c.NewProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestProducerStateOutlivesItsRecords: sequences are checked although DeleteRecords removed all records (BL-003).
func TestProducerStateOutlivesItsRecords(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "outlive", 1)
	id := producerID(t, c)
	send := func(sequence int32) kmsg.ProduceResponseTopicPartition {
		batch := wire.Batch{Records: records(1, time.Now().UnixMilli()), Producer: &wire.Producer{ID: id, Sequence: sequence}}
		return produce(t, c, wire.Produce(topic.Name, 0, batch.Encode()))
	}
	for seq := range int32(7) {
		wantCode(t, "first", send(seq).ErrorCode, nil)
	}
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version, del.TimeoutMillis = 2, 10_000
	rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = -1
	rt.Topic, rt.Partitions = topic.Name, append(rt.Partitions, rp)
	del.Topics = append(del.Topics, rt)
	wantCode(t, "delete", do[*kmsg.DeleteRecordsResponse](t, c, del).Topics[0].Partitions[0].ErrorCode, nil)

	next := send(7)
	if next.ErrorCode != 0 || next.BaseOffset != 7 {
		t.Errorf("sequence 7: %s at %d, want NONE at 7", codeName(next.ErrorCode), next.BaseOffset)
	}
	again := send(6)
	if again.ErrorCode != 0 || again.BaseOffset != 6 {
		t.Errorf("sequence 6 again: %s at %d, want NONE at 6", codeName(again.ErrorCode), again.BaseOffset)
	}
	wantCode(t, "a gap", send(9).ErrorCode, kerr.OutOfOrderSequenceNumber)
}

// TestSequences: duplicates are answered with their first offset, gaps and older epochs are refused, and a producer that
// the partition does not know may begin anywhere.
func TestSequences(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "sequences", 1)
	id := producerID(t, c)
	for _, tc := range []struct {
		name     string
		producer int64
		epoch    int16
		sequence int32
		offset   int64
		want     *kerr.Error
	}{
		{"begin", id, 0, 0, 0, nil},
		{"next", id, 0, 3, 3, nil},
		{"repeat", id, 0, 3, 3, nil},
		{"repeat the one before", id, 0, 0, 0, nil},
		{"gap", id, 0, 9, -1, kerr.OutOfOrderSequenceNumber},
		{"newer epoch must begin at 0", id, 1, 6, -1, kerr.OutOfOrderSequenceNumber},
		{"newer epoch", id, 1, 0, 6, nil},
		{"older epoch", id, 0, 6, -1, kerr.InvalidProducerEpoch},
		{"unknown producer in the middle", id + 1000, 0, 40, 9, nil},
	} {
		batch := wire.Batch{Records: records(3, baseMs), Producer: &wire.Producer{ID: tc.producer, Epoch: tc.epoch, Sequence: tc.sequence}}
		got := produce(t, c, wire.Produce(topic.Name, 0, batch.Encode()))
		wantCode(t, tc.name, got.ErrorCode, tc.want)
		if got.BaseOffset != tc.offset {
			t.Errorf("%s: offset %d, want %d", tc.name, got.BaseOffset, tc.offset)
		}
	}
}

// TestBadBatchesAreRefused: each by the code that Kafka has for it, and nothing of them is stored.
func TestBadBatchesAreRefused(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "bad", 1)
	good := wire.Batch{Records: records(3, baseMs)}
	changed := func(seal bool, change func(b []byte)) []byte {
		b := good.Encode()
		change(b)
		if seal {
			wire.Seal(b)
		}
		return b
	}
	big := wire.Batch{Records: []wire.Record{{TimestampMs: baseMs, Value: make([]byte, 1_100_000)}}}
	future := wire.Batch{Records: records(1, time.Now().Add(2*time.Hour).UnixMilli())}
	control := wire.Batch{Records: records(1, baseMs), Attributes: 0x20}
	headed := wire.Batch{Records: records(1, baseMs)}
	headed.Records[0].Headers = []kmsg.Header{{Key: "h", Value: []byte("v")}}
	beyond := headed.Encode()
	beyond[wire.HeaderSize] += 4 << 1 // the record's length and that of its header's value, as zigzag varints
	beyond[len(beyond)-2] += 4 << 1
	binary.BigEndian.PutUint32(beyond[23:], 1) // and another record after it
	binary.BigEndian.PutUint32(beyond[57:], 2)
	wire.Seal(beyond)
	// Kafka has no code for a codec that does not exist: it answers that it was surprised.
	unknownCodec := changed(true, func(b []byte) { b[22] |= 7 })
	refusal := kerr.UnsupportedCompressionType
	if produce(t, c, wire.Produce(topic.Name, 0, unknownCodec)).ErrorCode == kerr.UnknownServerError.Code {
		refusal = kerr.UnknownServerError
	}
	for _, tc := range []struct {
		name  string
		batch []byte
		want  *kerr.Error
	}{
		{"CRC that does not fit", changed(false, func(b []byte) { b[len(b)-1] ^= 1 }), kerr.CorruptMessage},
		{"fewer records than it says", changed(true, func(b []byte) { binary.BigEndian.PutUint32(b[57:], 4) }), kerr.InvalidRecord},
		{"last offset that does not fit", changed(true, func(b []byte) { binary.BigEndian.PutUint32(b[23:], 9) }), kerr.InvalidRecord},
		{"record that reaches beyond the batch", beyond, kerr.InvalidRecord},
		{"codec that does not exist", unknownCodec, refusal},
		{"larger than max.message.bytes", big.Encode(), kerr.MessageTooLarge},
		{"two hours ahead", future.Encode(), kerr.InvalidTimestamp},
		{"control batch", control.Encode(), kerr.InvalidRecord},
		{"two batches", append(good.Encode(), good.Encode()...), kerr.InvalidRecord},
	} {
		got := produce(t, c, wire.Produce(topic.Name, 0, tc.batch))
		wantCode(t, tc.name, got.ErrorCode, tc.want)
	}
	end, err := c.Offset(topic.Name, 0, -1)
	if err != nil || end != 0 {
		t.Errorf("the log ends at %d, %v, want 0", end, err)
	}
}

// TestUnknownTopicAndPartition by name and by id.
func TestUnknownTopicAndPartition(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "known", 1)
	batch := wire.Batch{Records: records(1, baseMs)}.Encode()
	wantCode(t, "partition", produce(t, c, wire.Produce(topic.Name, 9, batch)).ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "name", produce(t, c, wire.Produce("protocol-"+run+"-absent", 0, batch)).ErrorCode, kerr.UnknownTopicOrPartition)
	byID := wire.Produce("", 0, batch)
	byID.Version, byID.Topics[0].TopicID = 13, [16]byte{9, 9, 9}
	wantCode(t, "id", produce(t, c, byID).ErrorCode, kerr.UnknownTopicID)
	byID.Topics[0].TopicID = topic.ID
	wantCode(t, "known id", produce(t, c, byID).ErrorCode, nil)
	acks := wire.Produce(topic.Name, 0, batch)
	acks.Acks = 2
	wantCode(t, "acks=2", produce(t, c, acks).ErrorCode, kerr.InvalidRequiredAcks)
}

// TestLogAppendTime: the server's time replaces the client's, in what is stored and in what is answered.
func TestLogAppendTime(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "append-time", 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	got := produce(t, c, wire.Produce(topic.Name, 0, wire.Batch{Records: records(3, baseMs), Codec: kgo.GzipCompression()}.Encode()))
	wantCode(t, "produce", got.ErrorCode, nil)
	if after := time.Now().UnixMilli(); got.LogAppendTime < before || got.LogAppendTime > after {
		t.Errorf("answered the time %d, want one in [%d, %d]", got.LogAppendTime, before, after)
	}
	fetched, err := c.Fetched(topic.Name, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	batch := wire.Split(fetched.RecordBatches)[0]
	if batch.Attributes&0x08 == 0 || batch.MaxTimestamp != got.LogAppendTime {
		t.Errorf("stored with attributes %#x and maximum time %d, want the bit 0x08 and %d", batch.Attributes, batch.MaxTimestamp, got.LogAppendTime)
	}
	if err := wire.CheckCRC(fetched.RecordBatches); err != nil {
		t.Error(err)
	}
}

// TestCompressionTypeOfTheTopic: a topic with a codec of its own stores everything with it.
func TestCompressionTypeOfTheTopic(t *testing.T) {
	for number, name := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		c := dial(t)
		topic := newTopic(t, c, "codec-"+name, 1, "compression.type", name)
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.ZstdCompression()} {
			appendBatch(t, c, topic.Name, 0, wire.Batch{Records: records(100, baseMs), Codec: codec})
		}
		fetched, err := c.Fetched(topic.Name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		batches := wire.Split(fetched.RecordBatches)
		if len(batches) != 3 {
			t.Errorf("%s: %d batches, want 3", name, len(batches))
		}
		for i, b := range batches {
			if got := int(b.Attributes & 7); got != number || b.NumRecords != 100 || b.FirstOffset != int64(100*i) {
				t.Errorf("%s: batch %d has codec %d, %d records from %d", name, i, got, b.NumRecords, b.FirstOffset)
			}
		}
	}
}
