//go:build compose

package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/audit"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	loadPartitions = 6
	loadProducers  = 3
	loadMembers    = 2 // of the group that reads what is written
	// loadPause is between two records of a producer in a partition.
	loadPause = 10 * time.Millisecond
	// loadEndsWithin is how long clients may take to be done once the stack is left alone.
	loadEndsWithin = 2 * time.Minute
)

// load is what clients do to the stack and are told by it, while it is restarted under them.
type load struct {
	topic    string
	stop     context.CancelFunc // of those who write
	stopAll  context.CancelFunc
	writing  sync.WaitGroup
	reading  sync.WaitGroup
	mu       sync.Mutex
	written  [loadPartitions]map[int32]audit.Producer
	view     [loadPartitions]audit.View // of one consumer that reads everything
	grouped  [loadPartitions]map[int64]bool
	pauses   pauses
	commits  int // of transactions
	aborts   int
	failures []string
}

// pauses are how long the clients had to wait for the longest.
type pauses struct {
	acknowledged [loadPartitions]time.Time
	longest      time.Duration
}

func (p *pauses) beat(partition int32) {
	now := time.Now()
	if last := p.acknowledged[partition]; !last.IsZero() {
		p.longest = max(p.longest, now.Sub(last))
	}
	p.acknowledged[partition] = now
}

// startLoad has clients of every kind begin on topics of their own.
func startLoad(t *testing.T, topic string) *load {
	t.Helper()
	admin := kadm.NewClient(connect(t))
	create(t, admin, topic, 3)
	create(t, admin, topic+"-transactions", 3)
	l := &load{topic: topic}
	for p := range l.written {
		l.written[p], l.grouped[p] = map[int32]audit.Producer{}, map[int64]bool{}
	}
	writeCtx, stop := context.WithCancel(t.Context())
	ctx, stopAll := context.WithCancel(t.Context())
	l.stop, l.stopAll = stop, stopAll
	t.Cleanup(func() {
		stop()
		stopAll()
		l.writing.Wait()
		l.reading.Wait()
	})
	for id := range int32(loadProducers) {
		l.writing.Go(func() { l.produce(writeCtx, id) })
	}
	l.writing.Go(func() { l.transact(writeCtx) })
	l.reading.Go(func() { l.read(ctx) })
	for range loadMembers {
		l.reading.Go(func() { l.readInGroup(ctx) })
	}
	return l
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// client connects as [connect] does, for a goroutine that the load owns.
func (l *load) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(clientOptions(options...)...)
	if err != nil {
		l.fail("%v", err)
		return nil
	}
	return client
}

// produce numbers records in each partition until ctx ends, and gives none up. The last producer is not idempotent.
func (l *load) produce(ctx context.Context, id int32) {
	options := []kgo.Opt{kgo.DefaultProduceTopic(l.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.StopProducerOnDataLossDetected(),
		kgo.ClientID(fmt.Sprint("load-producer-", id))}
	idempotent := id < loadProducers-1
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client := l.client(options...)
	if client == nil {
		return
	}
	defer client.Close()
	ticker := time.NewTicker(loadPause)
	defer ticker.Stop()
	for number := int64(0); ctx.Err() == nil; number++ {
		for p := range int32(loadPartitions) {
			l.send(ctx, client, p, audit.Record{Producer: id, Number: number}, idempotent)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadEndsWithin)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		l.fail("producer %d has records left after %v: %v", id, loadEndsWithin, err)
	}
}

func (l *load) send(ctx context.Context, client *kgo.Client, partition int32, r audit.Record, idempotent bool) {
	l.mu.Lock()
	history := l.written[partition][r.Producer]
	history.Idempotent, history.Sent = idempotent, r.Number+1
	l.written[partition][r.Producer] = history
	l.mu.Unlock()
	client.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: partition, Value: r.Value(100)}, func(sent *kgo.Record, err error) {
		if err != nil {
			if !errors.Is(err, kgo.ErrClientClosed) { // then Flush has failed, and said so
				l.fail("partition %d: %v was given up: %v", partition, r, err)
			}
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		history := l.written[partition][r.Producer]
		history.Acks = append(history.Acks, audit.Ack{Number: r.Number, Offset: sent.Offset})
		l.written[partition][r.Producer] = history
		l.pauses.beat(partition)
	})
}

// transact writes a record to each partition in one transaction after the other. Each second one ends as told; the value says
// which transaction it is.
func (l *load) transact(ctx context.Context) {
	client := l.client(kgo.DefaultProduceTopic(l.topic+"-transactions"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(l.topic+"-load"), kgo.TransactionTimeout(loadEndsWithin), kgo.ClientID("load-transactions"))
	if client == nil {
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		if err := l.transaction(context.WithoutCancel(ctx), client); err != nil {
			l.fail("after %d transactions: %v", l.commits+l.aborts, err)
			return
		}
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
		}
	}
}

// transaction commits one transaction or, each tenth time, aborts it.
func (l *load) transaction(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, loadEndsWithin)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	end, word := kgo.TryCommit, "committed"
	if l.commits%10 == 9 && l.aborts <= l.commits/10 {
		end, word = kgo.TryAbort, "aborted"
	}
	var records []*kgo.Record
	for p := range int32(loadPartitions) {
		records = append(records, &kgo.Record{Partition: p, Value: fmt.Appendf(nil, "%s %d", word, l.commits)})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("producing in a transaction: %w", err)
	}
	if err := client.EndTransaction(ctx, end); err != nil {
		return fmt.Errorf("ending a transaction: %w", err)
	}
	if end == kgo.TryCommit {
		l.commits++
	} else {
		l.aborts++
	}
	return nil
}

// read has one consumer read everything from the beginning on.
func (l *load) read(ctx context.Context) {
	client := l.client(kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("load-reader"))
	if client == nil {
		return
	}
	defer client.Close()
	for p := range l.view {
		l.view[p].Consumer = "load-reader"
	}
	l.poll(ctx, client, func(r *kgo.Record) {
		identity, err := audit.Parse(r.Value)
		if err != nil {
			l.failures = append(l.failures, fmt.Sprintf("partition %d, offset %d: %v", r.Partition, r.Offset, err))
		}
		view := &l.view[r.Partition]
		view.Sights = append(view.Sights, audit.Sight{Offset: r.Offset, Record: identity})
	})
}

// readInGroup is a member of a group that reads everything at least once, and commits.
func (l *load) readInGroup(ctx context.Context) {
	client := l.client(kgo.ConsumeTopics(l.topic), kgo.ConsumerGroup(l.topic+"-readers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(time.Second), kgo.ClientID("load-member"))
	if client == nil {
		return
	}
	defer client.Close()
	l.poll(ctx, client, func(r *kgo.Record) { l.grouped[r.Partition][r.Offset] = true })
}

// poll hands records on until ctx ends. What a retry could mend the client does by itself; all else is a failure.
func (l *load) poll(ctx context.Context, client *kgo.Client, given func(*kgo.Record)) {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, e := range fetches.Errors() {
			if !kerr.IsRetriable(e.Err) {
				l.fail("reading partition %d of %q: %v", e.Partition, e.Topic, e.Err)
			}
		}
		l.mu.Lock()
		fetches.EachRecord(given)
		l.mu.Unlock()
	}
}

// end has the clients end, and holds what they were told against what the replicas have.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.writing.Wait()
	admin := kadm.NewClient(connect(t))
	whole(t, admin, l.topic)
	ends := l.ends(t, admin)
	if err := retry.Until(t.Context(), loadEndsWithin, func(context.Context) error { return l.behind(ends) }); err != nil {
		t.Error(err)
	}
	l.stopAll()
	l.reading.Wait()
	for _, f := range l.failures {
		t.Error(f)
	}
	acknowledged := 0
	for p := range int32(loadPartitions) {
		for _, producer := range l.written[p] {
			acknowledged += len(producer.Acks)
		}
		l.audit(t, p, ends[p])
	}
	l.checkTransactions(t)
	if acknowledged == 0 || l.commits == 0 {
		t.Errorf("%d records were acknowledged and %d transactions committed: that proves nothing", acknowledged, l.commits)
	}
	t.Logf("%d records acknowledged, the longest that a partition acknowledged nothing is %v; %d transactions committed, %d aborted",
		acknowledged, l.pauses.longest.Round(time.Millisecond), l.commits, l.aborts)
}

// ends are the high watermarks, when nobody writes any more.
func (l *load) ends(t *testing.T, admin *kadm.Client) (ends [loadPartitions]int64) {
	t.Helper()
	eventually(t, "the ends of the partitions", func(ctx context.Context) error {
		listed, err := admin.ListEndOffsets(ctx, l.topic)
		if err = cmp.Or(err, listed.Error()); err != nil {
			return err
		}
		for p, offset := range listed[l.topic] {
			ends[p] = offset.Offset
		}
		return nil
	})
	return ends
}

// behind tells what readers have not read yet.
func (l *load) behind(ends [loadPartitions]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var missing []error
	for p, end := range ends {
		if n := int64(len(l.view[p].Sights)); n < end {
			missing = append(missing, fmt.Errorf("the reader has %d of %d records of partition %d", n, end, p))
		}
		if n := int64(len(l.grouped[p])); n < end {
			missing = append(missing, fmt.Errorf("the group has %d of %d records of partition %d", n, end, p))
		}
	}
	return errors.Join(missing...)
}

// audit compares the partition on all brokers with what clients were told.
func (l *load) audit(t *testing.T, p int32, end int64) {
	t.Helper()
	partition := audit.Partition{Topic: l.topic, ID: p, Producers: l.written[p], Views: []audit.View{l.view[p]}, HighWatermark: end}
	eventually(t, fmt.Sprintf("the replicas of partition %d have the same", p), func(context.Context) error {
		partition.Replicas = nil
		for id := range int32(3) {
			partition.Replicas = append(partition.Replicas, replica(t, id+1, fmt.Sprint(l.topic, "-", p)))
		}
		for _, r := range partition.Replicas {
			if len(r.Data) != len(partition.Replicas[0].Data) {
				return fmt.Errorf("brokers 1 and %d have %d and %d bytes", r.Node, len(partition.Replicas[0].Data), len(r.Data))
			}
		}
		return nil
	})
	for _, f := range audit.Check(partition) {
		t.Errorf("partition %d: %s, %d times:\n\t%s", p, f.Kind, f.Count, strings.Join(f.Examples, "\n\t"))
	}
}

// replica copies a partition's segments out of a broker's volume.
func replica(t *testing.T, node int32, folder string) audit.Replica {
	t.Helper()
	copied := filepath.Join(t.TempDir(), folder)
	compose(t, "cp", fmt.Sprintf("broker-%d:/data/log/%s", node, folder), copied)
	segments, err := filepath.Glob(filepath.Join(copied, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("broker %d has no segments of %s: %v", node, folder, err)
	}
	slices.Sort(segments)
	r := audit.Replica{Node: node}
	for _, segment := range segments {
		content, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		r.Data = append(r.Data, content...)
	}
	return r
}

// checkTransactions reads what is committed: each transaction once in each partition, in order, and nothing of an aborted one.
func (l *load) checkTransactions(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loadEndsWithin)
	defer cancel()
	reader := connect(t, kgo.ConsumeTopics(l.topic+"-transactions"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var next [loadPartitions]int
	for left := l.commits * loadPartitions; left > 0; {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Errorf("%d records of committed transactions are missing: %v", left, err)
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			left--
			if want := fmt.Sprint("committed ", next[r.Partition]); string(r.Value) != want {
				t.Errorf("partition %d, offset %d: %q instead of %q", r.Partition, r.Offset, r.Value, want)
			}
			next[r.Partition]++
		})
	}
}

// whole waits until every partition of the topic has a leader and three replicas in sync.
func whole(t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	eventually(t, "the stack is whole", func(ctx context.Context) error {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		if n := len(topics[topic].Partitions); n != loadPartitions {
			return fmt.Errorf("%s has %d partitions", topic, n)
		}
		for _, p := range topics[topic].Partitions.Sorted() {
			if p.Err != nil || p.Leader < 0 || len(p.ISR) != 3 {
				return fmt.Errorf("partition %d is led by %d, in sync are %v (%v)", p.Partition, p.Leader, p.ISR, p.Err)
			}
		}
		return nil
	})
}
