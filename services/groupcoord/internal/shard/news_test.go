package shard

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// subscribe has a new member of a consumer group subscribe to a topic.
func (h *harness) subscribe(group, topic string) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, "m", 20_000
	req.SubscribedTopicNames, req.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	h.ticket++
	h.waiting[h.ticket] = req
	h.take(h.m.ConsumerGroupHeartbeat(h.now, h.ticket, op.Client{ID: "c", Host: "/127.0.0.1"}, req))
}

// bumped are the groups whose epoch a step of the machine has changed.
func (h *harness) bumped(step coordinator.Step) []string {
	var ids []string
	for _, r := range h.take(step).records {
		if id, tombstone := consumerRecord(r); !tombstone {
			ids = append(ids, id)
		}
	}
	return ids
}

// An image is looked at by the groups that it is news for.
func TestNewsReachesThoseThatItConcerns(t *testing.T) {
	h := newHarness(t, nil)
	for _, topic := range []string{"a", "b", "c"} {
		h.createTopic(topic, 1)
		h.subscribe("of-"+topic, topic)
	}
	h.image()
	h.subscribe("of-b-too", "b")
	h.take(h.m.ConsumerGroupHeartbeat(h.now, 0, op.Client{}, &kmsg.ConsumerGroupHeartbeatRequest{
		Version: 1, Group: "of-c", MemberID: "m", MemberEpoch: -1}))

	for _, test := range []struct {
		all    bool
		topics []string
		want   string
	}{
		{false, nil, "[]"},
		{false, []string{"a", "none", "a"}, "[of-a]"},
		{false, []string{"b"}, "[of-b of-b-too]"},
		{false, []string{"c"}, "[]"}, // its member has left
		{true, nil, "[of-a of-b of-b-too of-c]"},
	} {
		h.m.concern(test.all, test.topics)
		if got := fmt.Sprint(slices.Sorted(maps.Keys(h.m.unshown))); got != test.want {
			t.Errorf("news of %v (all: %v) concern %s, want %s", test.topics, test.all, got, test.want)
		}
		clear(h.m.unshown)
	}
}

// What a shard has missed is made up for by the next image, whatever that brings.
func TestMissedNews(t *testing.T) {
	h := newHarness(t, nil)
	h.createTopic("a", 1)
	h.image()
	h.subscribe("of-a", "a")
	h.deleteTopic("a")
	seen := h.m.image.Offset()
	h.createTopic("b", 1)
	if got := h.bumped(h.m.OnImage(h.now, h.im, h.settings, News{Since: h.im.Offset(), Topics: []string{"b"}})); len(got) != 1 {
		t.Errorf("the groups %v have seen what the shard missed since offset %d", got, seen)
	}
}

func TestNewsOf(t *testing.T) {
	h := newHarness(t, nil)
	h.createTopic("a", 1)
	before := h.im
	h.createTopic("b", 1)
	news := NewsOf(before, metadata.Diff(before, h.im))
	if got := fmt.Sprintf("%+v", news); got != fmt.Sprintf("{Since:%d Topics:[b] Deleted:false Racks:false}", before.Offset()) {
		t.Errorf("news of a topic: %s", got)
	}
	before = h.im
	h.deleteTopic("a")
	if news := NewsOf(before, metadata.Diff(before, h.im)); !news.Deleted || len(news.Topics) != 1 || !news.Concerns() {
		t.Errorf("news of a topic's end: %+v", news)
	}
	for _, test := range []struct {
		before, after string
		racks         bool
	}{{"", "", false}, {"r", "r", false}, {"r", "s", true}, {"", "r", true}} {
		known, _, err := h.im.Apply(h.im.Offset()+1, []*metadatapb.Record{registers(test.before)})
		if err != nil {
			t.Fatal(err)
		}
		next, d, err := known.Apply(known.Offset()+1, []*metadatapb.Record{registers(test.after)})
		if err != nil {
			t.Fatal(err)
		}
		if news := NewsOf(known, d); news.Racks != test.racks || news.Concerns() != test.racks {
			t.Errorf("rack %q to %q: %+v", test.before, test.after, news)
		}
		if news := NewsOf(next, metadata.Diff(next, h.im)); news.Racks != (test.after != "") {
			t.Errorf("a node of rack %q is gone: %+v", test.after, news)
		}
	}
}

func registers(rack string) *metadatapb.Record {
	n := metadata.Node{ID: 7, Incarnation: [16]byte{1}, Rack: rack}
	return &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}}
}

// BenchmarkImage is news of one topic in a shard of 10,000 groups, 10 of which subscribe to it.
func BenchmarkImage(b *testing.B) {
	h := newHarness(b, nil)
	for i := range 1000 {
		h.createTopic(fmt.Sprint("t", i), 1)
	}
	h.image()
	for i := range 10_000 {
		h.subscribe(fmt.Sprint("g", i), fmt.Sprint("t", i%1000))
	}
	news := News{Since: h.im.Offset(), Topics: []string{"t7"}}
	b.ReportAllocs()
	for b.Loop() {
		h.m.OnImage(h.now, h.im, h.settings, news)
	}
}
