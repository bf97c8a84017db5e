package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transactional is a node for transactions, with a topic of three partitions.
func transactional(t *testing.T, pairs ...string) *cluster {
	t.Helper()
	v, cleanUp, err := complete(values(t, t.TempDir(), append([]string{"offsets.topic.num.partitions", "3", "transaction.state.log.num.partitions", "3"}, pairs...)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cleanUp(); err != nil {
			t.Error(err)
		}
	})
	c := start(t, v)
	client := c.client()
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 1, nil, "out"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) producer(id string, options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client := c.client(append([]kgo.Opt{
		kgo.TransactionalID(id), kgo.DefaultProduceTopic("out"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, options...)...)
	c.t.Cleanup(client.Close)
	return client
}

// write writes a record to each partition of the topic in the client's transaction.
func write(ctx context.Context, client *kgo.Client, value string) error {
	var records []*kgo.Record
	for p := range int32(3) {
		records = append(records, &kgo.Record{Partition: p, Value: []byte(value)})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func (c *cluster) transact(client *kgo.Client, value string, commit kgo.TransactionEndTry) {
	c.t.Helper()
	if err := client.BeginTransaction(); err != nil {
		c.t.Fatalf("begin %s: %v", value, err)
	}
	if err := write(c.t.Context(), client, value); err != nil {
		c.t.Fatalf("write %s: %v", value, err)
	}
	if err := client.EndTransaction(c.t.Context(), commit); err != nil {
		c.t.Fatalf("end %s: %v", value, err)
	}
}

// committed are the values that a reader of what is committed finds, until it has seen so many.
func (c *cluster) committed(topic string, n int) []string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), startLimit)
	defer cancel()
	client := c.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	var got []string
	for len(got) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatalf("%v after %q", err, got)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	return got
}

func (c *cluster) expectCommitted(want ...string) {
	c.t.Helper()
	var all []string
	for _, w := range want {
		all = append(all, w, w, w)
	}
	slices.Sort(all)
	if got := c.committed("out", len(all)); !slices.Equal(got, all) {
		c.t.Errorf("committed are %q, want %q", got, all)
	}
}

func TestTransactions(t *testing.T) {
	c := transactional(t)
	p := c.producer("t")
	c.transact(p, "a", kgo.TryCommit)
	c.transact(p, "b", kgo.TryAbort)
	c.transact(p, "c", kgo.TryCommit)
	c.expectCommitted("a", "c")

	client := c.client()
	defer client.Close()
	states, err := kadm.NewClient(client).DescribeTransactions(t.Context(), "t")
	if err != nil || states["t"].State != "CompleteCommit" && states["t"].State != "PrepareCommit" {
		t.Errorf("%+v, %v", states, err)
	}
}

// TestAProducerIsFenced begins a transaction, and another one of the same transactional id.
func TestAProducerIsFenced(t *testing.T) {
	c := transactional(t)
	zombie := c.producer("t")
	if err := zombie.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), zombie, "zombie"); err != nil {
		t.Fatal(err)
	}
	c.transact(c.producer("t"), "a", kgo.TryCommit)
	err := write(t.Context(), zombie, "zombie again")
	if err == nil {
		err = zombie.EndTransaction(t.Context(), kgo.TryCommit)
	}
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("the zombie hears %v", err)
	}
	c.transact(c.producer("u"), "b", kgo.TryCommit)
	c.expectCommitted("a", "b")
}

// TestATransactionThatIsLeftOpenIsAborted leaves a transaction to its timeout: readers get past it, its producer cannot commit it when
// it comes back, and another one of its transactional id can.
func TestATransactionThatIsLeftOpenIsAborted(t *testing.T) {
	c := transactional(t)
	left := c.producer("left", kgo.TransactionTimeout(time.Second))
	if err := left.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), left, "left"); err != nil {
		t.Fatal(err)
	}
	c.transact(c.producer("t"), "a", kgo.TryCommit)
	c.expectCommitted("a")
	err := left.EndTransaction(t.Context(), kgo.TryCommit)
	if !errors.Is(err, kerr.InvalidTxnState) && !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("commit of what was aborted: %v", err)
	}
	c.transact(c.producer("left"), "b", kgo.TryCommit)
	c.expectCommitted("a", "b")
}

// TestTransactionsGoOnAfterARestart ends the node between data and commit.
func TestTransactionsGoOnAfterARestart(t *testing.T) {
	v, cleanUp, err := complete(values(t, t.TempDir(), "offsets.topic.num.partitions", "1", "transaction.state.log.num.partitions", "1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cleanUp(); err != nil {
			t.Error(err)
		}
	}()
	c := start(t, v)
	client := c.client()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 1, nil, "out"); err != nil {
		t.Fatal(err)
	}
	client.Close()
	p := c.producer("t")
	c.transact(p, "a", kgo.TryCommit)
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), p, "open"); err != nil {
		t.Fatal(err)
	}
	c.close()

	c = start(t, v)
	c.transact(c.producer("t"), "b", kgo.TryCommit)
	c.expectCommitted("a", "b")
}

// TestConsumeTransformProduce moves records from one topic to another, once each, although every third transaction is aborted.
func TestConsumeTransformProduce(t *testing.T) {
	const records = 30
	c := transactional(t)
	client := c.client(kgo.DefaultProduceTopic("in"))
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopics(t.Context(), 2, 1, nil, "in", "moved"); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range records {
		value := fmt.Sprintf("%02d", i)
		want = append(want, value)
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(c.Bootstrap), kgo.TransactionalID("t"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	moved := map[string]bool{}
	for round := 0; len(moved) < records; round++ {
		fetches := session.PollRecords(ctx, 4)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		if err := session.Begin(); err != nil {
			t.Fatal(err)
		}
		var out []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) { out = append(out, &kgo.Record{Topic: "moved", Value: r.Value}) })
		if err := session.ProduceSync(ctx, out...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		did, err := session.End(ctx, kgo.TransactionEndTry(round%3 != 2))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range out {
			if did {
				moved[string(r.Value)] = true
			}
		}
	}
	if got := c.committed("moved", records); !slices.Equal(got, want) {
		t.Errorf("moved are %q", got)
	}
}
