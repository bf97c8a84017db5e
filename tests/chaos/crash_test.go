//go:build chaos

// Package chaos kills real processes and checks that nothing acknowledged is lost, doubled or out of order.
package chaos

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/devserver"
)

var (
	kills = flag.Int("kills", 50, "how often the server is killed")
	seed  = flag.Uint64("seed", 0, "seed of the moments of the kills; 0 draws one")
)

const (
	topic      = "crash"
	partitions = 3
	writers    = 3
)

// TestAcknowledgedRecordsSurviveKills kills the server at random moments while idempotent producers write with
// acks=all. After each restart every acknowledged record is there once and in order.
func TestAcknowledgedRecordsSurviveKills(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	address := testport.Address(t)
	options := devserver.Options{DataDir: t.TempDir(), Listen: address}
	server := start(t, options)
	createTopic(t, address)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all [writers]*writer
	var running sync.WaitGroup
	for i := range all {
		all[i] = newWriter(t, address, int32(i))
		running.Go(func() { all[i].run(ctx) })
	}
	check := newChecker(t, address)
	for kill := range *kills {
		timer := time.NewTimer(time.Duration(50+random.IntN(450)) * time.Millisecond)
		<-timer.C
		server.Kill()
		var acked [writers]int64
		for i, w := range all {
			acked[i] = w.acked.Load()
		}
		server = start(t, options)
		check.reaches(acked)
		if t.Failed() {
			t.Fatalf("after kill %d (seed %d)", kill+1, *seed)
		}
	}
	stop()
	running.Wait()
	var acked [writers]int64
	total := int64(0)
	for i, w := range all {
		if w.failure != nil {
			t.Errorf("writer %d: %v", i, w.failure)
		}
		acked[i] = w.acked.Load()
		total += acked[i] + 1
	}
	check.reaches(acked)
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("%d kills, %d records acknowledged, all there once and in order", *kills, total)
}

func start(t *testing.T, o devserver.Options) *devserver.Server {
	t.Helper()
	s, err := devserver.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("server log:\n%s", s.Log())
		}
	})
	return s
}

func createTopic(t *testing.T, address string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	segmentBytes := "1048576" // so that kills meet rolls, too
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, map[string]*string{"segment.bytes": &segmentBytes}, topic); err != nil {
		t.Fatal(err)
	}
}

// writer numbers its records from 0 in one partition.
type writer struct {
	id      int32
	cl      *kgo.Client
	acked   atomic.Int64 // the highest acknowledged number; acknowledgements come in order
	failure error
}

func newWriter(t *testing.T, address string, id int32) *writer {
	t.Helper()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(2000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{id: id, cl: cl}
	w.acked.Store(-1)
	t.Cleanup(cl.Close)
	return w
}

// run writes until ctx ends, then waits for what is under way.
func (w *writer) run(ctx context.Context) {
	var mu sync.Mutex
	for n := int64(0); ctx.Err() == nil; n++ {
		value := binary.BigEndian.AppendUint64(nil, uint64(n))
		value = append(value, make([]byte, rand.IntN(400))...)
		record := &kgo.Record{Partition: w.id % partitions, Key: []byte{byte(w.id)}, Value: value}
		w.cl.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && w.failure == nil:
				w.failure = fmt.Errorf("record %d: %w", n, err)
			case err == nil && w.failure == nil:
				w.acked.Store(n)
			}
		})
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := w.cl.Flush(flush); err != nil {
		mu.Lock()
		w.failure = err
		mu.Unlock()
	}
}

// checker reads each partition from the start on and follows the writers' numbers.
type checker struct {
	t    *testing.T
	cl   *kgo.Client
	last [writers]int64
	next [partitions]int64
}

func newChecker(t *testing.T, address string) *checker {
	t.Helper()
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &checker{t: t, cl: cl, last: [writers]int64{-1, -1, -1}}
}

// reaches reads until every writer's acknowledged number was seen.
func (c *checker) reaches(acked [writers]int64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for !c.seen(acked) {
		fetches := c.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("acknowledged up to %v, but only %v can be read", acked, c.last)
		}
		for _, e := range fetches.Errors() {
			c.t.Errorf("partition %d: %v", e.Partition, e.Err)
			return
		}
		fetches.EachRecord(c.record)
	}
}

func (c *checker) seen(acked [writers]int64) bool {
	for i, n := range acked {
		if c.last[i] < n {
			return false
		}
	}
	return true
}

func (c *checker) record(r *kgo.Record) {
	if r.Offset != c.next[r.Partition] {
		c.t.Errorf("partition %d: offset %d after %d", r.Partition, r.Offset, c.next[r.Partition]-1)
	}
	c.next[r.Partition] = r.Offset + 1
	writer, n := r.Key[0], int64(binary.BigEndian.Uint64(r.Value))
	if n != c.last[writer]+1 {
		c.t.Errorf("writer %d: record %d after %d at offset %d of partition %d", writer, n, c.last[writer], r.Offset, r.Partition)
	}
	c.last[writer] = n
}
