package anywhere

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// fake is a node whose image and controller the test plays.
type fake struct {
	mu       sync.Mutex
	image    *metadata.Image
	static   config.Values
	forward  forwarder
	sender   string // principal, client id and host of the last forwarded request
	allocate func(ctx context.Context) (int64, int32, error)
}

type forwarder func(ctx context.Context, key, version int16, body []byte) ([]byte, error)

// with changes the fake between requests.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) ID() int32 { return 1 }

func (f *fake) Static() config.Values {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.static
}

func (f *fake) Image() *metadata.Image {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.image
}

func (f *fake) Forward(ctx context.Context, key, version int16, body []byte, principal, clientID, host string) ([]byte, error) {
	f.mu.Lock()
	f.sender = principal + " " + clientID + " " + host
	forward := f.forward
	f.mu.Unlock()
	return forward(ctx, key, version, body)
}

func (f *fake) AllocateProducerIDs(ctx context.Context) (int64, int32, error) { return f.allocate(ctx) }

// apply adds records to the image.
func (f *fake) apply(t testing.TB, recs ...*metadatapb.Record) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	im, _, err := f.image.Apply(f.image.Offset()+int64(len(recs)), recs)
	if err != nil {
		t.Error(err)
		return
	}
	f.image = im
}

func nodeRecord(id int32, fenced bool, roles []string, rack string, listeners ...string) *metadatapb.Record {
	r := &metadatapb.RegisterBrokerRecord{
		BrokerId: id, IncarnationId: make([]byte, 16), BrokerEpoch: int64(id), Fenced: fenced, Roles: roles, Rack: rack,
	}
	for _, name := range listeners {
		r.EndPoints = append(r.EndPoints, &metadatapb.BrokerEndpoint{Name: name, Host: "host" + string('0'+rune(id)), Port: 9090 + uint32(id)})
	}
	return &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: r}}
}

func topicID(n byte) metadata.TopicID { return metadata.TopicID{15: n} }

func topicRecords(name string, id metadata.TopicID, partitions ...*metadatapb.PartitionRecord) []*metadatapb.Record {
	recs := []*metadatapb.Record{{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}}}
	for i, p := range partitions {
		p.PartitionId, p.TopicId = int32(i), id[:]
		recs = append(recs, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p}})
	}
	return recs
}

func partition(leader, epoch int32, replicas ...int32) *metadatapb.PartitionRecord {
	return &metadatapb.PartitionRecord{Leader: leader, LeaderEpoch: epoch, Replicas: replicas, Isr: replicas}
}

func configRecord(t metadata.ConfigResourceType, resource, key, value string) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
		ResourceType: int32(t), ResourceName: resource, Name: key, Value: &value,
	}}}
}

// newFake is a cluster of this node, a coordinator with a rack, a fenced broker and one that clients of this listener
// cannot reach.
func newFake(t testing.TB) *fake {
	f := &fake{image: metadata.Empty(), static: configkeys.Broker().Defaults()}
	f.forward = func(context.Context, int16, int16, []byte) ([]byte, error) {
		t.Error("a request was forwarded")
		return nil, io.EOF
	}
	broker := []string{metadata.RoleBroker}
	f.apply(t,
		&metadatapb.Record{Record: &metadatapb.Record_Cluster{Cluster: &metadatapb.ClusterRecord{ClusterId: "cluster"}}},
		nodeRecord(1, false, broker, "", "PLAINTEXT", "OTHER"),
		nodeRecord(2, false, []string{metadata.RoleGroupCoord}, "rack2", "PLAINTEXT"),
		nodeRecord(3, true, broker, "", "PLAINTEXT"),
		nodeRecord(4, false, broker, "", "OTHER"),
	)
	f.apply(t, topicRecords("a", topicID(1), partition(1, 5, 1, 3, 9), partition(4, 6, 4, 1), partition(-1, 7, 3))...)
	f.apply(t, topicRecords("b", topicID(2), partition(1, 0, 1), partition(1, 0, 1))...)
	f.apply(t, topicRecords("__consumer_offsets", topicID(3), partition(1, 0, 1))...)
	return f
}

// client sends requests to a server with the handlers of a fake.
type client struct {
	t testing.TB
	net.Conn
	correlation int32
}

// serve runs the handlers on a listener until the test ends.
func serve(t testing.TB, f *fake) *client {
	t.Helper()
	router := server.NewRouter()
	register(router, f, Options{Log: zap.NewNop()})
	nc, err := net.Dial("tcp", servertest.Serve(t, router, zap.NewNop()).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	return &client{t: t, Conn: nc}
}

// ask sends a request at a version and decodes the response.
func ask[R kmsg.Response](c *client, q kmsg.Request, version int16) R {
	c.t.Helper()
	c.correlation++
	q.SetVersion(version)
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, q, c.correlation)); err != nil {
		c.t.Fatal(err)
	}
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		c.t.Fatalf("%T v%d: %v", q, version, err)
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatal(err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != c.correlation {
		c.t.Fatalf("answer %d to request %d", got, c.correlation)
	}
	resp := q.ResponseKind()
	resp.SetVersion(version)
	b = b[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("%T v%d: %v", resp, version, err)
	}
	// What was decoded encodes to the same bytes: nothing was left out or left over.
	if again := resp.AppendTo(nil); string(again) != string(b) {
		c.t.Errorf("%T v%d does not round-trip:\n%x\n%x", resp, version, b, again)
	}
	return resp.(R)
}
