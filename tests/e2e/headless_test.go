//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// headless is longer than any session of a node: nobody may fence anybody, and nothing may end by itself.
var headless = flag.Duration("headless", 15*time.Second, "how long a cluster goes without controllers")

const (
	headlessTopic = "orders"
	headlessGroup = "readers"
	// standstill is what nothing may be without an answer while there are no controllers.
	standstill = 5 * time.Second
)

// TestNothingStopsWithoutControllers kills all controllers, each with nobody to take over. Producers with acks=all, a consumer group
// and its commits go on, clients that come new find everything, and when the controllers are back the cluster is whole.
func TestNothingStopsWithoutControllers(t *testing.T) {
	l := newLab(t, "--controllers", "3", "--brokers", "3", "--groupcoords", "2", "--set", "broker.session.timeout.ms=6000",
		"--set", "min.insync.replicas=2")
	_, bootstrap := l.of("broker")
	w := startWork(t, bootstrap)
	w.goesOn(t, standstill*4) // the group has to form
	ids, _ := l.of("controller")
	for _, id := range ids {
		l.do("kill", fmt.Sprint(id))
	}
	killed := time.Now()
	w.restart()
	for time.Since(killed) < *headless {
		w.goesOn(t, standstill)
	}
	produced, committed, longest := w.sums()
	t.Logf("%v without a controller: %d records acknowledged, %d commits, the longest pause was %v", time.Since(killed).Round(time.Second), produced, committed, longest)
	newcomer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer newcomer.Close()
	produce(t, newcomer, headlessTopic, 0, 100)

	for _, id := range ids {
		l.do("start", "--wait=false", fmt.Sprint(id))
	}
	started := time.Now()
	admin := kadm.NewClient(newcomer)
	eventually(t, "a topic is created", func(ctx context.Context) error {
		created, err := admin.CreateTopic(ctx, 3, 3, nil, "payments")
		return errors.Join(err, created.Err)
	})
	t.Logf("a topic was created %v after the start of the controllers", time.Since(started).Round(time.Millisecond))
	eventually(t, "all replicas are in sync", func(ctx context.Context) error {
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		for _, p := range topics[headlessTopic].Partitions.Sorted() {
			if len(p.ISR) != 3 {
				return fmt.Errorf("partition %d: in sync are %v", p.Partition, p.ISR)
			}
		}
		return nil
	})
	w.goesOn(t, standstill)
	w.end(t)
}

// work is a load on the data plane and a group.
type work struct {
	producer, member *kgo.Client
	stop             context.CancelFunc
	running          sync.WaitGroup

	mu                  sync.Mutex
	produced, committed int
	last                [2]time.Time // of an acknowledgement, and of a commit
	longest             time.Duration
	faults              []error
}

func startWork(t *testing.T, bootstrap []string) *work {
	t.Helper()
	w := &work{}
	var err error
	if w.producer, err = kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(headlessTopic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "creating the topic", func(ctx context.Context) error {
		created, err := kadm.NewClient(w.producer).CreateTopic(ctx, 6, 3, nil, headlessTopic)
		return errors.Join(err, created.Err)
	})
	if w.member, err = kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(headlessTopic), kgo.ConsumerGroup(headlessGroup),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.running.Go(func() { w.produce(ctx) })
	w.running.Go(func() { w.consume(ctx) })
	t.Cleanup(func() {
		stop()
		w.running.Wait()
		w.producer.Close()
		w.member.CloseAllowingRebalance()
	})
	return w
}

func (w *work) produce(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		w.producer.Produce(ctx, &kgo.Record{Value: []byte("work")}, func(_ *kgo.Record, err error) { w.note(ctx, 0, err) })
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (w *work) consume(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := w.member.PollFetches(ctx)
		if err := fetches.Err(); err != nil && ctx.Err() == nil {
			w.note(ctx, 1, err)
		}
		if fetches.NumRecords() > 0 {
			w.note(ctx, 1, w.member.CommitRecords(ctx, fetches.Records()...))
		}
	}
}

// note is told of each acknowledgement (0) and commit (1), and of what failed.
func (w *work) note(ctx context.Context, what int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			w.faults = append(w.faults, err)
		}
		return
	}
	now := time.Now()
	if !w.last[what].IsZero() {
		w.longest = max(w.longest, now.Sub(w.last[what]))
	}
	w.last[what] = now
	if what == 0 {
		w.produced++
	} else {
		w.committed++
	}
}

func (w *work) sums() (produced, committed int, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.produced, w.committed, w.longest
}

// restart begins to count anew.
func (w *work) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.produced, w.committed, w.longest = 0, 0, 0
}

// goesOn wants ten more acknowledgements and commits within a time.
func (w *work) goesOn(t *testing.T, within time.Duration) {
	t.Helper()
	produced, committed, _ := w.sums()
	timer := time.NewTimer(within)
	defer timer.Stop()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		p, c, _ := w.sums()
		if p >= produced+10 && c >= committed+10 {
			return
		}
		select {
		case <-ticker.C:
		case <-timer.C:
			t.Fatalf("within %v %d records were acknowledged and %d commits made", within, p-produced, c-committed)
		}
	}
}

// end has the load end, of which nothing may have failed.
func (w *work) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.running.Wait()
	for _, err := range w.faults {
		t.Error(err)
	}
}
