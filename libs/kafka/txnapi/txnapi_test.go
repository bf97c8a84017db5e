package txnapi

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests has a request of each API that names two things where it can.
func requests() []kmsg.Request {
	id := "t"
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a", Partitions: []int32{1, 2}}}
	add.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{
		{TransactionalID: "t", Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "a", Partitions: []int32{1, 2}}}},
		{TransactionalID: "u", Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "b", Partitions: []int32{0}}}},
	}
	return []kmsg.Request{
		&kmsg.InitProducerIDRequest{TransactionalID: &id}, add, &kmsg.AddOffsetsToTxnRequest{}, &kmsg.EndTxnRequest{},
		&kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"t", "u"}}, &kmsg.ListTransactionsRequest{},
	}
}

// codes are all codes of a response, each with its place.
func codes(resp kmsg.Response) []string {
	var list []string
	add := func(place string, code int16) { list = append(list, fmt.Sprintf("%s=%d", place, code)) }
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		add(fmt.Sprint(r.ProducerID, "/", r.ProducerEpoch), r.ErrorCode)
	case *kmsg.AddPartitionsToTxnResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(fmt.Sprint(t.Topic, p.Partition), p.ErrorCode)
			}
		}
		for _, txn := range r.Transactions {
			for _, t := range txn.Topics {
				for _, p := range t.Partitions {
					add(fmt.Sprint(txn.TransactionalID, ":", t.Topic, p.Partition), p.ErrorCode)
				}
			}
		}
	case *kmsg.AddOffsetsToTxnResponse:
		add("", r.ErrorCode)
	case *kmsg.EndTxnResponse:
		add(fmt.Sprint(r.ProducerID, "/", r.ProducerEpoch), r.ErrorCode)
	case *kmsg.DescribeTransactionsResponse:
		for _, s := range r.TransactionStates {
			add(s.TransactionalID, s.ErrorCode)
		}
	case *kmsg.ListTransactionsResponse:
		add("", r.ErrorCode)
	}
	return list
}

func TestRefusals(t *testing.T) {
	want := map[int16][]string{
		22: {"-1/-1=%d"},
		24: {"a1=%d", "a2=%d", "t:a1=%d", "t:a2=%d", "u:b0=%d"},
		25: {"=%d"},
		26: {"-1/-1=%d"},
		65: {"t=%d", "u=%d"},
		66: {"=%d"},
	}
	for _, q := range requests() {
		q.SetVersion(q.MaxVersion())
		for _, code := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
			told := code.Code
			if q.Key() == 66 && code == kerr.NotCoordinator {
				told = 0
			}
			var all []string
			for _, w := range want[q.Key()] {
				all = append(all, fmt.Sprintf(w, told))
			}
			if got := codes(Refuse(q, code)); !slices.Equal(got, all) {
				t.Errorf("key %d: %q, want %q", q.Key(), got, all)
			}
		}
	}
	if Refuse(&kmsg.MetadataRequest{}, kerr.NotCoordinator) != nil {
		t.Error("a request of another kind is refused")
	}
}

// TestCodesOfOldClients: a code that a client does not know would be fatal to it.
func TestCodesOfOldClients(t *testing.T) {
	tests := []struct {
		req     kmsg.Request
		version int16
		code    *kerr.Error
		want    *kerr.Error
	}{
		{&kmsg.InitProducerIDRequest{}, 3, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
		{&kmsg.InitProducerIDRequest{}, 4, kerr.ProducerFenced, kerr.ProducerFenced},
		{&kmsg.AddPartitionsToTxnRequest{}, 1, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
		{&kmsg.AddPartitionsToTxnRequest{}, 2, kerr.ProducerFenced, kerr.ProducerFenced},
		{&kmsg.AddPartitionsToTxnRequest{}, 4, kerr.TransactionAbortable, kerr.InvalidTxnState},
		{&kmsg.AddPartitionsToTxnRequest{}, 5, kerr.TransactionAbortable, kerr.TransactionAbortable},
		{&kmsg.AddOffsetsToTxnRequest{}, 3, kerr.TransactionAbortable, kerr.InvalidTxnState},
		{&kmsg.AddOffsetsToTxnRequest{}, 4, kerr.TransactionAbortable, kerr.TransactionAbortable},
		{&kmsg.EndTxnRequest{}, 1, kerr.ProducerFenced, kerr.InvalidProducerEpoch},
		{&kmsg.EndTxnRequest{}, 5, kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
	}
	for _, test := range tests {
		test.req.SetVersion(test.version)
		if got := Code(test.req, test.code); got != test.want.Code {
			t.Errorf("%T v%d: %v is told as %d, want %v", test.req, test.version, test.code, got, test.want)
		}
	}
	if Code(&kmsg.EndTxnRequest{}, nil) != 0 {
		t.Error("no error has a code")
	}
}

func TestRanges(t *testing.T) {
	for _, r := range Ranges() {
		if q := kmsg.RequestForKey(r.Key); r.Max != q.MaxVersion() || r.Min != 0 {
			t.Errorf("%+v", r)
		}
	}
}
