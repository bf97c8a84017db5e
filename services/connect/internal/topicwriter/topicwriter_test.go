package topicwriter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topic    = "connect-configs"
	patience = 30 * time.Second
)

func newCluster(t *testing.T, partitions int32) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func newWriter(t *testing.T, cluster *kfake.Cluster, id string, timeout time.Duration) *Writer {
	t.Helper()
	w := New(Config{Topic: topic, TransactionalID: id, Timeout: timeout, Options: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}})
	t.Cleanup(w.Close)
	return w
}

func (w *Writer) mustWrite(t *testing.T, pairs ...string) {
	t.Helper()
	if err := w.Write(t.Context(), records(pairs...)); err != nil {
		t.Fatal(err)
	}
}

func records(pairs ...string) []Record {
	var all []Record
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		r := Record{Key: []byte(key)}
		if found {
			r.Value = []byte(value)
		}
		all = append(all, r)
	}
	return all
}

// read are the first n committed records as partition:key=value, or all that come before the timeout.
func read(t *testing.T, cluster *kfake.Cluster, n int) []string {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []string
	for len(all) < n {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records: %q", len(all), n, all)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			text := fmt.Sprintf("%d:%s", r.Partition, r.Key)
			if r.Value != nil {
				text += "=" + string(r.Value)
			}
			all = append(all, text)
		})
	}
	return all
}

// TestWhereRecordsGo has keys go to the partitions that Kafka's own producer chooses (murmur2), tombstones too.
func TestWhereRecordsGo(t *testing.T) {
	cluster := newCluster(t, 5)
	w := newWriter(t, cluster, "", patience)
	w.mustWrite(t)
	w.mustWrite(t, "status-connector-a=1", "status-connector-b=1")
	w.mustWrite(t, "status-connector-a")
	got := read(t, cluster, 3)
	slices.Sort(got)
	if want := []string{"1:status-connector-a", "1:status-connector-a=1", "3:status-connector-b=1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTransactionsAreWhole has nothing of a Write be read that has failed.
func TestTransactionsAreWhole(t *testing.T) {
	cluster := newCluster(t, 1)
	w := newWriter(t, cluster, "leader", patience)
	if err := w.Write(t.Context(), records("a=0")); !errors.Is(err, ErrUnclaimed) {
		t.Fatalf("written before the claim: %v", err)
	}
	if err := w.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mustWrite(t, "a=1", "b=1")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionalIDAuthorizationFailed, Count: 1})
	err := w.Write(t.Context(), records("a=2", "b=2"))
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || errors.Is(err, ErrFenced) {
		t.Fatalf("%v", err)
	}
	// Somebody else may have claimed the topic since: to go on without a claim would end them.
	if err := w.Write(t.Context(), records("a=3")); !errors.Is(err, ErrUnclaimed) {
		t.Fatalf("written after a failure without a claim: %v", err)
	}
	if err := w.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mustWrite(t, "a=4")
	if got, want := read(t, cluster, 3), []string{"0:a=1", "0:b=1", "0:a=4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFencing has the last who claims be the only one that writes.
func TestFencing(t *testing.T) {
	cluster := newCluster(t, 1)
	first, second := newWriter(t, cluster, "leader", patience), newWriter(t, cluster, "leader", patience)
	for _, w := range []*Writer{first, second} {
		if err := w.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Write(t.Context(), records("a=first")); !errors.Is(err, ErrFenced) {
		t.Fatalf("%v", err)
	}
	if err := first.Write(t.Context(), records("a=first")); !errors.Is(err, ErrUnclaimed) {
		t.Fatalf("%v", err)
	}
	second.mustWrite(t, "a=second")
	if err := first.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.mustWrite(t, "a=again")
	if err := second.Write(t.Context(), records("a=second")); !errors.Is(err, ErrFenced) {
		t.Fatalf("%v", err)
	}
	if got, want := read(t, cluster, 2), []string{"0:a=second", "0:a=again"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBrokersThatDoNotAnswer has a Write, and those that wait behind it, end with their time.
func TestBrokersThatDoNotAnswer(t *testing.T) {
	for _, id := range []string{"", "leader"} {
		cluster := newCluster(t, 1)
		w := newWriter(t, cluster, id, patience)
		if err := w.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mustWrite(t, "a=1")
		silent, asked := make(chan struct{}), make(chan struct{}, 100)
		cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			asked <- struct{}{}
			cluster.SleepControl(func() { <-silent })
			return nil, errors.New("the connection is lost"), true
		})
		ctx, cancel := context.WithCancel(t.Context())
		wrote := make(chan error, 1)
		go func() { wrote <- w.Write(ctx, records("a=2")) }()
		<-asked
		waits, end := context.WithCancel(t.Context())
		end()
		if err := w.Write(waits, records("a=3")); !errors.Is(err, context.Canceled) {
			t.Errorf("behind another: %v", err)
		}
		begun := time.Now()
		cancel()
		if err := <-wrote; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("id %q: it took %v", id, took)
		}
		close(silent)
		if err := w.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mustWrite(t, "a=4")
		if got := read(t, cluster, 2); !slices.Contains(got, "0:a=1") || !slices.Contains(got, "0:a=4") {
			t.Errorf("%q", got)
		}
	}
}

// TestTimeout has a Write end that nobody else ends.
func TestTimeout(t *testing.T) {
	cluster := newCluster(t, 1)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	w := newWriter(t, cluster, "", 200*time.Millisecond)
	if err := w.Write(t.Context(), records("a=1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
