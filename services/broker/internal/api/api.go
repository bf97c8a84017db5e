// Package api answers the requests about partitions other than Produce and Fetch: one file per API key, named after it.
package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/move"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/watch"
)

// Service answers the requests.
type Service struct {
	parts *partition.Set
	logs  *logdir.Set
	moves *move.Set
	nowMs func() int64
}

// New makes a Service over the broker's partitions and log directories, and the moves between these.
func New(parts *partition.Set, logs *logdir.Set, moves *move.Set, nowMs func() int64) *Service {
	return &Service{parts: parts, logs: logs, moves: moves, nowMs: nowMs}
}

// APIs are the registrations for the router.
func (s *Service) APIs() []server.API {
	return []server.API{
		{Key: 2, MinVersion: 1, MaxVersion: 11, Handle: answer(s.listOffsets)},
		{Key: 21, MinVersion: 0, MaxVersion: 2, Handle: s.deleteRecords},
		{Key: 23, MinVersion: 2, MaxVersion: 4, Handle: answer(s.offsetForLeaderEpoch)},
		{Key: 34, MinVersion: 1, MaxVersion: 2, Handle: answer(s.alterReplicaLogDirs)},
		{Key: 35, MinVersion: 1, MaxVersion: 5, Handle: answer(s.describeLogDirs)},
		{Key: 61, MinVersion: 0, MaxVersion: 0, Handle: answer(s.describeProducers)},
	}
}

// answer decodes a request of type Q and replies with what fn makes of it.
func answer[Q any, P interface {
	*Q
	kmsg.Request
}](fn func(P) kmsg.Response) server.Handler {
	return func(r *server.Request) {
		q := P(new(Q))
		if err := r.Decode(q); err != nil {
			r.Fail(err)
			return
		}
		r.Reply(fn(q))
	}
}

// leading returns the log of a partition that this broker leads, or the error for the client.
func (s *Service) leading(topic string, id, clientEpoch int32) (*log.Log, *partition.Partition, error) {
	p, err := s.parts.Lookup(topic, metadata.TopicID{}, id)
	if err != nil {
		return nil, nil, err
	}
	l, err := p.Leading(clientEpoch)
	return l, p, err
}

// tell ends the waits of readers for which something other than data changed.
func tell(p *partition.Partition) {
	var ended watch.Ended
	p.Replicas.Interrupt(&ended)
	p.Watchers.Interrupt(&ended)
	ended.Fire()
}
