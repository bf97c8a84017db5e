package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// fetchesSeveral is the first version of OffsetFetch that names several groups.
const fetchesSeveral = 8

// OffsetFetch (key 9), versions 1 to 10.
//
//	2    null asks for all topics; an error for the whole
//	5    leader epochs (KIP-320)
//	7    require_stable (KIP-447)
//	8    several groups (KIP-709)
//	9    the member epoch of consumer groups (KIP-848)
//	10   topic ids (KIP-848)
func (s *Service) offsetFetch() server.Handler {
	fetch := func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.OffsetFetchRequest) coordinator.Step {
		return m.OffsetFetch(now, t, q)
	}
	v := several[kmsg.OffsetFetchRequest, *kmsg.OffsetFetchRequest, kmsg.OffsetFetchRequestGroup, kmsg.OffsetFetchResponseGroup]{
		groups:  func(q *kmsg.OffsetFetchRequest) *[]kmsg.OffsetFetchRequestGroup { return &q.Groups },
		id:      func(g kmsg.OffsetFetchRequestGroup) string { return g.Group },
		results: func(r kmsg.Response) *[]kmsg.OffsetFetchResponseGroup { return &r.(*kmsg.OffsetFetchResponse).Groups },
		op:      fetch,
	}
	return func(r *server.Request) {
		q := kmsg.NewPtrOffsetFetchRequest()
		switch err := r.Decode(q); {
		case err != nil:
			r.Fail(err)
		case q.Version < fetchesSeveral:
			do(s, r, s.shardOf(q.Group), q, fetch, r.Reply)
		default:
			v.serve(s, r, q)
		}
	}
}
