// Package api serves the APIs of groups: it finds the shard that a group belongs to, has it run the operation, and sends what
// it answers. There is one file per API key.
//
// An operation runs on the goroutine that read the request, and its answer leaves when the shard's log has what it rests on;
// nothing here waits.
package api

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// Service answers for the groups of the shards that a runtime has.
type Service struct {
	runtime *coordinator.Runtime[*shard.Machine]
	image   func() *metadata.Image
}

// New serves a runtime's shards. image is the node's newest.
func New(runtime *coordinator.Runtime[*shard.Machine], image func() *metadata.Image) *Service {
	return &Service{runtime: runtime, image: image}
}

// APIs are all that clients of groups use, at the versions that every node offers.
func (s *Service) APIs() []server.API {
	handlers := map[int16]server.Handler{
		8: s.offsetCommit(), 9: s.offsetFetch(), 11: s.joinGroup(), 12: s.heartbeat(), 13: s.leaveGroup(), 14: s.syncGroup(),
		15: s.describeGroups(), 16: s.listGroups(), 28: s.txnOffsetCommit(), 42: s.deleteGroups(), 47: s.offsetDelete(),
		68: s.consumerGroupHeartbeat(), 69: s.consumerGroupDescribe(),
	}
	var apis []server.API
	for _, r := range groupapi.Ranges() {
		apis = append(apis, server.API{Key: r.Key, MinVersion: r.Min, MaxVersion: r.Max, Handle: handlers[r.Key], Inline: true})
	}
	return apis
}

// noShard is the shard of every group while there are none.
const noShard = -1

// shardOf is the shard that a group belongs to.
func (s *Service) shardOf(group string) int32 {
	if t, ok := s.image().Topic(metadata.ConsumerOffsetsTopic); ok {
		return t.ShardOf(group)
	}
	return noShard
}

// request is a pointer to a request of one kind.
type request[Q any] interface {
	*Q
	kmsg.Request
}

// operation is what a shard does with a request.
type operation[P any] func(m *shard.Machine, now time.Time, t coordinator.Ticket, q P) coordinator.Step

// one serves requests about one group each. What prepare makes of the request must not alias the body, which is given back at once:
// members wait for each other, and the server reads no more than it may hold.
func one[Q any, P request[Q]](s *Service, group func(q P) string, prepare func(r *server.Request, q P) operation[P]) server.Handler {
	return func(r *server.Request) {
		q := P(new(Q))
		if err := r.Decode(q); err != nil {
			r.Fail(err)
			return
		}
		run := prepare(r, q)
		r.ReleaseBody()
		do(s, r, s.shardOf(group(q)), q, run, r.Reply)
	}
}

// do has a shard carry out an operation of a request and gives the response away, be it a refusal.
func do[P kmsg.Request](s *Service, r *server.Request, id int32, q P, op operation[P], give func(kmsg.Response)) {
	s.runtime.Do(r.Trace().SpanContext(), id, func(m *shard.Machine, now time.Time, t coordinator.Ticket) coordinator.Step { return op(m, now, t, q) },
		func(resp any, err error) {
			if err != nil {
				give(groupapi.Refuse(q, groupapi.Code(err)))
				return
			}
			give(resp.(kmsg.Response))
		})
}

// plainly is prepare for operations that need nothing but the request.
func plainly[P any](op operation[P]) func(*server.Request, P) operation[P] {
	return func(*server.Request, P) operation[P] { return op }
}

// client is who sent a request. Joins says that the request may need an id for a new member.
func client(r *server.Request, joins bool) op.Client {
	c := op.Client{ID: r.ClientID, Host: "/" + r.Conn.RemoteHost()}
	if joins {
		c.Fresh = uuid.NewString()
	}
	return c
}

// part is the groups of a request that belong to one shard, and where in the request they are.
type part[G any] struct {
	shard  int32
	groups []G
	places []int
}

func split[G any](s *Service, groups []G, id func(G) string) []part[G] {
	var parts []part[G]
	for i, g := range groups {
		n := s.shardOf(id(g))
		at := slices.IndexFunc(parts, func(p part[G]) bool { return p.shard == n })
		if at < 0 {
			at = len(parts)
			parts = append(parts, part[G]{shard: n})
		}
		parts[at].groups = append(parts[at].groups, g)
		parts[at].places = append(parts[at].places, i)
	}
	return parts
}

// several says how to take a request about several groups apart and put the answers together.
type several[Q any, P request[Q], G, R any] struct {
	groups  func(q P) *[]G
	id      func(g G) string
	results func(resp kmsg.Response) *[]R
	op      operation[P]
}

// handle serves requests of this kind.
func (v several[Q, P, G, R]) handle(s *Service) server.Handler {
	return func(r *server.Request) {
		q := P(new(Q))
		if err := r.Decode(q); err != nil {
			r.Fail(err)
			return
		}
		v.serve(s, r, q)
	}
}

// serve has every shard that is concerned answer for its groups, and replies when all have.
func (v several[Q, P, G, R]) serve(s *Service, r *server.Request, q P) {
	groups := *v.groups(q)
	parts := split(s, groups, v.id)
	resp := q.ResponseKind()
	all := make([]R, len(groups))
	open := newCountdown(len(parts), func() {
		*v.results(resp) = all
		r.Reply(resp)
	})
	for _, p := range parts {
		copied := *q
		sub := P(&copied)
		*v.groups(sub) = p.groups
		do(s, r, p.shard, sub, v.op, func(answer kmsg.Response) {
			for i, result := range *v.results(answer) {
				all[p.places[i]] = result
			}
			open.done()
		})
	}
}
