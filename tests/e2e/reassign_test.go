//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPartitionMovesUnderLoad moves a partition to two other brokers while a producer with acks=all goes on, replaces its
// leader on request, and takes back a move to a broker that is not there. Nothing is lost, the new replicas have the same
// bytes, and the old ones are gone.
func TestPartitionMovesUnderLoad(t *testing.T) {
	b := startBrokers(t, 4)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka...), kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0), kgo.RecordRetries(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	createOrders(t, admin, 2)
	var before kadm.PartitionDetail
	eventually(t, "every node knows orders", func(ctx context.Context) (err error) {
		before, err = partition(ctx, admin, "orders")
		return err
	})
	var others []int32
	for id := int32(1); id <= 4; id++ {
		if !slices.Contains(before.Replicas, id) {
			others = append(others, id)
		}
	}

	var produced atomic.Int64
	producing, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- produceUntil(producing, client, &produced) }()
	more := func() {
		t.Helper()
		from := produced.Load()
		eventually(t, "more records", func(context.Context) error {
			if n := produced.Load(); n <= from+100 {
				return fmt.Errorf("%d records", n)
			}
			return nil
		})
	}
	more()
	mustMove(t, admin, others)
	settled(t, admin, others, others[0])
	more()
	for _, id := range before.Replicas {
		eventually(t, "the old replica is deleted", func(context.Context) error {
			if _, err := os.Stat(filepath.Join(b.folder(id), "orders-0")); !os.IsNotExist(err) {
				return fmt.Errorf("node %d still has it: %v", id, err)
			}
			return nil
		})
	}

	// Another order of the same replicas: the leader stays until it is asked for.
	turned := []int32{others[1], others[0]}
	mustMove(t, admin, turned)
	settled(t, admin, turned, others[0])
	if got := electOne(t, admin, kadm.ElectPreferredReplica); got != nil {
		t.Errorf("electing the preferred replica: %v", got)
	}
	settled(t, admin, turned, turned[0])
	if got := electOne(t, admin, kadm.ElectPreferredReplica); got != kerr.ElectionNotNeeded {
		t.Errorf("electing it again: %v", got)
	}
	if got := electOne(t, admin, kadm.ElectLiveReplica); got != kerr.ElectionNotNeeded {
		t.Errorf("electing anyone: %v", got)
	}
	more()

	// A move to a broker that is down waits, and is taken back.
	down := before.Replicas[0]
	b.processes[down].stop(t)
	mustMove(t, admin, []int32{down, turned[0]})
	listed, err := admin.ListPartitionReassignments(t.Context(), theOne())
	if err != nil {
		t.Fatal(err)
	}
	r, ok := listed["orders"][0]
	if !ok || !slices.Equal(r.AddingReplicas, []int32{down}) || !slices.Equal(r.RemovingReplicas, []int32{turned[1]}) {
		t.Errorf("listed: %+v", listed)
	}
	more()
	mustMove(t, admin, nil)
	settled(t, admin, turned, turned[0])
	if err := move(t, admin, nil); err != kerr.NoReassignmentInProgress {
		t.Errorf("taking it back again: %v", err)
	}
	more()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	consume(t, b.kafka, "orders", int(produced.Load()))
	want := b.segments(t, turned[0], "orders-0")
	eventually(t, "replicas have the same bytes", func(context.Context) error {
		if got := b.segments(t, turned[1], "orders-0"); !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes, and %d where it is led", len(got), len(want))
		}
		return nil
	})
	for id, p := range b.processes {
		if id != down {
			p.stop(t)
		}
	}
	b.controller.stop(t)
}

// produceUntil produces values to orders in order, a few at a time, and counts those that are acknowledged.
func produceUntil(ctx context.Context, client *kgo.Client, acknowledged *atomic.Int64) error {
	for i := int64(0); ctx.Err() == nil; i += 50 {
		var records []*kgo.Record
		for n := i; n < i+50; n++ {
			records = append(records, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, n)})
		}
		if err := client.ProduceSync(context.WithoutCancel(ctx), records...).FirstErr(); err != nil {
			return err
		}
		acknowledged.Store(i + 50)
	}
	return nil
}

// move reassigns partition 0 of orders, nil for back.
func move(t *testing.T, admin *kadm.Client, to []int32) error {
	t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	if to == nil {
		req.CancelAssign("orders", 0)
	} else {
		req.Assign("orders", 0, to)
	}
	answers, err := admin.AlterPartitionAssignments(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return answers["orders"][0].Err
}

func mustMove(t *testing.T, admin *kadm.Client, to []int32) {
	t.Helper()
	if err := move(t, admin, to); err != nil {
		t.Fatalf("moving to %v: %v", to, err)
	}
}

// settled waits until the partition is where it is to be, all in sync.
func settled(t *testing.T, admin *kadm.Client, replicas []int32, leader int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("replicas %v, leader %d", replicas, leader), func(ctx context.Context) error {
		p, err := partition(ctx, admin, "orders")
		if err == nil && (!slices.Equal(p.Replicas, replicas) || len(p.ISR) != len(replicas) || p.Leader != leader) {
			err = fmt.Errorf("replicas %v, in sync %v, leader %d", p.Replicas, p.ISR, p.Leader)
		}
		return err
	})
}

func theOne() kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add("orders", 0)
	return set
}

func electOne(t *testing.T, admin *kadm.Client, how kadm.ElectLeadersHow) error {
	t.Helper()
	answers, err := admin.ElectLeaders(t.Context(), how, theOne())
	if err != nil {
		t.Fatal(err)
	}
	return answers["orders"][0].Err
}
