package anywhere

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
)

// InitProducerId (key 22), versions 0 to 5, without a transactional id (KIP-98).
//
//	3   a producer may name its id and epoch (KIP-360), which matters to transactions only
//
// A request with a transactional id belongs to its coordinator, which this node is not: one that coordinates transactions serves
// this API itself.
func (h *handlers) initProducerID(r *server.Request, q *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case q.TransactionalID != nil && *q.TransactionalID == "", (q.ProducerID < 0) != (q.ProducerEpoch < 0):
		resp.ErrorCode = kerr.InvalidRequest.Code
	case q.TransactionalID != nil:
		resp.ErrorCode = kerr.NotCoordinator.Code
	default:
		id, err := h.producerIDs.Next(r.Context())
		if err != nil {
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // as Kafka's while it has no ids: ask again
			return resp
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	return resp
}
