// Package groupapi is what all nodes know of the APIs of consumer groups: which versions there are, and how to say in
// each that a request is not answered here or now.
package groupapi

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Range is the versions of one API that are served.
type Range struct{ Key, Min, Max int16 }

// ranges end where Apache Kafka 4.4 and kmsg do, and begin where Apache Kafka 4 does (KIP-896).
var ranges = []Range{
	{Key: 8, Min: 2, Max: 10}, // OffsetCommit
	{Key: 9, Min: 1, Max: 10}, // OffsetFetch
	{Key: 11, Min: 0, Max: 9}, // JoinGroup
	{Key: 12, Min: 0, Max: 4}, // Heartbeat
	{Key: 13, Min: 0, Max: 5}, // LeaveGroup
	{Key: 14, Min: 0, Max: 5}, // SyncGroup
	{Key: 15, Min: 0, Max: 6}, // DescribeGroups
	{Key: 16, Min: 0, Max: 5}, // ListGroups
	{Key: 28, Min: 0, Max: 6}, // TxnOffsetCommit
	{Key: 42, Min: 0, Max: 3}, // DeleteGroups
	{Key: 47, Min: 0, Max: 0}, // OffsetDelete
	{Key: 68, Min: 0, Max: 1}, // ConsumerGroupHeartbeat
	{Key: 69, Min: 0, Max: 1}, // ConsumerGroupDescribe
}

// Ranges are the APIs that every node offers, in order of key.
func Ranges() []Range { return slices.Clone(ranges) }

// Code is the Kafka error that err is or wraps.
func Code(err error) *kerr.Error {
	if known, ok := errors.AsType[*kerr.Error](err); ok {
		return known
	}
	return kerr.UnknownServerError
}

// Refuse is the response that says code in every place where clients of the request's version look for it. Requests are
// those of Ranges; it is nil for others.
//
// Some answers differ from code, because of what clients make of it:
//   - ListGroups is sent to all nodes and the answers put together. Who coordinates nothing has nothing to add.
//   - A classic member that heartbeats while its group is loaded is told that all is well: another code would have it
//     look for its coordinator, or join anew. One that waits for its assignment is told to join anew.
//   - Producers before TxnOffsetCommit 2 take COORDINATOR_LOAD_IN_PROGRESS for fatal (KAFKA-9656).
//   - Members take REQUEST_TIMED_OUT for fatal: they hear COORDINATOR_NOT_AVAILABLE, as all do.
func Refuse(req kmsg.Request, code *kerr.Error) kmsg.Response {
	if code == kerr.RequestTimedOut {
		code = kerr.CoordinatorNotAvailable
	}
	resp := req.ResponseKind()
	switch q := req.(type) {
	case *kmsg.OffsetCommitRequest:
		refuseCommit(q, resp.(*kmsg.OffsetCommitResponse), code.Code)
	case *kmsg.OffsetFetchRequest:
		refuseFetch(q, resp.(*kmsg.OffsetFetchResponse), code.Code)
	case *kmsg.TxnOffsetCommitRequest:
		if q.Version < 2 && code == kerr.CoordinatorLoadInProgress {
			code = kerr.CoordinatorNotAvailable
		}
		refuseTxnCommit(q, resp.(*kmsg.TxnOffsetCommitResponse), code.Code)
	case *kmsg.JoinGroupRequest:
		resp := resp.(*kmsg.JoinGroupResponse) // the protocol is null where it can be
		resp.ErrorCode, resp.Generation = code.Code, -1
	case *kmsg.HeartbeatRequest:
		if code != kerr.CoordinatorLoadInProgress {
			resp.(*kmsg.HeartbeatResponse).ErrorCode = code.Code
		}
	case *kmsg.LeaveGroupRequest:
		resp.(*kmsg.LeaveGroupResponse).ErrorCode = code.Code
	case *kmsg.SyncGroupRequest:
		if code == kerr.CoordinatorLoadInProgress {
			code = kerr.RebalanceInProgress
		}
		resp.(*kmsg.SyncGroupResponse).ErrorCode = code.Code
	case *kmsg.ListGroupsRequest:
		if code != kerr.NotCoordinator {
			resp.(*kmsg.ListGroupsResponse).ErrorCode = code.Code
		}
	case *kmsg.OffsetDeleteRequest:
		resp.(*kmsg.OffsetDeleteResponse).ErrorCode = code.Code
	case *kmsg.ConsumerGroupHeartbeatRequest:
		resp := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode, resp.ErrorMessage = code.Code, &code.Description
	default:
		return refuseEach(req, resp, code)
	}
	return resp
}

// refuseEach refuses the requests that name several groups and have a code for each.
func refuseEach(req kmsg.Request, resp kmsg.Response, code *kerr.Error) kmsg.Response {
	switch q := req.(type) {
	case *kmsg.DescribeGroupsRequest:
		resp := resp.(*kmsg.DescribeGroupsResponse)
		for _, group := range q.Groups {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode, g.ErrorMessage = group, code.Code, &code.Description
			resp.Groups = append(resp.Groups, g)
		}
	case *kmsg.DeleteGroupsRequest:
		resp := resp.(*kmsg.DeleteGroupsResponse)
		for _, group := range q.Groups {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode, g.ErrorMessage = group, code.Code, &code.Description
			resp.Groups = append(resp.Groups, g)
		}
	case *kmsg.ConsumerGroupDescribeRequest:
		resp := resp.(*kmsg.ConsumerGroupDescribeResponse)
		for _, group := range q.Groups {
			g := kmsg.NewConsumerGroupDescribeResponseGroup()
			g.Group, g.ErrorCode, g.ErrorMessage = group, code.Code, &code.Description
			resp.Groups = append(resp.Groups, g)
		}
	default:
		return nil
	}
	return resp
}

// refuseCommit has a code for each partition only.
func refuseCommit(q *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, code int16) {
	for _, t := range q.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetCommitResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, code
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

func refuseTxnCommit(q *kmsg.TxnOffsetCommitRequest, resp *kmsg.TxnOffsetCommitResponse, code int16) {
	for _, t := range q.Topics {
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, code
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

// refuseFetch puts the code where a client that finds none takes it that nothing is committed: at each partition
// before version 2, at each group since version 8, and at the top between.
func refuseFetch(q *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse, code int16) {
	switch {
	case q.Version >= 8:
		for _, g := range q.Groups {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group, group.ErrorCode = g.Group, code
			resp.Groups = append(resp.Groups, group)
		}
	case q.Version >= 2:
		resp.ErrorCode = code
	default:
		none := ""
		for _, t := range q.Topics {
			topic := kmsg.NewOffsetFetchResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewOffsetFetchResponseTopicPartition()
				partition.Partition, partition.Offset, partition.Metadata, partition.ErrorCode = p, -1, &none, code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
	}
}
