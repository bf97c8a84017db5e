package shard

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	consumers "github.com/cauce-stream/cauce/services/groupcoord/internal/consumer"
)

// Refuse is the answer to a request that fails as a whole: in the place where clients of the request's version look for the error, so
// that nobody takes an error for the absence of offsets. It is nil for requests that are not a group's.
//
// While a shard is loaded a member must not think that it has lost its place: it hears that its heartbeat is fine, and that a
// rebalance goes on.
func Refuse(req kmsg.Request, err *kerr.Error) kmsg.Response {
	loading := err == kerr.CoordinatorLoadInProgress
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		return classic.JoinError(req, err)
	case *kmsg.SyncGroupRequest:
		resp := kmsg.NewPtrSyncGroupResponse()
		if resp.ErrorCode = err.Code; loading {
			resp.ErrorCode = kerr.RebalanceInProgress.Code
		}
		return resp
	case *kmsg.HeartbeatRequest:
		resp := kmsg.NewPtrHeartbeatResponse()
		if resp.ErrorCode = err.Code; loading {
			resp.ErrorCode = 0
		}
		return resp
	case *kmsg.LeaveGroupRequest:
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = err.Code
		return resp
	case *kmsg.ListGroupsRequest:
		resp := kmsg.NewPtrListGroupsResponse()
		resp.ErrorCode = err.Code
		return resp
	case *kmsg.DescribeGroupsRequest:
		return refuseDescribe(req, err)
	case *kmsg.DeleteGroupsRequest:
		return refuseDeleteGroups(req, err)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return consumers.RefuseHeartbeat(err)
	case *kmsg.ConsumerGroupDescribeRequest:
		return refuseConsumerDescribe(req, err)
	}
	return refuseOffsets(req, err)
}

func refuseOffsets(req kmsg.Request, err *kerr.Error) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return refuseCommit(req, err)
	case *kmsg.TxnOffsetCommitRequest:
		return refuseTxnCommit(req, err)
	case *kmsg.OffsetFetchRequest:
		return refuseFetches(req, err)
	case *kmsg.OffsetDeleteRequest:
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = err.Code
		return resp
	}
	return nil
}

func refuseDescribe(req *kmsg.DescribeGroupsRequest, err *kerr.Error) kmsg.Response {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range req.Groups {
		r := kmsg.NewDescribeGroupsResponseGroup()
		r.Group, r.ErrorCode = id, err.Code
		resp.Groups = append(resp.Groups, r)
	}
	return resp
}

func refuseDeleteGroups(req *kmsg.DeleteGroupsRequest, err *kerr.Error) kmsg.Response {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range req.Groups {
		r := kmsg.NewDeleteGroupsResponseGroup()
		r.Group, r.ErrorCode = id, err.Code
		resp.Groups = append(resp.Groups, r)
	}
	return resp
}

func refuseCommit(req *kmsg.OffsetCommitRequest, err *kerr.Error) kmsg.Response {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range req.Topics {
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			r := kmsg.NewOffsetCommitResponseTopicPartition()
			r.Partition, r.ErrorCode = p.Partition, err.Code
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func refuseTxnCommit(req *kmsg.TxnOffsetCommitRequest, err *kerr.Error) kmsg.Response {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	for _, t := range req.Topics {
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			r := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			r.Partition, r.ErrorCode = p.Partition, err.Code
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func refuseFetches(req *kmsg.OffsetFetchRequest, err *kerr.Error) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version < fetchesSeveral {
		g := fetchOfOne(req)
		ofOne(resp, req, refuseFetch(&g, err))
		return resp
	}
	for i := range req.Groups {
		resp.Groups = append(resp.Groups, refuseFetch(&req.Groups[i], err))
	}
	return resp
}

func refuseFetch(g *kmsg.OffsetFetchRequestGroup, err *kerr.Error) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group, out.ErrorCode = g.Group, err.Code
	return out
}

// fetchOfOne is a request of the versions for one group as those for several have it.
func fetchOfOne(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		r := kmsg.NewOffsetFetchRequestGroupTopic()
		r.Topic, r.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, r)
	}
	return g
}

// topLevelErrors is the first version of OffsetFetch with an error for the whole request. Before, each partition has it.
const topLevelErrors = 2

// ofOne puts the answer for a group into a response of the versions for one group.
func ofOne(resp *kmsg.OffsetFetchResponse, req *kmsg.OffsetFetchRequest, g kmsg.OffsetFetchResponseGroup) {
	if g.ErrorCode != 0 {
		if req.Version >= topLevelErrors {
			resp.ErrorCode = g.ErrorCode
			return
		}
		for _, t := range req.Topics {
			out := kmsg.NewOffsetFetchResponseGroupTopic()
			out.Topic = t.Topic
			for _, index := range t.Partitions {
				p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode = index, -1, -1, g.ErrorCode
				out.Partitions = append(out.Partitions, p)
			}
			g.Topics = append(g.Topics, out)
		}
	}
	for _, t := range g.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			r := kmsg.NewOffsetFetchResponseTopicPartition()
			r.Partition, r.Offset, r.LeaderEpoch, r.Metadata, r.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
}
