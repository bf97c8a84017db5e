package controller

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/testport"
)

func TestConfigFrom(t *testing.T) {
	c, err := ConfigFrom(static(t, map[string]string{
		"node.id": "2", "data.dir": "/d", "cluster.id": "MkU3OEVBNTcwNTJENDM2Qk", "controller.peers": "1@a:1,2@b:2",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if c.ID != 2 || c.Dir != "/d/metadata" || c.ClusterID != "MkU3OEVBNTcwNTJENDM2Qk" || !maps.Equal(c.Peers, map[int32]string{1: "a:1", 2: "b:2"}) {
		t.Errorf("got %+v", c)
	}
	for peers, want := range map[string]string{
		"b:2":       "id@host:port",
		"x@b:2":     "id@host:port",
		"2@b":       "missing port",
		"1@a:1":     "node.id 2",
		"-1@a:1":    "id@host:port",
		"2@b:2,3@c": "missing port",
	} {
		_, err := ConfigFrom(static(t, map[string]string{"node.id": "2", "controller.peers": peers}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("controller.peers=%s: %v, want %q", peers, err, want)
		}
	}
}

// TestBusWantsTheToken connects to a controller's bus with the token of its configuration, and without.
func TestBusWantsTheToken(t *testing.T) {
	listener := testport.Address(t)
	_, closeBus, err := OpenBus(static(t, map[string]string{"controller.bus.listener": listener, "bus.auth.token": "sesame"}), bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeBus()
	for token, want := range map[string]error{"sesame": nil, "": bus.ErrUnavailable, "open": bus.ErrUnavailable} {
		conn, err := bus.Connect(bus.Config{URLs: []string{"nats://" + listener}, AuthToken: token, RequestTimeout: time.Second}, bus.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(t.Context()); !errors.Is(err, want) {
			t.Errorf("token %q: %v, want %v", token, err, want)
		}
		conn.Close()
	}
}

func TestOpenBus(t *testing.T) {
	external, err := bus.StartServer(bus.ServerConfig{Name: "external", Host: "127.0.0.1", Port: -1, AuthToken: "sesame"}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer external.Close()
	for name, pairs := range map[string]map[string]string{
		"own":      {"controller.bus.listener": "127.0.0.1:0"},
		"routed":   {"controller.bus.listener": "127.0.0.1:0", "controller.bus.route.listener": "127.0.0.1:0"},
		"secret":   {"controller.bus.listener": "127.0.0.1:0", "controller.bus.route.listener": "127.0.0.1:0", "bus.auth.token": "sesame"},
		"external": {"controller.bus.listener": "", "bus.servers": external.URL(), "bus.auth.token": "sesame"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, closeBus, err := OpenBus(static(t, pairs), bus.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer closeBus()
			w := newWorld(t, nil)
			s, err := New(Config{ID: 1, Dir: w.dir, Static: w.static}, Deps{Bus: conn})
			if err != nil {
				t.Fatal(err)
			}
			p := start(t, s.Run)
			resp, err := controlpb.Fetch.Call(t.Context(), conn, &controlpb.FetchRequest{FromOffset: -1})
			for err != nil { // it is not there yet
				resp, err = controlpb.Fetch.Call(t.Context(), conn, &controlpb.FetchRequest{FromOffset: -1})
			}
			if resp.GetControllerId() != 1 {
				t.Errorf("got %v", resp)
			}
			p.stop()
		})
	}
	for want, pairs := range map[string]map[string]string{
		"controller.bus.listener":       {"controller.bus.listener": "4222"},
		"port \"x\"":                    {"controller.bus.listener": "127.0.0.1:x"},
		"controller.bus.route.listener": {"controller.bus.listener": "127.0.0.1:0", "controller.bus.route.listener": "4222"},
		"there is no bus":               {"controller.bus.listener": "", "bus.servers": ""},
	} {
		if _, _, err := OpenBus(static(t, pairs), bus.Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", pairs, err)
		}
	}
}
