package node

import (
	"errors"
	"net"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// TestProbe has a node look after others, some of which listen.
func TestProbe(t *testing.T) {
	open, closed := listen(t), listen(t)
	shut := closed.Addr().(*net.TCPAddr).Port
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil)
	r.fake.up()
	nodes := map[int32][]int{10: {shut}, 11: {open.Addr().(*net.TCPAddr).Port}, 12: {shut, open.Addr().(*net.TCPAddr).Port}, 13: nil}
	var epoch int64
	for id, ports := range nodes {
		other := metadata.Node{ID: id, Epoch: 7, Roles: []string{metadata.RoleBroker}}
		for _, port := range ports {
			other.Listeners = append(other.Listeners, metadata.Listener{Name: "L", Host: "127.0.0.1", Port: uint16(port)})
		}
		epoch = r.fake.commit(&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: other.Record()}})
	}
	r.run()
	<-r.node.Ready()
	if err := r.node.AwaitOffset(t.Context(), epoch); err != nil {
		t.Fatal(err)
	}
	awaitPresence(t, r, true)
	for _, c := range []struct {
		name             string
		id               int32
		epoch            int64
		refused, reached bool
	}{
		{"a port that nothing listens on", 10, 7, true, false},
		{"an older registration", 10, 6, false, false},
		{"a port that is listened on", 11, 7, false, true},
		{"one port of two", 12, 7, false, true},
		{"no listener", 13, 7, false, false},
		{"an unknown node", 14, 7, false, false},
	} {
		req := &controlpb.ProbeRequest{NodeId: c.id, NodeEpoch: c.epoch}
		resp, err := controlpb.Probe.At(4).Call(t.Context(), r.fake.conn, req)
		for errors.Is(err, bus.ErrNoResponder) && t.Context().Err() == nil { // its subscription is not in force yet
			resp, err = controlpb.Probe.At(4).Call(t.Context(), r.fake.conn, req)
		}
		if want := (&controlpb.ProbeResponse{Refused: c.refused, Reached: c.reached}); err != nil || !proto.Equal(resp, want) {
			t.Errorf("%s: %v, %v; want %v", c.name, resp, err, want)
		}
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	awaitPresence(t, r, false)
}

// awaitPresence waits until the bus knows whether the node's process is there. It learns of beginnings and ends a little later.
func awaitPresence(t *testing.T, r *rig, want bool) {
	t.Helper()
	for t.Context().Err() == nil {
		ok, err := r.fake.conn.Present(t.Context(), controlpb.ProcessName(r.node.incarnation))
		if err == nil && ok == want {
			return
		}
		if err != nil && !errors.Is(err, bus.ErrTimeout) { // what was asked just before the end nobody answers
			t.Fatalf("presence: %v", err)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
