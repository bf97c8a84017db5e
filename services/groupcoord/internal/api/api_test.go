package api

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// emptyLog takes every batch and has none to read: its first is the fence.
type emptyLog struct{ end atomic.Int64 }

func (l *emptyLog) Append(context.Context, int32, int32, int64, record.Batch) (int64, error) {
	return l.end.Add(1) - 1, nil
}
func (l *emptyLog) Start(context.Context, int32) (int64, error)             { return 0, nil }
func (l *emptyLog) Read(context.Context, int32, int64, int) ([]byte, error) { return nil, nil }

// serve runs the APIs over one shard, and returns their address.
func serve(t *testing.T, limits server.Config, keys map[string]string) string {
	t.Helper()
	values, err := config.FromMap(configkeys.Broker(), keys)
	if err != nil {
		t.Fatal(err)
	}
	id := metadata.TopicID{1}
	im, _, err := metadata.Empty().Apply(1, []*metadatapb.Record{
		{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: metadata.ConsumerOffsetsTopic, TopicId: id[:]}}},
		{Record: &metadatapb.Record_Partition{Partition: (&metadata.Partition{Leader: metadata.NoLeader}).Record(id)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := &op.Settings{Broker: values, Group: func(string) map[string]string { return nil }}
	runtime, err := coordinator.New(coordinator.Config{Name: "group"},
		coordinator.Deps{Log: &emptyLog{}, Logger: zap.NewNop(), Job: func(trace.SpanContext, int32, int32, any) {}},
		func(int32) *shard.Machine { return shard.New(im, settings) })
	if err != nil {
		t.Fatal(err)
	}
	router := server.NewRouter()
	router.Register(New(runtime, func() *metadata.Image { return im }).APIs()...)
	limits.ListenerName, limits.Address = "PLAINTEXT", "127.0.0.1:0"
	s := server.New(limits, server.Deps{Router: router, Log: zap.NewNop()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		runtime.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	runtime.Own(0, 1)
	return s.Addr().String()
}

// conn is a client's connection.
type conn struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, addr string) conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	return conn{t, nc}
}

func (c conn) send(q kmsg.Request, version int16) {
	c.t.Helper()
	q.SetVersion(version)
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, q, 1)); err != nil {
		c.t.Fatal(err)
	}
}

func (c conn) ask(q kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	c.send(q, version)
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		c.t.Fatalf("%T: %v", q, err)
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatal(err)
	}
	resp := q.ResponseKind()
	resp.SetVersion(version)
	header := 4
	if resp.IsFlexible() {
		header++
	}
	if err := resp.ReadFrom(b[header:]); err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// Members that wait for others do not keep the server from reading what those others send.
func TestParkedJoinsHoldNoneOfWhatTheServerMayRead(t *testing.T) {
	const limit = 64 << 10
	addr := serve(t, server.Config{MaxRequestBytes: limit, MaxInFlightBytes: limit}, map[string]string{"group.initial.rebalance.delay.ms": "100000"})
	join := func(group string) *kmsg.JoinGroupRequest {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.ProtocolType, q.SessionTimeoutMillis = group, "consumer", 30_000
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, limit-1000)}}
		return q
	}
	watcher := dial(t, addr)
	await := func(group, state string) {
		for {
			r := watcher.ask(&kmsg.DescribeGroupsRequest{Groups: []string{group}}, 5).(*kmsg.DescribeGroupsResponse)
			if r.Groups[0].State == state {
				return
			}
		}
	}
	await("g", "Dead")                         // the shard is loaded
	for _, group := range []string{"g", "h"} { // the server allows for one request above its limit
		dial(t, addr).send(join(group), 0)
		await(group, "PreparingRebalance")
	}
	r := dial(t, addr).ask(join("i"), 4).(*kmsg.JoinGroupResponse)
	if r.ErrorCode != kerr.MemberIDRequired.Code {
		t.Errorf("the third member heard %v", kerr.ErrorForCode(r.ErrorCode))
	}
}
