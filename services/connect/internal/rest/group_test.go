package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/definition"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// group is some workers that share topics in memory. The first leads. What workers would do about what they read is done by settle, so that a test
// says when.
type group struct {
	t       *testing.T
	workers []*worker
	changes []configs.Change // since settle
	written []configs.Record
	next    int64
	stands  map[string][]offsets.Entry
	fenced  []string
	levels  map[string]Level
	// owner says which worker runs an item.
	owner   func(work.Item) int
	pending bool
}

type worker struct {
	herder   *herder.Herder
	server   *httptest.Server
	restarts []work.Item
	// seen are the requests that arrived.
	seen []*http.Request
}

func newGroup(t *testing.T, n int, hc herder.Config, rc Config) *group {
	g := &group{t: t, stands: map[string][]offsets.Entry{}, levels: map[string]Level{"root": {Level: "INFO"}}}
	rc.Connectors, rc.Admin = true, true
	for range n {
		w := &worker{}
		w.herder = herder.New(hc, g.deps(w))
		handler := New(rc, Deps{Herder: w.herder, Client: http.DefaultClient, Plugins: plugins, PluginConfig: pluginConfig, Levels: func() map[string]Level { return g.levels }, SetLevel: g.setLevel})
		w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.seen = append(w.seen, r)
			handler.ServeHTTP(rw, r)
		}))
		t.Cleanup(w.server.Close)
		g.workers = append(g.workers, w)
	}
	g.owner = func(work.Item) int { return 0 }
	g.assign()
	return g
}

// assign tells the workers what a rebalance would: who leads and who runs what.
func (g *group) assign() {
	owners := map[work.Item]string{}
	mine := make([]map[work.Item]bool, len(g.workers))
	for i := range mine {
		mine[i] = map[work.Item]bool{}
	}
	for _, item := range g.workers[0].herder.Configs().Work() {
		n := g.owner(item)
		owners[item] = g.workers[n].server.URL + "/"
		mine[n][item] = true
	}
	for i, w := range g.workers {
		of := herder.Group{Leader: i == 0, LeaderURL: g.workers[0].server.URL + "/", Pending: g.pending, Mine: mine[i]}
		if i == 0 {
			of.Owners = owners
		}
		w.herder.SetGroup(of)
	}
}

func (g *group) deps(w *worker) herder.Deps {
	return herder.Deps{
		WriteConfigs: func(_ context.Context, records []configs.Record) error { g.write(records...); return nil },
		WriteStatus:  func(_ context.Context, records []status.Record) error { g.writeStatus(records...); return nil },
		Validate:     validate,
		TypeOf:       typeOf,
		Restart:      func(_ context.Context, i work.Item) error { w.restarts = append(w.restarts, i); return nil },
		Offsets: func(_ context.Context, name string, _ configs.Config) ([]offsets.Entry, error) {
			return g.stands[name], nil
		},
		AlterOffsets: g.alter,
		Fence: func(_ context.Context, name string, tasks int) error {
			g.fenced = append(g.fenced, fmt.Sprintf("%s %d", name, tasks))
			return nil
		},
	}
}

func (g *group) setLevel(logger, level string) ([]string, error) {
	ms := int64(1)
	g.levels[logger] = Level{level, &ms}
	return []string{logger}, nil
}

func (g *group) write(records ...configs.Record) {
	g.written = append(g.written, records...)
	for _, r := range records {
		for i, w := range g.workers {
			c, err := w.herder.FollowConfig(g.next, r.Key, r.Value)
			if err != nil {
				g.t.Error(err)
			}
			if i == 0 {
				g.changes = append(g.changes, c)
			}
		}
		g.next++
	}
}

func (g *group) writeStatus(records ...status.Record) {
	for _, r := range records {
		for _, w := range g.workers {
			if err := w.herder.FollowStatus(r.Key, r.Value); err != nil {
				g.t.Error(err)
			}
		}
	}
}

// settle does what workers do about what they have read: connectors and tasks take the states that they are meant to have.
func (g *group) settle() {
	for len(g.changes) > 0 {
		c := g.changes[0]
		g.changes = g.changes[1:]
		if c.Connector == "" {
			continue
		}
		s := g.workers[0].herder.Configs()
		config, ok := s.Connector(c.Connector)
		if ok && s.Target(c.Connector) == configs.Started {
			if tasks := taskConfigs(config); s.TasksDiffer(c.Connector, tasks) {
				g.write(configs.TaskRecords(c.Connector, tasks)...)
			}
		}
		g.states(c.Connector)
	}
	g.assign()
}

func (g *group) states(name string) {
	h := g.workers[0].herder
	s := h.Configs()
	config, ok := s.Connector(name)
	tasks := len(s.TaskConfigs(name))
	before, _ := h.Status(name)
	for _, task := range before.Tasks {
		if !ok || int(task.ID.Task) >= tasks {
			g.writeStatus(status.RemovalRecord(task.ID))
		}
	}
	if !ok {
		g.writeStatus(status.RemovalRecord(work.Connector(name)))
		return
	}
	state := map[configs.Target]status.State{configs.Started: status.Running, configs.Paused: status.Paused, configs.Stopped: status.Stopped}[s.Target(name)]
	one := status.Status{State: state, WorkerID: "127.0.0.1:38083", Version: "4.3.1"}
	g.writeStatus(status.StatusRecord(work.Connector(name), one))
	if config["value.converter"] != "" {
		one.State, one.Trace = status.Failed, "it is no number"
	}
	for _, task := range work.Tasks(name, tasks) {
		g.writeStatus(status.StatusRecord(task, one))
		g.writeStatus(status.TopicRecord(status.Topic{Name: "lines", Connector: name}))
	}
}

// alter is how the file connectors, and the groups of sinks, take other offsets.
func (g *group) alter(_ context.Context, name string, c configs.Config, entries []offsets.Entry) (bool, error) {
	if typeOf(c) == herder.Sink {
		if entries == nil {
			delete(g.stands, name)
			return true, nil
		}
		parsed, err := offsets.ParseSink(entries)
		if err == nil {
			g.stands[name] = offsets.SinkEntries(parsed)
		}
		return true, err
	}
	g.stands[name] = nil
	for _, e := range entries {
		if _, ok := e.Offset["position"].(int64); e.Offset != nil && !ok {
			return false, errors.New("position is no number")
		}
	}
	return true, nil
}

const (
	fileSource = "org.apache.kafka.connect.file.FileStreamSourceConnector"
	fileSink   = "org.apache.kafka.connect.file.FileStreamSinkConnector"
)

func plugins() []Plugin {
	all := []Plugin{{fileSink, "sink", "4.3.1"}, {fileSource, "source", "4.3.1"}}
	for _, p := range plain.Plugins() {
		all = append(all, Plugin(p))
	}
	return all
}

func typeOf(c configs.Config) herder.Type {
	switch {
	case sameClass(c["connector.class"], fileSource):
		return herder.Source
	case sameClass(c["connector.class"], fileSink):
		return herder.Sink
	}
	return herder.Unknown
}

// keys are those of the file connectors.
var keys = map[herder.Type]configdef.Definition{
	herder.Source: {
		{Name: "file", Type: configdef.String, Importance: configdef.High, Doc: "d"},
		{Name: "topic", Type: configdef.String, Required: true, Importance: configdef.High, Doc: "d"},
		{Name: "batch.size", Type: configdef.Int, Importance: configdef.Low, Doc: "d", Default: new("2000")},
	},
	herder.Sink: {{Name: "file", Type: configdef.String, Importance: configdef.High, Doc: "d"}},
}

// plain is a worker with converters as the recorded one has them.
var plain = func() definition.Worker {
	const converter = "org.apache.kafka.connect.json.JsonConverter"
	c, err := workerconfig.Parse(map[string]string{
		"group.id": jvmtest.Group, "key.converter": converter, "value.converter": converter, "exactly.once.source.support": "enabled",
		"config.storage.topic": jvmtest.ConfigTopic, "offset.storage.topic": jvmtest.OffsetTopic, "status.storage.topic": jvmtest.StatusTopic,
	}, "worker.properties")
	if err != nil {
		panic(err)
	}
	return definition.Worker{Config: c, Version: "4.3.1"}
}()

func connector(class string) (definition.Connector, bool) {
	of := typeOf(configs.Config{"connector.class": class})
	return definition.Connector{Class: class, Type: of, Version: "4.3.1", Keys: keys[of]}, of != herder.Unknown
}

func pluginConfig(name string) (configdef.Definition, bool) {
	if c, ok := connector(name); ok {
		return definition.Definition(c), true
	}
	return definition.Find(name)
}

func validate(_ context.Context, config configs.Config) (*herder.Validation, error) {
	c, ok := connector(config["connector.class"])
	if !ok {
		return nil, fmt.Errorf("%w: there is no connector %q", herder.ErrInvalid, config["connector.class"])
	}
	c.Values = c.Keys.Validate(config)
	return plain.Validate(c, config), nil
}

// taskConfigs are what the file connectors make of a configuration.
func taskConfigs(c configs.Config) []configs.Config {
	n := 1
	if most, err := strconv.Atoi(c["tasks.max"]); err == nil && typeOf(c) == herder.Sink {
		n = most
	}
	tasks := make([]configs.Config, n)
	for i := range tasks {
		tasks[i] = configs.Config{}
		for key, value := range c {
			tasks[i][key] = value
		}
		tasks[i]["task.class"] = map[herder.Type]string{herder.Source: "org.apache.kafka.connect.file.FileStreamSourceTask", herder.Sink: "org.apache.kafka.connect.file.FileStreamSinkTask"}[typeOf(c)]
	}
	return tasks
}

// answer is what a worker answered.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request to a worker; headers are pairs of name and value.
func (g *group) ask(to int, method, path, body string, headers ...string) answer {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.workers[to].server.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// want checks a status code and a piece of the body.
func (g *group) want(a answer, status int, piece string) {
	g.t.Helper()
	if a.status != status || !strings.Contains(a.body, piece) {
		g.t.Errorf("answered %d %s, not %d with %q", a.status, a.body, status, piece)
	}
}
