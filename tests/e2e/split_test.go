//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestSplitCluster has one process of each program serve a client, takes the
// control plane away, and brings it back.
func TestSplitCluster(t *testing.T) {
	c := startCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.kafka...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)

	eventually(t, "all nodes are known", func(ctx context.Context) error {
		brokers, err := admin.ListBrokers(ctx)
		if err == nil && len(brokers) != len(roles) {
			err = fmt.Errorf("nodes are %v", brokers.NodeIDs())
		}
		return err
	})
	create(t, admin, "orders")
	produce(t, client, "orders", 0, 300)

	c.controller.kill(t)
	produce(t, client, "orders", 300, 600)
	consume(t, c.kafka, "orders", 600)

	c.startController(t)
	create(t, admin, "payments")
	produce(t, client, "payments", 0, 300)
	consume(t, c.kafka, "payments", 300)

	for _, p := range c.nodes {
		p.stop(t)
	}
	c.controller.stop(t)
}

// create makes a topic of three partitions, each of which must be on the only broker.
func create(t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	eventually(t, "creating "+topic, func(ctx context.Context) error {
		responses, err := admin.CreateTopics(ctx, 3, 1, nil, topic)
		if err == nil {
			err = responses[topic].Err
		}
		return err
	})
	details, err := admin.ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for id, p := range details[topic].Partitions {
		if p.Leader != int32(roles[0].id) {
			t.Errorf("partition %d of %s is led by node %d", id, topic, p.Leader)
		}
	}
}

// produce writes records with the values from first to before end, all acknowledged.
func produce(t *testing.T, client *kgo.Client, topic string, first, end int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	var records []*kgo.Record
	for i := first; i < end; i++ {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("producing to %s: %v", topic, err)
	}
}

// consume reads until it has the values from 0 to before count, each once.
func consume(t *testing.T, seeds []string, topic string, count int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	seen := map[string]int{}
	for len(seen) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consuming %s after %d of %d values: %v", topic, len(seen), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	for value, times := range seen {
		if times != 1 {
			t.Errorf("%s has value %s %d times", topic, value, times)
		}
	}
}
