package controller

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/testport"
)

// TestNodeWhoseProcessEndedIsFenced ends processes without a word. Where nothing listens any more the node is fenced long
// before its session ends; where something does it is not, but its successor is let in.
func TestNodeWhoseProcessEndedIsFenced(t *testing.T) {
	w := newWorld(t, nil)
	s, _ := w.controller()
	other, _ := w.node(1)
	<-other.Ready()
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	shut := testport.Range(t, 1)

	endRefusing := w.mortal(2, 1, shut)
	w.mortal(3, 1, shut) // as the first, and goes on
	endListening := w.mortal(4, 1, open.Addr().(*net.TCPAddr).Port)
	w.await("all are in service", func() bool { return w.active(s, 2) && w.active(s, 3) && w.active(s, 4) })
	lookAround()
	began := time.Now()
	endRefusing()
	endListening()
	w.await("the node is fenced", func() bool { return !w.active(s, 2) })
	if took := time.Since(began); took >= 9*time.Second {
		t.Errorf("fenced by its session timeout, after %v", took)
	}
	lookAround()
	if !w.active(s, 3) || !w.active(s, 4) || !w.active(s, 1) {
		t.Error("nodes that were not confirmed to have ended are fenced")
	}
	old, _ := s.Image().Node(4)
	w.mortal(4, 2, open.Addr().(*net.TCPAddr).Port)
	w.await("the successor is in service", func() bool {
		n, ok := s.Image().Node(4)
		return ok && !n.Fenced && n.Epoch != old.Epoch
	})
	if took := time.Since(began); took >= 9*time.Second {
		t.Errorf("the successor had to wait for the session timeout, %v", took)
	}
}

// TestNodeThatEndsAtOnceIsFenced ends a process after its first heartbeat, before anybody looked whether it is on the bus.
func TestNodeThatEndsAtOnceIsFenced(t *testing.T) {
	w := newWorld(t, nil)
	s, _ := w.controller()
	other, _ := w.node(1)
	<-other.Ready()
	began := time.Now()
	w.register(w.connect("short-lived"), 2, [16]byte{2}, testport.Range(t, 1))
	w.await("the node is in service", func() bool { return w.active(s, 2) })
	w.await("the node is fenced", func() bool { return !w.active(s, 2) })
	if took := time.Since(began); took >= 9*time.Second {
		t.Errorf("fenced by its session timeout, after %v", took)
	}
}

// mortal registers a node that is on the bus until the function returned is called, and has no heartbeat but the first.
func (w *world) mortal(id int32, run byte, port int) (end func()) {
	w.t.Helper()
	c := w.connect("mortal")
	incarnation := [16]byte{byte(id), run}
	if _, err := c.Announce(controlpb.ProcessName(incarnation)); err != nil {
		w.t.Fatal(err)
	}
	w.register(c, id, incarnation, port)
	return c.Close
}

// register puts a node into service by its first heartbeat.
func (w *world) register(c *bus.Conn, id int32, incarnation [16]byte, port int) {
	w.t.Helper()
	var resp *controlpb.RegisterResponse
	w.await("registration", func() bool {
		var err error
		resp, err = controlpb.Register.Call(w.t.Context(), c, &controlpb.RegisterRequest{
			NodeId: id, Incarnation: incarnation[:], Roles: []string{metadata.RoleGroupCoord}, PreviousNodeEpoch: -1, Features: features(),
			Listeners: []*controlpb.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint32(port)}},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		return resp.GetErrorCode() == 0
	})
	beat := &controlpb.HeartbeatRequest{NodeId: id, NodeEpoch: resp.GetNodeEpoch(), MetadataOffset: resp.GetMetadataOffset()}
	if resp, err := controlpb.Heartbeat.Call(w.t.Context(), c, beat); err != nil || resp.GetErrorCode() != 0 {
		w.t.Fatalf("heartbeat: %v, %v", resp, err)
	}
}

func (w *world) active(s *Service, id int32) bool {
	n, ok := s.Image().Node(id)
	return ok && n.Active()
}

// await tries until it holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for !holds() {
		select {
		case <-pause.C:
		case <-ctx.Done():
			w.t.Fatal(what)
		}
	}
}

// lookAround lets the watcher look at all nodes a few times.
func lookAround() {
	timer := time.NewTimer(4 * watchInterval)
	defer timer.Stop()
	<-timer.C
}
