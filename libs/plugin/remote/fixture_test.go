package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// serve has a server in this process, and returns a client of it.
func serve(t testing.TB, register func(*grpc.Server)) pluginpb.ConnectorClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(plugin.ServerOptions()...)
	register(server)
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
	return pluginpb.NewConnectorClient(conn)
}

// connect serves a connector.
func connect(t testing.TB, c plugin.Connector) *Connector {
	t.Helper()
	client := serve(t, func(s *grpc.Server) {
		if err := plugin.Register(s, c); err != nil {
			t.Fatal(err)
		}
	})
	return &Connector{Client: client, Name: c.Info().Name}
}

// definition has something in each of its fields.
var definition = configdef.Definition{
	{Name: "table", Type: configdef.String, Required: true, Importance: configdef.High, Doc: "what to read", Group: "source", Order: 1,
		Width: configdef.LongWidth, DisplayName: "Table", Dependents: []string{"rows"}, Valid: configdef.Rule{NonEmpty: true, Pattern: "[a-z]+"}},
	{Name: "rows", Type: configdef.Int, Default: new("10"), Importance: configdef.Low, Doc: "how many", Recommended: []string{"10", "20"},
		Valid: configdef.Rule{Min: new(1.0), Max: new(100.0)}},
	{Name: "mode", Type: configdef.String, Default: new("a"), Importance: configdef.Low, Doc: "how", Valid: configdef.Rule{OneOf: []string{"a", "b"}, IgnoreCase: true}},
}

// source does what its test says.
type source struct {
	start  func(ctx context.Context, c *plugin.SourceContext, config map[string]string) error
	poll   func(ctx context.Context) ([]plugin.SourceRecord, error)
	events events
}

func (s *source) Info() plugin.Info                { return plugin.Info{Name: "source", Version: "1"} }
func (s *source) Definition() configdef.Definition { return definition }
func (s *source) NewSourceTask() plugin.SourceTask { return s }

func (s *source) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	switch config["table"] {
	case "none":
		return nil, errors.New("there is no such table")
	case "panic":
		panic("no idea")
	}
	configs := make([]map[string]string, maxTasks)
	for i := range configs {
		configs[i] = map[string]string{"part": fmt.Sprint(i)}
	}
	return configs, nil
}

func (s *source) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	if config["table"] == "none" {
		return nil, errors.New("the database does not answer")
	}
	return []configdef.Finding{{Name: "table", Errors: []string{"there is no table " + config["table"]}, Recommended: []string{"orders"}}, {Name: "mode", Hidden: true}}, nil
}

func (s *source) Guarantees(config map[string]string) plugin.Guarantees {
	return plugin.Guarantees{ExactlyOnce: true, Transactions: config["mode"] == "b"}
}

func (s *source) AlterOffsets(_ context.Context, config map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	if len(offsets) == 0 {
		return false, errors.New("nothing to alter")
	}
	s.events.add("alter %s %s %v", offsets[0].Partition, offsets[0].Offset, offsets[len(offsets)-1].Offset == nil)
	return config["table"] == "own", nil
}

func (s *source) Watch(ctx context.Context, config map[string]string, changed func()) error {
	changed()
	switch config["table"] {
	case "fails":
		return errors.New("the database is gone")
	case "returns":
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *source) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	if s.start != nil {
		return s.start(ctx, c, config)
	}
	return nil
}

func (s *source) Poll(ctx context.Context) ([]plugin.SourceRecord, error) { return s.poll(ctx) }

func (s *source) Stop() error {
	s.events.add("stop")
	return nil
}

// committing is a source that wants to know what becomes of its records.
type committing struct{ *source }

func (c committing) NewSourceTask() plugin.SourceTask { return c }

func (c committing) Commit(context.Context) error {
	c.events.add("commit")
	return nil
}

func (c committing) CommitRecord(_ context.Context, r *plugin.SourceRecord, m *plugin.RecordMetadata) error {
	if m == nil {
		c.events.add("left out %v", r.Value.V)
	} else {
		c.events.add("stored %v at %s-%d@%d", r.Value.V, m.Topic, m.Partition, m.Offset)
	}
	return nil
}

// events are what a task was asked for.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf(format, args...))
}

func (e *events) want(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.list, want) {
		t.Errorf("the task was asked for\n%s\nwant\n%s", strings.Join(e.list, "\n"), strings.Join(want, "\n"))
	}
}

// turns returns a Poll that answers one after the other, and then waits for its end.
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

func record(value any) plugin.SourceRecord {
	return plugin.SourceRecord{Record: data.NewRecord("orders", data.Value{}, data.Value{V: value})}
}

// none are the stored offsets of a source that never ran.
func none(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
	return make([]json.RawMessage, len(partitions)), nil
}
