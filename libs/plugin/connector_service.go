package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// connector finds the connector of a name, a source or a sink.
func (s *served) connector(name string) (Connector, error) {
	for i := range s.offers {
		if s.offers[i].connector != nil && s.offers[i].info.Name == name {
			return s.offers[i].connector, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "this program has no connector %q", name)
}

// attempt makes a call of a connector, whose error or panic is a fault.
func attempt(ctx context.Context, call func() error) (fault *pluginpb.Fault) {
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "panic", "fault", fmt.Sprint(p), "stack", string(debug.Stack()))
			fault = &pluginpb.Fault{Text: fmt.Sprintf("panic: %v", p), Trace: string(debug.Stack())}
		}
	}()
	if err := call(); err != nil {
		return &pluginpb.Fault{Text: err.Error(), Retriable: isRetriable(err)}
	}
	return nil
}

// Define answers with the definition of the connector that the request names.
func (s *served) Define(_ context.Context, r *pluginpb.DefineRequest) (*pluginpb.DefineResponse, error) {
	c, err := s.connector(r.Connector)
	if err != nil {
		return nil, err
	}
	_, watches := c.(Watcher)
	answer := &pluginpb.DefineResponse{Watches: watches}
	for _, k := range c.Definition() {
		answer.Keys = append(answer.Keys, &pluginpb.ConfigKey{Name: k.Name, Type: string(k.Type), Required: k.Required, Default: k.Default,
			Importance: string(k.Importance), Doc: k.Doc, Group: k.Group, Order: int32(k.Order), Width: string(k.Width), DisplayName: k.DisplayName,
			Dependents: k.Dependents, Recommended: k.Recommended, Rule: &pluginpb.ConfigRule{Min: k.Valid.Min, Max: k.Valid.Max, OneOf: k.Valid.OneOf,
				IgnoreCase: k.Valid.IgnoreCase, NonEmpty: k.Valid.NonEmpty, Pattern: k.Valid.Pattern}})
	}
	return answer, nil
}

// Validate has a ConfigValidator look at a configuration.
func (s *served) Validate(ctx context.Context, r *pluginpb.ValidateRequest) (*pluginpb.ValidateResponse, error) {
	c, err := s.connector(r.Connector)
	if err != nil {
		return nil, err
	}
	answer := &pluginpb.ValidateResponse{}
	answer.Fault = attempt(ctx, func() error {
		if e, ok := c.(ExactlyOnce); ok {
			g := e.Guarantees(r.Config)
			answer.ExactlyOnce, answer.DefinesTransactions = g.ExactlyOnce, g.Transactions
		}
		v, ok := c.(ConfigValidator)
		if !ok {
			return nil
		}
		findings, err := v.Validate(ctx, r.Config)
		answer.Findings = encodeFindings(findings)
		return err
	})
	return answer, nil
}

func encodeFindings(findings []configdef.Finding) []*pluginpb.ConfigFinding {
	var all []*pluginpb.ConfigFinding
	for _, f := range findings {
		all = append(all, &pluginpb.ConfigFinding{Name: f.Name, Errors: f.Errors, Recommended: f.Recommended, Recommends: f.Recommended != nil, Hidden: f.Hidden})
	}
	return all
}

// TaskConfigs has a connector divide its work.
func (s *served) TaskConfigs(ctx context.Context, r *pluginpb.TaskConfigsRequest) (*pluginpb.TaskConfigsResponse, error) {
	c, err := s.connector(r.Connector)
	if err != nil {
		return nil, err
	}
	answer := &pluginpb.TaskConfigsResponse{}
	answer.Fault = attempt(ctx, func() error {
		configs, err := c.TaskConfigs(ctx, r.Config, int(r.MaxTasks))
		for _, config := range configs {
			answer.Tasks = append(answer.Tasks, &pluginpb.TaskConfig{Config: config})
		}
		return err
	})
	return answer, nil
}

// AlterOffsets asks a connector that has to do with offsets.
func (s *served) AlterOffsets(ctx context.Context, r *pluginpb.AlterOffsetsRequest) (*pluginpb.AlterOffsetsResponse, error) {
	c, err := s.connector(r.Connector)
	if err != nil {
		return nil, err
	}
	answer := &pluginpb.AlterOffsetsResponse{}
	answer.Fault = attempt(ctx, func() error {
		var err error
		switch c := c.(type) {
		case SourceOffsetAlterer:
			offsets := make([]SourceOffset, len(r.Source))
			for i, o := range r.Source {
				offsets[i].Partition = o.Partition
				if len(o.Offset) > 0 {
					offsets[i].Offset = json.RawMessage(o.Offset)
				}
			}
			answer.Handled, err = c.AlterOffsets(ctx, r.Config, offsets)
		case SinkOffsetAlterer:
			answer.Handled, err = c.AlterOffsets(ctx, r.Config, decodeOffsets(r.Sink))
		}
		return err
	})
	return answer, nil
}

// Watch runs a Watcher for as long as the stream lasts.
func (s *served) Watch(r *pluginpb.WatchRequest, stream grpc.ServerStreamingServer[pluginpb.WatchEvent]) error {
	c, err := s.connector(r.Connector)
	if err != nil {
		return err
	}
	w, ok := c.(Watcher)
	if !ok {
		return status.Errorf(codes.Unimplemented, "the connector %q does not watch", r.Connector)
	}
	ctx := withTrace(stream.Context())
	changed := make(chan struct{}, 1) // several changes are one
	ended := make(chan *pluginpb.Fault, 1)
	go func() {
		ended <- attempt(ctx, func() error {
			return w.Watch(ctx, r.Config, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
		})
	}()
	for {
		select {
		case <-changed:
			if err := stream.Send(&pluginpb.WatchEvent{}); err != nil {
				<-ended
				return err
			}
		case fault := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			if fault == nil {
				fault = &pluginpb.Fault{Text: "Watch has returned although the connector is not to end"}
			}
			return stream.Send(&pluginpb.WatchEvent{Fault: fault})
		}
	}
}

func decodeOffsets(list []*pluginpb.TopicOffset) map[TopicPartition]int64 {
	offsets := make(map[TopicPartition]int64, len(list))
	for _, o := range list {
		offsets[TopicPartition{o.Topic, o.Partition}] = o.Offset
	}
	return offsets
}

func encodeOffsets(offsets map[TopicPartition]int64) []*pluginpb.TopicOffset {
	list := make([]*pluginpb.TopicOffset, 0, len(offsets))
	for p, offset := range offsets {
		list = append(list, &pluginpb.TopicOffset{Topic: p.Topic, Partition: p.Partition, Offset: offset})
	}
	return list
}
