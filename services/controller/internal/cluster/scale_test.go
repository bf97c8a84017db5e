package cluster

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// oneBroker is a cluster of one unfenced node.
func oneBroker(t testing.TB) *harness {
	h := newHarness(t, 1, nil)
	_, recs, err := h.sessions.Register(h.im, h.env, Registration{
		NodeID: 1, Incarnation: [16]byte{1}, Roles: []string{metadata.RoleBroker},
		Listeners: []metadata.Listener{{Name: "L"}}, Features: metadata.SupportedFeatures(), PreviousEpoch: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.commit(recs)
	n, _ := h.im.Node(1)
	_, recs, err = h.sessions.Heartbeat(h.im, h.env, Beat{NodeID: 1, Epoch: n.Epoch, Offset: h.im.Offset()})
	if err != nil {
		t.Fatal(err)
	}
	h.commit(recs)
	return h
}

func newTopicRequest(name string, partitions int32) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	return req
}

// create decides and applies without the harness's checks, which look at all
// partitions each time.
func create(t testing.TB, h *harness, im *metadata.Image, req *kmsg.CreateTopicsRequest) *metadata.Image {
	out := Handle(im, h.env, req, anyone)
	if r := out.Response.(*kmsg.CreateTopicsResponse); r.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	next, _, err := im.Apply(im.Offset()+1, out.Records)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestTopicsCostTheSame shows that the work for one more topic does not grow
// with the number of topics.
func TestTopicsCostTheSame(t *testing.T) {
	h := oneBroker(t)
	cost := func(im *metadata.Image) float64 {
		return testing.AllocsPerRun(20, func() { create(t, h, im, newTopicRequest("one.more", 1)) })
	}
	few, im := cost(h.im), h.im
	for i := range 3000 {
		im = create(t, h, im, newTopicRequest(fmt.Sprintf("topic.%d", i), 1))
	}
	if many := cost(im); many > few+100 {
		t.Errorf("%v allocations with 3,000 topics, %v with none", many, few)
	}
}

func TestManyPartitionsAtOnce(t *testing.T) {
	h := oneBroker(t)
	im := create(t, h, h.im, newTopicRequest("big", 10_000))
	topic, _ := im.Topic("big")
	if len(topic.Partitions) != 10_000 || im.PartitionCount() != 10_000 {
		t.Fatalf("%d partitions", len(topic.Partitions))
	}
	checkInvariants(t, h.im, im)
}

func BenchmarkCreateTopic10000Partitions(b *testing.B) {
	h := oneBroker(b)
	b.ReportAllocs()
	for b.Loop() {
		create(b, h, h.im, newTopicRequest("big", 10_000))
	}
}

func BenchmarkCreate1000TopicsOneByOne(b *testing.B) {
	h := oneBroker(b)
	b.ReportAllocs()
	for b.Loop() {
		im := h.im
		for i := range 1000 {
			im = create(b, h, im, newTopicRequest(fmt.Sprintf("topic.%d", i), 1))
		}
	}
}

// A node of a cluster with 100,000 partitions fails.
func BenchmarkFence(b *testing.B) {
	h := oneBroker(b)
	im := h.im
	for i := range 100 {
		im = create(b, h, im, newTopicRequest(fmt.Sprint("topic", i), 1000))
	}
	n, _ := im.Node(1)
	b.ReportAllocs()
	for b.Loop() {
		if recs := fence(im, h.env, n); len(recs) != 100_001 {
			b.Fatal(len(recs))
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	h := oneBroker(b)
	n, _ := h.im.Node(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, recs, err := h.sessions.Heartbeat(h.im, h.env, Beat{NodeID: 1, Epoch: n.Epoch, Offset: h.im.Offset()}); err != nil || recs != nil {
			b.Fatal(recs, err)
		}
	}
}
