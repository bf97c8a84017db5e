package broker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/coordinator/fence"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
)

const offsets = metadata.ConsumerOffsetsTopic

// shardTopic creates the topic of the group coordinators, without an owner of its shards.
func (b *testBroker) shardTopic() metadata.TopicID { return b.createTopic(offsets, 2) }

// giveShard gives a shard a new owner.
func (b *testBroker) giveShard(id metadata.TopicID, partition, epoch int32) {
	b.t.Helper()
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{
		CoordinatorShard: metadata.Shard{Owner: 7, Epoch: epoch}.Record(id, partition)}})
}

// elect makes a node the leader and only replica of shard 0.
func (b *testBroker) elect(id metadata.TopicID, leader int32) {
	b.t.Helper()
	only := &metadatapb.Replicas{Ids: []int32{leader}}
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
		TopicId: id[:], Leader: proto.Int32(leader), Replicas: only, Isr: only}}})
}

func ownerRequest(id metadata.TopicID, token fence.Token, records []byte) *kmsg.ProduceRequest {
	q := produceRequest(13, -1, "", id, 0, records)
	token.Put(&q.Topics[0].Partitions[0].UnknownTags)
	return q
}

// own produces as the owner of shard 0 and returns the base offset, or the error.
func (c *client) own(id metadata.TopicID, token fence.Token, records []byte) (int64, error) {
	c.t.Helper()
	return outcome(ask[*kmsg.ProduceResponse](c, ownerRequest(id, token, records)))
}

func outcome(resp *kmsg.ProduceResponse) (int64, error) {
	p := resp.Topics[0].Partitions[0]
	return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
}

func keyed(value string) []byte {
	b := record.NewBuilder()
	b.Append(time.Now().UnixMilli(), []byte("key"), []byte(value))
	built, err := b.Build(record.None, 0)
	if err != nil {
		panic(err)
	}
	return built
}

func inTransaction(value string) []byte {
	b := record.NewBuilder()
	b.SetProducer(9, 1, record.NoSequence)
	b.SetTransactional()
	b.Append(time.Now().UnixMilli(), []byte("key"), []byte(value))
	built, err := b.Build(record.None, 0)
	if err != nil {
		panic(err)
	}
	return built
}

func TestAShardIsItsOwnersToWrite(t *testing.T) {
	b := startBroker(t)
	c := b.dial()
	id := b.shardTopic()
	b.giveShard(id, 0, 3)
	b.giveShard(id, 1, 8) // another shard has no say
	next := int64(0)
	for i, test := range []struct {
		what  string
		token fence.Token
		batch []byte
		want  error
	}{
		{"an older epoch", fence.Token{Epoch: 2, Sequence: 1}, keyed("x"), kerr.NotCoordinator},
		{"no leader epoch", fence.Token{Epoch: 3, LeaderEpoch: -1, Sequence: 1}, keyed("x"), kerr.InvalidRequest},
		{"a newer leader epoch", fence.Token{Epoch: 3, LeaderEpoch: 1, Sequence: 1}, keyed("x"), kerr.UnknownLeaderEpoch},
		{"a fence", fence.Token{Epoch: 3, Sequence: 1}, record.LeaderChange(7, time.Now().UnixMilli()), nil},
		{"records", fence.Token{Epoch: 3, Sequence: 2}, keyed("1"), nil},
		{"a transaction", fence.Token{Epoch: 3, Sequence: 4}, inTransaction("2"), nil},
		{"its end", fence.Token{Epoch: 3, Sequence: 5}, record.EndTransaction(record.Marker{Type: record.Commit}, 9, 1, time.Now().UnixMilli()), nil},
		{"an overtaken batch", fence.Token{Epoch: 3, Sequence: 3}, keyed("x"), kerr.OutOfOrderSequenceNumber},
		{"no batch", fence.Token{Epoch: 3, Sequence: 6}, []byte("no batch"), kerr.InvalidRecord},
		{"the same sequence with what fits", fence.Token{Epoch: 3, Sequence: 6}, keyed("3"), nil},
	} {
		offset, err := c.own(id, test.token, test.batch)
		if err != test.want || err == nil && offset != next {
			t.Errorf("%d: %s: offset %d, %v; want %d, %v", i, test.what, offset, err, next, test.want)
		}
		if err == nil {
			next = offset + 1
		}
	}
	got := ask[*kmsg.FetchResponse](c, fetchRequest(13, 0, 0, fetchPartition{id: id})).Topics[0].Partitions[0]
	if got.HighWatermark != 5 || got.LastStableOffset != 5 {
		t.Errorf("high watermark %d, stable offset %d", got.HighWatermark, got.LastStableOffset)
	}
}

// A batch whose answer was lost is sent again and answered, and is in the log once; a new epoch begins anew.
func TestABatchThatIsSentAgainIsAppendedOnce(t *testing.T) {
	b := startBroker(t)
	c := b.dial()
	id := b.shardTopic()
	for epoch := int32(1); epoch <= 2; epoch++ {
		b.giveShard(id, 0, epoch)
		for range 3 {
			if offset, err := c.own(id, fence.Token{Epoch: epoch, Sequence: 1}, keyed("1")); offset != int64(epoch-1) || err != nil {
				t.Errorf("epoch %d: offset %d, %v", epoch, offset, err)
			}
		}
	}
	// A new leader does not know what the last one has answered.
	b.elect(id, testNode)
	if _, err := c.own(id, fence.Token{Epoch: 2, Sequence: 1}, keyed("1")); err != kerr.FencedLeaderEpoch {
		t.Errorf("sent to the last leader: %v", err)
	}
	if offset, err := c.own(id, fence.Token{Epoch: 2, LeaderEpoch: 1, Sequence: 1}, keyed("1")); offset != 2 || err != nil {
		t.Errorf("sent to the new leader: %d, %v", offset, err)
	}
}

func TestNobodyElseWritesToAShard(t *testing.T) {
	b := startBroker(t)
	c := b.dial()
	id := b.shardTopic()
	b.giveShard(id, 0, 1)
	produce := func(q *kmsg.ProduceRequest) error {
		_, err := outcome(ask[*kmsg.ProduceResponse](c, q))
		return err
	}
	token := fence.Token{Epoch: 1, Sequence: 1}
	if err := produce(produceRequest(13, -1, "", id, 0, keyed("x"))); err != kerr.InvalidTopicException {
		t.Errorf("without a token: %v", err)
	}
	if err := produce(produceRequest(3, -1, offsets, metadata.TopicID{}, 0, keyed("x"))); err != kerr.InvalidTopicException {
		t.Errorf("by name: %v", err)
	}
	q := ownerRequest(id, token, keyed("x"))
	q.Acks = 1
	if err := produce(q); err != kerr.InvalidRequiredAcks {
		t.Errorf("acks 1: %v", err)
	}
	q = ownerRequest(id, token, keyed("x"))
	q.Topics[0].Partitions[0].UnknownTags.Each(func(tag uint32, _ []byte) { q.Topics[0].Partitions[0].UnknownTags.Set(tag, []byte{1}) })
	if err := produce(q); err != kerr.InvalidRequest {
		t.Errorf("a broken token: %v", err)
	}
	// Elsewhere the token gives no rights.
	other := b.createTopic("other", 1)
	if err := produce(ownerRequest(other, token, record.LeaderChange(1, time.Now().UnixMilli()))); err != kerr.InvalidRecord {
		t.Errorf("a control batch for another topic: %v", err)
	}
	if err := produce(ownerRequest(other, token, keyed("1"))); err != nil {
		t.Errorf("records for another topic: %v", err)
	}
}

// An owner can be quicker than the broker's metadata. It waits, and what was sent behind it does not.
func TestANewOwnerWaitsForTheMetadata(t *testing.T) {
	b := startBroker(t)
	id := b.shardTopic()
	b.giveShard(id, 0, 1)
	b.createTopic("other", 1)
	c, reader := b.dial(), b.dial()
	early := ownerRequest(id, fence.Token{Epoch: 2, Sequence: 1}, keyed("1"))
	behind := produceRequest(9, -1, "other", metadata.TopicID{}, 0, batch(record.None, "x"))
	earlyID, behindID := c.send(early), c.send(behind)
	poll := fetchRequest(11, 10_000, 1, fetchPartition{topic: "other"})
	if got := ask[*kmsg.FetchResponse](reader, poll).Topics[0].Partitions[0]; got.HighWatermark != 1 {
		t.Fatalf("what was sent behind is not there: high watermark %d", got.HighWatermark)
	}
	b.giveShard(id, 1, 1) // is none of its business
	b.giveShard(id, 0, 2)
	if offset, err := outcome(c.receive(early, earlyID).(*kmsg.ProduceResponse)); offset != 0 || err != nil {
		t.Errorf("the new owner: %d, %v", offset, err)
	}
	c.receive(behind, behindID)

	began := time.Now()
	if _, err := c.own(id, fence.Token{Epoch: 3, Sequence: 1}, keyed("1")); err != kerr.CoordinatorNotAvailable {
		t.Errorf("an owner who never comes: %v", err)
	}
	if waited := time.Since(began); waited < time.Second || waited > 10*time.Second {
		t.Errorf("it took %v", waited)
	}
}

// A shard that moves here later than it got its owner is known by that owner's epoch.
func TestAShardIsKnownWithItsPartition(t *testing.T) {
	b := startBroker(t)
	id := b.shardTopic()
	b.elect(id, 2)
	b.giveShard(id, 0, 4)
	c := b.dial()
	if _, err := c.own(id, fence.Token{Epoch: 4, LeaderEpoch: 1, Sequence: 1}, keyed("1")); err != kerr.NotLeaderForPartition {
		t.Errorf("elsewhere: %v", err)
	}
	b.elect(id, testNode)
	if _, err := c.own(id, fence.Token{Epoch: 4, LeaderEpoch: 2, Sequence: 1}, keyed("1")); err != nil {
		t.Errorf("here: %v", err)
	}
}

// Once the broker knows of a new epoch, nothing of the old one enters the log.
func TestNoAppendFollowsTheEndOfItsEpoch(t *testing.T) {
	b := startBroker(t)
	id := b.shardTopic()
	hosted, err := b.parts.Lookup(offsets, metadata.TopicID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := hosted.Log()
	if err != nil {
		t.Fatal(err)
	}
	const epochs = 30
	ends := []int64{0}
	b.giveShard(id, 0, 1)
	var stop atomic.Bool
	var owners sync.WaitGroup
	written := make(chan struct{}, 10)
	for range 3 {
		c := b.dial()
		owners.Go(func() {
			for i := int64(1); !stop.Load(); i++ {
				epoch := hosted.ShardEpoch()
				_, err := c.own(id, fence.Token{Epoch: epoch, Sequence: i}, keyed(fmt.Sprint(epoch)))
				switch err {
				case nil:
					select {
					case written <- struct{}{}:
					default:
					}
				case kerr.NotCoordinator, kerr.OutOfOrderSequenceNumber:
				default:
					t.Errorf("epoch %d: %v", epoch, err)
					return
				}
			}
		})
	}
	for epoch := int32(2); epoch <= epochs; epoch++ {
		for range 2 * cap(written) {
			select {
			case <-written:
			case <-time.After(20 * time.Second):
				t.Fatal("nothing is written any more")
			}
		}
		b.giveShard(id, 0, epoch)
		ends = append(ends, l.EndOffset())
	}
	stop.Store(true)
	owners.Wait()
	slice, err := l.Read(0, 1<<20, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Release()
	stored, err := slice.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for offset, value := range values(t, stored, 0) {
		var epoch int
		fmt.Sscan(value, &epoch)
		if epoch < epochs && int64(offset) >= ends[epoch] {
			t.Errorf("offset %d was written under epoch %d, which ended at %d", offset, epoch, ends[epoch])
		}
	}
}
