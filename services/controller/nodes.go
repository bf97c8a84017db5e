package controller

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
)

// beat is what DescribeQuorum tells of a node that follows the metadata.
type beat struct {
	offset     int64
	atMs       int64
	caughtUpMs int64 // when the node was last at the controller's offset, -1 for never
}

// serve puts all endpoints of the active controller in force.
func (r *reign) serve() error {
	return errors.Join(
		serve(r, controlpb.Register, func(code int32, message string) *controlpb.RegisterResponse {
			return &controlpb.RegisterResponse{ErrorCode: code, ErrorMessage: message}
		}, r.register),
		serve(r, controlpb.Heartbeat, func(code int32, message string) *controlpb.HeartbeatResponse {
			return &controlpb.HeartbeatResponse{ErrorCode: code, ErrorMessage: message}
		}, r.heartbeat),
		serve(r, controlpb.AllocateProducerIds, func(code int32, message string) *controlpb.AllocateProducerIdsResponse {
			return &controlpb.AllocateProducerIdsResponse{ErrorCode: code, ErrorMessage: message}
		}, r.allocateProducerIDs),
		serve(r, controlpb.AlterPartition, func(code int32, message string) *controlpb.AlterPartitionResponse {
			return &controlpb.AlterPartitionResponse{ErrorCode: code, ErrorMessage: message}
		}, r.alterPartition),
		serve(r, controlpb.FailReplicas, func(code int32, message string) *controlpb.FailReplicasResponse {
			return &controlpb.FailReplicasResponse{ErrorCode: code, ErrorMessage: message}
		}, r.failReplicas),
		serve(r, controlpb.Admin, func(code int32, message string) *controlpb.AdminResponse {
			return &controlpb.AdminResponse{ErrorCode: code, ErrorMessage: message}
		}, r.admin),
	)
}

func (r *reign) register(req *controlpb.RegisterRequest) (*controlpb.RegisterResponse, []*metadatapb.Record, error) {
	reg, err := registration(req)
	if err != nil {
		return nil, nil, err
	}
	epoch, recs, err := r.sessions.Register(r.image, r.env(), reg)
	if err != nil {
		return nil, nil, err
	}
	return &controlpb.RegisterResponse{
		NodeEpoch: epoch, ClusterId: r.image.ClusterID(), MetadataOffset: r.offsetWith(recs),
		SessionTimeoutMs: int32(r.sessions.TimeoutMs()),
	}, recs, nil
}

func registration(req *controlpb.RegisterRequest) (cluster.Registration, error) {
	reg := cluster.Registration{
		NodeID: req.GetNodeId(), ClusterID: req.GetClusterId(), Rack: req.GetRack(), Roles: req.GetRoles(),
		Features: map[string]metadata.FeatureRange{}, PreviousEpoch: req.GetPreviousNodeEpoch(),
	}
	var err error
	if reg.Incarnation, err = uuid(req.GetIncarnation()); err != nil {
		return reg, fmt.Errorf("incarnation: %w", err)
	}
	for _, l := range req.GetListeners() {
		reg.Listeners = append(reg.Listeners, metadata.Listener{
			Name: l.GetName(), Host: l.GetHost(), Port: uint16(l.GetPort()), SecurityProtocol: int16(l.GetSecurityProtocol()),
		})
	}
	for _, f := range req.GetFeatures() {
		reg.Features[f.GetName()] = metadata.FeatureRange{Min: int16(f.GetMinLevel()), Max: int16(f.GetMaxLevel())}
	}
	for _, b := range req.GetLogDirs() {
		dir, err := uuid(b)
		if err != nil {
			return reg, fmt.Errorf("log directory: %w", err)
		}
		reg.LogDirs = append(reg.LogDirs, dir)
	}
	return reg, nil
}

func uuid(b []byte) (id [16]byte, err error) {
	if len(b) != len(id) {
		return id, fmt.Errorf("id of %d bytes: %w", len(b), kerr.InvalidRequest)
	}
	return [16]byte(b), nil
}

func (r *reign) heartbeat(req *controlpb.HeartbeatRequest) (*controlpb.HeartbeatResponse, []*metadatapb.Record, error) {
	answer, recs, err := r.sessions.Heartbeat(r.image, r.env(), cluster.Beat{
		NodeID: req.GetNodeId(), Epoch: req.GetNodeEpoch(), Offset: req.GetMetadataOffset(),
		WantFence: req.GetWantFence(), WantShutdown: req.GetWantShutdown(),
	})
	if err != nil {
		return nil, nil, err
	}
	now := beat{offset: req.GetMetadataOffset(), atMs: r.s.nowMs(), caughtUpMs: -1}
	if last, ok := r.beats[req.GetNodeId()]; ok {
		now.caughtUpMs = last.caughtUpMs
	}
	if now.offset >= r.s.Image().Offset() {
		now.caughtUpMs = now.atMs
	}
	r.beats[req.GetNodeId()] = now
	return &controlpb.HeartbeatResponse{
		IsCaughtUp: answer.CaughtUp, IsFenced: answer.Fenced, ShouldShutdown: answer.ShouldShutdown,
		MetadataOffset: r.offsetWith(recs),
	}, recs, nil
}

func (r *reign) allocateProducerIDs(req *controlpb.AllocateProducerIdsRequest) (*controlpb.AllocateProducerIdsResponse, []*metadatapb.Record, error) {
	first, count, recs, err := cluster.AllocateProducerIDs(r.image, req.GetNodeId(), req.GetNodeEpoch())
	if err != nil {
		return nil, nil, err
	}
	return &controlpb.AllocateProducerIdsResponse{First: first, Count: count}, recs, nil
}

func (r *reign) alterPartition(req *controlpb.AlterPartitionRequest) (*controlpb.AlterPartitionResponse, []*metadatapb.Record, error) {
	wishes, err := alterations(req)
	if err != nil {
		return nil, nil, err
	}
	answers, recs, err := cluster.AlterPartitions(r.image, r.env(), req.GetNodeId(), req.GetNodeEpoch(), wishes)
	if err != nil {
		return nil, nil, err
	}
	resp := &controlpb.AlterPartitionResponse{MetadataOffset: r.offsetWith(recs)}
	for _, t := range req.GetTopics() {
		topic := &controlpb.AlterPartitionResponse_Topic{TopicId: t.GetTopicId()}
		for i, p := range t.GetPartitions() {
			out := &controlpb.AlterPartitionResponse_Partition{Partition: p.GetPartition(), ErrorCode: int32(answers[i].ErrorCode)}
			if now := answers[i].Partition; now != nil {
				out.Leader, out.LeaderEpoch, out.PartitionEpoch = now.Leader, now.LeaderEpoch, now.PartitionEpoch
				out.Isr, out.LeaderRecoveryState = now.ISR, int32(now.LeaderRecoveryState)
			}
			topic.Partitions = append(topic.Partitions, out)
		}
		answers = answers[len(t.GetPartitions()):]
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, recs, nil
}

// alterations are the wishes of all partitions, in the order of the request.
func alterations(req *controlpb.AlterPartitionRequest) ([]cluster.PartitionAlteration, error) {
	var wishes []cluster.PartitionAlteration
	for _, t := range req.GetTopics() {
		id, err := uuid(t.GetTopicId())
		if err != nil {
			return nil, fmt.Errorf("topic: %w", err)
		}
		for _, p := range t.GetPartitions() {
			w := cluster.PartitionAlteration{
				Topic: id, Partition: p.GetPartition(), LeaderEpoch: p.GetLeaderEpoch(), PartitionEpoch: p.GetPartitionEpoch(),
				LeaderRecoveryState: int8(p.GetLeaderRecoveryState()),
			}
			for _, isr := range p.GetIsr() {
				w.ISR = append(w.ISR, cluster.ReplicaEpoch{NodeID: isr.GetNodeId(), Epoch: isr.GetNodeEpoch()})
			}
			wishes = append(wishes, w)
		}
	}
	return wishes, nil
}

func (r *reign) failReplicas(req *controlpb.FailReplicasRequest) (*controlpb.FailReplicasResponse, []*metadatapb.Record, error) {
	var failed []cluster.PartitionID
	for _, t := range req.GetTopics() {
		id, err := uuid(t.GetTopicId())
		if err != nil {
			return nil, nil, fmt.Errorf("topic: %w", err)
		}
		for _, p := range t.GetPartitions() {
			failed = append(failed, cluster.PartitionID{Topic: id, Partition: p})
		}
	}
	recs, err := cluster.FailReplicas(r.image, r.env(), req.GetNodeId(), req.GetNodeEpoch(), failed)
	if err != nil {
		return nil, nil, err
	}
	if len(recs) > 0 {
		r.s.log.Warn("a log directory has failed", zap.Int32("broker", req.GetNodeId()), zap.Int("replicas", len(recs)))
	}
	return &controlpb.FailReplicasResponse{MetadataOffset: r.offsetWith(recs)}, recs, nil
}
