package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// verifiedFrom is the first version of AddPartitionsToTxn whose client has its leaders add the partitions (KIP-890).
const verifiedFrom = 4

// AddPartitionsToTxn (key 24), versions 0 to 5.
//
//	0   clients name the partitions that they are going to write to (KIP-98)
//	2   PRODUCER_FENCED
//	4   leaders and groups' coordinators name those of several transactions at once, to add or to verify them (KIP-890)
//	5   TRANSACTION_ABORTABLE (KIP-1050)
//
// Partitions of a transaction are added all or none: with one that does not exist the others are OPERATION_NOT_ATTEMPTED.
func (s *Service) addPartitions(r *server.Request) {
	q := decode[kmsg.AddPartitionsToTxnRequest](r)
	if q == nil {
		return
	}
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	if q.Version < verifiedFrom {
		p := &shard.Participants{ID: q.TransactionalID, ProducerID: q.ProducerID, Epoch: q.ProducerEpoch}
		for _, t := range q.Topics {
			p.Partitions = appendPartitions(p.Partitions, t.Topic, t.Partitions)
		}
		s.add(r, q, p, func(code func(int) int16) {
			resp.Topics = txnapi.AddedTopics(q.Topics, code)
			r.Reply(resp)
		})
		return
	}
	resp.Transactions = make([]kmsg.AddPartitionsToTxnResponseTransaction, len(q.Transactions))
	done := countdown(len(q.Transactions), func() { r.Reply(resp) })
	for i := range q.Transactions {
		s.addOne(r, q, i, &resp.Transactions[i], done)
	}
}

// addOne answers for one of the transactions of a leader's request.
func (s *Service) addOne(r *server.Request, q *kmsg.AddPartitionsToTxnRequest, i int, result *kmsg.AddPartitionsToTxnResponseTransaction, done func()) {
	txn := &q.Transactions[i]
	p := &shard.Participants{
		ID: txn.TransactionalID, ProducerID: txn.ProducerID, Epoch: txn.ProducerEpoch, VerifyOnly: txn.VerifyOnly, Verified: true,
	}
	for _, t := range txn.Topics {
		p.Partitions = appendPartitions(p.Partitions, t.Topic, t.Partitions)
	}
	s.add(r, q, p, func(code func(int) int16) {
		*result = txnapi.AddedTransaction(txn, code)
		done()
	})
}

func appendPartitions(list []schema.Partition, topic string, ids []int32) []schema.Partition {
	for _, id := range ids {
		list = append(list, schema.Partition{Topic: topic, ID: id})
	}
	return list
}

// add adds or verifies the partitions of one transaction and gives the code of each, as the request's version tells it.
func (s *Service) add(r *server.Request, q kmsg.Request, p *shard.Participants, give func(code func(i int) int16)) {
	all := func(code *kerr.Error) { give(func(int) int16 { return txnapi.Code(q, code) }) }
	switch missing := s.missing(p.Partitions); {
	case p.ID == "":
		all(kerr.InvalidRequest)
		return
	case missing != nil:
		give(func(i int) int16 {
			if missing[i] {
				return kerr.UnknownTopicOrPartition.Code
			}
			return kerr.OperationNotAttempted.Code
		})
		return
	}
	s.do(r.Trace().SpanContext(), p.ID, func(m *shard.Machine, now time.Time, t coordinator.Ticket, _ int64) coordinator.Step {
		return m.Add(now, t, p)
	},
		func(response any, _ coordinator.Ticket, code *kerr.Error) {
			if code != nil {
				all(code)
				return
			}
			codes := response.([]*kerr.Error)
			give(func(i int) int16 { return txnapi.Code(q, codes[i]) })
		})
}

// missing says which partitions do not exist; nil when all do.
func (s *Service) missing(partitions []schema.Partition) []bool {
	im := s.Image()
	var missing []bool
	for i, p := range partitions {
		if t, ok := im.Topic(p.Topic); ok && p.ID >= 0 && int(p.ID) < len(t.Partitions) {
			continue
		}
		if missing == nil {
			missing = make([]bool, len(partitions))
		}
		missing[i] = true
	}
	return missing
}
