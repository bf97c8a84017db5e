package host

import (
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// encoder gives numbers to what a request names often.
type encoder struct {
	request       *pluginpb.AssignRequest
	racks         map[string]uint32
	subscriptions map[string]uint32
}

func encodeRequest(assignor string, r *plugin.Request) *pluginpb.AssignRequest {
	e := &encoder{racks: map[string]uint32{}, subscriptions: map[string]uint32{},
		request: &pluginpb.AssignRequest{Assignor: assignor, Group: r.Group, GroupEpoch: r.Epoch}}
	for i := range r.Topics {
		t := &r.Topics[i]
		topic := &pluginpb.AssignTopic{Id: t.ID[:], Name: t.Name, Partitions: t.Partitions, Lag: t.Lag}
		for _, racks := range t.Racks {
			topic.RackCounts = append(topic.RackCounts, uint32(len(racks)))
			for _, rack := range racks {
				topic.Racks = append(topic.Racks, e.rack(rack))
			}
		}
		e.request.Topics = append(e.request.Topics, topic)
	}
	var previous []int
	var subscription uint32
	for i := range r.Members {
		m := &r.Members[i]
		if i == 0 || !slices.Equal(m.Topics, previous) {
			subscription, previous = e.subscription(m.Topics), m.Topics
		}
		member := &pluginpb.AssignMember{Id: m.ID, InstanceId: m.InstanceID, Subscription: subscription}
		if m.Rack != "" {
			member.Rack = e.rack(m.Rack) + 1
		}
		for _, p := range m.Target {
			member.Target = append(member.Target, &pluginpb.TopicPartitions{Topic: uint32(p.Topic), Partitions: p.Partitions})
		}
		e.request.Members = append(e.request.Members, member)
	}
	return e.request
}

func (e *encoder) rack(name string) uint32 {
	n, ok := e.racks[name]
	if !ok {
		n = uint32(len(e.request.Racks))
		e.racks[name] = n
		e.request.Racks = append(e.request.Racks, name)
	}
	return n
}

func (e *encoder) subscription(topics []int) uint32 {
	key := fmt.Sprint(topics)
	n, ok := e.subscriptions[key]
	if !ok {
		n = uint32(len(e.request.Subscriptions))
		e.subscriptions[key] = n
		s := &pluginpb.Subscription{Topics: make([]uint32, len(topics))}
		for i, t := range topics {
			s.Topics[i] = uint32(t)
		}
		e.request.Subscriptions = append(e.request.Subscriptions, s)
	}
	return n
}

func decodeResponse(r *pluginpb.AssignResponse, members, topics int) (plugin.Response, error) {
	answer := make(plugin.Response, members)
	for _, m := range r.Members {
		if int64(m.Member) >= int64(members) {
			return nil, fmt.Errorf("it gives partitions to an unknown member: number %d of %d", m.Member, members)
		}
		for _, p := range m.Partitions {
			if int64(p.Topic) >= int64(topics) {
				return nil, fmt.Errorf("it gives away partitions of an unknown topic: number %d of %d", p.Topic, topics)
			}
			answer[m.Member] = append(answer[m.Member], plugin.TopicPartitions{Topic: int(p.Topic), Partitions: p.Partitions})
		}
	}
	return answer, nil
}
