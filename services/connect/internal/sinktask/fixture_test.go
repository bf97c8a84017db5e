package sinktask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// sink is a connector in the test's process that remembers what it was asked for, and does besides what the test says.
type sink struct {
	start     func(config map[string]string) error
	put       func(c *plugin.SinkContext, records []plugin.SinkRecord) error
	open      func(c *plugin.SinkContext, partitions []plugin.TopicPartition) error
	preCommit func(c *plugin.SinkContext, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error)

	mu     sync.Mutex
	events []string
	values []string // those that were put, in order, with those that were put again
}

func (s *sink) Info() plugin.Info                { return plugin.Info{Name: "sink", Version: "1"} }
func (s *sink) Definition() configdef.Definition { return nil }
func (s *sink) NewSinkTask() plugin.SinkTask     { return &sinkRunner{sink: s} }
func (s *sink) TaskConfigs(context.Context, map[string]string, int) ([]map[string]string, error) {
	return nil, errors.New("not asked for here")
}

func (s *sink) event(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

// seen are the events but for those of a prefix.
func (s *sink) seen(but ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e string) bool {
		return slices.ContainsFunc(but, func(prefix string) bool { return strings.HasPrefix(e, prefix) })
	})
}

func (s *sink) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.values)
}

// sinkRunner is one task of it.
type sinkRunner struct {
	*sink
	context *plugin.SinkContext
}

func (r *sinkRunner) Start(_ context.Context, c *plugin.SinkContext, config map[string]string) error {
	r.context = c
	r.event("start")
	if r.start != nil {
		return r.start(config)
	}
	return nil
}

func (r *sinkRunner) Put(_ context.Context, records []plugin.SinkRecord) error {
	if len(records) > 0 {
		r.event("put %d", len(records))
	}
	if r.sink.put != nil {
		if err := r.sink.put(r.context, records); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range records {
		r.values = append(r.values, fmt.Sprint(one.Value.V))
	}
	return nil
}

func (r *sinkRunner) Open(_ context.Context, partitions []plugin.TopicPartition) error {
	r.event("open %s", listed(partitions))
	if r.open != nil {
		return r.open(r.context, partitions)
	}
	return nil
}

func (r *sinkRunner) Close(_ context.Context, partitions []plugin.TopicPartition) error {
	r.event("close %s", listed(partitions))
	return nil
}

func (r *sinkRunner) PreCommit(_ context.Context, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
	var all []string
	for p, offset := range offsets {
		all = append(all, fmt.Sprintf("%s-%d@%d", p.Topic, p.Partition, offset))
	}
	slices.Sort(all)
	r.event("precommit %s", strings.Join(all, " "))
	if r.preCommit != nil {
		return r.preCommit(r.context, offsets)
	}
	return offsets, nil
}

func (r *sinkRunner) Stop() error {
	r.event("stop")
	return nil
}

func listed(partitions []plugin.TopicPartition) string {
	var all []string
	for _, p := range partitions {
		all = append(all, fmt.Sprintf("%s-%d", p.Topic, p.Partition))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// fixture is a cluster with a topic orders, and a sink.
type fixture struct {
	*sink
	t          testing.TB
	cluster    *kfake.Cluster
	client     *kgo.Client
	connector  *remote.Connector
	properties map[string]string
	worker     map[string]string
	metrics    Metrics
	failures   pipeline.Metrics
	logs       *observer.ObservedLogs
	// kill ends the connector's process, as it were.
	kill func()
}

func newFixture(t testing.TB, partitions int32, properties ...string) *fixture {
	t.Helper()
	return newFixtureOn(t, newCluster(t, kfake.SeedTopics(partitions, "orders")), properties...)
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func newFixtureOn(t testing.TB, cluster *kfake.Cluster, properties ...string) *fixture {
	t.Helper()
	f := &fixture{sink: &sink{}, t: t, cluster: cluster, properties: map[string]string{"topics": "orders"}, worker: map[string]string{
		"group.id": "workers", "config.storage.topic": "c", "offset.storage.topic": "o", "status.storage.topic": "s",
		"key.converter": "StringConverter", "value.converter": "StringConverter"}}
	for i := 0; i < len(properties); i += 2 {
		f.properties[properties[i]] = properties[i+1]
	}
	f.connect()
	f.connector, f.kill = serve(t, f.sink)
	return f
}

// connect makes the test's own client.
func (f *fixture) connect() {
	f.t.Helper()
	var err error
	if f.client, err = kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(f.client.Close)
}

// serve has a connector in this process. What it returns cuts its streams.
func serve(t testing.TB, s plugin.SinkConnector) (*remote.Connector, func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(plugin.ServerOptions()...)
	if err := plugin.Register(server, s); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &remote.Connector{Client: pluginpb.NewConnectorClient(conn), Name: s.Info().Name}, server.Stop
}

func (f *fixture) config() Config {
	f.t.Helper()
	w, err := workerconfig.Parse(f.worker, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	return Config{Connector: "shop", Properties: f.properties, Task: map[string]string{"task": "yes"}, Worker: w}
}

func (f *fixture) deps() Deps {
	core, logs := observer.New(zap.WarnLevel)
	f.logs = logs
	return Deps{Log: zaptest.NewLogger(f.t, zaptest.WrapOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, core) }))), Start: f.connector.StartSink, Failures: &f.failures, Metrics: &f.metrics,
		Client: func(Role) ([]kgo.Opt, error) {
			return []kgo.Opt{kgo.SeedBrokers(f.cluster.ListenAddrs()...), kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(50 * time.Millisecond)}, nil
		}}
}

// running is a task that runs.
type running struct {
	*Task
	t     testing.TB
	ended chan error
	kill  context.CancelFunc
}

func (f *fixture) run() *running {
	f.t.Helper()
	return f.runWith(f.config(), f.deps())
}

func (f *fixture) runWith(c Config, d Deps) *running {
	f.t.Helper()
	task, err := New(c, d)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Task: task, t: f.t, ended: make(chan error, 1), kill: cancel}
	go func() {
		r.ended <- task.Run(ctx)
		close(r.ended)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

// end waits for Run to return.
func (r *running) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		r.t.Fatal("the task does not end")
	}
	return nil
}

// stop stops a task in good order.
func (r *running) stop() {
	r.t.Helper()
	r.Stop()
	if err := r.end(); err != nil {
		r.t.Errorf("a task that was stopped has failed: %v", err)
	}
}

// produce writes values to a partition.
func (f *fixture) produce(partition int32, values ...string) {
	f.t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: "orders", Partition: partition, Key: []byte("k" + v), Value: []byte(v)})
	}
	if err := f.client.ProduceSync(f.t.Context(), records...).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// committed are the group's offsets.
func (f *fixture) committed() string {
	f.t.Helper()
	offsets, err := kadm.NewClient(f.client).FetchOffsets(f.t.Context(), "connect-shop")
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		f.t.Fatal(err)
	}
	var all []string
	offsets.Each(func(o kadm.OffsetResponse) { all = append(all, fmt.Sprintf("%d@%d", o.Partition, o.At)) })
	slices.Sort(all)
	return strings.Join(all, " ")
}

// read are the records of a topic, once there are so many.
func (f *fixture) read(topic string, n int) []*kgo.Record {
	f.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			f.t.Fatalf("%d of %d records of %s: %v", len(all), n, topic, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

func (f *fixture) eventually(what string, condition func() bool) {
	f.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			f.t.Fatalf("never happened: %s; events %v, values %v", what, f.seen(), f.got())
		}
	}
}

// has waits until values were put, in any order.
func (f *fixture) has(want ...string) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("put %v", want), func() bool {
		got := map[string]bool{}
		for _, v := range f.got() {
			got[v] = true
		}
		return !slices.ContainsFunc(want, func(v string) bool { return !got[v] })
	})
}

func headers(r *kgo.Record) map[string]string {
	m := map[string]string{}
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}
