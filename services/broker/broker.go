// Package broker is the data plane: the partitions of one node, stored in its log directories and served to producers
// and consumers.
//
// A broker acts on its own last metadata image: with no controller reachable, what it leads it goes on serving.
package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/coordinator/txncheck"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/markerapi"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/services/broker/internal/api"
	"github.com/cauce-stream/cauce/services/broker/internal/cleaner"
	"github.com/cauce-stream/cauce/services/broker/internal/fetch"
	"github.com/cauce-stream/cauce/services/broker/internal/fetcher"
	"github.com/cauce-stream/cauce/services/broker/internal/isr"
	"github.com/cauce-stream/cauce/services/broker/internal/marker"
	"github.com/cauce-stream/cauce/services/broker/internal/move"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/produce"
)

// Config says which node the broker is and where its data lies.
type Config struct {
	NodeID int32
	// LogDirs are the log directories (log.dirs); at least one.
	LogDirs []string
	// Static is the node's own configuration.
	Static configkeys.Values
}

// Deps are what a broker needs of its process. Metrics and Tracer may be nil.
type Deps struct {
	Log     *zap.Logger
	Metrics prometheus.Registerer
	Tracer  *tracing.Tracer
}

// Service is one broker.
type Service struct {
	cfg     Config
	log     *zap.Logger
	logs    *logdir.Set
	parts   *partition.Set
	fetches *fetch.Service
	checker *txncheck.Checker
	wishes  *isr.Queue
	copies  *fetcher.Set
	cleaner *cleaner.Cleaner
	moves   *move.Set
	throttles
	settled atomic.Bool // the metadata is the present's: what it says to follow is followed
	node    *node.Node
	epoch   func() int64 // the node's
	// dirFailed has a token when replicas may have failed that the controller does not know of.
	dirFailed chan struct{}
}

// New opens the log directories and recovers what needs it. Close must be called, whether Run was or not.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	s := &Service{cfg: cfg, log: deps.Log, wishes: isr.New(deps.Log), dirFailed: make(chan struct{}, 1)}
	v := cfg.Static
	s.throttles = newThrottles(v)
	rackAware, err := selectsByRack(v.String("replica.selector.class"))
	if err != nil {
		return nil, err
	}
	logs, err := logdir.Open(ctx, cfg.LogDirs, logdir.Options{
		NodeID:                    cfg.NodeID,
		Logger:                    deps.Log,
		ConfigFor:                 keepAll,
		RecoveryThreads:           v.Int("num.recovery.threads.per.data.dir"),
		RetentionCheckMs:          v.Long("log.retention.check.interval.ms"),
		FlushSchedulerMs:          v.Long("log.flush.scheduler.interval.ms"),
		RecoveryPointCheckpointMs: v.Long("log.flush.offset.checkpoint.interval.ms"),
		StartOffsetCheckpointMs:   v.Long("log.flush.start.offset.checkpoint.interval.ms"),
		HighWatermarkCheckpointMs: v.Long("replica.high.watermark.checkpoint.interval.ms"),
		ProducerExpirationCheckMs: v.Long("producer.id.expiration.check.interval.ms"),
		OnStartMoved:              func(l *log.Log) { s.parts.StartMoved(l) },
		OnFailure:                 func(string, error) { s.noteDirFailure() },
	})
	if err != nil {
		return nil, fmt.Errorf("opening the log directories: %w", err)
	}
	s.logs = logs
	s.parts = partition.NewSet(partition.SetConfig{
		NodeID: cfg.NodeID, Logs: logs, Topic: s.topicConfig, LagMaxMs: v.Long("replica.lag.time.max.ms"),
		Propose: s.wishes.Propose, NowMs: nowMs, Logger: deps.Log,
	})
	s.copies = fetcher.New(s.fetcherConfig(deps.Tracer), s.parts)
	s.moves = move.New(move.Config{Threads: s.moveThreads(), Quota: s.throttles.moves, NowMs: nowMs, Log: deps.Log})
	s.fetches = fetch.New(fetch.Config{
		MaxBytes:           int32(v.Int("fetch.max.bytes")),
		SessionSlots:       v.Int("max.incremental.fetch.session.cache.slots"),
		SessionEvictsAfter: 2 * time.Minute, // min.incremental.fetch.session.eviction.ms, which Kafka does not let anyone change either
		RackAware:          rackAware,
		Throttle:           s.throttles.leader,
	}, s.parts)
	s.cleaner = cleaner.New(logs, s.cleanerSettings, deps.Log)
	if deps.Metrics != nil {
		if err := errors.Join(deps.Metrics.Register(&collector{s.parts, logs, s.fetches, s.moves, s.throttles}), deps.Metrics.Register(&cleanerCollector{s.cleaner})); err != nil {
			return nil, errors.Join(err, logs.Close())
		}
	}
	s.checker = txncheck.New(txncheck.Config{
		Listener: v.String("inter.broker.listener.name"), ClientID: fmt.Sprint("broker-", cfg.NodeID),
		Backoff: v.DurationMs("add.partitions.to.txn.retry.backoff.ms"), Patience: max(v.DurationMs("add.partitions.to.txn.retry.backoff.max.ms"), 1),
	}, s.parts.Image)
	return s, nil
}

func nowMs() int64 { return time.Now().UnixMilli() }

// selectsByRack reads replica.selector.class: Kafka's two classes are known by name.
func selectsByRack(class string) (bool, error) {
	switch class {
	case "", "org.apache.kafka.common.replica.LeaderSelector":
		return false, nil
	case "org.apache.kafka.common.replica.RackAwareReplicaSelector":
		return true, nil
	}
	return false, fmt.Errorf("replica.selector.class=%s: only Kafka's RackAwareReplicaSelector and LeaderSelector are known", class)
}

func (s *Service) fetcherConfig(tracer *tracing.Tracer) fetcher.Config {
	v := s.cfg.Static
	return fetcher.Config{
		NodeID: s.cfg.NodeID, NodeEpoch: func() int64 { return s.epoch() },
		Listener: v.String("inter.broker.listener.name"), Fetchers: v.Int("num.replica.fetchers"),
		MinBytes: int32(v.Int("replica.fetch.min.bytes")), MaxWait: v.DurationMs("replica.fetch.wait.max.ms"),
		MaxBytes: int32(v.Int("replica.fetch.response.max.bytes")), MaxPartitionBytes: int32(v.Int("replica.fetch.max.bytes")),
		Backoff: v.DurationMs("replica.fetch.backoff.ms"), SocketTimeout: v.DurationMs("replica.socket.timeout.ms"),
		Throttle: s.throttles.follower, Log: s.log, Tracer: tracer,
	}
}

// moveThreads is how many replicas move between log directories at a time.
func (s *Service) moveThreads() int {
	text, _ := s.cfg.Static.Lookup("num.replica.alter.log.dirs.threads")
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return len(s.cfg.LogDirs)
}

// keepAll is the config of logs whose own is not known, as until the metadata tells it: nothing is removed by a default that may not be the topic's.
func keepAll(string) log.Config {
	c := log.DefaultConfig()
	c.RetentionMs, c.RetentionBytes, c.Delete, c.Compact = -1, -1, false, false
	c.ProducerIDExpirationMs = math.MaxInt64
	return c
}

// LogDirIDs are the ids of the log directories that are online, for the node's registration (KIP-858).
func (s *Service) LogDirIDs() [][16]byte {
	var ids [][16]byte
	for _, dir := range s.logs.Describe() {
		if dir.Err == nil {
			ids = append(ids, dir.ID)
		}
	}
	return ids
}

// Serve registers the broker's APIs and has it follow the node's metadata. It is called once, before the node and the
// server run.
func (s *Service) Serve(n *node.Node, router *server.Router) {
	s.register(router)
	s.node, s.epoch = n, n.Epoch
	n.OnUpdate(s.apply)
}

// apply follows the metadata.
func (s *Service) apply(im *metadata.Image, d *metadata.Delta) {
	s.followConfigs(im, d.ChangedConfigs)
	s.parts.Apply(im, d)
	if s.settled.Load() {
		s.copies.Follow(append(slices.Clone(d.DeletedTopics), d.ChangedTopics...)...)
	}
	if len(d.ChangedTopics) > 0 && s.logs.Failed() > 0 {
		s.noteDirFailure() // replicas were made that could not be, or the controller has forgotten some
	}
}

func (s *Service) register(router *server.Router) {
	router.Register(
		server.API{Key: 0, MinVersion: 3, MaxVersion: 13, Handle: produce.New(produce.Config{Verifies: s.verifies, Checker: s.checker}, s.parts).Handle, Inline: true, Checksums: true},
		server.API{Key: 1, MinVersion: 4, MaxVersion: 18, Handle: s.fetches.Handle, Inline: true},
	)
	router.Advertise(0, 0, 13) // librdkafka reads codec support off the oldest versions (KAFKA-18659)
	router.Register(api.New(s.parts, s.logs, s.moves, nowMs).APIs()...)
	markerapi.Serve(router, "", marker.New(s.parts).Write)
}

// Run replicates and drives the log directories' periodic duties until ctx ends, from when the metadata is known: until then logs have
// configs that are not theirs, by which nothing may be removed. The node that was given to Serve runs meanwhile.
func (s *Service) Run(ctx context.Context) error {
	select {
	case <-s.node.Ready():
	case <-ctx.Done():
		return nil
	}
	if err := s.logs.JoinCluster(s.node.Image().ClusterID()); err != nil {
		return err // before anything is set aside that another cluster does not know
	}
	s.settle()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.logs.Run(ctx) })
	group.Go(func() error { s.wishes.Run(ctx, s.node.AlterPartitions); return nil })
	group.Go(func() error { s.checkISR(ctx); return nil })
	if s.cfg.Static.Bool("log.cleaner.enable") {
		group.Go(func() error { s.cleaner.Run(ctx); return nil })
	}
	group.Go(func() error { s.moves.Run(ctx); return nil })
	group.Go(func() error { return s.watchLogDirs(ctx, s.node.FailReplicas) })
	return group.Wait()
}

// settle begins to act on the metadata as what is now.
func (s *Service) settle() {
	s.parts.Settle()
	s.settled.Store(true)
	s.copies.FollowAll()
	for _, l := range s.logs.Futures() { // that a restart has interrupted
		if p, err := s.parts.Lookup(l.Topic(), l.TopicID(), l.Partition()); err == nil {
			s.moves.Start(p)
		}
	}
}

// checkISR looks for followers that lag, as often as Kafka does.
func (s *Service) checkISR(ctx context.Context) {
	tick := time.NewTicker(max(s.cfg.Static.DurationMs("replica.lag.time.max.ms")/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.parts.CheckISR()
		case <-ctx.Done():
			return
		}
	}
}

// Close stops following and closes all logs in order. The server must have stopped.
func (s *Service) Close() error {
	s.copies.Close()
	s.checker.Close()
	return s.logs.Close()
}

// verifies is transaction.partition.verification.enable, which may change while the cluster runs.
func (s *Service) verifies() bool {
	layers := s.layers(s.parts.Image())
	text, ok := layers.Lookup("transaction.partition.verification.enable")
	return !ok || text == "true"
}

// layers are the configs that are effective on this broker.
func (s *Service) layers(im *metadata.Image) configkeys.Layers {
	return configkeys.LayersOf(s.cfg.Static, s.cfg.NodeID, im)
}

// topicConfig is the config of a topic's logs on this broker.
func (s *Service) topicConfig(im *metadata.Image, topic string) partition.Config {
	layers := s.layers(im)
	values := configkeys.TopicConfig(s.cfg.Static, layers.ClusterDefault, layers.PerBroker, im.Config(metadata.Resource{Type: metadata.TopicConfig, Name: topic}))
	for _, name := range []string{"producer.id.expiration.ms", "produce.batch.validation"} {
		if text, ok := layers.Lookup(name); ok {
			values[name] = text
		}
	}
	config, err := log.ParseConfig(values)
	if err != nil {
		// The controller validates configs before it stores them, so this is a fault of ours: the topic is served, and nothing of it removed.
		s.log.Error("topic config is malformed; its logs use the defaults and keep everything", zap.String("topic", topic), zap.Error(err))
		config = keepAll(topic)
	}
	minISR, err := strconv.Atoi(values["min.insync.replicas"])
	if err != nil {
		s.log.Error("min.insync.replicas is malformed", zap.String("topic", topic), zap.Error(err))
		minISR = 1
	}
	throttled := func(name string) partition.Throttled { return partition.ParseThrottled(values[name], s.cfg.NodeID) }
	return partition.Config{
		Log: config, MinISR: minISR,
		LeaderThrottled: throttled("leader.replication.throttled.replicas"), FollowerThrottled: throttled("follower.replication.throttled.replicas"),
	}
}
