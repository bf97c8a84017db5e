// Package remote is Cauce's side of a connector: calls, and tasks as streams of batches, over a connection to the program
// that has it. Package host starts such programs; tests may have them in their own process (plugin.Register).
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// Fault is an error that a connector reports, by an error that it returns or by a panic.
type Fault struct {
	Text string
	// Retriable says that the same may succeed later.
	Retriable bool
	// Trace is the stack of a panic.
	Trace string
}

// Error returns the connector's own words.
func (f *Fault) Error() string { return f.Text }

func decodeFault(f *pluginpb.Fault) error {
	if f == nil {
		return nil
	}
	return &Fault{Text: f.Text, Retriable: f.Retriable, Trace: f.Trace}
}

// Connector calls one connector. It may be used from several goroutines.
type Connector struct {
	Client pluginpb.ConnectorClient
	// Name is the plugin's own, not an alias.
	Name string
	// MaxAnswerBytes bounds the answer of a call; 0 for gRPC's own bound. Batches of tasks are bounded by plugin.MaxRequestBytes.
	MaxAnswerBytes int
	// Process is what tasks and Watch run in; the zero value is for those in the caller's own.
	Process Process
}

// Process ties tasks to the process that they run in.
type Process struct {
	// Explain says what the end of a stream means that nobody has asked for.
	Explain func(error) error
	// End ends the process when the stream has ended, and returns when nothing is left of it.
	End func()
}

func (p Process) explain(err error) error {
	if p.Explain == nil {
		return err
	}
	return p.Explain(err)
}

// errStopped is what calls of a task get that was stopped as it was asked to.
var errStopped = errors.New("the task has stopped")

// ended is why the calls of a task fail whose stream has ended with err; wanted says whether that was asked for.
func (p Process) ended(err error, wanted bool) error {
	switch {
	case errors.Is(err, io.EOF) && wanted:
		return errStopped
	case errors.Is(err, io.EOF):
		return errors.New("it has ended its stream")
	case !wanted:
		return p.explain(err)
	}
	return err
}

func (p Process) end() {
	if p.End != nil {
		p.End()
	}
}

func (c *Connector) options() []grpc.CallOption {
	if c.MaxAnswerBytes == 0 {
		return nil
	}
	return []grpc.CallOption{grpc.MaxCallRecvMsgSize(c.MaxAnswerBytes)}
}

// Definition is how a connector is configured.
type Definition struct {
	Keys configdef.Definition
	// Watches says that Watch is to run beside the tasks.
	Watches bool
}

// Define asks for the definition, which is in order.
func (c *Connector) Define(ctx context.Context) (Definition, error) {
	r, err := c.Client.Define(ctx, &pluginpb.DefineRequest{Connector: c.Name}, c.options()...)
	if err != nil {
		return Definition{}, err
	}
	d := Definition{Watches: r.Watches}
	for _, k := range r.Keys {
		key := configdef.Key{Name: k.Name, Type: configdef.Type(k.Type), Required: k.Required, Default: k.Default, Importance: configdef.Importance(k.Importance),
			Doc: k.Doc, Group: k.Group, Order: int(k.Order), Width: configdef.Width(k.Width), DisplayName: k.DisplayName, Dependents: k.Dependents, Recommended: k.Recommended}
		if rule := k.Rule; rule != nil {
			key.Valid = configdef.Rule{Min: rule.Min, Max: rule.Max, OneOf: rule.OneOf, IgnoreCase: rule.IgnoreCase, NonEmpty: rule.NonEmpty, Pattern: rule.Pattern}
		}
		d.Keys = append(d.Keys, key)
	}
	if err := d.Keys.Check(); err != nil {
		return Definition{}, fmt.Errorf("its definition: %w", err)
	}
	return d, nil
}

// Validation is what a connector finds in a configuration.
type Validation struct {
	// Values has one for each key of the definition, and for others that the connector has something to say about.
	Values []configdef.Value
	// Guarantees are a source's.
	Guarantees plugin.Guarantees
}

// Validate holds a configuration against the definition and, if nothing is wrong with it there, asks the connector.
func (c *Connector) Validate(ctx context.Context, config map[string]string) (Validation, error) {
	d, err := c.Define(ctx)
	if err != nil {
		return Validation{}, err
	}
	v := Validation{Values: d.Keys.Validate(config)}
	for i := range v.Values {
		if len(v.Values[i].Errors) > 0 {
			return v, nil
		}
	}
	r, err := c.Client.Validate(ctx, &pluginpb.ValidateRequest{Connector: c.Name, Config: config}, c.options()...)
	if err == nil {
		err = decodeFault(r.Fault)
	}
	if err != nil {
		return Validation{}, err
	}
	findings := make([]configdef.Finding, len(r.Findings))
	for i, f := range r.Findings {
		findings[i] = configdef.Finding{Name: f.Name, Errors: f.Errors, Hidden: f.Hidden}
		if f.Recommends {
			findings[i].Recommended = append([]string{}, f.Recommended...)
		}
	}
	v.Values = configdef.Add(v.Values, findings)
	v.Guarantees = plugin.Guarantees{ExactlyOnce: r.ExactlyOnce, Transactions: r.DefinesTransactions}
	return v, nil
}

// TaskConfigs asks for the configurations of at most maxTasks tasks. More than that are returned all the same: what to do
// then is up to tasks.max.enforce.
func (c *Connector) TaskConfigs(ctx context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	r, err := c.Client.TaskConfigs(ctx, &pluginpb.TaskConfigsRequest{Connector: c.Name, Config: config, MaxTasks: uint32(maxTasks)}, c.options()...)
	if err == nil {
		err = decodeFault(r.Fault)
	}
	if err != nil {
		return nil, err
	}
	configs := make([]map[string]string, len(r.Tasks))
	for i, task := range r.Tasks {
		if configs[i] = task.Config; configs[i] == nil {
			configs[i] = map[string]string{}
		}
	}
	return configs, nil
}

// AlterSourceOffsets tells a source of offsets that users set, before they are stored. It returns whether offsets that the
// connector itself keeps follow.
func (c *Connector) AlterSourceOffsets(ctx context.Context, config map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	request := &pluginpb.AlterOffsetsRequest{Connector: c.Name, Config: config}
	for _, o := range offsets {
		request.Source = append(request.Source, &pluginpb.SourceOffset{Partition: o.Partition, Offset: o.Offset})
	}
	return c.alterOffsets(ctx, request)
}

// AlterSinkOffsets tells a sink of offsets that users set, before they are committed; -1 stands for none.
func (c *Connector) AlterSinkOffsets(ctx context.Context, config map[string]string, offsets map[plugin.TopicPartition]int64) (bool, error) {
	return c.alterOffsets(ctx, &pluginpb.AlterOffsetsRequest{Connector: c.Name, Config: config, Sink: encodeOffsets(offsets)})
}

func (c *Connector) alterOffsets(ctx context.Context, request *pluginpb.AlterOffsetsRequest) (bool, error) {
	r, err := c.Client.AlterOffsets(ctx, request, c.options()...)
	if err == nil {
		err = decodeFault(r.Fault)
	}
	if err != nil {
		return false, err
	}
	return r.Handled, nil
}

// Watch calls changed when TaskConfigs would answer something else, until ctx ends, and returns nil then. An error is the
// connector's or its process's.
func (c *Connector) Watch(ctx context.Context, config map[string]string, changed func()) error {
	defer c.Process.end()
	stream, err := c.Client.Watch(ctx, &pluginpb.WatchRequest{Connector: c.Name, Config: config})
	for err == nil {
		var event *pluginpb.WatchEvent
		if event, err = stream.Recv(); err != nil {
			break
		}
		if fault := decodeFault(event.Fault); fault != nil {
			return fault
		}
		changed()
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, io.EOF):
		return errors.New("it has stopped watching")
	}
	return c.Process.explain(err)
}

// Task is what a task is started with.
type Task struct {
	// Connector is what users call the connector.
	Connector string
	// Number is the task's among the connector's tasks, from 0.
	Number int
	Config map[string]string
	// Transactions has a source say where transactions end.
	Transactions bool
	// Reports lets a sink report records that it cannot write.
	Reports bool
	// ReadOffsets returns the stored offsets of a source's partitions, in their order, nil for none. Both are JSON objects.
	// It is called from a goroutine of the task's.
	ReadOffsets func(ctx context.Context, partitions []json.RawMessage) ([]json.RawMessage, error)
}

func (c *Connector) start(t *Task) *pluginpb.StartTask {
	return &pluginpb.StartTask{Connector: c.Name, Name: t.Connector, Task: uint32(t.Number), Config: t.Config, Transactions: t.Transactions, Reports: t.Reports}
}

// traceparent is the trace of ctx in W3C form.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

func encodeOffsets(offsets map[plugin.TopicPartition]int64) []*pluginpb.TopicOffset {
	list := make([]*pluginpb.TopicOffset, 0, len(offsets))
	for p, offset := range offsets {
		list = append(list, &pluginpb.TopicOffset{Topic: p.Topic, Partition: p.Partition, Offset: offset})
	}
	return list
}

func decodeOffsets(list []*pluginpb.TopicOffset) map[plugin.TopicPartition]int64 {
	offsets := make(map[plugin.TopicPartition]int64, len(list))
	for _, o := range list {
		offsets[plugin.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
	}
	return offsets
}

func encodePartitions(partitions []plugin.TopicPartition) *pluginpb.Partitions {
	list := &pluginpb.Partitions{}
	for _, p := range partitions {
		list.Partitions = append(list.Partitions, &pluginpb.TopicPartition{Topic: p.Topic, Partition: p.Partition})
	}
	return list
}

func decodePartitions(list []*pluginpb.TopicPartition) []plugin.TopicPartition {
	var partitions []plugin.TopicPartition
	for _, p := range list {
		partitions = append(partitions, plugin.TopicPartition{Topic: p.Topic, Partition: p.Partition})
	}
	return partitions
}

// millis is so many milliseconds, or the most that a Duration holds.
func millis(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
