package api

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// ListGroups (key 16), versions 0 to 5; a filter of states from 4 (KIP-518), of types from 5 (KIP-848).
//
// A node lists the groups of its own shards; clients ask all nodes. While one of them is loading, the answer says so instead of
// being short of its groups.
func (s *Service) listGroups() server.Handler {
	return func(r *server.Request) {
		q := kmsg.NewPtrListGroupsRequest()
		if err := r.Decode(q); err != nil {
			r.Fail(err)
			return
		}
		list := func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.ListGroupsRequest) coordinator.Step {
			return m.ListGroups(now, t, q)
		}
		var own []int32
		for id := range s.image().Shards(metadata.ConsumerOffsetsTopic) {
			if _, ok := s.runtime.Epoch(id); ok {
				own = append(own, id)
			}
		}
		resp := kmsg.NewPtrListGroupsResponse()
		var mu sync.Mutex
		open := newCountdown(len(own), func() { r.Reply(resp) })
		for _, id := range own {
			do(s, r, id, q, list, func(answer kmsg.Response) {
				a := answer.(*kmsg.ListGroupsResponse)
				mu.Lock()
				if a.ErrorCode != 0 && a.ErrorCode != kerr.NotCoordinator.Code {
					resp.ErrorCode = a.ErrorCode
				}
				resp.Groups = append(resp.Groups, a.Groups...)
				mu.Unlock()
				open.done()
			})
		}
	}
}
