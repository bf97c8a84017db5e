package markers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// world is a sender between a shard that takes note and nodes that answer as they are told.
type world struct {
	t *testing.T
	s *Sender

	mu       sync.Mutex
	image    *metadata.Image
	lost     bool // the shard is another's
	requests []string
	answer   func(ctx context.Context, addr string, p schema.Partition) (int16, error)
	written  []string
}

// Topics of the images: a has a partition on each of the nodes 1 and 2, __consumer_offsets one that node 2 leads and node 1 owns.
var topicA, topicOffsets = metadata.TopicID{1}, metadata.TopicID{2}

func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, image: metadata.Empty(), answer: func(context.Context, string, schema.Partition) (int16, error) { return 0, nil }}
		var records []*metadatapb.Record
		for id := range int32(3) {
			n := metadata.Node{ID: id, Incarnation: [16]byte{byte(id) + 1}, Listeners: []metadata.Listener{{Name: "N", Host: "n", Port: uint16(id)}}}
			records = append(records, &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}})
		}
		topic := func(name string, id metadata.TopicID, leaders ...int32) {
			records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}})
			for p, leader := range leaders {
				records = append(records, newPartition(id, int32(p), leader))
			}
		}
		topic("a", topicA, 1, 2)
		topic(metadata.ConsumerOffsetsTopic, topicOffsets, 2)
		owned := metadata.Shard{Owner: 1, Epoch: 1}
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: owned.Record(topicOffsets, 0)}})
		w.apply(records...)
		w.s = New(Config{Listener: "N"}, Deps{Image: w.now, Owned: w.owned, Written: w.take, Log: zap.NewNop(), Ask: w.ask})
		defer w.s.Close()
		test(w)
	})
}

// partition is a new partition.
func newPartition(topic metadata.TopicID, id, leader int32) *metadatapb.Record {
	p := metadata.Partition{ID: id, Leader: leader}
	return &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(topic)}}
}

// leads gives a partition another leader.
func (w *world) leads(topic metadata.TopicID, id, leader int32) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
		TopicId: topic[:], PartitionId: id, Leader: &leader,
	}}}
}

func (w *world) apply(records ...*metadatapb.Record) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	next, _, err := w.image.Apply(w.image.Offset()+int64(len(records)), records)
	if err != nil {
		w.t.Fatal(err)
	}
	w.image = next
}

func (w *world) now() *metadata.Image {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.image
}

func (w *world) owned(shardID, epoch int32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.lost && shardID == 7 && epoch == 3
}

func (w *world) take(_ trace.SpanContext, _ int32, c *shard.Completion, partitions []schema.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range partitions {
		w.written = append(w.written, fmt.Sprintf("%s:%s-%d", c.ID, p.Topic, p.ID))
	}
}

func (w *world) ask(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	q := req.(*kmsg.WriteTxnMarkersRequest)
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	w.mu.Lock()
	answer := w.answer
	for _, m := range q.Markers {
		for _, t := range m.Topics {
			w.requests = append(w.requests, fmt.Sprintf("%s %d/%d %v epoch %d v%d %s%v", addr, m.ProducerID, m.ProducerEpoch, m.Committed,
				m.CoordinatorEpoch, m.TransactionVersion, t.Topic, t.Partitions))
		}
	}
	w.mu.Unlock()
	for _, m := range q.Markers {
		out := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
		for _, t := range m.Topics {
			topic := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
			for _, id := range t.Partitions {
				code, err := answer(ctx, addr, schema.Partition{Topic: t.Topic, ID: id})
				if err != nil {
					return nil, err
				}
				topic.Partitions = append(topic.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: id, ErrorCode: code})
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return resp, nil
}

func (w *world) answers(answer func(ctx context.Context, addr string, p schema.Partition) (int16, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// sent returns and forgets the requests so far, in order of their text.
func (w *world) sent() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.requests
	w.requests = nil
	slices.Sort(all)
	return all
}

func (w *world) expectSent(want ...string) {
	w.t.Helper()
	if got := w.sent(); !slices.Equal(got, want) {
		w.t.Errorf("requests %q, want %q", got, want)
	}
}

func (w *world) expectWritten(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.written)
	if !slices.Equal(w.written, want) {
		w.t.Errorf("written %q, want %q", w.written, want)
	}
	w.written = nil
}

func (w *world) expectBacklog(transactions, partitions int) {
	w.t.Helper()
	if gotT, gotP := w.s.Backlog(); gotT != transactions || gotP != partitions {
		w.t.Errorf("%d transactions and %d partitions wait, want %d and %d", gotT, gotP, transactions, partitions)
	}
}

func completion(id string, producerID int64, partitions ...schema.Partition) *shard.Completion {
	return &shard.Completion{ID: id, ProducerID: producerID, Epoch: 5, Commit: true, ClientVersion: 2, Partitions: partitions}
}

var a0, a1, offsets0 = schema.Partition{Topic: "a", ID: 0}, schema.Partition{Topic: "a", ID: 1}, schema.Partition{Topic: metadata.ConsumerOffsetsTopic}

func TestMarkersGoToLeadersAndOwners(t *testing.T) {
	inWorld(t, func(w *world) {
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0, a1, offsets0))
		w.expectSent("n:1 9/5 true epoch 3 v2 __consumer_offsets[0]", "n:1 9/5 true epoch 3 v2 a[0]", "n:2 9/5 true epoch 3 v2 a[1]")
		w.expectWritten("t:__consumer_offsets-0", "t:a-0", "t:a-1")
		w.expectBacklog(0, 0)
	})
}

func TestFailedMarkersAreSentAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers(func(_ context.Context, addr string, p schema.Partition) (int16, error) {
			switch p {
			case a0:
				return kerr.NotLeaderForPartition.Code, nil
			case a1:
				return 0, errors.New("connection refused")
			}
			return kerr.CoordinatorLoadInProgress.Code, nil
		})
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0, a1, offsets0))
		synctest.Wait()
		time.Sleep(20 * time.Second)
		if n := len(w.sent()); n < 3*20 || n > 3*40 { // the pause grows to a second
			t.Errorf("%d requests in 20 s", n)
		}
		w.expectWritten()
		w.expectBacklog(1, 3)
		w.answers(func(context.Context, string, schema.Partition) (int16, error) { return 0, nil })
		time.Sleep(time.Second)
		w.expectWritten("t:__consumer_offsets-0", "t:a-0", "t:a-1")
	})
}

// TestADeadNodeHoldsUpNothingElse: other transactions complete while markers for a node do not arrive.
func TestADeadNodeHoldsUpNothingElse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers(func(ctx context.Context, addr string, _ schema.Partition) (int16, error) {
			if addr == "n:2" {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 0, nil
		})
		for i := range int64(20) {
			w.s.Deliver(trace.SpanContext{}, 7, 3, completion(fmt.Sprint("stuck", i), 100+i, a0, a1))
			synctest.Wait()
		}
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("free", 9, a0))
		synctest.Wait()
		w.expectBacklog(20, 20)

		// Another node takes the partition over: what is in flight is not waited for.
		w.sent()
		w.apply(w.leads(topicA, 1, 1))
		w.s.Refresh()
		synctest.Wait()
		time.Sleep(w.s.cfg.RetryMin)
		synctest.Wait()
		w.expectBacklog(0, 0)
	})
}

func TestAPartitionWithoutALeaderWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply(w.leads(topicA, 0, metadata.NoLeader))
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0, a1))
		w.expectWritten("t:a-1")
		time.Sleep(time.Minute)
		w.expectBacklog(1, 1)
		w.apply(w.leads(topicA, 0, 2))
		w.s.Refresh()
		w.expectWritten("t:a-0")
	})
}

// TestPartitionsThatAreGoneNeedNoMarker is KAFKA-5202: a topic was deleted while a transaction was open.
func TestPartitionsThatAreGoneNeedNoMarker(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers(func(context.Context, string, schema.Partition) (int16, error) {
			return kerr.UnknownTopicOrPartition.Code, nil
		})
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0, schema.Partition{Topic: "gone"}, schema.Partition{Topic: "a", ID: 2}))
		w.expectWritten("t:a-2", "t:gone-0")
		w.expectBacklog(1, 1) // the topic is there: its leader does not know it yet
		w.apply(&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: topicA[:]}}})
		w.s.Refresh()
		w.expectWritten("t:a-0")
		w.expectBacklog(0, 0)
	})
}

func TestANewerEpochIsAnEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers(func(context.Context, string, schema.Partition) (int16, error) {
			return kerr.InvalidProducerEpoch.Code, nil
		})
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0))
		w.expectWritten("t:a-0")
	})
}

func TestALostShardSendsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers(func(context.Context, string, schema.Partition) (int16, error) {
			return kerr.TransactionCoordinatorFenced.Code, nil
		})
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0))
		synctest.Wait()
		w.mu.Lock()
		w.lost = true
		w.mu.Unlock()
		time.Sleep(time.Second)
		w.sent()
		time.Sleep(time.Minute)
		w.expectSent()
		w.expectWritten()
		w.expectBacklog(0, 0)
	})
}

// TestALaterDeliveryTakesThePlaceOfAnEarlier: what the earlier one still hears is not the shard's to know.
func TestALaterDeliveryTakesThePlaceOfAnEarlier(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.answers(func(context.Context, string, schema.Partition) (int16, error) { <-release; return 0, nil })
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0))
		synctest.Wait()
		w.answers(func(context.Context, string, schema.Partition) (int16, error) {
			return kerr.NotEnoughReplicas.Code, nil
		})
		w.s.Deliver(trace.SpanContext{}, 7, 3, completion("t", 9, a0))
		synctest.Wait()
		close(release)
		w.expectWritten()
		w.expectBacklog(1, 1)
	})
}

func TestManyTransactionsShareRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		var mu sync.Mutex
		requests := map[context.Context]bool{}
		w.answers(func(ctx context.Context, _ string, _ schema.Partition) (int16, error) {
			mu.Lock()
			requests[ctx] = true
			mu.Unlock()
			<-release
			return 0, nil
		})
		for i := range int64(1000) {
			w.s.Deliver(trace.SpanContext{}, 7, 3, completion(fmt.Sprint(i), i, a0))
			if i < 8 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if len(requests) != w.s.cfg.InFlight {
			t.Errorf("%d requests in flight", len(requests))
		}
		close(release)
		synctest.Wait()
		w.expectBacklog(0, 0)
		if len(requests) > w.s.cfg.InFlight+1 {
			t.Errorf("%d requests", len(requests))
		}
	})
}
