//go:build conformance

package protocol

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

type offsetAt struct{ asked, offset, timestamp int64 }

// wantOffsets looks up times by every advertised version of ListOffsets.
func wantOffsets(t *testing.T, c *wire.Conn, topic string, want []offsetAt) {
	t.Helper()
	for _, api := range advertised(t, c) {
		if api.ApiKey != int16(kmsg.ListOffsets) {
			continue
		}
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			for _, w := range want {
				req := wire.ListOffsets(topic, 0, w.asked)
				req.Version, req.TimeoutMillis = version, 10_000
				p := do[*kmsg.ListOffsetsResponse](t, c, req).Topics[0].Partitions[0]
				wantCode(t, fmt.Sprintf("%s, time %d", wire.Name(req), w.asked), p.ErrorCode, nil)
				if p.Offset != w.offset || p.Timestamp != w.timestamp {
					t.Errorf("%s, time %d: offset %d with time %d, want %d with %d", wire.Name(req), w.asked, p.Offset, p.Timestamp, w.offset, w.timestamp)
				}
			}
		}
	}
}

// TestTimeLookupInsideABatch: the answer is the first record, by offset, of that time or later (BL-019).
func TestTimeLookupInsideABatch(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t)
			topic := newTopic(t, c, "times-"+name, 1, "retention.ms", "-1")
			even := records(100, baseMs)
			for i := range even {
				even[i].TimestampMs = baseMs + 2*int64(i+1)
			}
			appendBatch(t, c, topic.Name, 0, wire.Batch{Records: even, Codec: codec})
			want := []offsetAt{
				{-1, 100, -1}, {-2, 0, -1},
				{0, 0, baseMs + 2}, {baseMs, 0, baseMs + 2},
				{baseMs + 200, 99, baseMs + 200}, {baseMs + 201, -1, -1},
			}
			for i := int64(1); i < 200; i += 7 {
				want = append(want, offsetAt{baseMs + i, (i - 1) / 2, baseMs + (i+1)/2*2})
			}
			wantOffsets(t, c, topic.Name, want)
		})
	}
}

// TestTimeLookupWithoutOrder: times go up and down inside a batch and between batches (BL-019).
func TestTimeLookupWithoutOrder(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "unordered", 1, "retention.ms", "-1")
	for _, times := range [][]int64{{5, 3, 9, 7}, {4, 12, 6}, {20, 1}} {
		var batch wire.Batch
		for _, ms := range times {
			batch.Records = append(batch.Records, wire.Record{TimestampMs: baseMs + ms, Value: []byte("v")})
		}
		appendBatch(t, c, topic.Name, 0, batch)
	}
	wantOffsets(t, c, topic.Name, []offsetAt{
		{baseMs + 1, 0, baseMs + 5}, {baseMs + 5, 0, baseMs + 5}, {baseMs + 6, 2, baseMs + 9}, {baseMs + 9, 2, baseMs + 9},
		{baseMs + 10, 5, baseMs + 12}, {baseMs + 13, 7, baseMs + 20}, {baseMs + 21, -1, -1},
	})
	p := do[*kmsg.ListOffsetsResponse](t, c, wire.ListOffsets(topic.Name, 0, -3)).Topics[0].Partitions[0]
	if p.Offset != 7 || p.Timestamp != baseMs+20 {
		t.Errorf("largest time: offset %d with time %d, want 7 with %d", p.Offset, p.Timestamp, baseMs+20)
	}
}

// TestTrueMaximumTimestamp: a header that gives no maximum, or too small a one, does not mislead lookups, and what is
// stored has the true one and a CRC that fits (BL-006).
func TestTrueMaximumTimestamp(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression()} {
		for _, claimed := range []int64{-1, baseMs + 1} {
			c := dial(t)
			topic := newTopic(t, c, fmt.Sprintf("max-%v-%d", codec == kgo.GzipCompression(), claimed), 1, "retention.ms", "-1")
			appendBatch(t, c, topic.Name, 0, wire.Batch{Records: records(50, baseMs), Codec: codec, MaxTimestampMs: &claimed})
			wantOffsets(t, c, topic.Name, []offsetAt{{baseMs + 30, 30, baseMs + 30}, {baseMs + 49, 49, baseMs + 49}, {baseMs + 50, -1, -1}})
			got, err := c.Fetched(topic.Name, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			batches := wire.Split(got.RecordBatches)
			if len(batches) != 1 || batches[0].MaxTimestamp != baseMs+49 {
				t.Fatalf("stored %+v, want one batch with the maximum %d", batches, baseMs+49)
			}
			if err := wire.CheckCRC(got.RecordBatches); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDeleteRecordsInsideABatch (BL-023).
func TestDeleteRecordsInsideABatch(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "trim", 1, "retention.ms", "-1")
	appendBatch(t, c, topic.Name, 0, wire.Batch{Records: records(10, baseMs)})
	deleteTo := func(offset int64) (int64, int16) {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = 2, 10_000
		rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = 0, offset
		rt.Topic, rt.Partitions = topic.Name, append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		p := do[*kmsg.DeleteRecordsResponse](t, c, req).Topics[0].Partitions[0]
		return p.LowWatermark, p.ErrorCode
	}
	for _, tc := range []struct {
		name   string
		offset int64
		low    int64
		code   *kerr.Error
	}{
		{"into the batch", 5, 5, nil},
		{"again", 5, 5, nil},
		{"below the start", 2, 5, nil},
		{"beyond the high watermark", 11, -1, kerr.OffsetOutOfRange},
	} {
		low, code := deleteTo(tc.offset)
		wantCode(t, tc.name, code, tc.code)
		if low != tc.low {
			t.Errorf("%s: low watermark %d, want %d", tc.name, low, tc.low)
		}
	}
	wantOffsets(t, c, topic.Name, []offsetAt{
		{-2, 5, -1}, {-1, 10, -1}, {baseMs, 5, baseMs + 5}, {baseMs + 5, 5, baseMs + 5}, {baseMs + 8, 8, baseMs + 8},
	})
	got, err := c.Fetched(topic.Name, 0, 5)
	if err != nil || len(got.RecordBatches) == 0 || got.LogStartOffset != 5 {
		t.Errorf("fetch at 5: %d bytes, start %d, %v", len(got.RecordBatches), got.LogStartOffset, err)
	}
	req := wire.Fetch(topic.Name, 0, 4)
	p := do[*kmsg.FetchResponse](t, c, req).Topics[0].Partitions[0]
	wantCode(t, "fetch at 4", p.ErrorCode, kerr.OffsetOutOfRange)
	if low, code := deleteTo(-1); low != 10 || code != 0 {
		t.Errorf("to the high watermark: low watermark %d, %s", low, codeName(code))
	}
	wantOffsets(t, c, topic.Name, []offsetAt{{-2, 10, -1}, {-1, 10, -1}, {baseMs, -1, -1}})
}
