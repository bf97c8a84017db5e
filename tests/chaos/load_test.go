//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/audit"
)

const (
	ordersTopic      = "orders"
	ordersPartitions = 6
	// producePause is between two records of a producer in a partition.
	producePause = 20 * time.Millisecond
	// lateAge is how long a consumer that begins in the middle goes on before another one takes its place.
	lateAge = 4 * time.Second
	// refusalPause is until a consumer that was refused an offset asks again.
	refusalPause = 200 * time.Millisecond
	// flushTimeout is how long producers may take, once all is whole again, to get rid of what they have.
	flushTimeout = time.Minute
)

// retries of clients come sooner than by default, so that they meet more of each fault.
func impatient(seeds []string, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(4 * time.Second),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(20*time.Millisecond<<tries, 500*time.Millisecond) }),
	}, more...)
}

// producers differ in what makes a difference to the broker.
var producers = []struct {
	idempotent    bool
	transactional bool
	opts          []kgo.Opt
}{
	{true, false, []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}},
	{true, false, []kgo.Opt{kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.ProducerLinger(0)}},
	{true, false, []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(4 << 10)}},
	{false, false, []kgo.Opt{kgo.ProducerBatchCompression(kgo.SnappyCompression())}},
	{false, false, []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0)}},
	{false, true, []kgo.Opt{kgo.TransactionalID("chaos"), kgo.TransactionTimeout(txnTimeout)}},
}

// load is what clients do to a cluster, and are told by it.
type load struct {
	bootstrap []string
	stop      context.CancelFunc // of the producers
	stopReads context.CancelFunc
	writing   sync.WaitGroup
	reading   sync.WaitGroup

	mu        sync.Mutex
	histories [ordersPartitions]map[int32]audit.Producer
	views     [ordersPartitions][]*audit.View
	reader    views // of the consumer that reads everything
	acked     [ordersPartitions]pulse
	seen      [ordersPartitions]int64 // the highest offset that a consumer was given
	failures  []string
	refusals  []string // of offsets, see consume
}

// views are what one consumer is given.
type views [ordersPartitions]*audit.View

// pulse notes how long a partition acknowledged nothing.
type pulse struct {
	last    time.Time
	longest time.Duration
	count   int
}

func (p *pulse) beat(now time.Time) {
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
	p.count++
}

// startLoad has producers and consumers begin. They end with the test at the latest.
func startLoad(t *testing.T, bootstrap []string, random *rand.Rand) *load {
	t.Helper()
	l := &load{bootstrap: bootstrap}
	for p := range l.histories {
		l.histories[p] = map[int32]audit.Producer{}
	}
	writeCtx, stop := context.WithCancel(context.Background())
	readCtx, stopReads := context.WithCancel(context.Background())
	l.stop, l.stopReads = stop, stopReads
	t.Cleanup(func() {
		stop()
		stopReads()
		l.writing.Wait()
		l.reading.Wait()
	})
	for i := range producers {
		sizes := rand.New(rand.NewPCG(random.Uint64(), 0))
		write := l.produce
		if producers[i].transactional {
			write = l.transact
		}
		l.writing.Go(func() { write(writeCtx, int32(i), sizes) })
	}
	l.reader = l.newViews("reader")
	l.reading.Go(func() { l.consume(readCtx, l.reader, [ordersPartitions]int64{}) })
	starts := rand.New(rand.NewPCG(random.Uint64(), 0))
	l.reading.Go(func() {
		for n := 1; readCtx.Err() == nil; n++ {
			ctx, cancel := context.WithTimeout(readCtx, lateAge)
			l.consume(ctx, l.newViews(fmt.Sprint("late reader ", n)), l.somewhere(starts))
			cancel()
		}
	})
	return l
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
}

// somewhere is an offset of each partition that was read before.
func (l *load) somewhere(random *rand.Rand) (from [ordersPartitions]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, seen := range l.seen {
		from[p] = random.Int64N(seen + 1)
	}
	return from
}

// produce writes numbered records to all partitions until ctx ends, then waits for what is under way.
func (l *load) produce(ctx context.Context, id int32, sizes *rand.Rand) {
	kind := producers[id]
	opts := impatient(l.bootstrap, append([]kgo.Opt{
		kgo.DefaultProduceTopic(ordersTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ClientID(fmt.Sprint("producer ", id)),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProduceRequestTimeout(5 * time.Second), kgo.MaxBufferedRecords(2000),
		kgo.StopProducerOnDataLossDetected(),
	}, kind.opts...)...)
	if !kind.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		l.fail("producer %d: %v", id, err)
		return
	}
	defer cl.Close()
	ticker := time.NewTicker(producePause)
	defer ticker.Stop()
	for number := int64(0); ctx.Err() == nil; number++ {
		for p := range int32(ordersPartitions) {
			l.send(ctx, cl, p, audit.Record{Producer: id, Number: number}, sizes.IntN(400))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := cl.Flush(flush); err != nil {
		l.fail("producer %d has records left %v after the last fault: %v", id, flushTimeout, err)
	}
}

// transact writes numbered records to all partitions in transactions until ctx ends. Those of a transaction that fails, or is
// aborted, are not sent again, and those that were acknowledged stay where they are all the same. A client that fails is replaced.
func (l *load) transact(ctx context.Context, id int32, sizes *rand.Rand) {
	for number := int64(0); ctx.Err() == nil; pause(producePause) {
		cl, err := kgo.NewClient(impatient(l.bootstrap, append([]kgo.Opt{
			kgo.DefaultProduceTopic(ordersTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ClientID(fmt.Sprint("producer ", id)),
		}, producers[id].opts...)...)...)
		if err != nil {
			l.fail("producer %d: %v", id, err)
			return
		}
		for err == nil && ctx.Err() == nil {
			err = l.transactOnce(ctx, cl, id, &number, sizes)
			pause(producePause)
		}
		cl.Close()
	}
}

func (l *load) transactOnce(ctx context.Context, cl *kgo.Client, id int32, number *int64, sizes *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	for range 1 + sizes.IntN(3) {
		for p := range int32(ordersPartitions) {
			l.send(ctx, cl, p, audit.Record{Producer: id, Number: *number}, sizes.IntN(400))
		}
		*number++
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TransactionEndTry(sizes.IntN(4) > 0))
}

// send produces one record. That it is sent is noted first: it may be there at once.
func (l *load) send(ctx context.Context, cl *kgo.Client, partition int32, r audit.Record, size int) {
	l.mu.Lock()
	history := l.histories[partition][r.Producer]
	kind := producers[r.Producer]
	history.Idempotent, history.Transactional, history.Sent = kind.idempotent, kind.transactional, r.Number+1
	l.histories[partition][r.Producer] = history
	l.mu.Unlock()
	cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: partition, Value: r.Value(size)}, func(sent *kgo.Record, err error) {
		if err != nil {
			// After ErrClientClosed, Flush has failed and said so; a transactional record goes with its transaction.
			if !errors.Is(err, kgo.ErrClientClosed) && !kind.transactional {
				l.fail("partition %d: %v was given up: %v", partition, r, err)
			}
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		history := l.histories[partition][r.Producer]
		history.Acks = append(history.Acks, audit.Ack{Number: r.Number, Offset: sent.Offset})
		l.histories[partition][r.Producer] = history
		l.acked[partition].beat(time.Now())
	})
}

func (l *load) newViews(consumer string) (vs views) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range vs {
		vs[p] = &audit.View{Consumer: consumer}
		l.views[p] = append(l.views[p], vs[p])
	}
	return vs
}

// consume reads all partitions from somewhere on until ctx ends. A broker that was the leader, is cut off and does not know that
// it no longer leads, says of offsets that came after its time that they are out of range, as with Apache Kafka; to a client
// that learned from the same broker who leads it has to believe that. A consumer that is told so goes on from where it is.
func (l *load) consume(ctx context.Context, vs views, from [ordersPartitions]int64) {
	for ctx.Err() == nil {
		refused := l.read(ctx, vs, from)
		if refused == nil {
			return
		}
		l.mu.Lock()
		l.refusals = append(l.refusals, fmt.Sprintf("%s: %v", vs[0].Consumer, refused))
		for p, v := range vs {
			if n := len(v.Sights); n > 0 {
				from[p] = v.Sights[n-1].Offset + 1
			}
		}
		l.mu.Unlock()
		pause(refusalPause)
	}
}

// read reads from somewhere on until ctx ends or an offset is out of range, which it returns.
func (l *load) read(ctx context.Context, vs views, from [ordersPartitions]int64) (refused error) {
	name := vs[0].Consumer
	offsets := map[int32]kgo.Offset{}
	for p, offset := range from {
		offsets[int32(p)] = kgo.NewOffset().At(offset)
	}
	cl, err := kgo.NewClient(impatient(l.bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{ordersTopic: offsets}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(), kgo.FetchMaxWait(300*time.Millisecond), kgo.ClientID(name))...)
	if err != nil {
		l.fail("%s: %v", name, err)
		return nil
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.given(vs, fetches)
		for _, e := range fetches.Errors() {
			if errors.Is(e.Err, kerr.OffsetOutOfRange) {
				return fmt.Errorf("%s: partition %d: %w", time.Now().Format(time.TimeOnly), e.Partition, e.Err)
			}
			// Anything else that a retry could mend the client does by itself.
			l.fail("%s: partition %d: %v", name, e.Partition, e.Err)
			return nil
		}
	}
}

func (l *load) given(vs views, fetches kgo.Fetches) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		identity, err := audit.Marker, error(nil)
		if !r.Attrs.IsControl() {
			identity, err = audit.Parse(r.Value)
		}
		if err != nil {
			l.failures = append(l.failures, fmt.Sprintf("%s: partition %d, offset %d: %v", vs[0].Consumer, r.Partition, r.Offset, err))
			return
		}
		v := vs[r.Partition]
		v.Sights = append(v.Sights, audit.Sight{Offset: r.Offset, Record: identity})
		l.seen[r.Partition] = max(l.seen[r.Partition], r.Offset)
	})
}

// endWrites has producers end, in good order.
func (l *load) endWrites() {
	l.stop()
	l.writing.Wait()
}

// endReads waits until the reader that began with the load has reached the ends, and has all consumers end.
func (l *load) endReads(ctx context.Context, ends [ordersPartitions]int64) error {
	defer func() {
		l.stopReads()
		l.reading.Wait()
	}()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		behind := l.behind(ends)
		if behind == "" {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the reader does not reach the end: %s", behind)
		}
	}
}

// behind tells of the partitions that the reader has not read to the end.
func (l *load) behind(ends [ordersPartitions]int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text []string
	for p, end := range ends {
		if got := int64(len(l.reader[p].Sights)); got < end {
			text = append(text, fmt.Sprintf("it has %d of %d records of partition %d", got, end, p))
		}
	}
	return strings.Join(text, ", ")
}
