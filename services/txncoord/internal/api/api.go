// Package api serves the APIs of transactions: it finds the shard that a transactional id belongs to, has it run the operation, and
// sends what it answers. There is one file per API key.
//
// An operation runs on the goroutine that read the request, and its answer leaves when the shard's log has what it rests on. What
// has to wait for a producer id of the controller, or for a topic to be created, waits on a goroutine of its own.
package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// Deps are what the APIs work with.
type Deps struct {
	Runtime *coordinator.Runtime[*shard.Machine]
	// Image is the node's newest.
	Image func() *metadata.Image
	// NextProducerID is an id that no producer had before.
	NextProducerID func(ctx context.Context) (int64, error)
	// CreateTopic creates a coordinators' topic that is missing.
	CreateTopic func(ctx context.Context, topic string) error
}

// Service answers for the transactions of the shards that a runtime has.
type Service struct {
	Deps
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	waiting sync.WaitGroup
}

// New serves a runtime's shards. Close must be called.
func New(d Deps) *Service {
	s := &Service{Deps: d}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends what waits for others.
func (s *Service) Close() {
	s.cancel()
	s.waiting.Wait()
}

// APIs are all that transactional producers and their tools use, at the versions that every node offers.
func (s *Service) APIs() []server.API {
	handlers := map[int16]server.Handler{
		24: s.addPartitions, 25: s.addOffsets, 26: s.endTxn, 65: s.describeTransactions, 66: s.listTransactions,
	}
	apis := []server.API{{Key: 22, MinVersion: 0, MaxVersion: 5, Handle: s.initProducerID, Inline: true}}
	for _, r := range txnapi.Ranges() {
		apis = append(apis, server.API{Key: r.Key, MinVersion: r.Min, MaxVersion: r.Max, Handle: handlers[r.Key], Inline: true})
	}
	return apis
}

// noShard is the shard of every transactional id while there are none.
const noShard = -1

// shardOf is the shard that a transactional id belongs to.
func (s *Service) shardOf(id string) int32 {
	if t, ok := s.Image().Topic(metadata.TransactionStateTopic); ok {
		return t.ShardOf(id)
	}
	return noShard
}

// operation is what a shard does for a request. fresh is a producer id that nobody had, or NoProducer.
type operation func(m *shard.Machine, now time.Time, t coordinator.Ticket, fresh int64) coordinator.Step

// do has the shard of a transactional id carry out an operation for the span origin, and give what it answers, or why it does not. If it needs a producer
// id it is carried out again with one.
func (s *Service) do(origin trace.SpanContext, id string, op operation, give func(response any, ticket coordinator.Ticket, code *kerr.Error)) {
	s.run(origin, id, op, schema.NoProducer, func(response any, ticket coordinator.Ticket, code *kerr.Error) {
		if _, needs := response.(*shard.NeedProducerID); !needs {
			give(response, ticket, code)
			return
		}
		s.waiting.Go(func() {
			fresh, err := s.NextProducerID(trace.ContextWithSpanContext(s.ctx, origin))
			if err != nil {
				give(nil, 0, kerr.CoordinatorLoadInProgress) // as Kafka's while it has no ids: ask again
				return
			}
			s.run(origin, id, op, fresh, give)
		})
	})
}

func (s *Service) run(origin trace.SpanContext, id string, op operation, fresh int64, give func(response any, ticket coordinator.Ticket, code *kerr.Error)) {
	var ticket coordinator.Ticket
	s.Runtime.Do(origin, s.shardOf(id), func(m *shard.Machine, now time.Time, t coordinator.Ticket) coordinator.Step {
		ticket = t
		return op(m, now, t, fresh)
	}, func(response any, err error) {
		if err != nil {
			give(nil, ticket, codeOf(err))
			return
		}
		give(response, ticket, nil)
	})
}

// codeOf is the Kafka error that err is or wraps.
func codeOf(err error) *kerr.Error {
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k
	}
	return kerr.UnknownServerError
}

// decode is the request of a kind, or nil when its connection ends because it is none. What it holds does not alias the body.
func decode[Q any, P interface {
	*Q
	kmsg.Request
}](r *server.Request) P {
	q := P(new(Q))
	if err := r.Decode(q); err != nil {
		r.Fail(err)
		return nil
	}
	return q
}
