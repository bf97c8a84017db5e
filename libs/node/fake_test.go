package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

type batch struct {
	offset int64
	data   []byte
}

// fake is a controller that does what a test tells it to.
type fake struct {
	t    *testing.T
	conn *bus.Conn

	mu      sync.Mutex
	log     []batch
	image   *metadata.Image
	subs    []*bus.Subscription
	mute    bool  // pushes are lost
	compact int64 // batches up to here are only left in the snapshot
	fetches int
	stale   bool // heartbeats are answered with STALE_BROKER_EPOCH

	registers  []*controlpb.RegisterRequest
	heartbeats []*controlpb.HeartbeatRequest
	refusals   []*kerr.Error // answers to the next registrations
	admin      func(*controlpb.AdminRequest) *controlpb.AdminResponse
	chunk      func(*controlpb.FetchResponse) // has its way with snapshot chunks
}

func newFake(t *testing.T, s *bus.Server) *fake {
	c, err := s.Connect("controller", bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, conn: c, image: metadata.Empty(), compact: -1}
	return f
}

// up serves the active controller's endpoints, and pushes that there is one.
func (f *fake) up() {
	f.flush()
	f.t.Helper()
	serve(f, controlpb.Register, f.register)
	serve(f, controlpb.Heartbeat, f.heartbeat)
	serve(f, controlpb.Admin, func(req *controlpb.AdminRequest) *controlpb.AdminResponse { return f.admin(req) })
	serve(f, controlpb.AllocateProducerIds, func(req *controlpb.AllocateProducerIdsRequest) *controlpb.AllocateProducerIdsResponse {
		return &controlpb.AllocateProducerIdsResponse{First: req.GetNodeEpoch(), Count: 1000}
	})
	serve(f, controlpb.Fetch, f.fetch)
	serve(f, controlpb.Fetch.At(9), f.fetch)
	if err := f.conn.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.commit(&metadatapb.Record{Record: &metadatapb.Record_LeaderChange{LeaderChange: &metadatapb.LeaderChangeRecord{LeaderId: 9, LeaderEpoch: int64(len(f.log) + 1)}}})
}

func serve[Req, Resp proto.Message](f *fake, e bus.Endpoint[Req, Resp], answer func(Req) Resp) {
	f.t.Helper()
	sub, err := e.Serve(f.conn, func(_ context.Context, req Req, reply func(Resp, error)) { reply(answer(req), nil) })
	if err != nil {
		f.t.Fatal(err)
	}
	f.subs = append(f.subs, sub)
}

func (f *fake) down() {
	for _, s := range f.subs {
		s.Close()
	}
	f.subs = nil
	f.flush()
}

// flush waits until the bus knows which subscriptions were closed, or the next request may still go to one of them.
func (f *fake) flush() {
	if err := f.conn.Flush(context.Background()); err != nil {
		f.t.Error(err)
	}
}

// commit adds a batch and pushes it.
func (f *fake) commit(recs ...*metadatapb.Record) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.add(recs...)
}

func (f *fake) add(recs ...*metadatapb.Record) int64 {
	prev := f.image.Offset()
	offset := prev + 3 // not every offset has a batch
	var err error
	if f.image, _, err = f.image.Apply(offset, recs); err != nil {
		f.t.Error(err)
	}
	data, err := metadata.AppendBatch(nil, recs)
	if err != nil {
		f.t.Error(err)
	}
	f.log = append(f.log, batch{offset, data})
	if !f.mute {
		if err := f.conn.Push(controlpb.MetadataStream, bus.Update{PrevOffset: prev, Offset: offset, Payload: data}); err != nil {
			f.t.Error(err)
		}
	}
	return offset
}

func (f *fake) setMute(mute bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = mute
}

func topic(name string) *metadatapb.Record {
	id := make([]byte, 16)
	copy(id, name)
	return &metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id}}}
}

func (f *fake) register(req *controlpb.RegisterRequest) *controlpb.RegisterResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registers = append(f.registers, req)
	if len(f.refusals) > 0 {
		code := f.refusals[0].Code
		f.refusals = f.refusals[1:]
		return &controlpb.RegisterResponse{ErrorCode: int32(code), ErrorMessage: "refused"}
	}
	f.stale = false
	epoch := f.image.Offset() + 3
	n := metadata.Node{ID: req.GetNodeId(), Epoch: epoch, Incarnation: [16]byte(req.GetIncarnation()), Fenced: true}
	f.add(&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}})
	return &controlpb.RegisterResponse{NodeEpoch: epoch, ClusterId: "test", MetadataOffset: epoch}
}

func (f *fake) heartbeat(req *controlpb.HeartbeatRequest) *controlpb.HeartbeatResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heartbeats = append(f.heartbeats, req)
	n, ok := f.image.Node(req.GetNodeId())
	if f.stale || !ok || n.Epoch != req.GetNodeEpoch() {
		return &controlpb.HeartbeatResponse{ErrorCode: int32(kerr.StaleBrokerEpoch.Code)}
	}
	resp := &controlpb.HeartbeatResponse{IsFenced: n.Fenced}
	switch {
	case req.GetWantShutdown() && n.InControlledShutdown:
		resp.ShouldShutdown = true
	case req.GetWantShutdown():
		f.change(n, &metadatapb.BrokerRegistrationChangeRecord{InControlledShutdown: proto.Bool(true)})
	case n.Fenced && req.GetMetadataOffset() >= n.Epoch:
		f.change(n, &metadatapb.BrokerRegistrationChangeRecord{Fenced: proto.Bool(false)})
	}
	resp.MetadataOffset = f.image.Offset()
	return resp
}

func (f *fake) change(n *metadata.Node, c *metadatapb.BrokerRegistrationChangeRecord) {
	c.BrokerId, c.BrokerEpoch = n.ID, n.Epoch
	f.add(&metadatapb.Record{Record: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: c}})
}

// fetch answers with two batches at a time, and with snapshots of 16 bytes a chunk.
func (f *fake) fetch(req *controlpb.FetchRequest) *controlpb.FetchResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetches++
	resp := &controlpb.FetchResponse{ControllerId: 9, EndOffset: f.image.Offset()}
	if req.GetSnapshotOffset() > 0 || req.GetFromOffset() < f.compact {
		data, err := controlpb.EncodeSnapshot(f.image)
		if err != nil {
			f.t.Error(err)
		}
		at := req.GetSnapshotPosition()
		resp.Snapshot = &controlpb.FetchResponse_SnapshotChunk{
			Offset: f.image.Offset() + 1, Position: at, Size: int64(len(data)), Data: data[at:min(at+16, int64(len(data)))],
		}
		if f.chunk != nil {
			f.chunk(resp)
		}
		return resp
	}
	from := slices.IndexFunc(f.log, func(b batch) bool { return b.offset > req.GetFromOffset() })
	if from < 0 {
		return resp
	}
	for _, b := range f.log[from:min(from+2, len(f.log))] {
		resp.Batches = append(resp.Batches, &controlpb.FetchResponse_Batch{Offset: b.offset, Records: b.data})
	}
	return resp
}

func (f *fake) counts() (registers, heartbeats, fetches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.registers), len(f.heartbeats), f.fetches
}

// rig is a bus with a fake controller and a node that runs.
type rig struct {
	t    *testing.T
	fake *fake
	node *Node
	ctx  context.Context
	stop context.CancelFunc
	done chan error
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	s, err := bus.StartServer(bus.ServerConfig{Name: "test"}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Connect("node", bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	static, err := config.FromMap(configkeys.Broker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{ID: 4, Roles: []string{metadata.RoleBroker}, Static: static}
	if change != nil {
		change(&cfg)
	}
	r := &rig{t: t, fake: newFake(t, s), node: New(cfg, Deps{Bus: c}), done: make(chan error, 1)}
	r.ctx, r.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		r.fake.conn.Close()
		c.Close()
		s.Close()
	})
	return r
}

func (r *rig) run() {
	go func() { r.done <- r.node.Run(r.ctx) }()
}

// end stops the node and has its error.
func (r *rig) end() error {
	r.stop()
	return <-r.done
}

func (r *rig) ready() bool {
	select {
	case <-r.node.Ready():
		return true
	default:
		return false
	}
}

func (r *rig) hasTopics(names ...string) {
	r.t.Helper()
	im := r.node.Image()
	var got []string
	for t := range im.Topics() {
		got = append(got, t.Name)
	}
	if !slices.Equal(got, names) {
		r.t.Errorf("at offset %d the image has topics %v, want %v", im.Offset(), got, names)
	}
}

func names(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%03d", prefix, i))
	}
	return out
}

func updateOf(prev int64, b batch) bus.Update {
	return bus.Update{PrevOffset: prev, Offset: b.offset, Payload: b.data}
}
