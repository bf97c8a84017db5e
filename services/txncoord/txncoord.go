// Package txncoord coordinates transactions: it has shards of __transaction_state, which brokers store, serves transactional producers,
// and brings the markers of transactions that ended to all partitions that take part.
//
// Which shards are a node's own the controllers decide; a node acts on its own last metadata image.
package txncoord

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/coordinator/placement"
	"github.com/cauce-stream/cauce/libs/coordinator/shardlog"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/node/anywhere"
	"github.com/cauce-stream/cauce/libs/node/producerids"
	"github.com/cauce-stream/cauce/services/txncoord/internal/api"
	"github.com/cauce-stream/cauce/services/txncoord/internal/markers"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// maxBatchBytes bounds a batch of a shard, as Kafka config max.message.bytes does by default.
const maxBatchBytes = 1<<20 - 12

// Config says which node the coordinator is.
type Config struct {
	NodeID int32
	// Static is the node's own configuration.
	Static configkeys.Values
}

// Deps are what the service needs of its process. Metrics and Tracer may be nil.
type Deps struct {
	Log     *zap.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Service is the coordinator of one node.
type Service struct {
	cfg       Config
	log       *zap.Logger
	shards    *shardlog.Log
	runtime   *coordinator.Runtime[*shard.Machine]
	placement placement.Placement
	markers   *markers.Sender
	metrics   *metrics
	ids       *producerids.IDs
	api       *api.Service
	idWaits   idWaits

	node *node.Node
	seen atomic.Pointer[metadata.Image] // the image of the last update
}

// New makes a coordinator without shards. Close must be called.
func New(cfg Config, deps Deps) (*Service, error) {
	s := &Service{cfg: cfg, log: deps.Log}
	s.seen.Store(metadata.Empty())
	listener := cfg.Static.String("inter.broker.listener.name")
	clientID := "txncoord-" + strconv.Itoa(int(cfg.NodeID))
	s.shards = shardlog.New(shardlog.Config{Topic: metadata.TransactionStateTopic, Listener: listener, ClientID: clientID}, s.image)
	settings := &shard.Settings{
		MaxTimeoutMs:  int32(cfg.Static.Int("transaction.max.timeout.ms")),
		ExpireAfter:   cfg.Static.DurationMs("transactional.id.expiration.ms"),
		SweepEvery:    cfg.Static.DurationMs("transaction.remove.expired.transaction.cleanup.interval.ms"),
		MaxBatchBytes: maxBatchBytes,
	}
	runtime, err := coordinator.New(coordinator.Config{
		Name:          "transaction",
		NodeID:        cfg.NodeID,
		MaxBatchBytes: maxBatchBytes,
		LoadBytes:     cfg.Static.Int("transaction.state.log.load.buffer.size"),
	}, coordinator.Deps{Log: s.shards, Logger: deps.Log, Metrics: deps.Metrics, Tracer: deps.Tracer, Job: s.job},
		func(int32) *shard.Machine { return shard.New(settings) })
	if err != nil {
		s.shards.Close()
		return nil, fmt.Errorf("txncoord: %w", err)
	}
	s.runtime = runtime
	s.placement = placement.Placement{Topic: metadata.TransactionStateTopic, NodeID: cfg.NodeID, Shards: runtime}
	s.markers = markers.New(markers.Config{Listener: listener, ClientID: clientID}, markers.Deps{
		Image: s.image, Owned: s.owned, Written: s.written, Log: deps.Log, Tracer: deps.Tracer,
	})
	s.metrics = newMetrics(s.census, s.markers.Backlog)
	if deps.Metrics != nil {
		if err := s.metrics.register(deps.Metrics); err != nil {
			return nil, errors.Join(fmt.Errorf("txncoord: %w", err), s.Close())
		}
	}
	return s, nil
}

func (s *Service) image() *metadata.Image { return s.seen.Load() }

func (s *Service) owned(shardID, epoch int32) bool {
	has, ok := s.runtime.Epoch(shardID)
	return ok && has == epoch
}

func (s *Service) written(origin trace.SpanContext, shardID int32, c *shard.Completion, partitions []schema.Partition) {
	s.runtime.Run(origin, shardID, func(m *shard.Machine, now time.Time) coordinator.Step { return m.Written(now, c, partitions) })
}

// Serve registers the APIs of transactions and has the coordinator follow the node's metadata. It is called once, before the node and
// the server run.
func (s *Service) Serve(n *node.Node, router *server.Router) {
	s.node = n
	s.ids = producerids.New(n)
	s.idWaits.begin(s.ids.Next)
	s.api = api.New(api.Deps{
		Runtime: s.runtime, Image: n.Image, NextProducerID: s.ids.Next,
		CreateTopic: func(ctx context.Context, topic string) error { return anywhere.CreateCoordinatorsTopic(ctx, n, topic) },
	})
	router.Register(s.api.APIs()...)
	n.OnUpdate(s.update)
}

// update follows an image: shards that are another's by it go first.
func (s *Service) update(im *metadata.Image, d *metadata.Delta) {
	s.placement.Release(s.seen.Load(), d)
	s.seen.Store(im)
	s.placement.Own(im, s.node.Epoch())
	if len(d.ChangedTopics)+len(d.DeletedTopics)+len(d.ChangedNodes)+len(d.RemovedNodes)+len(d.ChangedShards) > 0 {
		s.markers.Refresh()
	}
}

// Close gives all shards up, and ends what waits. The server must have stopped.
func (s *Service) Close() error {
	s.runtime.Close()
	s.markers.Close()
	s.idWaits.end()
	if s.api != nil {
		s.api.Close()
	}
	s.shards.Close()
	s.metrics.unregister()
	return nil
}

// job does what a shard asks for. It is called with the shard locked and must not wait.
func (s *Service) job(origin trace.SpanContext, id, epoch int32, job any) {
	switch j := job.(type) {
	case *shard.Completion:
		s.markers.Deliver(origin, id, epoch, j)
	case shard.Decision:
		s.metrics.decided(j.Reason)
		if j.Reason == shard.TimedOut {
			s.log.Info("a transaction is over its timeout and is aborted", zap.String("transactionalID", j.ID))
		}
	case shard.NeedProducerID:
		s.idWaits.ask(func(fresh int64) {
			s.runtime.Run(origin, id, func(m *shard.Machine, now time.Time) coordinator.Step { return m.TimeOut(now, j.ID, fresh) })
		})
	default:
		s.log.Error("a shard asks for something unknown", zap.Int32("shard", id), zap.String("job", fmt.Sprintf("%T", job)))
	}
}
