package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// AddOffsetsToTxn (key 25), versions 0 to 4: the offsets of a group become part of the transaction (KIP-98). Clients of KIP-890 do
// without it. The group need not exist, nor be in any state: what takes part is the partition that its offsets are kept in.
//
//	2   PRODUCER_FENCED
//	4   TRANSACTION_ABORTABLE (KIP-1050)
func (s *Service) addOffsets(r *server.Request) {
	q := decode[kmsg.AddOffsetsToTxnRequest](r)
	switch {
	case q == nil:
	case q.TransactionalID == "" || q.Group == "":
		r.Reply(txnapi.Refuse(q, kerr.InvalidRequest))
	case s.offsetsTopic() != nil:
		s.addGroup(r, q)
	default:
		s.waiting.Go(func() {
			if err := s.CreateTopic(s.ctx, metadata.ConsumerOffsetsTopic); err != nil || s.offsetsTopic() == nil {
				r.Reply(txnapi.Refuse(q, kerr.CoordinatorNotAvailable))
				return
			}
			s.addGroup(r, q)
		})
	}
}

func (s *Service) offsetsTopic() *metadata.Topic {
	t, _ := s.Image().Topic(metadata.ConsumerOffsetsTopic)
	return t
}

func (s *Service) addGroup(r *server.Request, q *kmsg.AddOffsetsToTxnRequest) {
	offsets := schema.Partition{Topic: metadata.ConsumerOffsetsTopic, ID: s.offsetsTopic().ShardOf(q.Group)}
	p := &shard.Participants{ID: q.TransactionalID, ProducerID: q.ProducerID, Epoch: q.ProducerEpoch, Partitions: []schema.Partition{offsets}}
	s.add(r, q, p, func(code func(int) int16) {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.ErrorCode = code(0)
		r.Reply(resp)
	})
}
