package cluster

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// Quorum is the state of the raft group as its leader sees it.
type Quorum struct {
	LeaderID    int32
	LeaderEpoch int32
	// HighWatermark is the offset after the last committed record.
	HighWatermark int64
	Voters        []QuorumReplica
	Observers     []QuorumReplica
}

// QuorumReplica is one controller, or a follower of the stream.
type QuorumReplica struct {
	ID          int32
	DirectoryID [16]byte
	// LogEndOffset is -1 when it is not known.
	LogEndOffset int64
	// LastFetchMs and LastCaughtUpMs are times since 1970, -1 when not known.
	LastFetchMs    int64
	LastCaughtUpMs int64
	// Listeners are where the controller is reached; voters only.
	Listeners []metadata.Listener
}

// describeQuorum answers DescribeQuorum, key 55, versions 0 to 2 (KIP-595,
// KIP-836, KIP-853). There is one partition to ask for, __cluster_metadata-0.
func describeQuorum(env Env, req *kmsg.DescribeQuorumRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	known := true
	for _, t := range req.Topics {
		res := kmsg.NewDescribeQuorumResponseTopic()
		res.Topic = t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewDescribeQuorumResponseTopicPartition()
			part.Partition = p.Partition
			if t.Topic == clusterMetadataTopic && p.Partition == 0 {
				env.Quorum.describe(&part)
			} else {
				known = false
				part.ErrorCode = kerr.UnknownTopicOrPartition.Code
				part.ErrorMessage = &kerr.UnknownTopicOrPartition.Description
			}
			res.Partitions = append(res.Partitions, part)
		}
		resp.Topics = append(resp.Topics, res)
	}
	if known {
		resp.Nodes = env.Quorum.nodes()
	}
	return Outcome{Response: resp}
}

func (q Quorum) describe(p *kmsg.DescribeQuorumResponseTopicPartition) {
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = q.LeaderID, q.LeaderEpoch, q.HighWatermark
	p.CurrentVoters = replicaStates(q.Voters)
	p.Observers = replicaStates(q.Observers)
}

func replicaStates(replicas []QuorumReplica) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	var states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState
	for _, r := range replicas {
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = r.ID, r.DirectoryID, r.LogEndOffset
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = r.LastFetchMs, r.LastCaughtUpMs
		states = append(states, s)
	}
	return states
}

func (q Quorum) nodes() []kmsg.DescribeQuorumResponseNode {
	var nodes []kmsg.DescribeQuorumResponseNode
	for _, v := range q.Voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = v.ID
		for _, l := range v.Listeners {
			nl := kmsg.NewDescribeQuorumResponseNodeListener()
			nl.Name, nl.Host, nl.Port = l.Name, l.Host, l.Port
			n.Listeners = append(n.Listeners, nl)
		}
		nodes = append(nodes, n)
	}
	return nodes
}
