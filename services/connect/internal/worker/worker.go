// Package worker is a Connect worker: it reads the internal topics, takes part in its group, runs the connectors and tasks that it is given, writes what
// becomes of them, and serves the REST interface. What is decided where is for the packages around it; this one has the goroutines, the clock and the
// connections.
package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/member"
	"github.com/cauce-stream/cauce/services/connect/internal/protocol"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

const (
	// retryBackoff is the pause after something that failed and is tried again.
	retryBackoff = 500 * time.Millisecond
	// settleTimeout is for how long requests wait for a rebalance.
	settleTimeout = 60 * time.Second
	// answerMargin is how much longer than the rebalance timeout an answer of the coordinator may take.
	answerMargin = 30 * time.Second
	// ballastBytes is memory that is never written to, and so takes none, but that counts when the collector decides when to run: tasks leave much
	// garbage beside the few MiB that a worker has in use.
	ballastBytes = 16 << 20
)

// Config is what a worker was started with.
type Config struct {
	Values workerconfig.Config
	// Version and Commit are told by REST.
	Version, Commit string
	// OnDemand has a worker whose topics do not exist yet wait for the first request before it makes them and joins its group.
	OnDemand bool
	// Standalone has a worker be in no group: it keeps connectors in its memory, and offsets in a file.
	Standalone bool
}

// Deps are what a worker needs of its process.
type Deps struct {
	Log     *zap.Logger
	Level   zap.AtomicLevel // of Log
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
	// StartPlugins starts the host of connectors, which is the worker's to close.
	StartPlugins func() (*host.Host, error)
}

// Worker is one worker with its REST listeners bound.
type Worker struct {
	config Config
	deps   Deps
	log    *zap.Logger

	listeners []listener
	url       string // of REST, for other workers
	id        string // host:port of it, which states are written under
	http      *http.Client
	group     *client.Pool // for the group and single requests
	plugins   *plugins
	wanted    *wanted
	herder    *herder.Herder
	member    membership
	topics    *topics
	stores    *stores
	states    *board
	crew      *crew
	levels    *levels
	metrics   *metrics
	leading   chan struct{} // asks for a leader's duties

	mu        sync.Mutex
	clusterID string
	fetching  []*client.Pool // of the readers of topics
}

// New binds the REST listeners, so that their ports are known. Run or Close has to be called.
func New(c Config, d Deps) (*Worker, error) {
	w := &Worker{
		config: c, deps: d, wanted: newWanted(), leading: make(chan struct{}, 1), levels: newLevels(d.Level),
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	w.log = d.Log.WithOptions(zap.WrapCore(w.levels.wrap)).Named(connectLogger)
	v := c.Values
	var err error
	if w.plugins, err = newPlugins(c); err != nil {
		return nil, err
	}
	if w.metrics, err = newMetrics(d.Metrics); err != nil {
		return nil, err
	}
	version, ok := protocol.VersionOf(protocolNames[v.String("connect.protocol")])
	if !ok {
		return nil, errors.Join(fmt.Errorf("connect.protocol=%s is unknown", v.String("connect.protocol")), w.Close())
	}
	if err := w.listen(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	rebalance := v.DurationMs("rebalance.timeout.ms")
	w.group = client.New(client.Config{ClientID: w.clientID(), RequestTimeout: rebalance + answerMargin})
	w.herder = herder.New(herder.Config{
		TrackTopics: v.Bool("topic.tracking.enable"), ResetTopics: v.Bool("topic.tracking.allow.reset"),
		ExactlyOnce: w.exactlyOnce(), SettleTimeout: settleTimeout,
	}, w.herderDeps())
	w.states = newBoard(w)
	w.crew = newCrew(w)
	if w.topics, err = w.newTopics(); err != nil {
		w.topics = nil
		return nil, errors.Join(err, w.Close())
	}
	if c.Standalone {
		w.member = newSolo(w)
		return w, nil
	}
	w.member = member.New(member.Config{
		GroupID: v.String("group.id"), URL: w.url, Bootstrap: v.List("bootstrap.servers"), Version: version,
		SessionTimeout: v.DurationMs("session.timeout.ms"), RebalanceTimeout: rebalance, HeartbeatInterval: v.DurationMs("heartbeat.interval.ms"),
		SyncTimeout: v.DurationMs("worker.sync.timeout.ms"), UnsyncBackoff: v.DurationMs("worker.unsync.backoff.ms"),
		RetryBackoff: retryBackoff, MaxDelayMs: int32(v.Int("scheduled.rebalance.max.delay.ms")),
	}, member.Deps{
		Log: w.log, Do: w.group.Do, Configs: w.topics.progress, CatchUp: w.topics.catchUp,
		Start: w.crew.assign, Stop: w.crew.revoke, Settled: w.crew.settled,
	})
	return w, nil
}

// protocolNames are the group's protocols by the values of connect.protocol.
var protocolNames = map[string]string{"eager": "default", "compatible": "compatible", "sessioned": "sessioned"}

func (w *Worker) clientID() string {
	if id := w.config.Values.String("client.id"); id != "" {
		return id
	}
	return "connect-" + w.id
}

// exactlyOnce says whether sources write records and offsets in one transaction; preparing alone says that the leader writes in transactions.
func (w *Worker) exactlyOnce() bool {
	return w.config.Values.String("exactly.once.source.support") == "enabled"
}

// URL is where the REST interface is, http://host:port.
func (w *Worker) URL() string { return w.url }

// Create makes a connector, or configures one that is there.
func (w *Worker) Create(ctx context.Context, config configs.Config) error {
	_, _, err := w.herder.Put(ctx, config["name"], config)
	return err
}

// Plugins is the host of connectors, nil before it is started.
func (w *Worker) Plugins() *host.Host { return w.plugins.host.Load() }

// Ready is an error until the worker has read the topics and is in its group, but for one on demand that nobody has asked.
func (w *Worker) Ready() error {
	if !w.herder.Ready() && (!w.config.OnDemand || w.wanted.now()) {
		return errors.New("the Connect worker has not joined its group yet")
	}
	return nil
}

// Run serves until ctx ends, calling ready once the worker is in its group. Stopping goes the other way round: REST, tasks and connectors, membership,
// then what they need.
func (w *Worker) Run(ctx context.Context, ready func()) (err error) {
	defer func() { err = errors.Join(err, w.Close()) }()
	support, stopSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSupport()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	// A part that fails has the others end in order.
	start := func(ctx context.Context, run func(context.Context) error) {
		group.Go(func() error {
			defer stop()
			return run(ctx)
		})
	}
	start(ctx, w.serve)
	if err := w.begin(ctx, ready); err != nil {
		err = unlessEnded(ctx, err)
		stop()
		return errors.Join(err, group.Wait())
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	start(support, w.topics.run)
	w.stores.begin(support)
	defer w.stores.wait()
	start(support, w.states.run)
	if err := w.topics.readToEnd(ctx); err != nil {
		err = unlessEnded(ctx, err)
		stop()
		stopSupport()
		return errors.Join(err, group.Wait())
	}
	crewCtx, stopCrew := context.WithCancel(support)
	start(crewCtx, w.crew.run)
	start(ctx, w.lead)
	start(ctx, func(ctx context.Context) error {
		if w.herder.Await(ctx) == nil {
			if w.config.Standalone {
				w.log.Info("the Connect worker serves, alone", zap.String("url", w.url))
			} else {
				w.log.Info("the Connect worker is in its group", zap.String("url", w.url), zap.String("group", w.config.Values.String("group.id")))
			}
			if !w.config.OnDemand {
				ready()
			}
		}
		<-ctx.Done()
		return nil
	})
	err = w.member.Run(ctx)
	stop()
	stopCrew()
	w.states.flush(w.config.Values.DurationMs("offset.flush.timeout.ms"))
	stopSupport()
	return errors.Join(err, group.Wait())
}

// begin starts what the worker needs, when it is time to. A worker on demand is ready before that.
func (w *Worker) begin(ctx context.Context, ready func()) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := w.learnCluster(ctx)
		if err == nil {
			break
		}
		if failures&(failures-1) == 0 { // the 1st, 2nd, 4th, 8th …
			w.log.Warn("cannot tell which cluster this is yet", zap.Strings("bootstrap.servers", w.config.Values.List("bootstrap.servers")), zap.Error(err))
		}
		pause(ctx, retryBackoff)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.config.OnDemand {
		exists, err := w.topics.exist(ctx)
		if err != nil {
			return err
		}
		if exists {
			w.wanted.want()
		}
		ready()
		if err := w.wanted.wait(ctx); err != nil {
			return err
		}
	}
	if err := w.plugins.start(w.deps.StartPlugins); err != nil {
		return err
	}
	return w.topics.ensure(ctx)
}

// unlessEnded drops the error of something that was told to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Close ends what New has opened. Run does so itself.
func (w *Worker) Close() error {
	var faults []error
	for _, l := range w.listeners {
		faults = append(faults, l.close())
	}
	w.listeners = nil
	w.metrics.close()
	if w.topics != nil {
		w.topics.close()
	}
	if w.group != nil {
		w.group.Close()
	}
	w.mu.Lock()
	for _, p := range w.fetching {
		p.Close()
	}
	w.mu.Unlock()
	w.http.CloseIdleConnections()
	return errors.Join(append(faults, w.plugins.close())...)
}

// learnCluster asks for the cluster's id.
func (w *Worker) learnCluster(ctx context.Context) error {
	var faults []error
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, broker := range w.config.Values.List("bootstrap.servers") {
		answer, err := w.group.Do(ctx, broker, req)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if id := answer.(*kmsg.MetadataResponse).ClusterID; id != nil {
			w.mu.Lock()
			w.clusterID = *id
			w.mu.Unlock()
			return nil
		}
		faults = append(faults, fmt.Errorf("%s does not say which cluster it belongs to", broker))
	}
	return errors.Join(faults...)
}
