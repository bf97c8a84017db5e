// Package groupcoord coordinates consumer groups: it has shards of __consumer_offsets, which brokers store, and serves the groups
// and committed offsets in them. Assignments of consumer groups are computed by assignor plugins.
//
// Which shards are a node's own the controllers decide; a node acts on its own last metadata image.
package groupcoord

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/coordinator/placement"
	"github.com/cauce-stream/cauce/libs/coordinator/shardlog"
	"github.com/cauce-stream/cauce/libs/coordinator/txncheck"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/markerapi"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/api"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assign"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/lag"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

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
	plugins   *host.Host
	asker     *assign.Asker
	meter     *lag.Meter
	watch     *lag.Watch
	shards    *shardlog.Log
	checker   *txncheck.Checker
	runtime   *coordinator.Runtime[*shard.Machine]
	placement placement.Placement
	metrics   *metrics

	node *node.Node
	view atomic.Pointer[view]
}

// view is what shards see of the cluster.
type view struct {
	image    *metadata.Image
	settings *op.Settings
	// shown is the offset of the last image that had something new for groups.
	shown int64
}

// New starts the host of the assignors. Close must be called.
func New(cfg Config, deps Deps) (*Service, error) {
	s := &Service{cfg: cfg, log: deps.Log}
	s.view.Store(&view{metadata.Empty(), settingsOf(cfg, metadata.Empty()), metadata.Empty().Offset()})
	hostConfig, err := assign.HostConfig(cfg.Static)
	if err != nil {
		return nil, fmt.Errorf("groupcoord: %w", err)
	}
	if s.plugins, err = host.New(hostConfig, host.Deps{Log: deps.Log, Metrics: deps.Metrics, Tracer: deps.Tracer}); err != nil {
		return nil, fmt.Errorf("groupcoord: %w", err)
	}
	s.asker = assign.New(s.plugins, cfg.Static.DurationMs("group.assignor.timeout.ms"))
	listener := cfg.Static.String("inter.broker.listener.name")
	clientID := "groupcoord-" + strconv.Itoa(int(cfg.NodeID))
	image := func() *metadata.Image { return s.node.Image() }
	s.meter = lag.New(listener, clientID, image)
	s.watch = lag.NewWatch(watchConfig(cfg, deps), lag.WatchDeps{Meter: s.meter, Image: image, Survey: s.survey, Log: deps.Log})
	s.metrics = newMetrics(s.watch)
	s.shards = shardlog.New(shardlog.Config{
		Topic:    metadata.ConsumerOffsetsTopic,
		Listener: listener,
		ClientID: clientID,
		Linger:   cfg.Static.DurationMs("group.coordinator.append.linger.ms"),
	}, image)
	s.checker = txncheck.New(txncheck.Config{
		Listener: listener, ClientID: clientID,
		Backoff: cfg.Static.DurationMs("add.partitions.to.txn.retry.backoff.ms"), Patience: max(cfg.Static.DurationMs("add.partitions.to.txn.retry.backoff.max.ms"), 1),
	}, image)
	s.runtime, err = coordinator.New(coordinator.Config{
		Name:          "group",
		NodeID:        cfg.NodeID,
		AnswerTimeout: cfg.Static.DurationMs("offsets.commit.timeout.ms"),
		LoadBytes:     cfg.Static.Int("offsets.load.buffer.size"),
	}, coordinator.Deps{Log: s.shards, Logger: deps.Log, Metrics: deps.Metrics, Tracer: deps.Tracer, Job: s.job}, s.newMachine)
	if err == nil && deps.Metrics != nil {
		err = s.metrics.register(deps.Metrics)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("groupcoord: %w", err), s.Close())
	}
	s.placement = placement.Placement{Topic: metadata.ConsumerOffsetsTopic, NodeID: cfg.NodeID, Shards: s.runtime}
	return s, nil
}

func (s *Service) newMachine(int32) *shard.Machine {
	v := s.view.Load()
	return shard.New(v.image, v.settings)
}

// Plugins serves GET /plugins.
func (s *Service) Plugins() *host.Host { return s.plugins }

// Serve registers the APIs of groups and has the coordinator follow the node's metadata. It is called once, before the node and
// the server run.
func (s *Service) Serve(n *node.Node, router *server.Router) {
	s.node = n
	answers := api.New(s.runtime, n.Image)
	router.Register(answers.APIs()...)
	markerapi.Serve(router, metadata.ConsumerOffsetsTopic, answers.WriteMarker)
	n.OnUpdate(s.update)
	s.watch.Start()
}

// update shows the shards a new image: those that are another's by it go first, as an image may be shown to an owner only.
func (s *Service) update(im *metadata.Image, d *metadata.Delta) {
	before := s.view.Load()
	s.placement.Release(before.image, d)
	news := shard.NewsOf(before.image, d)
	news.Since = before.shown
	v := &view{im, before.settings, before.shown}
	if slices.ContainsFunc(d.ChangedConfigs, concernsGroups) || before.image.Offset() < 0 {
		v.settings = settingsOf(s.cfg, im)
	}
	concerns := news.Concerns() || v.settings != before.settings
	if concerns {
		v.shown = im.Offset()
	}
	s.view.Store(v)
	if concerns {
		s.runtime.RunAll(func(m *shard.Machine, now time.Time) coordinator.Step {
			return m.OnImage(now, v.image, v.settings, news)
		})
	}
	s.placement.Own(im, s.node.Epoch())
}

// concernsGroups says whether a coordinator's settings may come from a resource.
func concernsGroups(r metadata.Resource) bool {
	return r.Type == metadata.BrokerConfig || r.Type == metadata.GroupConfig
}

// Close gives all shards up, ends the questions that assignors were asked, and the assignors. The server must have stopped.
func (s *Service) Close() error {
	if s.runtime != nil {
		s.runtime.Close()
	}
	s.asker.Close()
	s.watch.Close()
	s.meter.Close()
	s.checker.Close()
	s.shards.Close()
	s.metrics.unregister()
	return s.plugins.Close()
}

// settingsOf are the effective keys of a node under an image.
func settingsOf(cfg Config, im *metadata.Image) *op.Settings {
	layers := configkeys.LayersOf(cfg.Static, cfg.NodeID, im)
	return &op.Settings{
		Broker: layers.Values(),
		Group: func(group string) map[string]string {
			return layers.GroupConfig(im.Config(metadata.Resource{Type: metadata.GroupConfig, Name: group}))
		},
	}
}
