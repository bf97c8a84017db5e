package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
)

// replicated creates a topic of one partition with the replicas 1 to n, led by this broker, of whom those in isr are in sync.
// The nodes are registered, each with its id as its epoch; node 3 is in the rack "near".
func (b *testBroker) replicated(name string, n int32, isr []int32, configs ...string) metadata.TopicID {
	b.t.Helper()
	b.lives++
	id := metadata.TopicID{0: 0xca, 15: b.lives}
	var records []*metadatapb.Record
	p := &metadata.Partition{Leader: testNode, LeaderEpoch: 4, ISR: isr}
	for node := int32(1); node <= n; node++ {
		p.Replicas = append(p.Replicas, node)
		if _, ok := b.image.Node(node); ok {
			continue
		}
		m := metadata.Node{ID: node, Epoch: int64(node), Incarnation: [16]byte{byte(node)}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "host", Port: uint16(node)}}}
		if node == 3 {
			m.Rack = "near"
		}
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: m.Record()}})
	}
	records = append(records,
		&metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}},
		&metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}})
	for i := 0; i < len(configs); i += 2 {
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
			ResourceType: int32(metadata.TopicConfig), ResourceName: name, Name: configs[i], Value: proto.String(configs[i+1]),
		}}})
	}
	b.apply(records...)
	return id
}

// change commits a change of partition 0.
func (b *testBroker) change(id metadata.TopicID, change *metadatapb.PartitionChangeRecord) {
	b.t.Helper()
	change.TopicId = id[:]
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: change}})
}

func inSync(nodes ...int32) *metadatapb.PartitionChangeRecord {
	return &metadatapb.PartitionChangeRecord{Isr: &metadatapb.Replicas{Ids: nodes}}
}

// followerFetch is a fetch of partition 0 by a replica, outside of sessions.
func followerFetch(version int16, id metadata.TopicID, name string, node int32, offset int64) *kmsg.FetchRequest {
	q := fetchRequest(version, 0, 1, fetchPartition{name, id, 0, offset})
	q.SessionEpoch = -1
	q.Topics[0].Partitions[0].CurrentLeaderEpoch = 4
	if version < 15 {
		q.ReplicaID = node
	} else {
		q.ReplicaState.ID, q.ReplicaState.Epoch = node, int64(node)
	}
	return q
}

func (c *client) fetchOne(q *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0]
}

func wantCode(t testing.TB, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: error %v, want %v", what, kerr.ErrorForCode(got), want)
	}
}

// The producer is answered by the fetch that completes it, the requests behind it run meanwhile, and consumers see the record
// from then on.
func TestAcksAllWaitsForEveryInSyncReplica(t *testing.T) {
	b := startBroker(t)
	id := b.replicated("three", 3, []int32{1, 2, 3})
	producer, two, three, consumer := b.dial(), b.dial(), b.dial(), b.dial()
	all := produceRequest(9, -1, "three", id, 0, batch(record.None, "x"))
	one := produceRequest(9, 1, "three", id, 0, batch(record.None, "y"))
	first, second := producer.send(all), producer.send(one)
	poll := fetchRequest(13, 60_000, 1, fetchPartition{"", id, 0, 0})
	poll.SessionEpoch = -1
	polled := consumer.send(poll)

	// Both are appended before either is answered.
	q := followerFetch(14, id, "", 2, 0)
	q.MaxWaitMillis, q.MinBytes = 60_000, int32(len(all.Topics[0].Partitions[0].Records)+len(one.Topics[0].Partitions[0].Records))
	if p := two.fetchOne(q); len(values(t, p.RecordBatches, 0)) != 2 || p.HighWatermark != 0 {
		t.Fatalf("follower got %q, high watermark %d", values(t, p.RecordBatches, 0), p.HighWatermark)
	}
	two.fetchOne(followerFetch(17, id, "", 2, 2))
	if hw := three.fetchOne(followerFetch(17, id, "", 3, 0)).HighWatermark; hw != 0 {
		t.Fatalf("high watermark %d while node 3 has nothing", hw)
	}
	if hw := three.fetchOne(followerFetch(17, id, "", 3, 1)).HighWatermark; hw != 1 {
		t.Fatalf("high watermark %d while node 3 has one record", hw)
	}
	for i, sent := range []struct {
		q  *kmsg.ProduceRequest
		id int32
	}{{all, first}, {one, second}} {
		p := producer.receive(sent.q, sent.id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Errorf("answer %d: error %d, offset %d", i, p.ErrorCode, p.BaseOffset)
		}
	}
	p := consumer.receive(poll, polled).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if got := values(t, p.RecordBatches, 0); len(got) != 1 || got[0] != "x" {
		t.Errorf("consumer got %q", got)
	}
}

func TestAcksAllOfSeveralPartitionsIsOneAnswer(t *testing.T) {
	b := startBroker(t)
	id := b.replicated("two", 2, []int32{1, 2})
	alone := b.createTopic("alone", 1)
	producer, follower := b.dial(), b.dial()
	for i, v := range []int16{9, 13} {
		q := produceRequest(v, -1, "two", id, 0, batch(record.None, "x"))
		q.Topics = append(q.Topics, produceRequest(v, -1, "alone", alone, 0, batch(record.None, "y")).Topics[0],
			produceRequest(v, -1, "none", metadata.TopicID{9}, 0, batch(record.None, "z")).Topics[0])
		sent := producer.send(q)
		b.awaitEnd(id, int64(i)+1)
		follower.fetchOne(followerFetch(17, id, "", 2, int64(i)+1))
		resp := producer.receive(q, sent).(*kmsg.ProduceResponse)
		wantCode(t, "two", resp.Topics[0].Partitions[0].ErrorCode, nil)
		wantCode(t, "alone", resp.Topics[1].Partitions[0].ErrorCode, nil)
		unknown := kerr.UnknownTopicOrPartition
		if v >= 13 {
			unknown = kerr.UnknownTopicID
		} else if resp.Topics[0].Topic != "two" || resp.Topics[1].Topic != "alone" || resp.Topics[2].Topic != "none" {
			t.Errorf("topics %q %q %q", resp.Topics[0].Topic, resp.Topics[1].Topic, resp.Topics[2].Topic)
		}
		wantCode(t, "none", resp.Topics[2].Partitions[0].ErrorCode, unknown)
	}
}

func TestAcksAllEndsWithoutTheFollowers(t *testing.T) {
	b := startBroker(t)
	id := b.replicated("ends", 2, []int32{1, 2}, "min.insync.replicas", "2")
	c := b.dial()
	q := produceRequest(9, -1, "ends", id, 0, batch(record.None, "x"))
	q.TimeoutMillis = 20
	wantCode(t, "timeout", ask[*kmsg.ProduceResponse](c, q).Topics[0].Partitions[0].ErrorCode, kerr.RequestTimedOut)

	// The in-sync replicas shrink: what was appended is committed only when there are enough again (KIP-966).
	q.TimeoutMillis = 60_000
	sent := c.send(q)
	b.awaitEnd(id, 2)
	b.change(id, inSync(1))
	wantCode(t, "before", ask[*kmsg.ProduceResponse](b.dial(), produceRequest(9, -1, "ends", id, 0, batch(record.None, "x"))).Topics[0].Partitions[0].ErrorCode, kerr.NotEnoughReplicas)
	wantCode(t, "acks=1", ask[*kmsg.ProduceResponse](b.dial(), produceRequest(9, 1, "ends", id, 0, batch(record.None, "x"))).Topics[0].Partitions[0].ErrorCode, nil)
	b.change(id, inSync(1, 2))
	b.dial().fetchOne(followerFetch(17, id, "", 2, 3))
	wantCode(t, "in sync again", c.receive(q, sent).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil)

	// Another leader.
	q = produceRequest(13, -1, "", id, 0, batch(record.None, "x"))
	q.TimeoutMillis = 60_000
	sent = c.send(q)
	b.awaitEnd(id, 4)
	b.change(id, &metadatapb.PartitionChangeRecord{Leader: proto.Int32(2)})
	resp := c.receive(q, sent).(*kmsg.ProduceResponse)
	p := resp.Topics[0].Partitions[0]
	wantCode(t, "another leader", p.ErrorCode, kerr.NotLeaderForPartition)
	if p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 5 || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Brokers[0].Port != 2 {
		t.Errorf("leader %+v at %+v", p.CurrentLeader, resp.Brokers)
	}
	f := ask[*kmsg.FetchResponse](c, in(fetchRequest(17, 0, 1, fetchPartition{"", id, 0, 0}), 0, -1))
	wantCode(t, "a follower serves consumers", f.Topics[0].Partitions[0].ErrorCode, nil)
	old := fetchRequest(17, 0, 1, fetchPartition{"", id, 0, 0})
	old.SessionEpoch, old.Topics[0].Partitions[0].CurrentLeaderEpoch = -1, 4
	f = ask[*kmsg.FetchResponse](c, old)
	fp := f.Topics[0].Partitions[0]
	wantCode(t, "old epoch", fp.ErrorCode, kerr.FencedLeaderEpoch)
	if fp.CurrentLeader.LeaderID != 2 || fp.CurrentLeader.LeaderEpoch != 5 || len(f.Brokers) != 1 || f.Brokers[0].Host != "host" {
		t.Errorf("leader %+v at %+v", fp.CurrentLeader, f.Brokers)
	}
}

// awaitEnd waits until the log of partition 0 ends at offset, by fetches of a follower that acknowledge nothing new.
func (b *testBroker) awaitEnd(id metadata.TopicID, offset int64) {
	b.t.Helper()
	c := b.dial()
	for {
		q := followerFetch(17, id, "", 2, offset-1)
		q.MaxWaitMillis = 60_000
		if p := c.fetchOne(q); p.ErrorCode == 0 {
			return
		}
	}
}

func TestWhoMayFetchAsAFollower(t *testing.T) {
	b := startBroker(t)
	id := b.replicated("mine", 2, []int32{1, 2})
	c := b.dial()
	c.produceOne(id)
	wantCode(t, "no replica", c.fetchOne(followerFetch(17, id, "", 5, 0)).ErrorCode, kerr.UnknownLeaderEpoch)
	newer := followerFetch(17, id, "", 2, 0)
	newer.Topics[0].Partitions[0].CurrentLeaderEpoch = 5
	wantCode(t, "newer epoch", c.fetchOne(newer).ErrorCode, kerr.UnknownLeaderEpoch)
	older := followerFetch(17, id, "", 2, 0)
	older.Topics[0].Partitions[0].CurrentLeaderEpoch = 3
	wantCode(t, "older epoch", c.fetchOne(older).ErrorCode, kerr.FencedLeaderEpoch)
	wantCode(t, "beyond the end", c.fetchOne(followerFetch(17, id, "", 2, 9)).ErrorCode, kerr.OffsetOutOfRange)
	diverged := followerFetch(17, id, "", 2, 1)
	diverged.Topics[0].Partitions[0].LastFetchedEpoch = 3
	p := c.fetchOne(diverged)
	if p.ErrorCode != 0 || p.DivergingEpoch.Epoch != 3 || p.DivergingEpoch.EndOffset != 0 || p.HighWatermark != 0 || len(p.RecordBatches) != 0 {
		t.Errorf("diverged: %+v", p)
	}
	earlier := followerFetch(17, id, "", 2, 1)
	wantCode(t, "registered", c.fetchOne(earlier).ErrorCode, nil)
	earlier.ReplicaState.Epoch = 1
	wantCode(t, "earlier registration", c.fetchOne(earlier).ErrorCode, kerr.NotLeaderForPartition)
}

func (c *client) produceOne(id metadata.TopicID) {
	c.t.Helper()
	wantCode(c.t, "produce", ask[*kmsg.ProduceResponse](c, produceRequest(13, 1, "", id, 0, batch(record.None, "x"))).Topics[0].Partitions[0].ErrorCode, nil)
}

// A session's fetch that names nothing acknowledges nothing, and its partitions stay caught up all the same.
func TestFollowersFetchInSessions(t *testing.T) {
	b := startBroker(t)
	id := b.replicated("session", 2, []int32{1, 2})
	c, producer := b.dial(), b.dial()
	session := ask[*kmsg.FetchResponse](c, in(followerFetch(17, id, "", 2, 0), 0, 0)).SessionID
	q := in(fetchRequest(17, 60_000, 1), session, 1)
	q.ReplicaState.ID, q.ReplicaState.Epoch = 2, 2
	sent := c.send(q)
	all := produceRequest(13, -1, "", id, 0, batch(record.None, "x"))
	produced := producer.send(all)
	if p := c.receive(q, sent).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(values(t, p.RecordBatches, 0)) != 1 {
		t.Fatalf("%+v", p)
	}
	stranger := in(fetchRequest(17, 0, 1), session, 2)
	stranger.ReplicaState.ID = -1
	wantCode(t, "another's session", ask[*kmsg.FetchResponse](c, stranger).ErrorCode, kerr.FetchSessionIDNotFound)
	q = in(followerFetch(17, id, "", 2, 1), session, 3)
	if p := c.fetchOne(q); p.HighWatermark != 1 {
		t.Errorf("high watermark %d, want 1", p.HighWatermark)
	}
	wantCode(t, "produce", producer.receive(all, produced).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil)
}

// BL-012: the consumer is told of the nearer replica each time, and not of one that cannot be reached.
func TestConsumersAreSentToTheReplicaInTheirRack(t *testing.T) {
	b := startBroker(t, "replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
	id := b.replicated("racks", 3, []int32{1, 2, 3})
	c := b.dial()
	c.produceOne(id)
	ask2 := func(session, epoch int32) *kmsg.FetchResponse {
		q := in(fetchRequest(17, 0, 1, fetchPartition{"", id, 0, 0}), session, epoch)
		q.Rack = "near"
		if epoch > 0 {
			q.Topics = nil
		}
		return ask[*kmsg.FetchResponse](c, q)
	}
	if p := ask2(0, -1).Topics[0].Partitions[0]; p.PreferredReadReplica != -1 {
		t.Errorf("sent to replica %d, which has fetched nothing", p.PreferredReadReplica)
	}
	c.fetchOne(followerFetch(17, id, "", 2, 1))
	c.fetchOne(followerFetch(17, id, "", 3, 1))
	session := ask2(0, 0)
	for epoch := int32(1); epoch < 4; epoch++ {
		resp := ask2(session.SessionID, epoch)
		if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].PreferredReadReplica != 3 || len(resp.Topics[0].Partitions[0].RecordBatches) != 0 {
			t.Fatalf("fetch %d: %+v", epoch, resp.Topics)
		}
	}
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatapb.BrokerRegistrationChangeRecord{
		BrokerId: 3, BrokerEpoch: 3, Fenced: proto.Bool(true)}}})
	if p := ask2(session.SessionID, 4).Topics[0].Partitions[0]; p.PreferredReadReplica != -1 || len(values(t, p.RecordBatches, 0)) != 1 {
		t.Errorf("without node 3: %+v", p)
	}
}
