package txncheck

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// fake is a coordinator of all transactions.
type fake struct {
	mu       sync.Mutex
	requests [][]string // of transactional ids
	// hold has requests wait for a send to it, unless it is nil.
	hold chan struct{}
	// code is that of partition p of a transaction.
	code func(t *kmsg.AddPartitionsToTxnRequestTransaction, p int32) int16
	// top is the code of the whole response.
	top int16
}

func (f *fake) handle(r *server.Request) {
	q := kmsg.NewPtrAddPartitionsToTxnRequest()
	if err := r.Decode(q); err != nil {
		r.Fail(err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	resp.ErrorCode = f.top
	var ids []string
	for i := range q.Transactions {
		t := &q.Transactions[i]
		ids = append(ids, t.TransactionalID)
		out := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: t.TransactionalID}
		for _, topic := range t.Topics {
			o := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				code := int16(0)
				if f.code != nil {
					code = f.code(t, p)
				}
				o.Partitions = append(o.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p, ErrorCode: code})
			}
			out.Topics = append(out.Topics, o)
		}
		resp.Transactions = append(resp.Transactions, out)
	}
	slices.Sort(ids)
	f.requests = append(f.requests, ids)
	if f.hold != nil {
		hold := f.hold
		r.Go(func() { <-hold; r.Reply(resp) })
		return
	}
	r.Reply(resp)
}

func (f *fake) seen() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// start runs the coordinator, and a checker that finds it.
func (f *fake) start(t *testing.T, cfg Config) *Checker {
	t.Helper()
	router := server.NewRouter()
	router.Register(server.API{Key: int16(kmsg.AddPartitionsToTxn), MinVersion: 4, MaxVersion: 5, Handle: f.handle, Inline: true})
	addr := servertest.Serve(t, router, zap.NewNop())
	c := New(cfg, func() *metadata.Image { return image(t, addr.Port) })
	t.Cleanup(c.Close)
	return c
}

// image is a cluster whose one coordinator of transactions is at the port of this host.
func image(t *testing.T, port int) *metadata.Image {
	t.Helper()
	id := metadata.TopicID{1}
	node := metadata.Node{ID: 3, Incarnation: [16]byte{1}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(port)}}}
	im, _, err := metadata.Empty().Apply(1, []*metadatapb.Record{
		{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: metadata.TransactionStateTopic, TopicId: id[:]}}},
		{Record: &metadatapb.Record_Partition{Partition: (&metadata.Partition{Leader: metadata.NoLeader}).Record(id)}},
		{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}},
		{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: metadata.Shard{Owner: 3, Epoch: 1}.Record(id, 0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// ask begins a question and returns where its answer arrives.
func ask(c *Checker, t Transaction, partitions ...Partition) <-chan []error {
	answer := make(chan []error, 2)
	c.Check(t, partitions, func(errs []error) { answer <- errs })
	return answer
}

func TestEachPartitionHasItsAnswer(t *testing.T) {
	f := &fake{code: func(t *kmsg.AddPartitionsToTxnRequestTransaction, p int32) int16 {
		switch {
		case t.TransactionalID != "t" || t.ProducerID != 7 || t.ProducerEpoch != 2 || t.VerifyOnly:
			return kerr.InvalidRequest.Code
		case p == 1:
			return kerr.InvalidTxnState.Code
		}
		return 0
	}}
	c := f.start(t, Config{})
	got := <-ask(c, Transaction{ID: "t", ProducerID: 7, ProducerEpoch: 2, Add: true}, Partition{"a", 0}, Partition{"b", 1}, Partition{"a", 5})
	if want := []error{nil, kerr.InvalidTxnState, nil}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if want := [][]string{{"t"}}; !slices.EqualFunc(f.seen(), want, slices.Equal) {
		t.Errorf("requests %v", f.seen())
	}
	f.mu.Lock()
	f.top = kerr.ClusterAuthorizationFailed.Code
	f.mu.Unlock()
	if got = <-ask(c, Transaction{ID: "t"}, Partition{"a", 0}); got[0] != kerr.ClusterAuthorizationFailed {
		t.Errorf("refused as a whole: %v", got)
	}
}

// What comes while requests are under way travels together, each transactional id once in a request.
func TestQuestionsTravelTogether(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	c := f.start(t, Config{})
	var answers []<-chan []error
	for i := range parallelRequests {
		answers = append(answers, ask(c, Transaction{ID: fmt.Sprint("first", i)}, Partition{"a", 0}))
	}
	for i := range 100 {
		answers = append(answers, ask(c, Transaction{ID: fmt.Sprint(i % 50)}, Partition{"a", int32(i)}))
	}
	close(f.hold)
	for _, answer := range answers {
		if errs := <-answer; errs[0] != nil {
			t.Error(errs)
		}
	}
	if n := len(f.seen()); n < parallelRequests+2 || n > parallelRequests+4 {
		t.Errorf("%d requests: %v", n, f.seen())
	}
	for _, ids := range f.seen() {
		if len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("a transactional id twice in %v", ids)
		}
	}
}

func TestABusyCoordinatorIsAskedAgainToAdd(t *testing.T) {
	f := &fake{code: func(*kmsg.AddPartitionsToTxnRequestTransaction, int32) int16 { return kerr.ConcurrentTransactions.Code }}
	c := f.start(t, Config{Patience: 500 * time.Millisecond})
	began := time.Now()
	if got := <-ask(c, Transaction{ID: "t", Add: true}, Partition{"a", 0}); got[0] != kerr.ConcurrentTransactions || len(f.seen()) < 2 || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %d requests and %v", got, len(f.seen()), time.Since(began))
	}
	before := len(f.seen())
	if got := <-ask(c, Transaction{ID: "t"}, Partition{"a", 0}); got[0] != kerr.ConcurrentTransactions || len(f.seen()) != before+1 {
		t.Errorf("verifying: %v after %d requests", got, len(f.seen())-before)
	}
}

func TestNobodyAnswers(t *testing.T) {
	c := New(Config{}, func() *metadata.Image { return metadata.Empty() })
	defer c.Close()
	if got := <-ask(c, Transaction{ID: "t"}, Partition{"a", 0}, Partition{"a", 1}); !slices.Equal(got, []error{kerr.CoordinatorNotAvailable, kerr.CoordinatorNotAvailable}) {
		t.Errorf("no coordinator: %v", got)
	}
	f := &fake{hold: make(chan struct{})}
	defer close(f.hold)
	silent := f.start(t, Config{Timeout: 50 * time.Millisecond, MaxOpen: 1})
	first := ask(silent, Transaction{ID: "t"}, Partition{"a", 0})
	if got := <-ask(silent, Transaction{ID: "u"}, Partition{"a", 0}); got[0] != kerr.CoordinatorNotAvailable {
		t.Errorf("too many questions: %v", got)
	}
	if got := <-first; got[0] != kerr.NetworkException {
		t.Errorf("a silent coordinator: %v", got)
	}
}

func TestCloseAnswersWhatIsOpen(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	defer close(f.hold)
	c := f.start(t, Config{Timeout: time.Hour})
	var answers []<-chan []error
	for i := range 2 * parallelRequests {
		answers = append(answers, ask(c, Transaction{ID: fmt.Sprint(i)}, Partition{"a", 0}))
	}
	c.Close()
	for _, answer := range answers {
		select {
		case errs := <-answer:
			if errs[0] == nil {
				t.Error("answered with nothing to say")
			}
		default:
			t.Error("a question is left open")
		}
	}
}
