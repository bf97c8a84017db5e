package broker

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
)

func TestEveryVersionOfProduceAndFetchCarriesTheSameBytes(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("all", 1)
	c := b.dial()
	want := batch(record.None, "one", "two")
	offset := int64(0)
	for v := int16(3); v <= 13; v++ {
		resp := ask[*kmsg.ProduceResponse](c, produceRequest(v, 1, "all", id, 0, bytes.Clone(want)))
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != offset {
			t.Fatalf("produce v%d: error %d at offset %d, want %d", v, p.ErrorCode, p.BaseOffset, offset)
		}
		offset += 2
	}
	for v := int16(4); v <= 18; v++ {
		q := fetchRequest(v, 0, 1, fetchPartition{"all", id, 0, 4})
		q.SessionEpoch = -1
		resp := ask[*kmsg.FetchResponse](c, q)
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.HighWatermark != offset || p.LastStableOffset != offset {
			t.Fatalf("fetch v%d: %+v", v, p)
		}
		if v >= 13 && resp.Topics[0].TopicID != id || v < 13 && resp.Topics[0].Topic != "all" {
			t.Fatalf("fetch v%d: topic %q %v", v, resp.Topics[0].Topic, resp.Topics[0].TopicID)
		}
		if got := values(t, p.RecordBatches, 4); len(got) != 2*9 || got[0] != "one" || got[17] != "two" {
			t.Fatalf("fetch v%d: %q", v, got)
		}
	}
}

// BL-015: some clients cannot read null records.
func TestAnEmptyPartitionHasRecordsOfNoBytes(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("empty", 1)
	c := b.dial()
	for v := int16(4); v <= 18; v++ {
		q := fetchRequest(v, 0, 1, fetchPartition{"empty", id, 0, 0})
		q.SessionEpoch = -1
		p := ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.RecordBatches == nil || len(p.RecordBatches) != 0 {
			t.Fatalf("v%d: error %d, records %v", v, p.ErrorCode, p.RecordBatches)
		}
	}
}

func TestRecordsOfEverySizeComeBackWhole(t *testing.T) {
	b := startBroker(t)
	b.createTopic("sizes", 4)
	c := b.dial()
	var parts []fetchPartition
	sizes := []int{1, 4 << 10, 100 << 10, 900 << 10}
	for i, n := range sizes {
		c.produce("sizes", int32(i), batch(record.None, strings.Repeat(fmt.Sprint(i), n)))
		parts = append(parts, fetchPartition{"sizes", metadata.TopicID{}, int32(i), 0})
	}
	q := fetchRequest(12, 0, 1, parts...)
	q.MaxBytes = 50 << 20
	got := 0
	for _, topic := range ask[*kmsg.FetchResponse](c, q).Topics {
		for _, p := range topic.Partitions {
			v := values(t, p.RecordBatches, 0)
			if len(v) != 1 || v[0] != strings.Repeat(fmt.Sprint(p.Partition), sizes[p.Partition]) {
				t.Fatalf("partition %d: %d values", p.Partition, len(v))
			}
			got++
		}
	}
	if got != len(sizes) {
		t.Fatalf("%d partitions answered, want %d", got, len(sizes))
	}
}

// A fetch at the end waits, and the append that completes it answers it; requests behind it on the connection run
// meanwhile (BL-008), but their answers keep the order.
func TestLongPollEndsWithTheAppend(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("poll", 2)
	consumer, producer := b.dial(), b.dial()
	poll := fetchRequest(13, 60_000, 1, fetchPartition{"", id, 0, 0}, fetchPartition{"", id, 1, 0})
	poll.SessionEpoch = -1
	first := consumer.send(poll)
	behind := kmsg.NewPtrListOffsetsRequest()
	behind.SetVersion(7)
	second := consumer.send(behind)
	producer.produce("poll", 1, batch(record.None, "x"))
	resp := consumer.receive(poll, first).(*kmsg.FetchResponse)
	found := false
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if got := values(t, p.RecordBatches, 0); p.Partition == 1 && len(got) == 1 && got[0] == "x" {
				found = true
			}
		}
	}
	if !found {
		t.Fatalf("the record is not in the answer: %+v", resp)
	}
	consumer.receive(behind, second)
}

func TestMinBytesWaitsForEnough(t *testing.T) {
	b := startBroker(t)
	b.createTopic("min", 1)
	consumer, producer := b.dial(), b.dial()
	one := batch(record.None, strings.Repeat("x", 1000))
	poll := fetchRequest(12, 60_000, int32(3*len(one)), fetchPartition{"min", metadata.TopicID{}, 0, 0})
	poll.SessionEpoch = -1
	id := consumer.send(poll)
	for range 3 {
		producer.produce("min", 0, bytes.Clone(one))
	}
	p := consumer.receive(poll, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if len(p.RecordBatches) != 3*len(one) {
		t.Fatalf("%d bytes, want the %d asked for", len(p.RecordBatches), 3*len(one))
	}
}

func TestTimeoutAnswersWithWhatThereIs(t *testing.T) {
	b := startBroker(t)
	b.createTopic("late", 1)
	c := b.dial()
	c.produce("late", 0, batch(record.None, "x"))
	q := fetchRequest(12, 20, 1<<20, fetchPartition{"late", metadata.TopicID{}, 0, 0})
	q.SessionEpoch = -1
	if got := values(t, ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0].RecordBatches, 0); len(got) != 1 {
		t.Fatalf("got %q", got)
	}
}

// BL-010: a batch above every limit is returned all the same, and partitions left out have their turn next.
func TestAnOversizeBatchIsReturnedAndNobodyStarves(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("big", 3, "max.message.bytes", "5000000")
	c := b.dial()
	for p := range int32(3) {
		c.produce("big", p, batch(record.None, strings.Repeat("x", 3<<20)))
	}
	q := in(fetchRequest(13, 0, 1, fetchPartition{"", id, 0, 0}, fetchPartition{"", id, 1, 0}, fetchPartition{"", id, 2, 0}), 0, 0)
	limit := func(q *kmsg.FetchRequest) *kmsg.FetchRequest {
		q.MaxBytes = 1
		for i := range q.Topics {
			q.Topics[i].Partitions[0].PartitionMaxBytes = 1
		}
		return q
	}
	resp := ask[*kmsg.FetchResponse](c, limit(q))
	served := map[int32]bool{}
	for epoch := int32(1); epoch <= 3; epoch++ {
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if len(p.RecordBatches) > 0 {
					served[p.Partition] = true
				}
			}
		}
		if len(served) != int(epoch) {
			t.Fatalf("after %d answers partitions %v had data", epoch, served)
		}
		resp = ask[*kmsg.FetchResponse](c, limit(in(fetchRequest(13, 0, 1), resp.SessionID, epoch)))
	}
}

func TestSessionAnswersOnlyWithNews(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("news", 3)
	c, producer := b.dial(), b.dial()
	producer.produce("news", 0, batch(record.None, "a"))
	resp := ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1,
		fetchPartition{"", id, 0, 1}, fetchPartition{"", id, 1, 0}, fetchPartition{"", id, 2, 0}), 0, 0))
	if resp.SessionID == 0 || len(resp.Topics[0].Partitions) != 3 {
		t.Fatalf("first answer: %+v", resp)
	}
	session := resp.SessionID
	if resp = ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1), session, 1)); len(resp.Topics) != 0 {
		t.Fatalf("an answer without news: %+v", resp)
	}
	poll := in(fetchRequest(13, 60_000, 1), session, 2)
	waiting := c.send(poll)
	producer.produce("news", 2, batch(record.None, "b"))
	resp = c.receive(poll, waiting).(*kmsg.FetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != 2 {
		t.Fatalf("the news is not that of partition 2 alone: %+v", resp)
	}
	// Read on from there, and forget partition 1.
	q := in(fetchRequest(13, 0, 1, fetchPartition{"", id, 2, 1}), session, 3)
	q.ForgottenTopics = append(q.ForgottenTopics, kmsg.FetchRequestForgottenTopic{TopicID: id, Partitions: []int32{1}})
	if resp = ask[*kmsg.FetchResponse](c, q); len(resp.Topics) != 0 {
		t.Fatalf("an answer without news: %+v", resp)
	}
	producer.produce("news", 1, batch(record.None, "c"))
	if resp = ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1), session, 4)); len(resp.Topics) != 0 {
		t.Fatalf("the forgotten partition is answered: %+v", resp)
	}
}

func TestSessionErrors(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("sess", 1)
	c := b.dial()
	part := fetchPartition{"sess", id, 0, 0}
	session := ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1, part), 0, 0)).SessionID
	for _, tc := range []struct {
		name string
		q    *kmsg.FetchRequest
		want *kerr.Error
	}{
		{"unknown id", in(fetchRequest(13, 0, 1), session+1, 1), kerr.FetchSessionIDNotFound},
		{"wrong epoch", in(fetchRequest(13, 0, 1), session, 7), kerr.InvalidFetchSessionEpoch},
		{"names after ids", in(fetchRequest(12, 0, 1), session, 1), kerr.FetchSessionTopicIDError},
		{"closed", in(fetchRequest(13, 0, 1, part), session, -1), nil},
		{"after the close", in(fetchRequest(13, 0, 1), session, 2), kerr.FetchSessionIDNotFound},
	} {
		want := int16(0)
		if tc.want != nil {
			want = tc.want.Code
		}
		if resp := ask[*kmsg.FetchResponse](c, tc.q); resp.ErrorCode != want {
			t.Errorf("%s: error %d, want %d", tc.name, resp.ErrorCode, want)
		}
	}
	if sessions, _, _ := b.fetches.SessionStats(); sessions != 0 {
		t.Errorf("%d sessions left", sessions)
	}
}

func TestDeletingATopicEndsTheWaitOfItsReaders(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("gone", 1)
	c := b.dial()
	for v, want := range map[int16]*kerr.Error{12: kerr.UnknownTopicOrPartition, 13: kerr.UnknownTopicID} {
		q := fetchRequest(v, 60_000, 1, fetchPartition{"gone", id, 0, 0})
		q.SessionEpoch = -1
		waiting := c.send(q)
		b.deleteTopic(id)
		if p := c.receive(q, waiting).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != want.Code {
			t.Errorf("v%d: error %d, want %d", v, p.ErrorCode, want.Code)
		}
		id = b.createTopic("gone", 1)
	}
	if got := c.produce("gone", 0, batch(record.None, "new life")); got != 0 {
		t.Errorf("the new topic begins at offset %d", got)
	}
}

func TestFetchErrors(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("errs", 1)
	c := b.dial()
	c.produce("errs", 0, batch(record.None, "x"))
	for _, tc := range []struct {
		name string
		part fetchPartition
		edit func(*kmsg.FetchRequest)
		want *kerr.Error
	}{
		{"beyond the end", fetchPartition{"errs", id, 0, 2}, nil, kerr.OffsetOutOfRange},
		{"below the start", fetchPartition{"errs", id, 0, -1}, nil, kerr.OffsetOutOfRange},
		{"no such partition", fetchPartition{"errs", id, 1, 0}, nil, kerr.UnknownTopicOrPartition},
		{"no such topic", fetchPartition{"none", metadata.TopicID{1}, 0, 0}, nil, kerr.UnknownTopicID},
		{"newer leader epoch", fetchPartition{"errs", id, 0, 0}, func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].CurrentLeaderEpoch = 9 }, kerr.UnknownLeaderEpoch},
	} {
		q := fetchRequest(13, 60_000, 1, tc.part)
		q.SessionEpoch = -1
		if tc.edit != nil {
			tc.edit(q)
		}
		p := ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0]
		if p.ErrorCode != tc.want.Code || p.RecordBatches == nil {
			t.Errorf("%s: error %d, want %d (records %v)", tc.name, p.ErrorCode, tc.want.Code, p.RecordBatches)
		}
	}
}

func TestProduceErrors(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("errs", 1, "max.message.bytes", "1000")
	c := b.dial()
	corrupt := batch(record.None, "x")
	corrupt[len(corrupt)-1]++
	for _, tc := range []struct {
		name string
		q    *kmsg.ProduceRequest
		want *kerr.Error
	}{
		{"no such topic", produceRequest(9, 1, "none", id, 0, batch(record.None, "x")), kerr.UnknownTopicOrPartition},
		{"no such topic id", produceRequest(13, 1, "", metadata.TopicID{9}, 0, batch(record.None, "x")), kerr.UnknownTopicID},
		{"no such partition", produceRequest(9, 1, "errs", id, 1, batch(record.None, "x")), kerr.UnknownTopicOrPartition},
		{"acks", produceRequest(9, 2, "errs", id, 0, batch(record.None, "x")), kerr.InvalidRequiredAcks},
		{"corrupt", produceRequest(9, 1, "errs", id, 0, corrupt), kerr.CorruptMessage},
		{"too large", produceRequest(9, 1, "errs", id, 0, batch(record.None, strings.Repeat("x", 2000))), kerr.MessageTooLarge},
		{"zstd before v7", produceRequest(6, 1, "errs", id, 0, withCodec(batch(record.None, "x"), record.Zstd)), kerr.UnsupportedCompressionType},
	} {
		p := ask[*kmsg.ProduceResponse](c, tc.q).Topics[0].Partitions[0]
		if p.ErrorCode != tc.want.Code || p.BaseOffset != -1 {
			t.Errorf("%s: error %d at offset %d, want %d", tc.name, p.ErrorCode, p.BaseOffset, tc.want.Code)
		}
	}
	if end := ask[*kmsg.ListOffsetsResponse](c, latest("errs")).Topics[0].Partitions[0].Offset; end != 0 {
		t.Errorf("refused records moved the end to %d", end)
	}
}

// With acks=0 there is no answer; a failure is told by closing the connection.
func TestAcksNone(t *testing.T) {
	b := startBroker(t)
	b.createTopic("none", 1)
	c := b.dial()
	c.send(produceRequest(9, 0, "none", metadata.TopicID{}, 0, batch(record.None, "x")))
	if end := ask[*kmsg.ListOffsetsResponse](c, latest("none")).Topics[0].Partitions[0].Offset; end != 1 {
		t.Fatalf("end offset %d, want 1", end)
	}
	c.send(produceRequest(9, 0, "missing", metadata.TopicID{}, 0, batch(record.None, "x")))
	q := latest("none")
	if _, err := c.tryReceive(q, c.nextID+1); err == nil {
		t.Fatal("the connection is still open after a failed produce with acks=0")
	}
}

func latest(topic string) *kmsg.ListOffsetsRequest {
	q := kmsg.NewPtrListOffsetsRequest()
	q.SetVersion(7)
	q.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	q.Topics = append(q.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
	return q
}

// withCodec claims that a batch is compressed.
func withCodec(b []byte, codec record.Codec) []byte {
	b[record.AttributesAt+1] |= byte(codec)
	return b
}

// A log that was left behind by a topic of the same name is in nobody's way, and is not thrown away either.
func TestALogThatTheClusterDoesNotKnowIsSetAside(t *testing.T) {
	b := startBroker(t)
	for topic, id := range map[string]metadata.TopicID{"forgotten": {1}, "renewed": {2}} {
		if _, err := b.logs.Create(topic, 0, id, log.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
	}
	b.createTopic("renewed", 1)
	b.createTopic("fine", 1)
	c := b.dial()
	c.produce("fine", 0, batch(record.None, "x"))
	refused := ask[*kmsg.ProduceResponse](c, produceRequest(9, 1, "renewed", metadata.TopicID{}, 0, batch(record.None, "x")))
	if got := refused.Topics[0].Partitions[0].ErrorCode; got != kerr.KafkaStorageError.Code {
		t.Errorf("before the image is known to be new: error %d", got)
	}
	b.parts.Settle()
	if got := c.produce("renewed", 0, batch(record.None, "x")); got != 0 {
		t.Errorf("the new log begins at offset %d", got)
	}
	if got := c.produce("fine", 0, batch(record.None, "x")); got != 1 {
		t.Errorf("a log that the cluster knows was touched: offset %d", got)
	}
	if _, ok := b.logs.Log("forgotten", 0); ok {
		t.Error("the forgotten log is still served")
	}
}

// Batches of before Kafka 0.11 and torn ones are no valid records to a producer of today.
func TestBatchesThatAreNoBatches(t *testing.T) {
	b := startBroker(t)
	b.createTopic("old", 1)
	c := b.dial()
	whole := batch(record.None, "v")
	old := bytes.Clone(whole)
	old[record.MagicAt] = 1
	for what, records := range map[string][]byte{"magic 1": old, "torn": whole[:len(whole)-1], "none": {}} {
		p := ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "old", metadata.TopicID{}, 0, records)).Topics[0].Partitions[0]
		if p.ErrorCode != kerr.InvalidRecord.Code {
			t.Errorf("%s: error %d, want INVALID_RECORD", what, p.ErrorCode)
		}
	}
}

// A fetch that has all it may have, or reached the end of a segment with more behind it, does not wait for more: with
// min_bytes out of reach these would take their whole minute.
func TestFetchesThatWouldWaitInVain(t *testing.T) {
	b := startBroker(t)
	b.createTopic("vain", 1, "segment.bytes", "1048576")
	c := b.dial()
	for range 6 {
		c.produce("vain", 0, batch(record.None, strings.Repeat("x", 400<<10)))
	}
	full := fetchRequest(12, 60_000, 1<<30, fetchPartition{topic: "vain"})
	full.MaxBytes, full.SessionEpoch = 1000, -1
	if p := ask[*kmsg.FetchResponse](c, full).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 {
		t.Error("a full response has no records")
	}
	boundary := fetchRequest(12, 60_000, 600<<10, fetchPartition{topic: "vain", offset: 1}) // 400 KiB are left in its segment
	boundary.SessionEpoch = -1
	if p := ask[*kmsg.FetchResponse](c, boundary).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 {
		t.Error("the end of the segment has no records")
	}
}
