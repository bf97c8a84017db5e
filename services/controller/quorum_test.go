package controller

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/testport"
)

// TestAnotherControllerTakesOver stops the active one of three controllers: what was answered is still there, nodes
// stay in service, and the next request is answered by another.
func TestAnotherControllerTakesOver(t *testing.T) {
	w := newWorld(t, nil)
	peers := map[int32]string{1: testport.Address(t), 2: testport.Address(t), 3: testport.Address(t)}
	services, processes := map[int32]*Service{}, map[int32]process{}
	run := func(id int32) {
		s, err := New(Config{
			ID: id, Dir: filepath.Join(w.dir, fmt.Sprint(id)), Peers: peers,
			Static: static(t, map[string]string{"controller.listener": peers[id]}),
		}, Deps{Bus: w.connect(fmt.Sprint("controller ", id))})
		if err != nil {
			t.Fatal(err)
		}
		services[id], processes[id] = s, start(t, s.Run)
	}
	for id := range peers {
		run(id)
	}
	n, node := w.node(10)
	<-n.Ready()
	epoch, topics := n.Epoch(), 0
	for round := range 2 {
		for range 20 {
			mustCreate(t, n, 1, fmt.Sprint("t", topics))
			topics++
		}
		active := n.Image().ControllerID()
		processes[active].stop()
		mustCreate(t, n, 1, fmt.Sprint("t", topics))
		topics++
		if next := n.Image().ControllerID(); next == active {
			t.Errorf("round %d: controller %d is active and stopped", round, next)
		}
		run(active)
	}
	if n.Epoch() != epoch {
		t.Error("the node had to register again")
	}
	fresh, other := w.node(11)
	<-fresh.Ready()
	if got := fresh.Image().TopicCount(); got != topics {
		t.Errorf("%d topics, want %d", got, topics)
	}
	for id := range peers { // each of them answers fetches, by its own image
		resp, err := controlpb.Fetch.At(id).Call(t.Context(), w.connect("fetch"), &controlpb.FetchRequest{FromOffset: fresh.Image().Offset()})
		if err != nil || resp.GetControllerId() != id || resp.GetErrorCode() != 0 {
			t.Errorf("fetch from controller %d: %v, %v", id, resp, err)
		}
	}
	other.stop()
	node.stop()
}
