package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// Connector is a source or a sink, called in this process or in its own.
type Connector interface {
	Define(ctx context.Context) (remote.Definition, error)
	Validate(ctx context.Context, config map[string]string) (remote.Validation, error)
	TaskConfigs(ctx context.Context, config map[string]string, maxTasks int) ([]map[string]string, error)
	StartSource(ctx context.Context, t remote.Task) (*remote.SourceTask, error)
	StartSink(ctx context.Context, t remote.Task) (*remote.SinkTask, error)
}

// InProcess serves a connector in this process, for its own tests. What they have of it passes the same protocol as between
// processes. stop ends it.
func InProcess(c plugin.Connector) (connector Connector, stop func(), err error) {
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(plugin.ServerOptions()...)
	if err := plugin.Register(server, c); err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		return nil, nil, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Stop
	}()
	stop = func() {
		_ = conn.Close() // an error is of a connection that has ended already
		server.Stop()
		<-served
	}
	return &remote.Connector{Client: pluginpb.NewConnectorClient(conn), Name: c.Info().Name}, stop, nil
}

// Case is what a connector is checked with.
type Case struct {
	// Config is a valid configuration. A source must have at least two records to read.
	Config map[string]string
	// Records are put into a sink; texts when there are none.
	Records []data.Record
	// Skip leaves out checks by name.
	Skip []string
}

type connectorCheck struct {
	name, doc string
	run       func(context.Context, *subject) (note string, err error)
}

// subject is a connector that is being checked, with the configuration of its first task.
type subject struct {
	Connector
	Case
	task map[string]string
}

var (
	commonChecks = []connectorCheck{
		{"defined", "its definition is in order, it takes the configuration, and no value of a key makes it fail to answer", defined},
		{"divided", "it divides its work into at least one and at most as many tasks as are allowed, and the same ones at the second time", divided},
	}
	sourceChecks = slices.Concat(commonChecks, []connectorCheck{
		{"reads", "records have a topic, values that their schemas describe, and positions that are flat JSON objects", reads},
		{"resumes", "a task that starts from a stored offset goes on with the record after it", resumes},
		{"stops", "a task that waits for records stops within 5 s", stopsSource},
	})
	sinkChecks = slices.Concat(commonChecks, []connectorCheck{
		{"writes", "records are taken, also a second time and none at all, and the offsets to commit are not beyond them", writes},
		{"follows", "partitions come and go while records are put", follows},
		{"stops", "a task stops within 5 s, at work and before it", stopsSink},
	})
)

// SourceNames are the names of the checks of a source, in order.
func SourceNames() []string { return checkNames(sourceChecks) }

// SinkNames are the names of the checks of a sink, in order.
func SinkNames() []string { return checkNames(sinkChecks) }

func checkNames(checks []connectorCheck) []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// CheckSource holds a source against what Cauce and its users expect of one. It returns early when ctx ends.
func CheckSource(ctx context.Context, c Connector, given Case) []Result {
	return checkConnector(ctx, c, given, sourceChecks)
}

// CheckSink holds a sink against what Cauce and its users expect of one. It returns early when ctx ends.
func CheckSink(ctx context.Context, c Connector, given Case) []Result {
	return checkConnector(ctx, c, given, sinkChecks)
}

func checkConnector(ctx context.Context, c Connector, given Case, checks []connectorCheck) []Result {
	s := &subject{Connector: c, Case: given}
	var results []Result
	for _, check := range checks {
		if slices.Contains(given.Skip, check.name) {
			continue
		}
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, 3*callLimit)
		note, err := check.run(limited, s)
		cancel()
		results = append(results, Result{Name: check.name, Doc: check.doc, Fault: err, Note: note, Took: time.Since(began)})
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

func defined(ctx context.Context, s *subject) (string, error) {
	d, err := s.Define(ctx)
	if err != nil {
		return "", err
	}
	v, err := s.Validate(ctx, s.Config)
	if err != nil {
		return "", err
	}
	for _, value := range v.Values {
		if len(value.Errors) > 0 {
			return "", fmt.Errorf("it refuses the configuration: %v", value.Errors)
		}
	}
	// What is odd may be refused, in words; the call must have an answer.
	for _, key := range d.Keys {
		for _, text := range []string{"", " ", "-1", "\x00", "ünï", "9223372036854775807"} {
			config := map[string]string{}
			maps.Copy(config, s.Config)
			config[key.Name] = text
			if _, err := s.Validate(ctx, config); err != nil && !isFault(err) {
				return "", fmt.Errorf("asked about %s=%q: %w", key.Name, text, err)
			}
		}
	}
	return fmt.Sprintf("%d keys", len(d.Keys)), nil
}

func isFault(err error) bool {
	var f *remote.Fault
	return errors.As(err, &f) && f.Trace == ""
}

func divided(ctx context.Context, s *subject) (string, error) {
	most := 0
	for _, allowed := range []int{1, 2, 7} {
		first, err := s.TaskConfigs(ctx, s.Config, allowed)
		if err != nil {
			return "", err
		}
		if len(first) == 0 || len(first) > allowed {
			return "", fmt.Errorf("%d tasks, and %d are allowed", len(first), allowed)
		}
		second, err := s.TaskConfigs(ctx, s.Config, allowed)
		if err != nil {
			return "", err
		}
		if !slices.EqualFunc(first, second, maps.Equal[map[string]string, map[string]string]) {
			return "", errors.New("other task configurations at the second time")
		}
		most = max(most, len(first))
	}
	return fmt.Sprintf("up to %d tasks of 7", most), nil
}

// taskConfig is the configuration of the first task.
func (s *subject) taskConfig(ctx context.Context) (map[string]string, error) {
	if s.task == nil {
		configs, err := s.TaskConfigs(ctx, s.Config, 1)
		if err != nil {
			return nil, err
		}
		if len(configs) == 0 {
			return nil, errors.New("there is no task")
		}
		s.task = configs[0]
	}
	return s.task, nil
}

// stopTask stops a task in time.
func stopTask(ctx context.Context, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := stop(ctx); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	return nil
}

// checkPosition says why a text is no object as positions are.
func checkPosition(text json.RawMessage) error {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return fmt.Errorf("%s is no JSON object", text)
	}
	for name, value := range fields {
		switch value.(type) {
		case map[string]any, []any:
			return fmt.Errorf("%s of %s is neither null nor a boolean, a number or a text", name, text)
		}
	}
	return nil
}

// defaultRecords are texts, by which any sink can show that it refuses what it cannot write.
func defaultRecords() []data.Record {
	var records []data.Record
	for i := range 20 {
		r := data.NewRecord("kit", data.Value{Schema: textSchema, V: fmt.Sprintf("key-%d", i%3)}, data.Value{Schema: textSchema, V: fmt.Sprintf("value-%d", i)})
		r.Partition, r.Offset, r.TimestampMs = int32(i%2), int64(i/2), int64(1_700_000_000_000+i)
		records = append(records, r)
	}
	return records
}

var textSchema = &data.Schema{Type: data.TypeString}
