package dev

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestTwoOfAGroupCopyExactlyOnce has two consumers of a group copy a topic in transactions, every third of which is aborted: each record
// arrives once, and the committed offsets are the ends of the input. Clients of both protocols do: those that add partitions to their
// transactions themselves, and those that leave it to the brokers and get a new epoch with each transaction (KIP-890).
func TestTwoOfAGroupCopyExactlyOnce(t *testing.T) {
	old := kversion.Stable()
	for key, version := range map[kmsg.Key]int16{kmsg.Produce: 11, kmsg.AddPartitionsToTxn: 3, kmsg.AddOffsetsToTxn: 3, kmsg.EndTxn: 4, kmsg.TxnOffsetCommit: 4} {
		old.SetMaxKeyVersion(int16(key), version)
	}
	t.Run("v1", func(t *testing.T) { copyExactlyOnce(t, kgo.MaxVersions(old)) })
	t.Run("v2", func(t *testing.T) { copyExactlyOnce(t) })
}

func copyExactlyOnce(t *testing.T, options ...kgo.Opt) {
	v, cleanUp, err := complete(values(t, t.TempDir(), "group.initial.rebalance.delay.ms", "0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cleanUp(); err != nil {
			t.Error(err)
		}
	})
	c := start(t, v)
	const n = 600
	c.createTopic("out", 3, nil)
	c.createTopic("in", 4, nil)
	c.produce("in", n, func(i int) []byte { return fmt.Appendf(nil, "%d", i) }, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	ctx, stop := context.WithTimeout(t.Context(), startLimit)
	defer stop()
	copied, ended := make(chan int, n), make(chan error, 2)
	for worker := range 2 {
		session, err := kgo.NewGroupTransactSession(append(options, kgo.SeedBrokers(c.Bootstrap), kgo.MetadataMinAge(10*time.Millisecond),
			kgo.TransactionalID(fmt.Sprint("copy-", worker)), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"), kgo.DefaultProduceTopic("out"),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(500),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		go func() { ended <- copyRecords(ctx, session, copied) }()
	}
	for total := 0; total < n; {
		select {
		case more := <-copied:
			total += more
		case err := <-ended:
			t.Fatalf("after %d records: %v", total, err)
		case <-ctx.Done():
			t.Fatalf("%d of %d records are copied", total, n)
		}
	}
	stop()
	for range 2 {
		<-ended
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	slices.Sort(want)
	if got := c.allCommitted("out"); !slices.Equal(got, want) {
		t.Errorf("%d records are copied, %d are to be: %q", len(got), n, got)
	}
	c.wantOffsetsAtEnd("g", "in")
}

// copyRecords copies until ctx ends, and tells how many records each transaction had that was committed.
func copyRecords(ctx context.Context, session *kgo.GroupTransactSession, copied chan<- int) error {
	for round := 0; ; round++ {
		fetches := session.PollRecords(ctx, 50)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) { session.Produce(ctx, &kgo.Record{Value: r.Value}, nil) })
		committed, err := session.End(ctx, kgo.TransactionEndTry(round%3 != 2))
		if err != nil {
			return err
		}
		if committed {
			copied <- fetches.NumRecords()
		}
	}
}

// allCommitted are the values below the last stable offsets, as a reader of what is committed finds them.
func (c *cluster) allCommitted(topic string) (got []string) {
	c.t.Helper()
	client := c.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer client.Close()
	stable, err := kadm.NewClient(client).ListCommittedOffsets(c.t.Context(), topic)
	if err != nil {
		c.t.Fatal(err)
	}
	missing := map[int32]int64{}
	stable.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			missing[o.Partition] = o.Offset
		}
	})
	ctx, cancel := context.WithTimeout(c.t.Context(), startLimit)
	defer cancel()
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatalf("%v after %q, missing %v", err, got, missing)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				got = append(got, string(r.Value))
			}
			if r.Offset+1 >= missing[r.Partition] {
				delete(missing, r.Partition)
			}
		})
	}
	slices.Sort(got)
	return got
}

func (c *cluster) wantOffsetsAtEnd(group, topic string) {
	c.t.Helper()
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	offsets, err := admin.FetchOffsets(c.t.Context(), group)
	if err != nil {
		c.t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(c.t.Context(), topic)
	if err != nil {
		c.t.Fatal(err)
	}
	got, want := map[int32]int64{}, map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) { got[o.Partition] = o.At })
	ends.Each(func(o kadm.ListedOffset) { want[o.Partition] = o.Offset })
	if !maps.Equal(got, want) {
		c.t.Errorf("committed offsets %v, the topic ends at %v", got, want)
	}
}
