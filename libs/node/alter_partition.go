package node

import (
	"context"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
)

// AlterPartitions has the active controller decide this leader's wishes for other in-sync replicas, each by itself (KIP-497).
// Errors concern all of them, and wrap a *kerr.Error.
func (n *Node) AlterPartitions(ctx context.Context, wishes []*controlpb.AlterPartitionRequest_Topic) ([]*controlpb.AlterPartitionResponse_Topic, error) {
	resp, err := decide(ctx, n, controlpb.AlterPartition, func() *controlpb.AlterPartitionRequest {
		return &controlpb.AlterPartitionRequest{NodeId: n.cfg.ID, NodeEpoch: n.Epoch(), Topics: wishes}
	})
	if err != nil {
		return nil, asKafka(err)
	}
	return resp.GetTopics(), nil
}
