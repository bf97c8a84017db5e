package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// served are the gRPC services of one process.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	pluginpb.UnimplementedCatalogServer
	pluginpb.UnimplementedAssignorServer
	pluginpb.UnimplementedPartitionerServer
	pluginpb.UnimplementedConnectorServer
	offers []offer
	log    *os.File // standard error, which leads to the host's log; nil without a process of its own

	redirect sync.Once
}

// GRPCServer registers the services; go-plugin calls it once.
func (s *served) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	s.register(server)
	return nil
}

func (s *served) register(server *grpc.Server) {
	pluginpb.RegisterCatalogServer(server, s)
	pluginpb.RegisterAssignorServer(server, s)
	pluginpb.RegisterPartitionerServer(server, s)
	pluginpb.RegisterConnectorServer(server, s)
}

// GRPCClient is never called: the host makes its own clients.
func (s *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client of its own")
}

// Describe lists what the process offers. It is the host's first call.
func (s *served) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	// go-plugin has replaced both, to carry what is printed over the connection, where last words are lost.
	if s.log != nil {
		s.redirect.Do(func() { os.Stdout, os.Stderr = s.log, s.log })
	}
	r := &pluginpb.DescribeResponse{}
	for _, o := range s.offers {
		r.Offers = append(r.Offers, &pluginpb.Offer{Kind: o.kind, Name: o.info.Name, Version: o.info.Version, Doc: o.info.Doc,
			WantsLag: o.info.WantsLag, Aliases: o.info.Aliases})
	}
	return r, nil
}

func (s *served) find(kind pluginpb.Kind, name string) (*offer, error) {
	for i := range s.offers {
		if s.offers[i].kind == kind && s.offers[i].info.Name == name {
			return &s.offers[i], nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "this program has no plugin %q of that kind", name)
}

// Assign answers for the assignor that the request names.
func (s *served) Assign(ctx context.Context, r *pluginpb.AssignRequest) (*pluginpb.AssignResponse, error) {
	o, err := s.find(pluginpb.Kind_KIND_ASSIGNOR, r.Assignor)
	if err != nil {
		return nil, err
	}
	request, err := decodeRequest(r)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "request: %v", err)
	}
	answer, err := o.assignor.Assign(ctx, request)
	if err != nil {
		return nil, failure(ctx, err)
	}
	return encodeResponse(answer), nil
}

// Partition answers for the partitioner that the request names.
func (s *served) Partition(ctx context.Context, r *pluginpb.PartitionRequest) (*pluginpb.PartitionResponse, error) {
	o, err := s.find(pluginpb.Kind_KIND_PARTITIONER, r.Partitioner)
	if err != nil {
		return nil, err
	}
	records := make([]Record, len(r.Records))
	for i, record := range r.Records {
		records[i] = Record{Key: record.Key, Value: record.Value}
	}
	partitions, err := o.partitioner.Partition(ctx, r.Topic, r.Partitions, records)
	if err != nil {
		return nil, failure(ctx, err)
	}
	return &pluginpb.PartitionResponse{Partitions: partitions}, nil
}

// failure tells an end of the call's time from an answer of the plugin.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unknown, err.Error())
}

func decodeRequest(r *pluginpb.AssignRequest) (*Request, error) {
	subscriptions := make([][]int, len(r.Subscriptions))
	for i, s := range r.Subscriptions {
		subscriptions[i] = make([]int, len(s.Topics))
		for j, t := range s.Topics {
			if int(t) >= len(r.Topics) {
				return nil, fmt.Errorf("subscription %d: there is no topic %d", i, t)
			}
			subscriptions[i][j] = int(t)
		}
	}
	request := &Request{Group: r.Group, Epoch: r.GroupEpoch, Topics: make([]Topic, len(r.Topics)), Members: make([]Member, len(r.Members))}
	for i, t := range r.Topics {
		racks, err := decodeRacks(t, r.Racks)
		if err != nil {
			return nil, fmt.Errorf("topic %q: %w", t.Name, err)
		}
		request.Topics[i] = Topic{Name: t.Name, Partitions: t.Partitions, Racks: racks, Lag: t.Lag}
		copy(request.Topics[i].ID[:], t.Id)
	}
	for i, m := range r.Members {
		if int(m.Subscription) >= len(subscriptions) || int(m.Rack) > len(r.Racks) {
			return nil, fmt.Errorf("member %q: there is no subscription %d or no rack %d", m.Id, m.Subscription, m.Rack)
		}
		member := Member{ID: m.Id, InstanceID: m.InstanceId, Topics: subscriptions[m.Subscription]}
		if m.Rack > 0 {
			member.Rack = r.Racks[m.Rack-1]
		}
		for _, p := range m.Target {
			if int(p.Topic) >= len(r.Topics) {
				return nil, fmt.Errorf("member %q: there is no topic %d", m.Id, p.Topic)
			}
			member.Target = append(member.Target, TopicPartitions{Topic: int(p.Topic), Partitions: p.Partitions})
		}
		request.Members[i] = member
	}
	return request, nil
}

func decodeRacks(t *pluginpb.AssignTopic, names []string) ([][]string, error) {
	if len(t.RackCounts) == 0 {
		return nil, nil
	}
	flat := make([]string, len(t.Racks))
	for i, r := range t.Racks {
		if int(r) >= len(names) {
			return nil, fmt.Errorf("there is no rack %d", r)
		}
		flat[i] = names[r]
	}
	racks := make([][]string, len(t.RackCounts))
	for i, n := range t.RackCounts {
		if int(n) > len(flat) {
			return nil, fmt.Errorf("partition %d has %d racks, of which %d are listed", i, n, len(flat))
		}
		racks[i], flat = flat[:n:n], flat[n:]
	}
	return racks, nil
}

func encodeResponse(answer Response) *pluginpb.AssignResponse {
	r := &pluginpb.AssignResponse{}
	for i, partitions := range answer {
		m := &pluginpb.MemberAssignment{Member: uint32(i)}
		for _, p := range partitions {
			if len(p.Partitions) > 0 {
				m.Partitions = append(m.Partitions, &pluginpb.TopicPartitions{Topic: uint32(p.Topic), Partitions: p.Partitions})
			}
		}
		if len(m.Partitions) > 0 {
			r.Members = append(r.Members, m)
		}
	}
	return r
}
