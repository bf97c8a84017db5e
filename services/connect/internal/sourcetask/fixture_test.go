package sourcetask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// patience is for what happens at once, unless the machine is busy. It is shorter than brokers leave a transaction open.
const patience = 45 * time.Second

// source is a connector whose polls are its test's. It notes what it is told.
type source struct {
	start func(ctx context.Context, c *plugin.SourceContext) error
	poll  func(ctx context.Context) ([]plugin.SourceRecord, error)
	stop  func() // before it is noted; nil for nothing

	mu     sync.Mutex
	told   []string
	change chan struct{}
}

func newSource(poll func(ctx context.Context) ([]plugin.SourceRecord, error)) *source {
	return &source{poll: poll, change: make(chan struct{})}
}

func (s *source) Info() plugin.Info                { return plugin.Info{Name: "source", Version: "1"} }
func (s *source) Definition() configdef.Definition { return nil }
func (s *source) NewSourceTask() plugin.SourceTask { return s }
func (s *source) TaskConfigs(_ context.Context, config map[string]string, _ int) ([]map[string]string, error) {
	return []map[string]string{config}, nil
}

func (s *source) Start(ctx context.Context, c *plugin.SourceContext, _ map[string]string) error {
	if s.start != nil {
		return s.start(ctx, c)
	}
	return nil
}

func (s *source) Poll(ctx context.Context) ([]plugin.SourceRecord, error) { return s.poll(ctx) }

func (s *source) Stop() error {
	if s.stop != nil {
		s.stop()
	}
	s.note("stop")
	return nil
}

func (s *source) Commit(context.Context) error {
	s.note("commit")
	return nil
}

func (s *source) CommitRecord(_ context.Context, r *plugin.SourceRecord, m *plugin.RecordMetadata) error {
	if m == nil {
		s.note("left out %v", r.Value.V)
	} else {
		s.note("stored %v", r.Value.V)
	}
	return nil
}

func (s *source) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf(format, args...))
	close(s.change)
	s.change = make(chan struct{})
}

func (s *source) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// await waits until what the source was told is as wanted.
func (s *source) await(t *testing.T, what string, good func(told []string) bool) {
	t.Helper()
	over := time.After(patience)
	for {
		s.mu.Lock()
		change, is := s.change, good(s.told)
		s.mu.Unlock()
		if is {
			return
		}
		select {
		case <-change:
		case <-over:
			t.Fatalf("%s: the source was told %q", what, s.notes())
		}
	}
}

// eventually waits for what nothing tells of.
func eventually(t testing.TB, what string, good func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for over := time.After(patience); !good(); {
		select {
		case <-ticker.C:
		case <-over:
			t.Fatalf("%s: in vain", what)
		}
	}
}

func has(lines ...string) func([]string) bool {
	return func(told []string) bool {
		return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(told, line) })
	}
}

// turns answers polls one after the other, and then waits.
func turns(polls ...func() ([]plugin.SourceRecord, error)) func(context.Context) ([]plugin.SourceRecord, error) {
	return func(ctx context.Context) ([]plugin.SourceRecord, error) {
		if len(polls) == 0 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		poll := polls[0]
		polls = polls[1:]
		return poll()
	}
}

func record(topic string, value any) plugin.SourceRecord {
	return plugin.SourceRecord{Record: data.NewRecord(topic, data.Value{}, data.Value{V: value})}
}

func values(topic string, all ...any) func() ([]plugin.SourceRecord, error) {
	return func() ([]plugin.SourceRecord, error) {
		var records []plugin.SourceRecord
		for _, v := range all {
			records = append(records, record(topic, v))
		}
		return records, nil
	}
}

// place is how far a partition of a counting source has been read.
type place struct {
	N int `json:"n"`
}

// counting is a source of so many partitions, each of which has the numbers 1 to last; values are p-n. It goes on where its offsets say.
func counting(topic string, partitions, last, batch int) *source {
	s := newSource(nil)
	var parts []*plugin.SourcePartition
	next := make([]int, partitions)
	s.start = func(ctx context.Context, c *plugin.SourceContext) error {
		keys := make([]any, partitions)
		for i := range keys {
			keys[i] = map[string]int{"p": i}
		}
		var err error
		if parts, err = c.Partitions(ctx, keys...); err != nil {
			return err
		}
		for i, p := range parts {
			var at place
			if _, err := p.Offset(&at); err != nil {
				return err
			}
			next[i] = at.N + 1
		}
		return nil
	}
	s.poll = func(ctx context.Context) ([]plugin.SourceRecord, error) {
		var records []plugin.SourceRecord
		for i := range parts {
			for range batch {
				if next[i] > last {
					break
				}
				r := record(topic, fmt.Sprintf("%d-%d", i, next[i]))
				r.Key, r.Partition = data.Value{V: fmt.Sprint(i)}, int32(i)
				r.Source, r.Offset = parts[i], place{next[i]}
				records = append(records, r)
				next[i]++
			}
		}
		if records == nil {
			<-ctx.Done()
		}
		return records, nil
	}
	return s
}

// world is brokers, and what was stored.
type world struct {
	t       testing.TB
	cluster *kfake.Cluster
	brokers []string
	log     *zap.Logger
	tracer  trace.Tracer

	mu     sync.Mutex
	table  *offsets.Table
	writes int
	// fail, if set, is asked before offsets are stored.
	fail func(write int) error
}

const (
	connectorName = "shop"
	offsetsTopic  = "connect-offsets"
)

func newWorld(t testing.TB, opts ...kfake.Opt) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"), kfake.SeedTopics(2, offsetsTopic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &world{t: t, cluster: cluster, brokers: cluster.ListenAddrs(), table: offsets.New(), log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))}
}

func (w *world) read(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := make([]json.RawMessage, len(partitions))
	for i, text := range partitions {
		p, err := offsets.ParseMap(text)
		if err != nil {
			return nil, err
		}
		if m := w.table.Get(connectorName, p); m != nil {
			if answers[i], err = json.Marshal(m); err != nil {
				return nil, err
			}
		}
	}
	return answers, nil
}

func (w *world) write(_ context.Context, entries []offsets.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.fail != nil {
		if err := w.fail(w.writes); err != nil {
			return err
		}
	}
	for _, e := range entries {
		for _, r := range w.table.Records(connectorName, e) {
			if err := w.table.Apply(r, time.Now().UnixMilli()); err != nil {
				return err
			}
		}
	}
	return nil
}

// at is the stored offset of a partition of a counting source.
func (w *world) at(p int) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, _ := w.table.Get(connectorName, offsets.Map{"p": int64(p)})["n"].(int64)
	return n
}

// running is a task of the world's.
type running struct {
	*Task
	t       testing.TB
	source  *source
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	metrics *Metrics
	started chan struct{}
	usedMu  sync.Mutex
	used    []string
	errors  pipeline.Metrics
	reports chan *pipeline.Failure
}

func worker(t testing.TB, pairs ...string) workerconfig.Config {
	t.Helper()
	properties := map[string]string{"group.id": "workers", "config.storage.topic": "c", "offset.storage.topic": "o", "status.storage.topic": "s",
		"key.converter": "String", "value.converter": "String", "offset.flush.interval.ms": "20", "offset.flush.timeout.ms": "10000"}
	for i := 0; i < len(pairs); i += 2 {
		properties[pairs[i]] = pairs[i+1]
	}
	c, err := workerconfig.Parse(properties, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client connects to a connector that is served in this process.
func client(t testing.TB, s plugin.SourceConnector) *remote.Connector {
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
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &remote.Connector{Client: pluginpb.NewConnectorClient(conn), Name: s.Info().Name}
}

// prepare makes a task that does not run yet.
func (w *world) prepare(s *source, change func(*Config, *Deps), pairs ...string) *running {
	w.t.Helper()
	properties := map[string]string{"name": connectorName}
	var ofWorker []string
	for i := 0; i < len(pairs); i += 2 {
		if name, ok := strings.CutPrefix(pairs[i], "worker:"); ok {
			ofWorker = append(ofWorker, name, pairs[i+1])
		} else {
			properties[pairs[i]] = pairs[i+1]
		}
	}
	r := &running{t: w.t, source: s, metrics: &Metrics{}, done: make(chan struct{}), started: make(chan struct{}), reports: make(chan *pipeline.Failure, 100)}
	c := Config{Connector: connectorName, Number: 3, Properties: properties, Task: properties, Worker: worker(w.t, ofWorker...)}
	p, err := pipeline.New(pipeline.Config{Connector: connectorName, Task: 3, Properties: properties, Worker: c.Worker},
		pipeline.Deps{Log: w.log, Metrics: &r.errors, Tracer: w.tracer, Report: func(_ context.Context, f *pipeline.Failure) { r.reports <- f }})
	if err != nil {
		w.t.Fatal(err)
	}
	seeds := []kgo.Opt{kgo.SeedBrokers(w.brokers...)}
	d := Deps{Pipeline: p, Producer: seeds, Admin: seeds, ReadOffsets: w.read, WriteOffsets: w.write, Log: w.log, Tracer: w.tracer,
		Metrics: r.metrics, Running: func() { close(r.started) }, Used: func(topic string) {
			r.usedMu.Lock()
			defer r.usedMu.Unlock()
			if !slices.Contains(r.used, topic) {
				r.used = append(r.used, topic)
			}
		}}
	if s != nil {
		d.Start = client(w.t, s).StartSource
	}
	if change != nil {
		change(&c, &d)
	}
	if r.Task, err = New(c, d); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (r *running) run() *running {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

func (w *world) start(s *source, change func(*Config, *Deps), pairs ...string) *running {
	w.t.Helper()
	return w.prepare(s, change, pairs...).run()
}

// end waits for the task's end.
func (r *running) end() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("the task does not end")
	}
	return r.err
}

func (r *running) stop() {
	r.t.Helper()
	r.Stop()
	if err := r.end(); err != nil {
		r.t.Errorf("stopped: %v", err)
	}
}

// consume returns the records of a topic by partition, as soon as there are so many.
func (w *world) consume(topic string, count int) map[int32][]*kgo.Record {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got := map[int32][]*kgo.Record{}
	for n := 0; n < count; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("topic %s has %d records, not %d", topic, n, count)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], r)
			n++
		})
	}
	return got
}

func texts(records []*kgo.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return all
}

// numbers checks that each partition has its numbers from 1 to last in their order, each once unless repeats are allowed.
func (w *world) numbers(topic string, partitions, last int, repeats bool) {
	w.t.Helper()
	got := w.consume(topic, partitions*last)
	for _, p := range slices.Sorted(maps.Keys(got)) {
		next := 1
		for _, text := range texts(got[p]) {
			var of int32
			var n int
			if _, err := fmt.Sscanf(text, "%d-%d", &of, &n); err != nil || of != p {
				w.t.Fatalf("partition %d has %q, %v", p, text, err)
			}
			if n == next {
				next++
			} else if n > next || !repeats {
				w.t.Fatalf("partition %d has %d, not %d", p, n, next)
			}
		}
		if next != last+1 {
			w.t.Errorf("partition %d ends before %d", p, next)
		}
	}
}

var errBroken = errors.New("broken")
