package fetch

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/watch"
)

const testNode = 1

// rig is a Service with one partition behind a listener. parked gets a value when a fetch has been handled: it is answered
// or waits.
type rig struct {
	t       *testing.T
	service *Service
	part    *partition.Partition
	id      metadata.TopicID
	addr    string
	parked  chan struct{}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	logs, err := logdir.Open(t.Context(), []string{t.TempDir()}, logdir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, id: metadata.TopicID{7}, parked: make(chan struct{}, 1)}
	parts := partition.NewSet(partition.SetConfig{
		NodeID: testNode, Logs: logs, NowMs: func() int64 { return 0 }, Logger: zap.NewNop(),
		Topic: func(*metadata.Image, string) partition.Config {
			return partition.Config{Log: log.DefaultConfig(), MinISR: 1}
		},
	})
	p := &metadata.Partition{Leader: testNode, Replicas: []int32{testNode}, ISR: []int32{testNode}}
	im, delta, err := metadata.Empty().Apply(1, []*metadatapb.Record{
		{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: "t", TopicId: r.id[:]}}},
		{Record: &metadatapb.Record_Partition{Partition: p.Record(r.id)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	parts.Apply(im, delta)
	if r.part, err = parts.Lookup("", r.id, 0); err != nil {
		t.Fatal(err)
	}
	r.service = New(Config{MaxBytes: 1 << 20, SessionSlots: 10, SessionEvictsAfter: time.Hour}, parts)
	router := server.NewRouter()
	router.Register(server.API{Key: 1, MinVersion: 4, MaxVersion: 18, Inline: true, Handle: func(q *server.Request) {
		r.service.Handle(q)
		r.parked <- struct{}{}
	}})
	t.Cleanup(func() {
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
	})
	r.addr = servertest.Serve(t, router, zap.NewNop()).String()
	return r
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// send sends a fetch of the partition in a session and returns when it has been handled.
func (r *rig) send(conn net.Conn, session, epoch, maxWaitMs int32) {
	r.t.Helper()
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(13)
	q.SessionID, q.SessionEpoch, q.MaxWaitMillis, q.MinBytes, q.MaxBytes = session, epoch, maxWaitMs, 1, 1<<20
	if epoch == initialEpoch {
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = r.id
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1 << 20
		topic.Partitions = append(topic.Partitions, p)
		q.Topics = append(q.Topics, topic)
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)); err != nil {
		r.t.Fatal(err)
	}
	<-r.parked
}

// answered reads an answer, or finds the connection closed.
func answered(t *testing.T, conn net.Conn) bool {
	t.Helper()
	var length [4]byte
	_, err := io.ReadFull(conn, length[:])
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, conn, int64(length[2])<<8|int64(length[3]))
	}
	return err == nil
}

// TestAPanicAfterAWaitCostsOneConnection has a fetch fail on the goroutine that ends its wait: an appender's, or a timer's.
func TestAPanicAfterAWaitCostsOneConnection(t *testing.T) {
	for name, c := range map[string]struct {
		maxWaitMs  int32
		addedBytes int64
	}{"an append": {60_000, 1 << 20}, "the timer": {100, 0}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			victim, bystander := r.dial(), r.dial()
			r.send(victim, 0, initialEpoch, 0)
			if !answered(t, victim) {
				t.Fatal("no session")
			}
			var id int32
			r.service.sessions.mu.Lock()
			for _, s := range r.service.sessions.sessions {
				id = s.id
				for _, e := range s.entries {
					e.partition = &partition.Partition{} // of which nothing is known, not even a leader
				}
			}
			r.service.sessions.mu.Unlock()

			r.send(victim, id, 1, c.maxWaitMs)
			var ended watch.Ended
			r.part.Watchers.Advance(c.addedBytes, &ended)
			ended.Fire()
			if answered(t, victim) {
				t.Error("the fetch is answered")
			}
			if sessions, _, _ := r.service.SessionStats(); sessions != 0 {
				t.Errorf("%d sessions are left", sessions)
			}
			r.send(bystander, 0, initialEpoch, 0)
			if !answered(t, bystander) {
				t.Error("another connection is closed")
			}
		})
	}
}
