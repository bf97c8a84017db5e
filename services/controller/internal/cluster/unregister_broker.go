package cluster

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// unregisterBroker decides UnregisterBroker, key 64, version 0 (KIP-631): the
// node is forgotten. Its replicas stay assigned to it.
func unregisterBroker(im *metadata.Image, env Env, req *kmsg.UnregisterBrokerRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	n, ok := im.Node(req.BrokerID)
	if !ok {
		resp.ErrorCode, resp.ErrorMessage = answer(refuse(kerr.BrokerIDNotRegistered,
			"Broker ID %d is not currently registered", req.BrokerID))
		return Outcome{Response: resp}
	}
	recs := partitionChanges(im, env, turn{removed: n.ID, added: nobody, crashed: n.ID})
	return Outcome{Response: resp, Records: append(recs, unregisterRecord(n))}
}
