package controller

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
)

// process runs something until stopped.
type process struct{ stop func() }

func start(t testing.TB, run func(context.Context) error) process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	p := process{stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with: %v", err)
		}
	})}
	t.Cleanup(p.stop)
	return p
}

func static(t testing.TB, pairs map[string]string) config.Values {
	t.Helper()
	v, err := config.FromMap(configkeys.Broker(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// world is a bus in this process.
type world struct {
	t      testing.TB
	server *bus.Server
	static config.Values
	dir    string
}

func newWorld(t testing.TB, pairs map[string]string) *world {
	t.Helper()
	server, err := bus.StartServer(bus.ServerConfig{Name: "test"}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &world{t: t, server: server, static: static(t, pairs), dir: filepath.Join(t.TempDir(), "metadata")}
}

func (w *world) connect(name string) *bus.Conn {
	w.t.Helper()
	c, err := w.server.Connect(name, bus.Deps{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) controller() (*Service, process) {
	w.t.Helper()
	s, err := New(Config{ID: 1, Dir: w.dir, Static: w.static}, Deps{Bus: w.connect("controller")})
	if err != nil {
		w.t.Fatal(err)
	}
	return s, start(w.t, s.Run)
}

func (w *world) node(id int32) (*node.Node, process) {
	w.t.Helper()
	n := node.New(node.Config{
		ID: id, Roles: []string{metadata.RoleBroker}, Static: w.static, LogDirIDs: [][16]byte{{15: byte(id)}},
		AdvertisedListeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: uint16(9092 + id)}},
	}, node.Deps{Bus: w.connect(fmt.Sprint("node ", id))})
	return n, start(w.t, n.Run)
}

// forward sends a request of any kind through a node.
func forward[Resp kmsg.Response](t testing.TB, n *node.Node, req kmsg.Request) Resp {
	t.Helper()
	body, err := n.Forward(t.Context(), req.Key(), req.GetVersion(), req.AppendTo(nil), "User:ANONYMOUS", "test", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp.(Resp)
}

func createTopics(partitions int32, names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		req.Topics = append(req.Topics, t)
	}
	return req
}

func mustCreate(t testing.TB, n *node.Node, partitions int32, names ...string) {
	t.Helper()
	for _, topic := range forward[*kmsg.CreateTopicsResponse](t, n, createTopics(partitions, names...)).Topics {
		if topic.ErrorCode != 0 {
			t.Fatalf("create %s: code %d", topic.Topic, topic.ErrorCode)
		}
	}
}

func TestTopicOutlivesTheController(t *testing.T) {
	w := newWorld(t, nil)
	_, controller := w.controller()
	n, running := w.node(1)
	<-n.Ready()
	mustCreate(t, n, 3, "orders")
	created, ok := n.Image().Topic("orders")
	if !ok || len(created.Partitions) != 3 || created.Partitions[0].Leader != 1 {
		t.Fatalf("the node's image has %+v", created)
	}
	id := n.Image().ClusterID()
	if len(id) != 22 {
		t.Errorf("cluster id %q", id)
	}

	controller.stop()
	if _, ok := n.Image().Topic("orders"); !ok {
		t.Error("the image went with the controller")
	}
	s, _ := w.controller()
	mustCreate(t, n, 1, "more") // the same node goes on
	running.stop()

	again, _ := w.node(1)
	<-again.Ready()
	im := again.Image()
	kept, ok := im.Topic("orders")
	if !ok || kept.ID != created.ID || im.ClusterID() != id {
		t.Errorf("after restarts: %+v in cluster %s", kept, im.ClusterID())
	}
	if _, ok := im.Topic("more"); !ok || s.Image().TopicCount() != 2 {
		t.Error("the second topic is missing")
	}
	if kept.Partitions[0].Leader != 1 {
		t.Errorf("leader %d after the node's return", kept.Partitions[0].Leader)
	}
}
