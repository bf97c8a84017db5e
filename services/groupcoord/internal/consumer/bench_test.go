package consumer

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// BenchmarkHeartbeat is what a coordinator does most: a heartbeat of a member that has all that it is to have.
func BenchmarkHeartbeat(b *testing.B) {
	w := newWorld(b, nil, nil)
	w.createTopic("a", 100)
	for i := range 100 {
		w.do(func(o *op.Op) {
			w.group.ConsumerHeartbeat(o, 0, op.Client{ID: "c"}, &kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: groupID, MemberID: fmt.Sprint(i),
				RebalanceTimeoutMillis: 60_000, SubscribedTopicNames: []string{"a"}, Topics: []kmsg.ConsumerGroupHeartbeatRequestTopic{}})
		})
	}
	for w.question != nil {
		w.answer(assign(w.question), nil)
		w.advance(w.settings.Broker.DurationMs("group.consumer.assignment.interval.ms"))
	}
	m := w.group.members["0"] // which had everything at first
	req := &kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: groupID, MemberID: "0", MemberEpoch: m.current.Epoch, RebalanceTimeoutMillis: -1}
	owns := kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for id, partitions := range w.group.targets["0"] {
		owns.TopicID, owns.Partitions = id, partitions
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{owns}
	w.do(func(o *op.Op) { w.group.ConsumerHeartbeat(o, 0, op.Client{ID: "c"}, req) })
	req.MemberEpoch, req.Topics = m.current.Epoch, nil
	for b.Loop() {
		o := op.New(w.now, w.image, w.settings, w.timers, func(r schema.Record) { w.group.Replay(r) })
		w.group.ConsumerHeartbeat(o, 1, op.Client{ID: "c"}, req)
		if s := o.Step(); len(s.Answers) != 1 || len(s.Records) > 0 {
			b.Fatalf("a heartbeat brought about %+v", s)
		}
	}
}
