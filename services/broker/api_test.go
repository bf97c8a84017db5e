package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/record"
)

// offsetFor asks for the offset at a timestamp (or a special one).
func offsetFor(c *client, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	q := latest(topic)
	q.Topics[0].Partitions[0].Timestamp = timestamp
	return ask[*kmsg.ListOffsetsResponse](c, q).Topics[0].Partitions[0]
}

func deleteTo(c *client, topic string, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
	c.t.Helper()
	q := kmsg.NewPtrDeleteRecordsRequest()
	q.SetVersion(2)
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return ask[*kmsg.DeleteRecordsResponse](c, q).Topics[0].Partitions[0]
}

// stamped builds one batch whose records carry the timestamps.
func stamped(t testing.TB, codec record.Codec, timestamps ...int64) []byte {
	t.Helper()
	b := record.NewBuilder()
	for _, ms := range timestamps {
		b.Append(ms, nil, []byte("x"))
	}
	built, err := b.Build(codec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// BL-019: the answer is the first record at or after the time, not its batch.
func TestOffsetForTimeFindsTheRecord(t *testing.T) {
	b := startBroker(t)
	c := b.dial()
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		topic := "time-" + codec.String()
		b.createTopic(topic, 1)
		c.produce(topic, 0, stamped(t, codec, 10, 20, 30))
		c.produce(topic, 0, stamped(t, codec, 40, 35, 50))
		for _, tc := range []struct{ at, offset, timestamp int64 }{
			{0, 0, 10}, {10, 0, 10}, {11, 1, 20}, {30, 2, 30}, {31, 3, 40}, {45, 5, 50}, {50, 5, 50}, {51, -1, -1},
		} {
			if got := offsetFor(c, topic, tc.at); got.ErrorCode != 0 || got.Offset != tc.offset || got.Timestamp != tc.timestamp {
				t.Errorf("%s: at %d: offset %d, time %d, error %d; want %d, %d", topic, tc.at, got.Offset, got.Timestamp, got.ErrorCode, tc.offset, tc.timestamp)
			}
		}
		if got := offsetFor(c, topic, -3); got.Offset != 5 || got.Timestamp != 50 {
			t.Errorf("%s: largest timestamp: %+v", topic, got)
		}
	}
}

func TestSpecialTimestampsByVersion(t *testing.T) {
	b := startBroker(t)
	b.createTopic("v", 1)
	c := b.dial()
	for timestamp, since := range map[int64]int16{-3: 7, -4: 8, -5: 9, -6: 11} {
		for v := int16(1); v <= 11; v++ {
			q := latest("v")
			q.SetVersion(v)
			q.Topics[0].Partitions[0].Timestamp = timestamp
			want := int16(0)
			if v < since {
				want = kerr.UnsupportedVersion.Code
			}
			if got := ask[*kmsg.ListOffsetsResponse](c, q).Topics[0].Partitions[0].ErrorCode; got != want {
				t.Errorf("timestamp %d in v%d: error %d, want %d", timestamp, v, got, want)
			}
		}
	}
}

// BL-023: nothing below the new start is found again, and repeating a deletion is no error.
func TestDeleteRecordsInTheMiddleOfABatch(t *testing.T) {
	b := startBroker(t)
	b.createTopic("cut", 1)
	c := b.dial()
	c.produce("cut", 0, stamped(t, record.None, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
	for _, tc := range []struct {
		to, low int64
		err     *kerr.Error
	}{{5, 5, nil}, {5, 5, nil}, {2, 5, nil}, {11, -1, kerr.OffsetOutOfRange}, {-2, -1, kerr.OffsetOutOfRange}} {
		want := int16(0)
		if tc.err != nil {
			want = tc.err.Code
		}
		if got := deleteTo(c, "cut", tc.to); got.ErrorCode != want || got.LowWatermark != tc.low {
			t.Errorf("to %d: error %d, low watermark %d; want %d, %d", tc.to, got.ErrorCode, got.LowWatermark, want, tc.low)
		}
	}
	for _, timestamp := range []int64{-2, 0, 3} {
		if got := offsetFor(c, "cut", timestamp); got.Offset != 5 {
			t.Errorf("offset for %d is %d, want 5", timestamp, got.Offset)
		}
	}
	q := fetchRequest(12, 0, 1, fetchPartition{topic: "cut", offset: 5})
	q.SessionEpoch = -1
	p := ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0]
	if got := values(t, p.RecordBatches, 5); p.ErrorCode != 0 || p.LogStartOffset != 5 || len(got) != 5 {
		t.Errorf("fetch at the start: error %d, start %d, %d records", p.ErrorCode, p.LogStartOffset, len(got))
	}
	q = fetchRequest(12, 0, 1, fetchPartition{topic: "cut", offset: 4})
	q.SessionEpoch = -1
	if p := ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0]; p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("fetch below the start: error %d", p.ErrorCode)
	}
	if got := deleteTo(c, "cut", -1); got.LowWatermark != 10 {
		t.Errorf("to the high watermark: %+v", got)
	}
	if got := offsetFor(c, "cut", 1); got.Offset != -1 {
		t.Errorf("an empty log finds offset %d", got.Offset)
	}
}

// A reader parked behind a deletion learns of it at once.
func TestDeleteRecordsEndsAWaitBelowTheNewStart(t *testing.T) {
	b := startBroker(t)
	b.createTopic("behind", 1)
	c, admin := b.dial(), b.dial()
	c.produce("behind", 0, stamped(t, record.None, 1, 2, 3))
	q := fetchRequest(12, 60_000, 1<<20, fetchPartition{topic: "behind", offset: 1})
	q.SessionEpoch = -1
	waiting := c.send(q)
	deleteTo(admin, "behind", 3)
	if p := c.receive(q, waiting).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("error %d, want OFFSET_OUT_OF_RANGE", p.ErrorCode)
	}
}

// BL-003: producer state outlives the records, and no state at all is no error.
func TestAnIdempotentProducerGoesOnAfterItsRecordsAreGone(t *testing.T) {
	b := startBroker(t)
	b.createTopic("idem", 1)
	c := b.dial()
	idempotent := func(sequence int32) []byte {
		build := record.NewBuilder()
		build.SetProducer(7, 0, sequence)
		build.Append(time.Now().UnixMilli(), nil, []byte("x"))
		built, err := build.Build(record.None, 0)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	for sequence := range int32(7) {
		c.produce("idem", 0, idempotent(sequence))
	}
	deleteTo(c, "idem", -1)
	if got := c.produce("idem", 0, idempotent(7)); got != 7 {
		t.Errorf("sequence 7 is at offset %d, want 7", got)
	}
	if got := c.produce("idem", 0, idempotent(6)); got != 6 {
		t.Errorf("a resend of sequence 6 is at offset %d, want its own, 6", got)
	}
	gap := ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "idem", [16]byte{}, 0, idempotent(9)))
	if got := gap.Topics[0].Partitions[0].ErrorCode; got != kerr.OutOfOrderSequenceNumber.Code {
		t.Errorf("a gap: error %d", got)
	}
	b.createTopic("fresh", 1)
	if got := c.produce("fresh", 0, idempotent(42)); got != 0 {
		t.Errorf("a producer without state begins at offset %d", got)
	}
	describe := kmsg.NewPtrDescribeProducersRequest()
	describe.Topics = append(describe.Topics, kmsg.DescribeProducersRequestTopic{Topic: "idem", Partitions: []int32{0, 9}})
	parts := ask[*kmsg.DescribeProducersResponse](c, describe).Topics[0].Partitions
	if p := parts[0].ActiveProducers; len(p) != 1 || p[0].ProducerID != 7 || p[0].LastSequence != 7 || p[0].CurrentTxnStartOffset != -1 {
		t.Errorf("active producers: %+v", p)
	}
	if parts[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("a missing partition: error %d", parts[1].ErrorCode)
	}
}

func TestDescribeLogDirs(t *testing.T) {
	b := startBroker(t)
	b.createTopic("one", 2)
	b.createTopic("two", 1)
	c := b.dial()
	c.produce("one", 1, batch(record.None, strings.Repeat("x", 1000)))
	for v := int16(1); v <= 5; v++ {
		q := kmsg.NewPtrDescribeLogDirsRequest()
		q.SetVersion(v)
		resp := ask[*kmsg.DescribeLogDirsResponse](c, q)
		if len(resp.Dirs) != 1 || len(resp.Dirs[0].Topics) != 2 || len(resp.Dirs[0].Topics[0].Partitions) != 2 {
			t.Fatalf("v%d: %+v", v, resp)
		}
		if p := resp.Dirs[0].Topics[0].Partitions; p[0].Size != 0 || p[1].Size < 1000 {
			t.Errorf("v%d: sizes %d and %d", v, p[0].Size, p[1].Size)
		}
		if v >= 4 && (resp.Dirs[0].TotalBytes <= 0 || resp.Dirs[0].UsableBytes <= 0) {
			t.Errorf("v%d: the volume has %d bytes, %d usable", v, resp.Dirs[0].TotalBytes, resp.Dirs[0].UsableBytes)
		}
		q.Topics = append(q.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: "one", Partitions: []int32{1}})
		resp = ask[*kmsg.DescribeLogDirsResponse](c, q)
		if len(resp.Dirs[0].Topics) != 1 || len(resp.Dirs[0].Topics[0].Partitions) != 1 {
			t.Errorf("v%d: one partition asked for: %+v", v, resp)
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	b := startBroker(t)
	b.createTopic("epoch", 1)
	c := b.dial()
	c.produce("epoch", 0, batch(record.None, "a", "b"))
	for v := int16(2); v <= 4; v++ {
		q := kmsg.NewPtrOffsetForLeaderEpochRequest()
		q.SetVersion(v)
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch = -1
		q.Topics = append(q.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: "epoch", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}})
		if got := ask[*kmsg.OffsetForLeaderEpochResponse](c, q).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LeaderEpoch != 0 || got.EndOffset != 2 {
			t.Errorf("v%d: %+v", v, got)
		}
	}
}

func TestDeleteRecordsOfACompactedTopicIsRefused(t *testing.T) {
	b := startBroker(t)
	b.createTopic("compacted", 1, "cleanup.policy", "compact")
	if got := deleteTo(b.dial(), "compacted", -1); got.ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("error %d, want POLICY_VIOLATION", got.ErrorCode)
	}
}

// A partition that is named twice is answered once, with INVALID_REQUEST, wherever in the request; the others are not concerned.
func TestListOffsetsOfAPartitionNamedTwice(t *testing.T) {
	b := startBroker(t)
	b.createTopic("twice", 2)
	b.createTopic("once", 1)
	c := b.dial()
	c.produce("twice", 1, batch(record.None, "x"))
	q := latest("twice")
	for _, topic := range []*kmsg.ListOffsetsRequest{latest("once"), latest("twice"), latest("twice")} {
		q.Topics = append(q.Topics, topic.Topics[0])
	}
	q.Topics[2].Partitions[0].Partition = 1
	q.Topics[0].Partitions = append(q.Topics[0].Partitions, q.Topics[0].Partitions[0])
	type answer struct {
		topic           string
		partition       int32
		code            int16
		offset, stampMs int64
	}
	var got []answer
	for _, topic := range ask[*kmsg.ListOffsetsResponse](c, q).Topics {
		for _, p := range topic.Partitions {
			got = append(got, answer{topic.Topic, p.Partition, p.ErrorCode, p.Offset, p.Timestamp})
		}
	}
	want := []answer{{"twice", 0, kerr.InvalidRequest.Code, -1, -1}, {"once", 0, 0, 0, -1}, {"twice", 1, 0, 1, -1}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestDeleteRecordsOfAnInternalTopicIsRefused(t *testing.T) {
	b := startBroker(t)
	b.createTopic("__consumer_offsets", 1)
	c := b.dial()
	for topic, want := range map[string]*kerr.Error{"__consumer_offsets": kerr.InvalidTopicException, "__transaction_state": kerr.UnknownTopicOrPartition} {
		if got := deleteTo(c, topic, -1); got.ErrorCode != want.Code || got.LowWatermark != -1 {
			t.Errorf("%s: error %d at %d, want %s", topic, got.ErrorCode, got.LowWatermark, want.Message)
		}
	}
}
