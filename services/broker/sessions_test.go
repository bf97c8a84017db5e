package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
)

// openSession begins a fetch session and returns its id.
func (c *client) openSession(parts ...fetchPartition) int32 {
	c.t.Helper()
	resp := ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1, parts...), 0, 0))
	if resp.SessionID == 0 || resp.ErrorCode != 0 {
		c.t.Fatalf("no session: %+v", resp)
	}
	return resp.SessionID
}

// onlyPartition is the one partition that a response mentions, nil for none.
func onlyPartition(t testing.TB, resp *kmsg.FetchResponse) *kmsg.FetchResponseTopicPartition {
	t.Helper()
	switch {
	case resp.ErrorCode != 0 || len(resp.Topics) > 1 || len(resp.Topics) == 1 && len(resp.Topics[0].Partitions) != 1:
		t.Fatalf("answer %+v", resp)
	case len(resp.Topics) == 0:
		return nil
	}
	return &resp.Topics[0].Partitions[0]
}

// A session of which every partition is forgotten is closed, and the client told so by the id 0.
func TestASessionWithNothingLeftIsClosed(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("left", 2)
	c := b.dial()
	session := c.openSession(fetchPartition{"", id, 0, 0}, fetchPartition{"", id, 1, 0})
	forget := func(epoch int32, partitions ...int32) *kmsg.FetchResponse {
		q := in(fetchRequest(13, 0, 1), session, epoch)
		q.ForgottenTopics = append(q.ForgottenTopics, kmsg.FetchRequestForgottenTopic{TopicID: id, Partitions: partitions})
		return ask[*kmsg.FetchResponse](c, q)
	}
	if resp := forget(1, 0); resp.ErrorCode != 0 || resp.SessionID != session {
		t.Errorf("one of two forgotten: %+v", resp)
	}
	if resp := forget(2, 1); resp.ErrorCode != 0 || resp.SessionID != 0 || len(resp.Topics) != 0 {
		t.Errorf("the last forgotten: %+v", resp)
	}
	if resp := ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1), session, 3)); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("afterwards: error %d", resp.ErrorCode)
	}
	if sessions, _, _ := b.fetches.SessionStats(); sessions != 0 {
		t.Errorf("%d sessions are kept", sessions)
	}
}

// A reader that waits in a session is told of a start that retention moved, with its next answer and no sooner.
func TestASessionLearnsOfAStartThatRetentionMoved(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("aged", 1, "segment.bytes", "1048576", "retention.bytes", "1500000")
	c := b.dial()
	for range 6 {
		c.produce("aged", 0, batch(record.None, strings.Repeat("x", 700<<10)))
	}
	session := c.openSession(fetchPartition{"", id, 0, 6})
	if p := onlyPartition(t, ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1), session, 1))); p != nil {
		t.Fatalf("news before anything happened: %+v", p)
	}
	poll := in(fetchRequest(13, 200, 1), session, 2)
	began := time.Now()
	waiting := c.send(poll)
	b.logs.Retain(began.UnixMilli())
	p := onlyPartition(t, c.receive(poll, waiting).(*kmsg.FetchResponse))
	if p == nil || p.LogStartOffset == 0 || p.HighWatermark != 6 || len(p.RecordBatches) != 0 {
		t.Errorf("after retention: %+v", p)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("answered after %v, which nothing asked for", took)
	}
	if p := onlyPartition(t, ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1), session, 3))); p != nil {
		t.Errorf("told twice: %+v", p)
	}
}

// As with Kafka, an answer with a diverging epoch tells the high watermark, too: it is no news afterwards.
func TestADivergingEpochInASession(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("fork", 1)
	c := b.dial()
	c.produce("fork", 0, batch(record.None, "a", "b"))
	for range 2 {
		b.apply(&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{TopicId: id[:], Leader: proto.Int32(testNode)}}})
	}
	c.produce("fork", 0, batch(record.None, "c"))

	read := func(q *kmsg.FetchRequest, offset int64, lastEpoch int32) *kmsg.FetchRequest {
		q.Topics = fetchRequest(13, 0, 1, fetchPartition{"", id, 0, offset}).Topics
		q.Topics[0].Partitions[0].LastFetchedEpoch = lastEpoch
		return q
	}
	resp := ask[*kmsg.FetchResponse](c, read(in(fetchRequest(13, 0, 1), 0, 0), 3, 1))
	p := onlyPartition(t, resp)
	if p == nil || p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 2 || p.HighWatermark != 3 || len(p.RecordBatches) != 0 {
		t.Fatalf("a reader with an epoch that never was: %+v", p)
	}
	if p := onlyPartition(t, ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1), resp.SessionID, 1))); p == nil || p.DivergingEpoch.EndOffset != 2 {
		t.Errorf("it is not told again: %+v", p)
	}
	if p := onlyPartition(t, ask[*kmsg.FetchResponse](c, read(in(fetchRequest(13, 0, 1), resp.SessionID, 2), 3, 2))); p != nil {
		t.Errorf("news for a reader that has come back: %+v", p)
	}
}

// From v13 on topics have no names: an id that is zero is unknown, and no topic without a name.
func TestTheZeroTopicIDIsUnknown(t *testing.T) {
	b := startBroker(t)
	c := b.dial()
	q := fetchRequest(13, 60_000, 1, fetchPartition{})
	q.SessionEpoch = -1
	if p := onlyPartition(t, ask[*kmsg.FetchResponse](c, q)); p == nil || p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("fetch: %+v", p)
	}
	if p := ask[*kmsg.ProduceResponse](c, produceRequest(13, -1, "", metadata.TopicID{}, 0, batch(record.None, "x"))).Topics[0].Partitions[0]; p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("produce: error %d", p.ErrorCode)
	}
}
