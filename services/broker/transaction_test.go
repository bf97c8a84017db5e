package broker

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
)

const coordinatorNode = 9

// txnCoordinator stands for a node that coordinates all transactions, and says what a test wants.
type txnCoordinator struct {
	mu    sync.Mutex
	asked []kmsg.AddPartitionsToTxnRequestTransaction
	// answer is the code of each partition.
	answer func(t *kmsg.AddPartitionsToTxnRequestTransaction) *kerr.Error
}

// coordinate starts a coordinator that the broker finds.
func (b *testBroker) coordinate() *txnCoordinator {
	b.t.Helper()
	c := &txnCoordinator{}
	router := server.NewRouter()
	router.Register(server.API{Key: int16(kmsg.AddPartitionsToTxn), MinVersion: 0, MaxVersion: 5, Handle: c.handle})
	addr := servertest.Serve(b.t, router, zaptest.NewLogger(b.t))
	id := b.createTopic(metadata.TransactionStateTopic, 1)
	node := metadata.Node{ID: coordinatorNode, Incarnation: [16]byte{9}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(addr.Port)}}}
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}},
		&metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: metadata.Shard{Owner: coordinatorNode, Epoch: 1}.Record(id, 0)}})
	return c
}

func (c *txnCoordinator) handle(r *server.Request) {
	q := kmsg.NewPtrAddPartitionsToTxnRequest()
	if err := r.Decode(q); err != nil {
		r.Fail(err)
		return
	}
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range q.Transactions {
		t := &q.Transactions[i]
		c.asked = append(c.asked, *t)
		code := int16(0)
		if c.answer != nil {
			if err := c.answer(t); err != nil {
				code = err.Code
			}
		}
		resp.Transactions = append(resp.Transactions, txnapi.AddedTransaction(t, func(int) int16 { return code }))
	}
	r.Reply(resp)
}

// says has the coordinator answer with a code from now on, nil for yes.
func (c *txnCoordinator) says(code *kerr.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = func(*kmsg.AddPartitionsToTxnRequestTransaction) *kerr.Error { return code }
}

// questions are what it was asked since the last call.
func (c *txnCoordinator) questions() []kmsg.AddPartitionsToTxnRequestTransaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// txnBatch is a batch of a value in the transaction of producer 7.
func txnBatch(epoch int16, seq int32, value string) []byte {
	b := record.NewBuilder()
	b.SetProducer(7, epoch, seq)
	b.SetTransactional()
	b.Append(time.Now().UnixMilli(), nil, []byte(value))
	built, err := b.Build(record.None, 0)
	if err != nil {
		panic(err)
	}
	return built
}

// txnProduce is a request of producer 7 for partitions of a topic, one batch each.
func txnProduce(version int16, topic string, id metadata.TopicID, batches ...[]byte) *kmsg.ProduceRequest {
	q := produceRequest(version, -1, topic, id, 0, nil)
	q.TransactionID = kmsg.StringPtr("t")
	q.TimeoutMillis = 10_000
	q.Topics[0].Partitions = nil
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		q.Topics[0].Partitions = append(q.Topics[0].Partitions, p)
	}
	return q
}

// txnErrors are the errors of the partitions of a request that is sent.
func (c *client) txnErrors(q *kmsg.ProduceRequest) (errs []error) {
	c.t.Helper()
	for _, p := range ask[*kmsg.ProduceResponse](c, q).Topics[0].Partitions {
		errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
	}
	return errs
}

func (c *client) wantErrors(q *kmsg.ProduceRequest, want ...error) {
	c.t.Helper()
	if got := c.txnErrors(q); !slices.Equal(got, want) {
		c.t.Errorf("produce v%d: %v, want %v", q.Version, got, want)
	}
}

// end is how producer 7 ends its transaction.
type end struct {
	epoch       int16
	coordinator int32
	commit      bool
	version     int8
}

// mark has markers written to partitions of topics and returns the errors.
func (c *client) mark(e end, topic string, partitions ...int32) (errs []error) {
	c.t.Helper()
	q := kmsg.NewPtrWriteTxnMarkersRequest()
	q.SetVersion(2)
	q.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: 7, ProducerEpoch: e.epoch, Committed: e.commit, CoordinatorEpoch: e.coordinator, TransactionVersion: e.version,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: partitions}},
	}}
	resp := ask[*kmsg.WriteTxnMarkersResponse](c, q)
	for _, p := range resp.Markers[0].Topics[0].Partitions {
		errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
	}
	return errs
}

func (c *client) mustMark(e end, topic string, partitions ...int32) {
	c.t.Helper()
	for _, err := range c.mark(e, topic, partitions...) {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// A partition is asked about before the first write of each transaction, and only then; all that a request begins is one question.
func TestFirstWritesOfATransactionAreVerified(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 3)
	coordinator, c := b.coordinate(), b.dial()
	for _, v := range []struct {
		version int16
		add     bool
	}{{11, false}, {12, true}, {13, true}} {
		epoch := v.version
		c.wantErrors(txnProduce(v.version, "a", id, txnBatch(epoch, 0, "x"), txnBatch(epoch, 0, "y")), nil, nil)
		asked := coordinator.questions()
		if len(asked) != 1 || asked[0].TransactionalID != "t" || asked[0].ProducerID != 7 || asked[0].ProducerEpoch != epoch || asked[0].VerifyOnly == v.add ||
			len(asked[0].Topics) != 1 || asked[0].Topics[0].Topic != "a" || !slices.Equal(asked[0].Topics[0].Partitions, []int32{0, 1}) {
			t.Errorf("v%d: asked %+v", v.version, asked)
		}
		c.wantErrors(txnProduce(v.version, "a", id, txnBatch(epoch, 1, "x"), txnBatch(epoch, 1, "y"), txnBatch(epoch, 0, "z")), nil, nil, nil)
		if asked = coordinator.questions(); len(asked) != 1 || !slices.Equal(asked[0].Topics[0].Partitions, []int32{2}) {
			t.Errorf("v%d: asked %+v", v.version, asked)
		}
		c.wantErrors(txnProduce(v.version, "a", id, txnBatch(epoch, 1, "x")), nil) // once more, as if the answer had been lost
		if asked = coordinator.questions(); len(asked) != 0 {
			t.Errorf("v%d: asked %+v about what is there", v.version, asked)
		}
		c.mustMark(end{epoch: epoch, commit: true}, "a", 0, 1, 2)
	}
	c.wantErrors(produceRequest(11, -1, "a", id, 0, txnBatch(13, 2, "x")), kerr.TransactionalIDAuthorizationFailed)
	other := record.Batch(txnBatch(0, 0, "x"))
	other[record.ProducerIDAt+7] = 8
	q := txnProduce(11, "a", id, txnBatch(13, 2, "x"), withCodec(other, record.None))
	c.wantErrors(q, nil, kerr.InvalidProducerIDMapping)
}

// BL-051: producers hear codes that they know what to do with.
func TestWhatProducersHearOfAFailedVerification(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	c := b.dial()
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 0, "x")), kerr.NotEnoughReplicas) // there is no coordinator at all
	coordinator := b.coordinate()
	for _, test := range []struct{ says, v10, v11, v12 *kerr.Error }{
		{kerr.InvalidTxnState, kerr.InvalidTxnState, kerr.InvalidTxnState, kerr.InvalidTxnState},
		{kerr.TransactionAbortable, kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.TransactionAbortable},
		{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		{kerr.ConcurrentTransactions, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas, kerr.ConcurrentTransactions},
		{kerr.CoordinatorLoadInProgress, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas},
		{kerr.CoordinatorNotAvailable, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas},
		{kerr.NotCoordinator, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas},
	} {
		coordinator.says(test.says)
		for version, want := range map[int16]*kerr.Error{3: test.v10, 10: test.v10, 11: test.v11, 12: test.v12} {
			if got := c.txnErrors(txnProduce(version, "a", id, txnBatch(0, 0, "x")))[0]; got != want {
				t.Errorf("%v in v%d: %v, want %v", test.says, version, got, want)
			}
		}
	}
	coordinator.says(nil)
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 0, "x")), nil)
}

// While the last transaction is being completed the broker asks again, for as long as it may.
func TestAddingWaitsForTheLastTransaction(t *testing.T) {
	b := startBroker(t, "add.partitions.to.txn.retry.backoff.ms", "1", "add.partitions.to.txn.retry.backoff.max.ms", "20000")
	id := b.createTopic("a", 1)
	coordinator, c := b.coordinate(), b.dial()
	busy := 3
	coordinator.answer = func(*kmsg.AddPartitionsToTxnRequestTransaction) *kerr.Error {
		if busy--; busy >= 0 {
			return kerr.ConcurrentTransactions
		}
		return nil
	}
	c.wantErrors(txnProduce(12, "a", id, txnBatch(0, 0, "x")), nil)
	if n := len(coordinator.questions()); n != 4 {
		t.Errorf("asked %d times", n)
	}
}

// A producer's batches keep their order while its first one is verified, and what comes beside them does not overtake.
func TestOrderWhileVerified(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	coordinator, c := b.coordinate(), b.dial()
	held := make(chan struct{})
	coordinator.answer = func(*kmsg.AddPartitionsToTxnRequestTransaction) *kerr.Error { <-held; return nil }
	var requests []*kmsg.ProduceRequest
	var ids []int32
	for seq := range int32(5) {
		requests = append(requests, txnProduce(11, "a", id, txnBatch(0, seq, "x")))
		ids = append(ids, c.send(requests[seq]))
	}
	close(held)
	for seq, q := range requests {
		p := c.receive(q, ids[seq]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != int64(seq) {
			t.Errorf("batch %d: %v at offset %d", seq, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset)
		}
	}
	if n := len(coordinator.questions()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// A batch whose verification failed is sent again with those behind it, which must not come first.
func TestOrderAfterAFailedVerification(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	coordinator, c := b.coordinate(), b.dial()
	coordinator.says(kerr.CoordinatorLoadInProgress)
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 0, "x")), kerr.NotEnoughReplicas)
	coordinator.says(nil)
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 1, "x")), kerr.OutOfOrderSequenceNumber)
	for seq := range int32(2) {
		c.wantErrors(txnProduce(11, "a", id, txnBatch(0, seq, "x")), nil)
	}
}

// The coordinator said yes, and then ended the transaction before the batch was appended.
func TestAMarkerOvertakesAVerifiedWrite(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	coordinator, c, other := b.coordinate(), b.dial(), b.dial()
	asked, marked := make(chan struct{}), make(chan struct{})
	coordinator.answer = func(*kmsg.AddPartitionsToTxnRequestTransaction) *kerr.Error {
		asked <- struct{}{}
		<-marked
		return nil
	}
	q := txnProduce(11, "a", id, txnBatch(0, 0, "x"))
	sent := c.send(q)
	<-asked
	other.mustMark(end{}, "a", 0)
	close(marked)
	if p := c.receive(q, sent).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != kerr.InvalidTxnState.Code {
		t.Errorf("appended: %v", kerr.ErrorForCode(p.ErrorCode))
	}
}

func TestVerificationCanBeTurnedOff(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	coordinator, c := b.coordinate(), b.dial()
	name := "transaction.partition.verification.enable"
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
		ResourceType: int32(metadata.BrokerConfig), Name: name, Value: kmsg.StringPtr("false")}}})
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 0, "x")), nil)
	if asked := coordinator.questions(); len(asked) != 0 {
		t.Errorf("asked %+v", asked)
	}
}

// committed is a fetch of what is committed.
func committed(version int16, maxWaitMs, minBytes int32, parts ...fetchPartition) *kmsg.FetchRequest {
	q := fetchRequest(version, maxWaitMs, minBytes, parts...)
	q.IsolationLevel = 1
	return q
}

// readCommitted is what a client makes of a fetch: the values of transactions that were not aborted.
func readCommitted(t testing.TB, p *kmsg.FetchResponseTopicPartition) (got []string) {
	t.Helper()
	aborted := map[int64]bool{}
	list := p.AbortedTransactions
	for rest := p.RecordBatches; len(rest) > 0; {
		b, next, err := record.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		for len(list) > 0 && list[0].FirstOffset <= b.BaseOffset() {
			aborted[list[0].ProducerID] = true
			list = list[1:]
		}
		switch {
		case b.IsControl():
			delete(aborted, b.ProducerID())
		case !aborted[b.ProducerID()] || !b.IsTransactional():
			got = append(got, values(t, b, 0)...)
		}
		rest = next
	}
	return got
}

// stableLag is the metric of partition 0 of a topic.
func (b *testBroker) stableLag(topic string) float64 {
	b.t.Helper()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(&collector{b.parts, b.logs, b.fetches, b.moves, b.throttles})
	families, err := metrics.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "kafka_cluster_partition_laststableoffsetlag" && m.GetLabel()[1].GetValue() == topic {
				return m.GetGauge().GetValue()
			}
		}
	}
	b.t.Fatal("no such metric")
	return 0
}

func TestReadersOfWhatIsCommitted(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	b.coordinate()
	c, reader := b.dial(), b.dial()
	c.produce("a", 0, batch(record.None, "plain"))
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 0, "aborted")), nil)
	c.mustMark(end{}, "a", 0)
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 1, "first")), nil)
	c.wantErrors(txnProduce(11, "a", id, txnBatch(0, 2, "second")), nil)
	c.produce("a", 0, batch(record.None, "later"))
	latest := func(isolation int8) int64 {
		q := latest("a")
		q.IsolationLevel = isolation
		return ask[*kmsg.ListOffsetsResponse](reader, q).Topics[0].Partitions[0].Offset
	}
	for _, version := range []int16{4, 7, 11, 12} {
		p := &ask[*kmsg.FetchResponse](reader, committed(version, 0, 1, fetchPartition{topic: "a"})).Topics[0].Partitions[0]
		if got := readCommitted(t, p); !slices.Equal(got, []string{"plain"}) || p.LastStableOffset != 3 || p.HighWatermark != 6 || len(p.AbortedTransactions) != 1 {
			t.Errorf("v%d: %q, %+v", version, got, p)
		}
	}
	if got := latest(1); got != 3 {
		t.Errorf("latest committed offset %d", got)
	}
	if got := latest(0); got != 6 {
		t.Errorf("latest offset %d", got)
	}
	if got := b.stableLag("a"); got != 3 {
		t.Errorf("%v records are kept from readers", got)
	}
	// The marker shows more than its own size: a reader who waits for that gets it at once.
	q := committed(12, 20_000, 140, fetchPartition{topic: "a", offset: 3})
	began := time.Now()
	sent := reader.send(q)
	c.mustMark(end{commit: true}, "a", 0)
	p := &reader.receive(q, sent).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if got := readCommitted(t, p); !slices.Equal(got, []string{"first", "second", "later"}) || time.Since(began) > 10*time.Second {
		t.Errorf("after the marker: %q in %v", got, time.Since(began))
	}
	if got := latest(1); got != 7 {
		t.Errorf("latest committed offset %d", got)
	}
}

func TestMarkersThatAreRefused(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	b.createTopic(metadata.ConsumerOffsetsTopic, 1)
	b.coordinate()
	c := b.dial()
	check := func(what string, e end, topic string, want error) {
		t.Helper()
		if got := c.mark(e, topic, 0)[0]; got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("no such topic", end{}, "nowhere", kerr.UnknownTopicOrPartition)
	check("a coordinator's", end{}, metadata.ConsumerOffsetsTopic, kerr.NotLeaderForPartition)
	c.wantErrors(txnProduce(11, "a", id, txnBatch(3, 0, "x")), nil)
	check("an epoch before", end{epoch: 2, coordinator: 5}, "a", kerr.InvalidProducerEpoch)
	check("in time", end{epoch: 3, coordinator: 5, commit: true}, "a", nil)
	check("a coordinator before", end{epoch: 3, coordinator: 4}, "a", kerr.TransactionCoordinatorFenced)
	c.wantErrors(txnProduce(12, "a", id, txnBatch(4, 0, "x")), nil)
	check("late", end{epoch: 4, coordinator: 5, version: 2}, "a", kerr.InvalidProducerEpoch)
	check("in time", end{epoch: 5, coordinator: 5, version: 2}, "a", nil)
	check("again", end{epoch: 5, coordinator: 5, version: 2}, "a", nil)
	c.wantErrors(txnProduce(12, "a", id, txnBatch(4, 1, "zombie")), kerr.InvalidProducerEpoch)

	q := kmsg.NewPtrDescribeProducersRequest()
	q.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: []int32{0}}}
	p := ask[*kmsg.DescribeProducersResponse](c, q).Topics[0].Partitions[0]
	if len(p.ActiveProducers) != 1 || p.ActiveProducers[0].ProducerEpoch != 5 || p.ActiveProducers[0].CoordinatorEpoch != 5 || p.ActiveProducers[0].CurrentTxnStartOffset != -1 {
		t.Errorf("producers %+v", p.ActiveProducers)
	}
}

// A marker that is sent once more, and comes when its producer's next transaction has begun, names the one before by its epoch
// (KIP-890): it ends nothing, and readers of what is committed do not get past the transaction that is open.
func TestAMarkerPastTheNextTransaction(t *testing.T) {
	b := startBroker(t)
	id := b.createTopic("a", 1)
	b.coordinate()
	c := b.dial()
	read := func(when string, stable int64, want ...string) {
		t.Helper()
		p := &ask[*kmsg.FetchResponse](c, committed(12, 0, 1, fetchPartition{topic: "a"})).Topics[0].Partitions[0]
		if got := readCommitted(t, p); !slices.Equal(got, want) || p.LastStableOffset != stable {
			t.Errorf("%s: %q up to %d, want %q up to %d", when, got, p.LastStableOffset, want, stable)
		}
	}
	c.wantErrors(txnProduce(12, "a", id, txnBatch(0, 0, "first")), nil)
	first := end{epoch: 1, coordinator: 1, commit: true, version: 2}
	c.mustMark(first, "a", 0)
	c.wantErrors(txnProduce(12, "a", id, txnBatch(1, 0, "second")), nil)
	if err := c.mark(first, "a", 0)[0]; err != kerr.InvalidProducerEpoch {
		t.Errorf("the marker again: %v", err)
	}
	read("while the second is open", 2, "first")
	c.mustMark(end{epoch: 2, coordinator: 1, version: 2}, "a", 0)
	c.wantErrors(txnProduce(12, "a", id, txnBatch(2, 0, "third")), nil)
	c.mustMark(end{epoch: 3, coordinator: 1, commit: true, version: 2}, "a", 0)
	read("in the end", 6, "first", "third")
}

// TestTransactionsThroughFailover changes the leader between data and marker, with readers of what is committed at a follower.
func TestTransactionsThroughFailover(t *testing.T) {
	c := startMembers(t, 3, "transaction.partition.verification.enable", "false")
	id := c.create("a", 1, "min.insync.replicas", "2")
	c.dial(1).wantErrors(txnProduce(13, "", id, txnBatch(0, 0, "aborted")), nil)
	c.dial(1).mustMark(end{epoch: 1, coordinator: 3, version: 2}, "a", 0)
	c.dial(1).wantErrors(txnProduce(13, "", id, txnBatch(1, 0, "committed")), nil)
	c.awaitCommitted(id, 3, 1, 2, 3)

	follower := c.dial(3)
	wait := committed(17, 20_000, 1, fetchPartition{"", id, 0, 2})
	wait.SessionEpoch = -1
	began := time.Now()
	sent := follower.send(wait)
	c.stop(1)
	c.elect(id, 2, 2, 3)
	leader := c.dial(2)
	leader.wantErrors(txnProduce(13, "", id, txnBatch(0, 1, "zombie")), kerr.InvalidProducerEpoch)
	if err := leader.mark(end{epoch: 2, coordinator: 2, version: 2}, "a", 0)[0]; err != kerr.TransactionCoordinatorFenced {
		t.Errorf("a coordinator from before: %v", err)
	}
	leader.wantErrors(txnProduce(13, "", id, txnBatch(1, 1, "by the next leader")), nil)
	leader.mustMark(end{epoch: 2, coordinator: 3, commit: true, version: 2}, "a", 0)
	got := follower.receive(wait, sent).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	for got.LastStableOffset < 5 && time.Since(began) < 15*time.Second { // the change of leader ends a wait too
		got = follower.fetchOne(wait)
	}
	if read := readCommitted(t, &got); !slices.Equal(read, []string{"committed", "by the next leader"}) {
		t.Errorf("the follower's reader finds %q, %+v", read, got)
	}
	c.start(1)
	c.awaitISR(id, 1, 2, 3)
	c.awaitCommitted(id, 5, 1, 2, 3)
	c.sameLogs("a", 1, 2, 3)
	all := committed(17, 0, 1, fetchPartition{"", id, 0, 0})
	all.SessionEpoch = -1
	for node := range c.members {
		p := c.dial(node).fetchOne(all)
		if read := readCommitted(t, &p); !slices.Equal(read, []string{"committed", "by the next leader"}) || p.LastStableOffset != 5 || len(p.AbortedTransactions) != 1 {
			t.Errorf("node %d: %q, %+v", node, read, p)
		}
	}
}
