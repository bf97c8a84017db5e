package broker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/libs/tracing"
)

const testNode = 1

// testBroker is a broker behind a real listener, with the test in the controllers' place.
type testBroker struct {
	*Service
	t     testing.TB
	image *metadata.Image
	lives byte // topics created
	addr  string
}

// startBroker starts a broker with the given keys and values beside the defaults.
func startBroker(t testing.TB, pairs ...string) *testBroker {
	t.Helper()
	return startTraced(t, nil, pairs...)
}

// startTraced is startBroker with a tracer, nil for none.
func startTraced(t testing.TB, tracer *tracing.Tracer, pairs ...string) *testBroker {
	t.Helper()
	given := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		given[pairs[i]] = pairs[i+1]
	}
	static, err := config.FromMap(configkeys.Broker(), given)
	if err != nil {
		t.Fatal(err)
	}
	logger := zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	s, err := New(t.Context(), Config{NodeID: testNode, LogDirs: []string{t.TempDir()}, Static: static}, Deps{Log: logger, Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	router := server.NewRouter()
	s.register(router)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &testBroker{Service: s, t: t, image: metadata.Empty(), addr: servertest.ServeTraced(t, router, logger, tracer).String()}
}

// apply commits records as the controller would.
func (b *testBroker) apply(records ...*metadatapb.Record) {
	b.t.Helper()
	im, delta, err := b.image.Apply(b.image.Offset()+1, records)
	if err != nil {
		b.t.Fatal(err)
	}
	b.image = im
	b.parts.Apply(im, delta)
}

func (b *testBroker) createTopic(name string, partitions int, configs ...string) metadata.TopicID {
	b.t.Helper()
	b.lives++
	id := metadata.TopicID{0: 0xca, 15: b.lives}
	records := []*metadatapb.Record{{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}}}
	for i := range partitions {
		p := &metadata.Partition{ID: int32(i), Leader: testNode, Replicas: []int32{testNode}, ISR: []int32{testNode}}
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}})
	}
	for i := 0; i < len(configs); i += 2 {
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
			ResourceType: int32(metadata.TopicConfig), ResourceName: name, Name: configs[i], Value: proto.String(configs[i+1]),
		}}})
	}
	b.apply(records...)
	return id
}

func (b *testBroker) deleteTopic(id metadata.TopicID) {
	b.t.Helper()
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: id[:]}}})
}

// client speaks the protocol without any client's niceties.
type client struct {
	t      testing.TB
	conn   net.Conn
	in     *bufio.Reader
	nextID int32
}

func (b *testBroker) dial() *client {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return &client{t: b.t, conn: conn, in: bufio.NewReader(conn)}
}

// send writes a request and returns its correlation id.
func (c *client) send(q kmsg.Request) int32 {
	c.t.Helper()
	c.nextID++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, q, c.nextID)
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	return c.nextID
}

// receive reads the next answer, which must be the one to q.
func (c *client) receive(q kmsg.Request, id int32) kmsg.Response {
	c.t.Helper()
	resp, err := c.tryReceive(q, id)
	if err != nil {
		c.t.Fatalf("%T v%d: %v", q, q.GetVersion(), err)
	}
	return resp
}

func (c *client) tryReceive(q kmsg.Request, id int32) (kmsg.Response, error) {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.in, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != id {
		c.t.Fatalf("%T: answer to request %d, want %d", q, got, id)
	}
	body = body[4:]
	if q.IsFlexible() && q.Key() != 18 {
		body = body[1:]
	}
	resp := q.ResponseKind()
	resp.SetVersion(q.GetVersion())
	return resp, resp.ReadFrom(body)
}

func ask[R kmsg.Response](c *client, q kmsg.Request) R {
	c.t.Helper()
	return c.receive(q, c.send(q)).(R)
}

// batch builds a batch of the values.
func batch(codec record.Codec, values ...string) []byte {
	b := record.NewBuilder()
	for _, v := range values {
		b.Append(time.Now().UnixMilli(), nil, []byte(v))
	}
	built, err := b.Build(codec, 0)
	if err != nil {
		panic(err)
	}
	return built
}

// values reads a fetched record set from the given offset on.
func values(t testing.TB, records []byte, from int64) (got []string) {
	t.Helper()
	for len(records) > 0 {
		b, rest, err := record.Next(records)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range b.Records(64 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Offset(r) >= from {
				got = append(got, string(r.Value))
			}
		}
		records = rest
	}
	return got
}

func produceRequest(version int16, acks int16, topic string, id metadata.TopicID, partition int32, records []byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.SetVersion(version)
	q.Acks = acks
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return q
}

// produce appends a batch and returns its base offset.
func (c *client) produce(topic string, partition int32, records []byte) int64 {
	c.t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, topic, metadata.TopicID{}, partition, records))
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		c.t.Fatalf("produce: error %d: %v", p.ErrorCode, p.ErrorMessage)
	}
	return p.BaseOffset
}

type fetchPartition struct {
	topic     string
	id        metadata.TopicID
	partition int32
	offset    int64
}

func fetchRequest(version int16, maxWaitMs, minBytes int32, parts ...fetchPartition) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(version)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = maxWaitMs, minBytes, 1<<20
	for _, p := range parts {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = p.topic, p.id
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = p.partition, p.offset, 1<<20
		t.Partitions = append(t.Partitions, fp)
		q.Topics = append(q.Topics, t)
	}
	return q
}

// in makes the request part of a session.
func in(q *kmsg.FetchRequest, session, epoch int32) *kmsg.FetchRequest {
	q.SessionID, q.SessionEpoch = session, epoch
	return q
}
