//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cauce-stream/cauce/libs/testport"
)

// TestTransactionsEndThoughTheirCoordinatorDies kills a coordinator of transactions right after it has answered EndTxn, and while it has
// to answer it. Its successor takes the same EndTxn once more, as clients send it that have heard nothing, and tells them the same;
// what they committed is read once.
func TestTransactionsEndThoughTheirCoordinatorDies(t *testing.T) {
	c := startCluster(t)
	const second = 22
	address := testport.Address(t)
	start(t, "cauce-txncoord", "--listen", address, "--data-dir", filepath.Join(c.dir, "txncoord-2"),
		"--set", fmt.Sprint("node.id=", second), "--set", "bus.servers=nats://"+c.bus, "--set", "transaction.state.log.replication.factor=1",
		"--set", "transaction.state.log.min.isr=1")
	client, err := kgo.NewClient(kgo.SeedBrokers(append(c.kafka, address)...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	x := &transactions{T: t, cluster: c, client: client}
	admin := kadm.NewClient(client)
	eventually(t, "all nodes are known", func(ctx context.Context) error {
		nodes, err := admin.ListBrokers(ctx)
		if err == nil && len(nodes) != len(roles)+1 {
			err = fmt.Errorf("nodes are %v", nodes.NodeIDs())
		}
		return err
	})
	create(t, admin, "out")

	var ends []*pendingEnd
	for i := range 4 {
		ends = append(ends, x.begin(x.idOf(i, roles[2].id), []int16{4, 5}[i%2]))
	}
	for _, e := range ends[:2] {
		e.answer = x.end(e, true)
	}
	sent := make(chan struct{})
	for _, e := range ends[2:] {
		go func() {
			_, _ = x.send(t.Context(), e, true) // whether it is answered before the kill is left open
			sent <- struct{}{}
		}()
	}
	c.nodes[2].kill(t)
	for range ends[2:] {
		<-sent
	}
	var want []string
	for _, e := range ends {
		again := x.end(e, true)
		if e.answer != nil && (again.ProducerID != e.answer.ProducerID || again.ProducerEpoch != e.answer.ProducerEpoch) {
			t.Errorf("EndTxn v%d of %s: producer %d of epoch %d, and asked again %d of epoch %d", e.version, e.id,
				e.answer.ProducerID, e.answer.ProducerEpoch, again.ProducerID, again.ProducerEpoch)
		}
		if _, err := x.send(t.Context(), e, false); !errors.Is(err, kerr.InvalidTxnState) {
			t.Errorf("an abort of %s after its commit: %v, want INVALID_TXN_STATE", e.id, err)
		}
		next := x.begin(e.id, e.version)
		x.end(next, true)
		want = append(want, e.value, next.value)
	}
	slices.Sort(want)
	if got := x.committed("out", len(want)); !slices.Equal(got, want) {
		t.Errorf("committed are %q, want %q", got, want)
	}
}

// transactions end by requests of their own, which can be sent again.
type transactions struct {
	*testing.T
	cluster *cluster
	client  *kgo.Client
	begun   int
}

// pendingEnd is a transaction with a record in it that is to be ended.
type pendingEnd struct {
	id, value string
	version   int16 // of EndTxn: from 5 on each transaction has an epoch of its own
	producer  int64
	epoch     int16
	answer    *kmsg.EndTxnResponse
}

// idOf is the nth transactional id that a node coordinates.
func (x *transactions) idOf(n, node int) string {
	x.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprint("t", i)
		if x.coordinator(id) != int32(node) {
			continue
		}
		if n--; n < 0 {
			return id
		}
	}
}

func (x *transactions) coordinator(id string) (node int32) {
	x.Helper()
	eventually(x.T, "the coordinator of "+id, func(ctx context.Context) error {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = 1, []string{id}
		res, err := req.RequestWith(ctx, x.client.Broker(roles[0].id))
		if err != nil {
			return err
		}
		node = res.Coordinators[0].NodeID
		return kerr.ErrorForCode(res.Coordinators[0].ErrorCode)
	})
	return node
}

// begin writes a record in a transaction that it leaves open.
func (x *transactions) begin(id string, version int16) *pendingEnd {
	x.Helper()
	x.begun++
	e := &pendingEnd{id: id, version: version, value: fmt.Sprint(id, "-", x.begun)}
	opts := []kgo.Opt{kgo.SeedBrokers(x.cluster.kafka[0]), kgo.TransactionalID(id), kgo.DefaultProduceTopic("out")}
	if version < 5 {
		opts = append(opts, kgo.MaxVersions(beforeKIP890()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(client.Close)
	if err := client.BeginTransaction(); err != nil {
		x.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(x.Context(), startTimeout)
	defer cancel()
	if err := client.ProduceSync(ctx, kgo.StringRecord(e.value)).FirstErr(); err != nil {
		x.Fatal(err)
	}
	if e.producer, e.epoch, err = client.ProducerID(ctx); err != nil {
		x.Fatal(err)
	}
	return e
}

// beforeKIP890 are the versions of a client that adds partitions to its transactions itself.
func beforeKIP890() *kversion.Versions {
	v := kversion.Stable()
	for key, version := range map[kmsg.Key]int16{kmsg.Produce: 11, kmsg.AddPartitionsToTxn: 3, kmsg.EndTxn: 4} {
		v.SetMaxKeyVersion(int16(key), version)
	}
	return v
}

// send ends a transaction at its coordinator.
func (x *transactions) send(ctx context.Context, e *pendingEnd, commit bool) (*kmsg.EndTxnResponse, error) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = e.id, e.producer, e.epoch, commit
	raw, err := x.client.Broker(int(x.coordinator(e.id))).Request(ctx, pinned{req, e.version})
	if err != nil {
		return nil, err
	}
	res := raw.(*kmsg.EndTxnResponse)
	return res, kerr.ErrorForCode(res.ErrorCode)
}

// end ends a transaction, with as many tries as answers that say to try again, or none, call for.
func (x *transactions) end(e *pendingEnd, commit bool) (res *kmsg.EndTxnResponse) {
	x.Helper()
	var refused error
	eventually(x.T, "EndTxn of "+e.id, func(ctx context.Context) (err error) {
		var code *kerr.Error
		if res, err = x.send(ctx, e, commit); errors.As(err, &code) && !code.Retriable {
			refused = err
			return nil
		}
		return err
	})
	if refused != nil {
		x.Fatalf("EndTxn v%d of %s: %v", e.version, e.id, refused)
	}
	return res
}

// committed are the values of a topic that are committed, sorted, once there are so many.
func (x *transactions) committed(topic string, n int) (got []string) {
	x.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(x.cluster.kafka[0]), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		x.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(x.Context(), startTimeout)
	defer cancel()
	for len(got) < n {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			x.Fatalf("%v after %q", err, got)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	return got
}
