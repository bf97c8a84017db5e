package anywhere

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
)

// InitProducerId (key 22), versions 0 to 5, without a transactional id (KIP-98).
//
//	3   a producer may name its id and epoch (KIP-360), which matters to transactions only
//
// A request with a transactional id belongs to its coordinator, which this node is not.
func (h *handlers) initProducerID(r *server.Request, q *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case q.TransactionalID != nil && *q.TransactionalID == "", (q.ProducerID < 0) != (q.ProducerEpoch < 0):
		resp.ErrorCode = kerr.InvalidRequest.Code
	case q.TransactionalID != nil:
		resp.ErrorCode = kerr.NotCoordinator.Code
	default:
		id, err := h.producerIDs.next(r.Context())
		if err != nil {
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // as Kafka's while it has no ids: ask again
			return resp
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	return resp
}

// producerIDs hands out the node's producer ids, a block of which it takes from the controller at a time.
type producerIDs struct {
	node member
	turn chan struct{} // holds one token: whoever has it owns what follows
	// The ids left are from, …, to-1.
	from, to int64
}

func newProducerIDs(n member) *producerIDs {
	p := &producerIDs{node: n, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// allocatePatience is how long a request waits for a block.
const allocatePatience = 10 * time.Second

// next is an id that no producer had before.
func (p *producerIDs) next(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, allocatePatience)
	defer cancel()
	select {
	case <-p.turn:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if p.from == p.to {
		first, count, err := p.node.AllocateProducerIDs(ctx)
		if err != nil {
			return 0, err
		}
		p.from, p.to = first, first+int64(count)
	}
	id := p.from
	p.from++
	return id, nil
}
