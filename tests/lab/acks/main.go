// Command acks counts the acknowledged records that are gone when a leader dies in the middle of a load: with acks=1, and with
// acks=all and min.insync.replicas=2; at once, and after half a second in which its network to the followers was cut. It
// runs a cluster of its own.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/lab/internal/numbered"
)

const partitions = 6

// cases are the promises compared.
var cases = []struct {
	name   string
	minISR string
	opts   []kgo.Opt
}{
	{"acks=1", "1", []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}},
	{"acks=all, min.insync.replicas=2", "2", []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite()}},
	{"the same, idempotent", "2", []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks())}},
}

// cutFor is how long a leader goes on without its followers before it dies, where it does.
const cutFor = 500 * time.Millisecond

func main() {
	records := flag.Int("records", 200_000, "how many a run produces")
	runs := flag.Int("runs", 3, "how often each case runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *records, *runs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "acks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, records, runs int) error {
	c, down, err := numbered.Up(ctx)
	if err != nil {
		return err
	}
	defer down()
	ways := []bool{false, true}
	if os.Geteuid() != 0 {
		fmt.Println("no network is cut: it needs root")
		ways = ways[:1]
	}
	fmt.Printf("%-32s %-28s %4s %12s %6s %6s %14s\n", "the producer's promise", "the leader dies", "run", "acknowledged", "lost", "double", "longest pause")
	for i, one := range cases {
		for _, cut := range ways {
			how := "at once"
			if cut {
				how = fmt.Sprintf("cut off for %v before", cutFor)
			}
			for n := range runs {
				topic := fmt.Sprintf("lab-acks-%d-%v-%d", i, cut, n)
				if err := c.CreateTopic(ctx, topic, partitions, map[string]string{"min.insync.replicas": one.minISR}); err != nil {
					return err
				}
				found, err := measure(ctx, c, topic, records, cut, one.opts)
				if err != nil {
					return fmt.Errorf("%s, run %d: %w", one.name, n+1, err)
				}
				pause := "-" // all was acknowledged before
				if found.gap > 0 {
					pause = fmt.Sprint(found.gap.Milliseconds(), " ms")
				}
				fmt.Printf("%-32s %-28s %4d %12d %6d %6d %14s\n", one.name, how, n+1, found.acknowledged, found.lost, found.double, pause)
			}
		}
	}
	return nil
}

// result is what a run found.
type result struct {
	acknowledged, lost, double int
	gap                        time.Duration // the longest between two acknowledgements in partition 0 since the kill
}

// measure has the leader of partition 0 die once half of the records are acknowledged, and counts when it is back.
func measure(ctx context.Context, c *numbered.Cluster, topic string, records int, cut bool, opts []kgo.Opt) (result, error) {
	p, err := c.Leader(ctx, topic)
	if err != nil {
		return result{}, err
	}
	victim, err := c.Process(ctx, p.Leader)
	if err != nil {
		return result{}, err
	}
	cl, err := c.Producer(topic, opts...)
	if err != nil {
		return result{}, err
	}
	defer cl.Close()
	w := writer{half: make(chan struct{}), acknowledged: map[int]bool{}, records: records}
	var killing sync.WaitGroup
	var killErr error
	killing.Go(func() {
		select {
		case <-w.half:
			killErr = die(ctx, c, p, victim, cut, w.killed)
		case <-ctx.Done():
		}
	})
	for n := range records {
		cl.Produce(ctx, numbered.Record(n), func(r *kgo.Record, err error) { w.done(n, r.Partition, err, time.Now()) })
	}
	err = cl.Flush(ctx)
	killing.Wait()
	if err = cmp.Or(err, killErr); err != nil {
		return result{}, err
	}
	if err := comeBack(ctx, c, topic, p.Leader); err != nil {
		return result{}, err
	}
	times, err := c.Read(ctx, topic)
	if err != nil {
		return result{}, err
	}
	return w.compare(times), nil
}

// die ends a leader's process, after its followers have heard nothing of it for a while if they are cut off.
func die(ctx context.Context, c *numbered.Cluster, p kadm.PartitionDetail, victim *os.Process, cut bool, killed func(time.Time)) error {
	if !cut {
		killed(time.Now())
		return victim.Kill()
	}
	var followers []string
	for _, id := range p.Replicas {
		if id != p.Leader {
			followers = append(followers, fmt.Sprint(id))
		}
	}
	if _, err := c.Do(ctx, "partition", fmt.Sprint(p.Leader), strings.Join(followers, ",")); err != nil {
		return err
	}
	timer := time.NewTimer(cutFor)
	defer timer.Stop()
	<-timer.C
	killed(time.Now())
	if err := victim.Kill(); err != nil {
		return err
	}
	_, err := c.Do(ctx, "heal")
	return err
}

// comeBack starts the node that died once another one leads, and waits until all replicas are in sync.
func comeBack(ctx context.Context, c *numbered.Cluster, topic string, id int32) error {
	err := numbered.Await(ctx, "another leader", func(ctx context.Context) error {
		now, err := c.Leader(ctx, topic)
		if err == nil && now.Leader == id {
			err = fmt.Errorf("it is node %d still", id)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := c.On(ctx, "start", id); err != nil {
		return err
	}
	return c.InSync(ctx, topic, 3)
}

// writer notes what is acknowledged.
type writer struct {
	records int
	half    chan struct{} // closed when half of the records are

	mu           sync.Mutex
	acknowledged map[int]bool
	last         time.Time // of an acknowledgement in partition 0 since the kill, or of the kill; zero before
	gap          time.Duration
}

func (w *writer) killed(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = at
}

func (w *writer) done(number int, partition int32, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return // what was given up was promised to nobody
	}
	w.acknowledged[number] = true
	if len(w.acknowledged) == w.records/2 {
		close(w.half)
	}
	if partition == 0 && !w.last.IsZero() {
		w.gap = max(w.gap, now.Sub(w.last))
		w.last = now
	}
}

func (w *writer) compare(times map[int]int) result {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := result{acknowledged: len(w.acknowledged), gap: w.gap}
	for n := range w.acknowledged {
		if times[n] == 0 {
			found.lost++
		}
	}
	for _, t := range times {
		if t > 1 {
			found.double++
		}
	}
	return found
}
