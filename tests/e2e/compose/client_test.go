//go:build compose

package compose

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// create makes a topic with the stack's defaults, which must give it that many replicas.
func create(t *testing.T, admin *kadm.Client, topic string, replicas int) {
	t.Helper()
	eventually(t, "creating "+topic, func(ctx context.Context) error {
		responses, err := admin.CreateTopics(ctx, 6, -1, nil, topic)
		if err == nil {
			err = responses[topic].Err
		}
		return err
	})
	topics, err := admin.ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range topics[topic].Partitions {
		if len(p.Replicas) != replicas {
			t.Errorf("partition %d of %s has the replicas %v", p.Partition, topic, p.Replicas)
		}
	}
}

// clientOptions are those of every client of the stack's external listeners, and more. The engine's proxy of a published port accepts
// connections while the container behind it ends, and closes them at once.
func clientOptions(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(external...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.AlwaysRetryEOF()}, more...)
}

func connect(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(clientOptions(options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce has the values from first to before end acknowledged, by all replicas in sync.
func produce(t *testing.T, client *kgo.Client, topic string, first, end int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), healsWithin)
	defer cancel()
	var records []*kgo.Record
	for i := first; i < end; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("producing to %s: %v", topic, err)
	}
}

// consumeInGroup reads and commits with two members until they have the values from first to before end.
func consumeInGroup(t *testing.T, group, topic string, first, end int, options ...kgo.Opt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), healsWithin)
	defer cancel()
	polled := make(chan kgo.Fetches)
	for range 2 {
		member := connect(t, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, options...)...)
		left := make(chan struct{})
		go func() {
			defer close(left)
			for ctx.Err() == nil {
				fetches := member.PollFetches(ctx)
				if err := member.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
					t.Logf("%s: committing: %v", group, err) // the records come again
				}
				select {
				case polled <- fetches:
				case <-ctx.Done():
				}
			}
			member.Close()
		}()
		defer func() { <-left }()
	}
	defer cancel()
	missing := map[string]bool{}
	for i := first; i < end; i++ {
		missing[fmt.Sprint(i)] = true
	}
	for len(missing) > 0 {
		select {
		case fetches := <-polled:
			fetches.EachRecord(func(r *kgo.Record) { delete(missing, string(r.Value)) })
		case <-ctx.Done():
			t.Fatalf("%s: %d values of %s are missing after %v", group, len(missing), topic, healsWithin)
		}
	}
}

// transact commits one transaction and aborts another, and reads what was committed.
func transact(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), healsWithin)
	defer cancel()
	create(t, kadm.NewClient(connect(t)), id, 3)
	producer := connect(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(id))
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := producer.ProduceSync(ctx, &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Append(nil, bool(end))}).FirstErr(); err != nil {
				t.Fatalf("producing in a transaction: %v", err)
			}
		}
		if err := producer.EndTransaction(ctx, end); err != nil {
			t.Fatalf("ending a transaction: %v", err)
		}
	}
	reader := connect(t, kgo.ConsumeTopics(id), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for read := 0; read < 200; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d records of two committed transactions: %v", read, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			if string(r.Value) != "true" {
				t.Errorf("a record of an aborted transaction is read at offset %d", r.Offset)
			}
		})
	}
}
