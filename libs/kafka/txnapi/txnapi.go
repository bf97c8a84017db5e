// Package txnapi is what all nodes know of the APIs of transactions' coordinators: which versions there are, and how to say in
// each that a request is not answered here or now.
package txnapi

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Range is the versions of one API that are served.
type Range struct{ Key, Min, Max int16 }

// ranges end where Apache Kafka 4.4 and kmsg do.
var ranges = []Range{
	{Key: 24, Min: 0, Max: 5}, // AddPartitionsToTxn
	{Key: 25, Min: 0, Max: 4}, // AddOffsetsToTxn
	{Key: 26, Min: 0, Max: 5}, // EndTxn
	{Key: 65, Min: 0, Max: 0}, // DescribeTransactions
	{Key: 66, Min: 0, Max: 2}, // ListTransactions
}

// Ranges are the APIs that every node offers, in order of key, besides InitProducerId.
func Ranges() []Range { return slices.Clone(ranges) }

// First versions with codes that clients of older ones do not know.
const (
	initFencedFrom      = 4 // InitProducerId knows PRODUCER_FENCED (KIP-588)
	fencedFrom          = 2 // AddPartitionsToTxn, AddOffsetsToTxn and EndTxn do
	abortableFrom       = 5 // AddPartitionsToTxn and EndTxn know TRANSACTION_ABORTABLE (KIP-1050)
	abortableOffsetFrom = 4 // AddOffsetsToTxn does
)

// Code is how a code is told in the request's version; 0 for nil.
func Code(req kmsg.Request, code *kerr.Error) int16 {
	fenced, abortable := int16(fencedFrom), int16(abortableFrom)
	switch req.(type) {
	case *kmsg.InitProducerIDRequest:
		fenced = initFencedFrom
	case *kmsg.AddOffsetsToTxnRequest:
		abortable = abortableOffsetFrom
	}
	switch {
	case code == nil:
		return 0
	case code == kerr.RequestTimedOut: // clients ask again, elsewhere if need be
		return kerr.CoordinatorNotAvailable.Code
	case code == kerr.ProducerFenced && req.GetVersion() < fenced:
		return kerr.InvalidProducerEpoch.Code
	case code == kerr.TransactionAbortable && req.GetVersion() < abortable:
		return kerr.InvalidTxnState.Code
	}
	return code.Code
}

// Refuse is the response that says code in every place where clients of the request's version look for it. A node that coordinates
// no transactions refuses with NOT_COORDINATOR, and lists none. Requests are those of Ranges and InitProducerId.
func Refuse(req kmsg.Request, code *kerr.Error) kmsg.Response {
	resp := req.ResponseKind()
	told := Code(req, code)
	switch q := req.(type) {
	case *kmsg.InitProducerIDRequest:
		resp := resp.(*kmsg.InitProducerIDResponse)
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = told, -1, -1
	case *kmsg.AddPartitionsToTxnRequest:
		refuseAdd(q, resp.(*kmsg.AddPartitionsToTxnResponse), told)
	case *kmsg.AddOffsetsToTxnRequest:
		resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode = told
	case *kmsg.EndTxnRequest:
		resp := resp.(*kmsg.EndTxnResponse)
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = told, -1, -1
	case *kmsg.DescribeTransactionsRequest:
		resp := resp.(*kmsg.DescribeTransactionsResponse)
		for _, id := range q.TransactionalIDs {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID, s.ErrorCode, s.ProducerID, s.ProducerEpoch, s.StartTimestamp = id, told, -1, -1, -1
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
	case *kmsg.ListTransactionsRequest:
		if code != kerr.NotCoordinator {
			resp.(*kmsg.ListTransactionsResponse).ErrorCode = told
		}
	default:
		return nil
	}
	return resp
}

// refuseAdd has a code for each partition.
func refuseAdd(q *kmsg.AddPartitionsToTxnRequest, resp *kmsg.AddPartitionsToTxnResponse, code int16) {
	always := func(int) int16 { return code }
	resp.Topics = AddedTopics(q.Topics, always)
	for i := range q.Transactions {
		resp.Transactions = append(resp.Transactions, AddedTransaction(&q.Transactions[i], always))
	}
}

// AddedTopics answers AddPartitionsToTxn before version 4: code gives that of each partition, by its place among all.
func AddedTopics(topics []kmsg.AddPartitionsToTxnRequestTopic, code func(i int) int16) []kmsg.AddPartitionsToTxnResponseTopic {
	var answer []kmsg.AddPartitionsToTxnResponseTopic
	n := 0
	for _, t := range topics {
		topic := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p, ErrorCode: code(n)})
			n++
		}
		answer = append(answer, topic)
	}
	return answer
}

// AddedTransaction answers about one transaction since version 4, as AddedTopics does.
func AddedTransaction(txn *kmsg.AddPartitionsToTxnRequestTransaction, code func(i int) int16) kmsg.AddPartitionsToTxnResponseTransaction {
	result := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: txn.TransactionalID}
	n := 0
	for _, t := range txn.Topics {
		topic := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p, ErrorCode: code(n)})
			n++
		}
		result.Topics = append(result.Topics, topic)
	}
	return result
}
