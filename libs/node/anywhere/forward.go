package anywhere

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
)

const (
	// defaultPatience is how long an admin request without a timeout waits for the controller: as long as clients wait
	// for an answer.
	defaultPatience = 30 * time.Second
	maxPatience     = 2 * time.Minute
)

// forward has the active controller answer a request, which travels as it came:
//
//	19 CreateTopics, 20 DeleteTopics, 33 AlterConfigs, 37 CreatePartitions, 43 ElectLeaders (KIP-460),
//	44 IncrementalAlterConfigs (KIP-339), 45 AlterPartitionReassignments, 46 ListPartitionReassignments (KIP-455),
//	55 DescribeQuorum (KIP-595), 57 UpdateFeatures (KIP-584), 64 UnregisterBroker (KIP-500),
//	80 AddRaftVoter, 81 RemoveRaftVoter (KIP-853)
//
// The answer comes after this node's image contains the change. Kafka's clients send these to any broker (KIP-590).
func (h *handlers) forward(r *server.Request) {
	q := kmsg.RequestForKey(r.Key)
	if err := r.Decode(q); err != nil { // what does not decode does not travel
		r.Fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patienceOf(q))
	defer cancel()
	body, err := h.node.Forward(ctx, r.Key, r.Version, r.Body, r.Conn.Principal().String(), r.ClientID, r.Conn.RemoteHost())
	if err != nil {
		r.Reply(refused(q, codeOf(err)))
		return
	}
	noteFailures(r, q.ResponseKind(), body)
	r.Finish(append(r.BeginSize(len(body)), body...), nil, nil)
}

// noteFailures has the request's trace know what the controller's answer tells of errors.
func noteFailures(r *server.Request, resp kmsg.Response, body []byte) {
	if r.Trace() == nil {
		return
	}
	resp.SetVersion(r.Version)
	if resp.ReadFrom(body) == nil { // what does not decode is the client's to see
		r.Trace().Answers(resp)
	}
}

// patienceOf is how long a request may take.
func patienceOf(q kmsg.Request) time.Duration {
	t, ok := q.(kmsg.TimeoutRequest)
	if !ok || t.Timeout() <= 0 {
		return defaultPatience
	}
	return min(time.Duration(t.Timeout())*time.Millisecond, maxPatience)
}

// refused is the answer to a forwarded request that the controller did not answer: the code for each thing it asks for.
func refused(q kmsg.Request, code int16) kmsg.Response {
	resp := q.ResponseKind()
	switch resp := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range q.(*kmsg.CreateTopicsRequest).Topics {
			out := kmsg.NewCreateTopicsResponseTopic()
			out.Topic, out.ErrorCode = t.Topic, code
			resp.Topics = append(resp.Topics, out)
		}
	case *kmsg.DeleteTopicsResponse:
		q := q.(*kmsg.DeleteTopicsRequest)
		for _, name := range q.TopicNames {
			out := kmsg.NewDeleteTopicsResponseTopic()
			out.Topic, out.ErrorCode = text(name), code
			resp.Topics = append(resp.Topics, out)
		}
		for _, t := range q.Topics {
			out := kmsg.NewDeleteTopicsResponseTopic()
			out.Topic, out.TopicID, out.ErrorCode = t.Topic, t.TopicID, code
			resp.Topics = append(resp.Topics, out)
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range q.(*kmsg.CreatePartitionsRequest).Topics {
			out := kmsg.NewCreatePartitionsResponseTopic()
			out.Topic, out.ErrorCode = t.Topic, code
			resp.Topics = append(resp.Topics, out)
		}
	case *kmsg.AlterConfigsResponse:
		for _, r := range q.(*kmsg.AlterConfigsRequest).Resources {
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode = r.ResourceType, r.ResourceName, code
			resp.Resources = append(resp.Resources, out)
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, r := range q.(*kmsg.IncrementalAlterConfigsRequest).Resources {
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode = r.ResourceType, r.ResourceName, code
			resp.Resources = append(resp.Resources, out)
		}
	case *kmsg.ElectLeadersResponse:
		refuseElections(resp, q.(*kmsg.ElectLeadersRequest), code)
	case *kmsg.AlterPartitionAssignmentsResponse:
		resp.ErrorCode = code
	case *kmsg.ListPartitionReassignmentsResponse:
		resp.ErrorCode = code
	case *kmsg.DescribeQuorumResponse:
		resp.ErrorCode = code
	case *kmsg.UpdateFeaturesResponse:
		resp.ErrorCode = code
	case *kmsg.UnregisterBrokerResponse:
		resp.ErrorCode = code
	case *kmsg.AddRaftVoterResponse:
		resp.ErrorCode = code
	case *kmsg.RemoveRaftVoterResponse:
		resp.ErrorCode = code
	}
	return resp
}

// refuseElections gives the code for each partition too: version 0 has no other place for it.
func refuseElections(resp *kmsg.ElectLeadersResponse, q *kmsg.ElectLeadersRequest, code int16) {
	resp.ErrorCode = code
	for _, t := range q.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewElectLeadersResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p, code
			out.Partitions = append(out.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, out)
	}
}
