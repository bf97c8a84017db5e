package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

const (
	// patience is how long a test waits for what has to happen.
	patience = 30 * time.Second
	// fixtureVariable has the test program be the plugin program of the tests.
	fixtureVariable = "CONNECT_FIXTURE"
)

func TestMain(m *testing.M) {
	if os.Getenv(fixtureVariable) != "" {
		plugin.Serve(obedient{}, inattentive{})
		return
	}
	os.Exit(m.Run())
}

// obedient is a source that does what files in the folder of its configuration say, and notes in the file events what becomes of its tasks.
type obedient struct{}

func (obedient) Info() plugin.Info                { return plugin.Info{Name: "obedient", Version: "7"} }
func (obedient) Definition() configdef.Definition { return nil }
func (obedient) NewSourceTask() plugin.SourceTask { return &obedientTask{} }

func (obedient) TaskConfigs(ctx context.Context, config map[string]string, most int) ([]map[string]string, error) {
	if config["hang"] == "taskconfigs" {
		<-ctx.Done()
	}
	if text, err := os.ReadFile(filepath.Join(config["folder"], "refuse")); err == nil {
		return nil, errors.New(string(text))
	}
	var all []map[string]string
	for n := range most {
		all = append(all, map[string]string{"folder": config["folder"], "n": strconv.Itoa(n), "hang": config["hang"], "name": config["name"], "secret": config["secret"]})
	}
	return all, nil
}

// inattentive is one that gives up watching.
type inattentive struct{ obedient }

func (inattentive) Info() plugin.Info { return plugin.Info{Name: "inattentive", Version: "7"} }

func (inattentive) Watch(context.Context, map[string]string, func()) error { return nil }

type obedientTask struct{ config map[string]string }

func (o *obedientTask) note(event string) error {
	f, err := os.OpenFile(filepath.Join(o.config["folder"], "events"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s-%s\n", event, o.config["name"], o.config["n"])
	return errors.Join(err, f.Close())
}

func (o *obedientTask) Start(_ context.Context, _ *plugin.SourceContext, config map[string]string) error {
	o.config = config
	if text, err := os.ReadFile(filepath.Join(config["folder"], "fail")); err == nil {
		return errors.Join(errors.New(string(text)), o.note("fail"))
	}
	return o.note("start")
}

func (o *obedientTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (o *obedientTask) Stop() error {
	if hangs, n, _ := strings.Cut(o.config["hang"], "-"); hangs == "stop" && (n == "" || n == o.config["n"]) {
		select {}
	}
	return o.note("stop")
}

// fixture is brokers, and a folder for plugins and what they do.
type fixture struct {
	t       *testing.T
	cluster *kfake.Cluster
	brokers []string
	folder  string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	f := &fixture{t: t, cluster: cluster, brokers: cluster.ListenAddrs(), folder: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.folder, "plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.write("plugins/obedient", fmt.Sprintf("#!/bin/sh\n%s=yes exec %s\n", fixtureVariable, self))
	return f
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.folder, name), []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.folder, name)); err != nil {
		f.t.Fatal(err)
	}
}

// events are what tasks have noted so far.
func (f *fixture) events() []string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.folder, "events"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return strings.Fields(string(bytes.ReplaceAll(text, []byte(" "), []byte(":"))))
}

// count is how often something was noted.
func (f *fixture) count(event string) int {
	n := 0
	for _, e := range f.events() {
		if e == event {
			n++
		}
	}
	return n
}

// config is one of the source.
func (f *fixture) config(name string, tasks int, pairs ...string) configs.Config {
	c := configs.Config{"name": name, "connector.class": "obedient", "tasks.max": strconv.Itoa(tasks), "folder": f.folder}
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i]] = pairs[i+1]
	}
	return c
}

// properties are a worker's.
func (f *fixture) properties(pairs ...string) map[string]string {
	p := map[string]string{
		"bootstrap.servers": strings.Join(f.brokers, ","), "group.id": "workers", "listeners": "http://127.0.0.1:0",
		"config.storage.topic": "c", "offset.storage.topic": "o", "status.storage.topic": "s",
		"config.storage.replication.factor": "1", "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1",
		"key.converter": "String", "value.converter": "String", "task.shutdown.graceful.timeout.ms": "5000",
	}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	return p
}

func (f *fixture) parse(properties map[string]string) workerconfig.Config {
	f.t.Helper()
	c, err := workerconfig.Parse(properties, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// running is a worker that runs.
type running struct {
	*Worker
	t     *testing.T
	logs  *observer.ObservedLogs
	gauge *prometheus.Registry
	end   context.CancelFunc
	ended chan error
}

// standalone runs a worker that is in no group.
func (f *fixture) standalone(pairs ...string) *running {
	f.t.Helper()
	return f.run(Config{Values: f.parse(f.properties(append(pairs, "offset.storage.file.filename", filepath.Join(f.folder, "offsets"))...)), Standalone: true})
}

func (f *fixture) run(c Config) *running {
	f.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
	r := &running{t: f.t, logs: logs, gauge: prometheus.NewRegistry(), ended: make(chan error, 1)}
	w, err := New(c, Deps{Log: zap.New(core), Level: level, Metrics: r.gauge, StartPlugins: func() (*host.Host, error) {
		return host.New(host.Config{
			Path: []string{filepath.Join(f.folder, "plugins")}, Kinds: []pluginpb.Kind{pluginpb.Kind_KIND_SOURCE}, CallTimeout: patience, StartTimeout: patience,
		}, host.Deps{Log: zap.New(core)})
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	r.Worker = w
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	r.end = cancel
	go func() {
		r.ended <- w.Run(ctx, func() { close(ready) })
		close(r.ended)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-r.ended
		if f.t.Failed() {
			for _, line := range logs.All() {
				f.t.Log(line.Level, line.Message, line.ContextMap())
			}
		}
	})
	select {
	case <-ready:
	case err := <-r.ended:
		f.t.Fatal("the worker has ended: ", err)
	case <-time.After(patience):
		f.t.Fatal("the worker is not ready")
	}
	return r
}

// stop ends the worker.
func (r *running) stop() {
	r.t.Helper()
	r.end()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("the worker has ended: %v", err)
		}
	case <-time.After(patience):
		r.t.Fatal("the worker does not end")
	}
}

func (r *running) create(c configs.Config) {
	r.t.Helper()
	if err := r.Create(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}

// is waits for states: item=STATE each, none for an item without one.
func (r *running) is(want ...string) {
	r.t.Helper()
	r.eventually(fmt.Sprint(want), func() bool {
		for _, one := range want {
			item, state, _ := strings.Cut(one, "=")
			if r.state(item) != state {
				return false
			}
		}
		return true
	})
}

// state is that of NAME or NAME-N, empty for none.
func (r *running) state(item string) string {
	name, number, isTask := strings.Cut(item, "-")
	if !isTask {
		s, err := r.herder.Status(name)
		if errors.Is(err, herder.ErrNotFound) {
			return ""
		}
		return string(s.Connector.State)
	}
	return string(r.taskStatus(name, number).State)
}

func (r *running) taskStatus(name, number string) status.Status {
	n, err := strconv.Atoi(number)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := r.herder.TaskStatus(work.Item{Connector: name, Task: int32(n)})
	if err != nil && !errors.Is(err, herder.ErrNotFound) {
		r.t.Fatal(err)
	}
	return s.Status
}

func (r *running) eventually(what string, condition func() bool) {
	r.t.Helper()
	eventually(r.t, what, condition)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
