//go:build conformance

package protocol

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// fetchOf is a fetch without a session from several partitions at their offsets, limited to almost nothing.
func fetchOf(topic wire.Topic, maxBytes int32, offsets ...int64) *kmsg.FetchRequest {
	req := wire.Fetch(topic.Name, 0, offsets[0])
	t := &req.Topics[0]
	t.TopicID = topic.ID
	for p, offset := range offsets[1:] {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset = int32(p+1), offset
		t.Partitions = append(t.Partitions, part)
	}
	for i := range t.Partitions {
		t.Partitions[i].PartitionMaxBytes = maxBytes
	}
	req.MaxBytes = maxBytes
	return req
}

// TestBatchLargerThanTheLimitsIsReturned (BL-010).
func TestBatchLargerThanTheLimitsIsReturned(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "large", 3, "max.message.bytes", "4194304")
	big := wire.Batch{Records: []wire.Record{{TimestampMs: baseMs, Value: bytes.Repeat([]byte("x"), 3<<20)}}}
	appendBatch(t, c, topic.Name, 0, big)
	appendBatch(t, c, topic.Name, 1, big)

	t.Run("first partition", func(t *testing.T) {
		sizes := fetchSizes(t, c, fetchOf(topic, 1, 0, 0, 0))
		if sizes[0] < 3<<20 || sizes[1] != 0 {
			t.Errorf("bytes by partition %v, want one whole batch of the first", sizes)
		}
	})
	t.Run("second partition", func(t *testing.T) {
		sizes := fetchSizes(t, c, fetchOf(topic, 1, 1, 0, 0))
		if sizes[1] < 3<<20 {
			t.Errorf("bytes by partition %v, want one whole batch of the second", sizes)
		}
	})
}

// TestNoPartitionStarvesInASession: in a session whose answers hold one batch, every partition gets its turn (BL-010).
func TestNoPartitionStarvesInASession(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "turns", 3)
	for p := range topic.Partitions {
		appendBatch(t, c, topic.Name, p, wire.Batch{Records: records(10, baseMs)})
	}
	req := fetchOf(topic, 1, 0, 0, 0)
	req.SessionEpoch = 0
	served := map[int32]bool{}
	for range 2 * topic.Partitions {
		res := do[*kmsg.FetchResponse](t, c, req)
		wantCode(t, "session", res.ErrorCode, nil)
		for _, tp := range res.Topics {
			for _, p := range tp.Partitions {
				served[p.Partition] = served[p.Partition] || len(p.RecordBatches) > 0
			}
		}
		req.SessionID, req.SessionEpoch, req.Topics = res.SessionID, req.SessionEpoch+1, nil
	}
	for p := range topic.Partitions {
		if !served[p] {
			t.Errorf("partition %d never got records, served %v", p, served)
		}
	}
}

func fetchSizes(t *testing.T, c *wire.Conn, req *kmsg.FetchRequest) map[int32]int {
	t.Helper()
	res := do[*kmsg.FetchResponse](t, c, req)
	wantCode(t, "fetch", res.ErrorCode, nil)
	sizes := map[int32]int{}
	for _, p := range res.Topics[0].Partitions {
		wantCode(t, "partition", p.ErrorCode, nil)
		sizes[p.Partition] = len(p.RecordBatches)
	}
	return sizes
}

// TestEmptyPartitionIsOfZeroLength: at the end of the log the records are a field of length zero, not null (BL-015).
func TestEmptyPartitionIsOfZeroLength(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "empty", 1)
	for _, api := range advertised(t, c) {
		if api.ApiKey != int16(kmsg.Fetch) {
			continue
		}
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			req := fetchOf(topic, 1<<20, 0)
			req.Version = version
			p := do[*kmsg.FetchResponse](t, c, req).Topics[0].Partitions[0]
			wantCode(t, wire.Name(req), p.ErrorCode, nil)
			if p.RecordBatches == nil || len(p.RecordBatches) > 0 {
				t.Errorf("%s: records %v, want an empty field that is not null", wire.Name(req), p.RecordBatches)
			}
			if p.HighWatermark != 0 || p.LastStableOffset != 0 || version >= 5 && p.LogStartOffset != 0 {
				t.Errorf("%s: high watermark %d, stable %d, start %d, want 0", wire.Name(req), p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
			}
		}
	}
}

// TestFetchErrors are what a fetch is answered that asks for what is not there.
func TestFetchErrors(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "errors", 1)
	appendBatch(t, c, topic.Name, 0, wire.Batch{Records: records(10, baseMs)})
	fetch := func(change func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
		req := fetchOf(topic, 1<<20, 0)
		req.Version = 13
		change(req)
		res := do[*kmsg.FetchResponse](t, c, req)
		if res.ErrorCode != 0 || len(res.Topics) == 0 {
			return kmsg.FetchResponseTopicPartition{ErrorCode: res.ErrorCode}
		}
		return res.Topics[0].Partitions[0]
	}
	part := func(r *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &r.Topics[0].Partitions[0] }
	for _, tc := range []struct {
		name   string
		change func(*kmsg.FetchRequest)
		want   *kerr.Error
	}{
		{"beyond the end", func(r *kmsg.FetchRequest) { part(r).FetchOffset = 11 }, kerr.OffsetOutOfRange},
		{"before the start", func(r *kmsg.FetchRequest) { part(r).FetchOffset = -2 }, kerr.OffsetOutOfRange},
		{"unknown partition", func(r *kmsg.FetchRequest) { part(r).Partition = 9 }, kerr.UnknownTopicOrPartition},
		{"unknown topic id", func(r *kmsg.FetchRequest) { r.Topics[0].TopicID[0] ^= 0xff }, kerr.UnknownTopicID},
		{"unknown topic name", func(r *kmsg.FetchRequest) { r.Version, r.Topics[0].Topic = 12, missing }, kerr.UnknownTopicOrPartition},
		{"newer leader epoch", func(r *kmsg.FetchRequest) { part(r).CurrentLeaderEpoch = 99 }, kerr.UnknownLeaderEpoch},
		{"unknown session", func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 12345, 7 }, kerr.FetchSessionIDNotFound},
	} {
		wantCode(t, tc.name, fetch(tc.change).ErrorCode, tc.want)
	}
}
