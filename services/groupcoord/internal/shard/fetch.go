package shard

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// fetchesSeveral is the first version of OffsetFetch for several groups.
const fetchesSeveral = 8

// OffsetFetch answers for the groups of a request of any version, each of which must be of this shard.
func (m *Machine) OffsetFetch(now time.Time, t coordinator.Ticket, req *kmsg.OffsetFetchRequest) coordinator.Step {
	o := m.begin(now)
	if req.Version >= fetchesSeveral {
		resp := kmsg.NewPtrOffsetFetchResponse()
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, m.fetch(o, &req.Groups[i], req))
		}
		o.Answer(t, resp)
		return o.Step()
	}
	g := fetchOfOne(req)
	r := m.fetch(o, &g, req)
	if err := kerr.TypedErrorForCode(r.ErrorCode); err != nil {
		o.Answer(t, groupapi.Refuse(req, err))
	} else {
		o.Answer(t, ofOne(r))
	}
	return o.Step()
}

// fetch answers for one group. One that does not exist has no offsets.
func (m *Machine) fetch(o *op.Op, g *kmsg.OffsetFetchRequestGroup, req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchResponseGroup {
	if known := m.groups[g.Group]; known != nil {
		memberID := ""
		if g.MemberID != nil {
			memberID = *g.MemberID
		}
		if err := known.AdmitFetch(memberID, g.MemberEpoch); err != nil {
			out := kmsg.NewOffsetFetchResponseGroup()
			out.Group, out.ErrorCode = g.Group, groupapi.Code(err).Code
			return out
		}
	}
	return m.offsets.Fetch(o, g, req.Version, req.RequireStable)
}

// fetchOfOne is a request of the versions for one group as those for several have it.
func fetchOfOne(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		r := kmsg.NewOffsetFetchRequestGroupTopic()
		r.Topic, r.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, r)
	}
	return g
}

// ofOne is the answer for a group as the versions for one group have it.
func ofOne(g kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	for _, t := range g.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			r := kmsg.NewOffsetFetchResponseTopicPartition()
			r.Partition, r.Offset, r.LeaderEpoch, r.Metadata, r.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
