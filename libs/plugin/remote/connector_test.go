package remote

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

func TestDefinitionsAndConfigurations(t *testing.T) {
	c := connect(t, &source{})
	d, err := c.Define(t.Context())
	if err != nil || !d.Watches || !reflect.DeepEqual(d.Keys, definition) {
		t.Fatalf("definition %+v, %v", d, err)
	}
	v, err := c.Validate(t.Context(), map[string]string{"table": "bills", "mode": "b"})
	if err != nil || len(v.Values) != 3 || len(v.Values[0].Errors) != 1 || v.Values[0].Recommended[0] != "orders" || v.Values[1].Recommended[1] != "20" || v.Values[2].Visible {
		t.Errorf("values %+v, %v", v.Values, err)
	}
	if v.Guarantees != (plugin.Guarantees{ExactlyOnce: true, Transactions: true}) {
		t.Errorf("guarantees %+v", v.Guarantees)
	}
	// What the definition refuses the connector does not see.
	v, err = c.Validate(t.Context(), map[string]string{"table": "bills", "rows": "0"})
	if err != nil || len(v.Values[0].Errors) != 0 || len(v.Values[1].Errors) != 1 || !v.Values[2].Visible {
		t.Errorf("values %+v, %v", v.Values, err)
	}
	if _, err := c.Validate(t.Context(), map[string]string{"table": "none"}); err == nil || err.Error() != "the database does not answer" {
		t.Errorf("validate: %v", err)
	}
}

func TestTaskConfigs(t *testing.T) {
	c := connect(t, &source{})
	configs, err := c.TaskConfigs(t.Context(), map[string]string{"table": "orders"}, 3)
	if err != nil || len(configs) != 3 || configs[2]["part"] != "2" {
		t.Errorf("%v, %v", configs, err)
	}
	var f *Fault
	if _, err := c.TaskConfigs(t.Context(), map[string]string{"table": "none"}, 3); !errors.As(err, &f) || f.Text != "there is no such table" || f.Trace != "" {
		t.Errorf("task configs: %v", err)
	}
	if _, err := c.TaskConfigs(t.Context(), map[string]string{"table": "panic"}, 3); !errors.As(err, &f) || f.Text != "panic: no idea" || f.Trace == "" {
		t.Errorf("task configs: %v", err)
	}
}

func TestAlteredOffsets(t *testing.T) {
	s := &source{}
	c := connect(t, s)
	offsets := []plugin.SourceOffset{{Partition: []byte(`{"a":1}`), Offset: []byte(`{"b":2}`)}, {Partition: []byte(`{"a":2}`)}}
	for table, want := range map[string]bool{"own": true, "x": false} {
		if handled, err := c.AlterSourceOffsets(t.Context(), map[string]string{"table": table}, offsets); err != nil || handled != want {
			t.Errorf("%s: %t, %v", table, handled, err)
		}
	}
	s.events.want(t, `alter {"a":1} {"b":2} true`, `alter {"a":1} {"b":2} true`)
	if _, err := c.AlterSourceOffsets(t.Context(), nil, nil); err == nil || err.Error() != "nothing to alter" {
		t.Errorf("alter: %v", err)
	}
}

func TestWatch(t *testing.T) {
	c := connect(t, &source{})
	ended := 0
	c.Process.End = func() { ended++ }
	ctx, cancel := context.WithCancel(t.Context())
	changes := 0
	if err := c.Watch(ctx, nil, func() { changes++; cancel() }); err != nil || changes != 1 {
		t.Errorf("%d changes, %v", changes, err)
	}
	for table, want := range map[string]string{"fails": "the database is gone", "returns": "although the connector is not to end"} {
		if err := c.Watch(t.Context(), map[string]string{"table": table}, func() {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", table, err)
		}
	}
	// In another language it is the stream that ends.
	c = &Connector{Client: serve(t, func(s *grpc.Server) { pluginpb.RegisterConnectorServer(s, &rogue{}) }), Process: c.Process}
	if err := c.Watch(t.Context(), nil, func() {}); err == nil || !strings.Contains(err.Error(), "stopped watching") {
		t.Errorf("the stream ends: %v", err)
	}
	if ended != 4 {
		t.Errorf("%d processes have ended", ended)
	}
}

// rogue is a program that keeps to no rules.
type rogue struct {
	pluginpb.UnimplementedConnectorServer
	source []*pluginpb.SourceAnswer
	sink   []*pluginpb.SinkAnswer
	keys   []*pluginpb.ConfigKey
}

func (r *rogue) Define(context.Context, *pluginpb.DefineRequest) (*pluginpb.DefineResponse, error) {
	return &pluginpb.DefineResponse{Keys: r.keys}, nil
}

func (r *rogue) Source(stream grpc.BidiStreamingServer[pluginpb.SourceRequest, pluginpb.SourceAnswer]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for _, a := range r.source {
		if err := stream.Send(a); err != nil {
			return err
		}
	}
	return nil
}

func (r *rogue) Sink(stream grpc.BidiStreamingServer[pluginpb.SinkRequest, pluginpb.SinkAnswer]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for _, a := range r.sink {
		if err := stream.Send(a); err != nil {
			return err
		}
	}
	return nil
}

func (r *rogue) Watch(*pluginpb.WatchRequest, grpc.ServerStreamingServer[pluginpb.WatchEvent]) error {
	return nil
}

func TestRogues(t *testing.T) {
	started := &pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Started{Started: &pluginpb.Started{}}}
	batch := func(b *pluginpb.SourceBatch) *pluginpb.SourceAnswer {
		return &pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Batch{Batch: b}}
	}
	question := &pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_ReadOffsets{ReadOffsets: &pluginpb.ReadOffsets{}}}
	confirmed := &pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Committed{Committed: &pluginpb.Committed{}}}
	none := batch(&pluginpb.SourceBatch{})
	many := []*pluginpb.SourceAnswer{started}
	for range maxCommits + 1 {
		many = append(many, confirmed)
	}
	tests := map[string][]*pluginpb.SourceAnswer{
		"has ended its stream":  {started},
		"started twice":         {started, started, started},
		"2, and there are 0":    {started, batch(&pluginpb.SourceBatch{Records: []byte{0x1a, 0}, PartitionOf: []uint32{2}})},
		"the partitions of 2":   {started, batch(&pluginpb.SourceBatch{Records: []byte{0x1a, 0}, PartitionOf: []uint32{0, 0}})},
		"the offsets of 3":      {started, batch(&pluginpb.SourceBatch{Records: []byte{0x1a, 0}, Offsets: [][]byte{{}, {}, {}}})},
		"decode a batch":        {started, batch(&pluginpb.SourceBatch{Records: []byte{0xff}})},
		"polls that it was not": {started, none, none, none, none},
		"commits that it was":   many,
		"and there are none":    {started, question},
	}
	for want, answers := range tests {
		c := &Connector{Client: serve(t, func(s *grpc.Server) { pluginpb.RegisterConnectorServer(s, &rogue{source: answers}) }), Name: "rogue"}
		task, err := c.StartSource(t.Context(), Task{})
		if err == nil {
			<-task.Done()
		}
		for err == nil {
			_, err = task.Poll(t.Context())
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if task != nil {
			_ = task.Stop(t.Context())
		}
	}
	c := &Connector{Client: serve(t, func(s *grpc.Server) {
		done := &pluginpb.SinkAnswer{Answer: &pluginpb.SinkAnswer_Done{Done: &pluginpb.SinkDone{}}}
		pluginpb.RegisterConnectorServer(s, &rogue{sink: []*pluginpb.SinkAnswer{done}, keys: []*pluginpb.ConfigKey{{Name: "x", Type: "TEXT"}}})
	})}
	if _, err := c.StartSink(t.Context(), Task{}); err == nil || !strings.Contains(err.Error(), "first answer") {
		t.Errorf("sink: %v", err)
	}
	if _, err := c.Define(t.Context()); err == nil || !strings.Contains(err.Error(), `no type "TEXT"`) {
		t.Errorf("definition: %v", err)
	}
}
