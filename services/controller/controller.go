// Package controller is the control plane: a voter of the metadata quorum, and while it leads the quorum, the active
// controller that decides every change of the cluster.
//
// What is stored and replicated are facts, not commands. The active controller takes one request after the other, has
// package cluster decide it on the newest image, those of its own decisions included that are not committed yet, and
// proposes the resulting records. It answers when they are committed and applied. Every controller, the active one too,
// changes its image by committed records only.
//
// Goroutines, each owned by Run: the quorum's (raft, disk, apply), the event loop (decisions, see reign.go), which owns the
// watcher of nodes (watcher.go), and the outbox (pushes and answers, in the order of the log). None waits for one that could wait for it: the loop may wait for
// the quorum, the quorum waits for neither.
package controller

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/controller/internal/quorum"
)

// Config of one controller.
type Config struct {
	// ID is the controller's node id (node.id).
	ID int32
	// Dir holds the metadata log; it is made when missing (metadata.log.dir).
	Dir string
	// ClusterID that a new cluster gets; empty makes one up. An existing cluster has its own.
	ClusterID string
	// Peers are all controllers by node id, this one among them, with the host:port at which the others reach each one's
	// controller.listener. None: this one alone.
	Peers map[int32]string
	// Static is the configuration of the process, by which defaults of topics are resolved.
	Static configkeys.Values
}

// Deps are what a controller talks through. Log, Metrics and Tracer may be nil.
type Deps struct {
	Bus     *bus.Conn
	Log     *zap.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Service is one controller.
type Service struct {
	cfg      Config
	bus      *bus.Conn
	log      *zap.Logger
	metrics  *metrics
	tracer   trace.Tracer // nil for none
	machine  *machine
	quorum   *quorum.Quorum // set by Run before anything that uses it
	requests chan request
	outbox   chan func()
	rand     *rand.Rand // the event loop's
	started  time.Time  // with startMs, a clock that never goes back
	startMs  int64
	running  atomic.Bool
}

const (
	requestQueue = 1024
	outboxQueue  = 16 << 10
)

// New makes a controller that does nothing until Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if cfg.ID < 0 {
		return nil, fmt.Errorf("controller: node id %d is negative", cfg.ID)
	}
	if cfg.Dir == "" {
		return nil, errors.New("controller: no folder for the metadata log: set data.dir or metadata.log.dir")
	}
	if deps.Bus == nil {
		return nil, errors.New("controller: no bus")
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	now := time.Now()
	s := &Service{
		cfg: cfg, bus: deps.Bus, log: deps.Log, tracer: deps.Tracer,
		requests: make(chan request, requestQueue),
		outbox:   make(chan func(), outboxQueue),
		rand:     rand.New(rand.NewChaCha8(seed)),
		started:  now, startMs: now.UnixMilli(),
	}
	s.machine = newMachine(s)
	var err error
	s.metrics, err = newMetrics(s, deps.Metrics)
	return s, err
}

func (s *Service) nowMs() int64 { return s.startMs + time.Since(s.started).Milliseconds() }

// Image is the newest committed metadata, never nil.
func (s *Service) Image() *metadata.Image { return s.machine.image.Load() }

// Healthy is an error unless the controller runs and knows an active controller.
func (s *Service) Healthy() error {
	if !s.running.Load() {
		return errors.New("the controller does not run")
	}
	if s.machine.leadership().Leader < 0 {
		return errors.New("there is no active controller")
	}
	return nil
}

// Run takes part in the quorum, and serves while it leads, until ctx ends. An error means that the metadata log cannot
// be used.
func (s *Service) Run(ctx context.Context) error {
	q, err := quorum.Open(ctx, s.quorumConfig(), s.machine, s.log.Named("quorum"))
	if err != nil && ctx.Err() != nil {
		return nil // it was told to end before there was a quorum
	}
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	s.quorum = q
	var outbox sync.WaitGroup
	outbox.Go(s.deliver)
	err = errors.Join(s.run(ctx), q.Close())
	close(s.outbox)
	outbox.Wait()
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// run ends the event loop first, and the quorum after it.
func (s *Service) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quorumCtx, stopQuorum := context.WithCancel(context.WithoutCancel(ctx))
	defer stopQuorum()
	fetches, err := s.serveFetch()
	if err != nil {
		return err
	}
	defer fetches.close()
	ended := make(chan error, 1)
	go func() {
		ended <- s.quorum.Run(quorumCtx)
		cancel()
	}()
	s.running.Store(true)
	defer s.running.Store(false)
	s.decide(ctx)
	stopQuorum()
	return <-ended
}

// send leaves work for the outbox. When the bus has been stuck for thousands of answers it is given up: whoever waits
// for it finds out by a gap or a time-out.
func (s *Service) send(work func()) {
	select {
	case s.outbox <- work:
	default:
		s.metrics.dropped.Inc()
	}
}

func (s *Service) deliver() {
	for work := range s.outbox {
		work()
	}
}

// quorumConfig is the quorum's part of the configuration.
func (s *Service) quorumConfig() quorum.Config {
	c := quorum.Config{
		ID: s.cfg.ID, Dir: s.cfg.Dir,
		Voters:        map[int32]string{s.cfg.ID: ""},
		SnapshotBytes: s.cfg.Static.Long("metadata.log.max.record.bytes.between.snapshots"),
	}
	group := fnv.New64a() // not of the controllers, which may change
	fmt.Fprintln(group, s.cfg.ClusterID)
	if len(s.cfg.Peers) > 1 {
		c.Voters = map[int32]string{}
		c.Listen = s.cfg.Static.String("controller.listener")
		for id, address := range s.cfg.Peers {
			c.Voters[id] = "http://" + address
		}
	}
	c.GroupID = group.Sum64()
	return c
}

// subscriptions are closed together.
type subscriptions []*bus.Subscription

func (subs subscriptions) close() {
	for _, s := range subs {
		s.Close()
	}
}
