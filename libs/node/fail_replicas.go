package node

import (
	"context"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
)

// FailReplicas tells the active controller of replicas of this node whose log directory has failed (KIP-112), and returns once
// the node's image has that. The error wraps a *kerr.Error.
func (n *Node) FailReplicas(ctx context.Context, failed []*controlpb.FailReplicasRequest_Topic) error {
	resp, err := decide(ctx, n, controlpb.FailReplicas, func() *controlpb.FailReplicasRequest {
		return &controlpb.FailReplicasRequest{NodeId: n.cfg.ID, NodeEpoch: n.Epoch(), Topics: failed}
	})
	if err == nil {
		err = n.AwaitOffset(ctx, resp.GetMetadataOffset())
	}
	if err != nil {
		return asKafka(err)
	}
	return nil
}
