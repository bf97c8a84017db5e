package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/tests/retry"
)

const topic = "bench-groups"

// member is one of a group, and has no more than its requests need. Its methods are called one at a time.
type member struct {
	pool    *client.Pool // of one connection, which others use too
	address string
	group   string
	topicID [16]byte
	// partition it commits offsets of; which its assignment is does not matter to the server.
	partition int32
	id        string
	epoch     int32 // or generation
	offset    int64
}

func do[Resp kmsg.Response](ctx context.Context, m *member, req kmsg.Request) (Resp, error) {
	var none Resp
	resp, err := m.pool.Do(ctx, m.address, req)
	if err != nil {
		return none, err
	}
	return resp.(Resp), nil
}

// joinClassic joins with JoinGroup and SyncGroup, until a generation has size members.
func (m *member) joinClassic(ctx context.Context, size int) error {
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 600_000, 60_000 // no heartbeats while other groups form
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name = "range"
		subscription := kmsg.NewConsumerMemberMetadata()
		subscription.Topics = []string{topic}
		protocol.Metadata = subscription.AppendTo(nil)
		req.Protocols = append(req.Protocols, protocol)
		resp, err := do[*kmsg.JoinGroupResponse](ctx, m, req)
		if err != nil {
			return err
		}
		m.id = resp.MemberID
		if resp.ErrorCode == kerr.MemberIDRequired.Code {
			continue
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return fmt.Errorf("JoinGroup: %w", err)
		}
		m.epoch = resp.Generation
		whole, err := m.sync(ctx, resp, size)
		if err != nil || whole {
			return err
		}
	}
}

// sync ends a generation's beginning; whole is false when there is to be another one.
func (m *member) sync(ctx context.Context, joined *kmsg.JoinGroupResponse, size int) (whole bool, err error) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.epoch
	kind, protocol := "consumer", "range"
	req.ProtocolType, req.Protocol = &kind, &protocol
	for i, other := range joined.Members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = other.MemberID
		assignment, of := kmsg.NewConsumerMemberAssignment(), kmsg.NewConsumerMemberAssignmentTopic()
		of.Topic, of.Partitions = topic, []int32{int32(i)}
		// The user data says how many there are, to the others too.
		assignment.Topics, assignment.UserData = append(assignment.Topics, of), []byte{byte(min(len(joined.Members), 255))}
		a.MemberAssignment = assignment.AppendTo(nil)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp, err := do[*kmsg.SyncGroupResponse](ctx, m, req)
	if err != nil {
		return false, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); errors.Is(err, kerr.RebalanceInProgress) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("SyncGroup: %w", err)
	}
	var got kmsg.ConsumerMemberAssignment
	if err := got.ReadFrom(resp.MemberAssignment); err != nil {
		return false, fmt.Errorf("SyncGroup: assignment: %w", err)
	}
	return len(got.UserData) == 1 && int(got.UserData[0]) >= min(size, 255), m.awaitRebalance(ctx, got.UserData, size)
}

// awaitRebalance heartbeats until the members that are missing have begun to join.
func (m *member) awaitRebalance(ctx context.Context, count []byte, size int) error {
	for len(count) == 1 && int(count[0]) < min(size, 255) {
		err := m.heartbeatClassic(ctx)
		if errors.Is(err, kerr.RebalanceInProgress) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := retry.Pause(ctx, retryPause); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) heartbeatClassic(ctx context.Context) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.epoch
	resp, err := do[*kmsg.HeartbeatResponse](ctx, m, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// joinConsumer joins with the first heartbeat of KIP-848.
func (m *member) joinConsumer(ctx context.Context) error {
	m.id, m.epoch = newMemberID(), 0
	return m.heartbeatConsumer(ctx, true)
}

func newMemberID() string {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return base64.RawURLEncoding.EncodeToString(id)
}

// heartbeatConsumer owns at once whatever it is assigned, and says so in the next.
func (m *member) heartbeatConsumer(ctx context.Context, full bool) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = m.group, m.id, m.epoch
	if full {
		req.RebalanceTimeoutMillis = 60_000
		req.SubscribedTopicNames = []string{topic}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	for {
		resp, err := do[*kmsg.ConsumerGroupHeartbeatResponse](ctx, m, req)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return fmt.Errorf("ConsumerGroupHeartbeat: %w", err)
		}
		m.epoch = resp.MemberEpoch
		if resp.Assignment == nil {
			return nil
		}
		req = kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = m.group, m.id, m.epoch
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range resp.Assignment.Topics {
			owned := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			owned.TopicID, owned.Partitions = t.TopicID, t.Partitions
			req.Topics = append(req.Topics, owned)
		}
	}
}

func (m *member) commit(ctx context.Context) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.epoch
	of, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	m.offset++
	of.Topic, of.TopicID, p.Partition, p.Offset = topic, m.topicID, m.partition, m.offset
	of.Partitions = append(of.Partitions, p)
	req.Topics = append(req.Topics, of)
	resp, err := do[*kmsg.OffsetCommitResponse](ctx, m, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("OffsetCommit: %w", err)
			}
		}
	}
	return nil
}
