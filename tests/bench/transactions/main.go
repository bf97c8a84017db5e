// Command transactions puts the load of transactional producers on a server: each writes a record to each of some partitions,
// commits, and begins again. It prints how many transactions a second there were, how long commits took, and the processor time of
// the server for each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/measure"
)

const warmUp = 5 * time.Second

// options are the load's.
type options struct {
	bootstrap  string
	pid        int
	producers  int
	partitions int
	bytes      int
	every      time.Duration
	duration   time.Duration
	plain      bool
	topic      string
}

func main() {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "127.0.0.1:9092", "HOST:PORT of the server")
	flag.IntVar(&o.pid, "pid", 0, "process id of the server, whose processor time is read")
	flag.IntVar(&o.producers, "producers", 8, "producers at the same time")
	flag.IntVar(&o.partitions, "partitions", 1, "partitions in each transaction")
	flag.IntVar(&o.bytes, "bytes", 100, "bytes of each record")
	flag.DurationVar(&o.every, "every", 0, "time between two transactions of a producer; 0 begins the next at once")
	flag.DurationVar(&o.duration, "duration", 30*time.Second, "how long is measured")
	flag.BoolVar(&o.plain, "plain", false, "write the same records without transactions, by idempotent producers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "transactions:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) error {
	if min(o.producers, o.partitions, o.bytes) < 1 || o.duration <= 0 || o.every < 0 {
		return errors.New("-producers, -partitions and -bytes must be at least 1, -duration longer than 0")
	}
	if err := o.create(ctx); err != nil {
		return err
	}
	clients := make([]*kgo.Client, o.producers)
	for i := range clients {
		var err error
		if clients[i], err = o.client(i); err != nil {
			return err
		}
		defer clients[i].Close()
	}
	if _, _, err := o.load(ctx, clients, warmUp); err != nil {
		return err
	}
	before, err := measure.CPU(o.pid)
	if err != nil {
		return err
	}
	whole, commits, err := o.load(ctx, clients, o.duration)
	if err != nil {
		return err
	}
	after, err := measure.CPU(o.pid)
	if err != nil {
		return err
	}
	fmt.Printf("%-24s %s\n", fmt.Sprintf("%d producers, %d partitions", o.producers, o.partitions), measure.Title())
	whole.Print(fmt.Sprintf("%-24s", "transaction"), o.duration)
	if !o.plain {
		commits.Print(fmt.Sprintf("%-24s", "commit"), o.duration)
	}
	if n := whole.Count(); o.pid != 0 && n > 0 {
		fmt.Printf("server: %.2f cores, %.2f ms for each\n", (after-before)/o.duration.Seconds(), (after-before)*1e3/float64(n))
	}
	return nil
}

func (o *options) create(ctx context.Context) error {
	o.topic = fmt.Sprintf("bench-transactions-%d", o.partitions)
	client, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, int32(o.partitions), 1, nil, o.topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

func (o *options) client(i int) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.bootstrap), kgo.DefaultProduceTopic(o.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
	}
	if !o.plain {
		opts = append(opts, kgo.TransactionalID(fmt.Sprintf("%s-%d", o.topic, i)))
	}
	return kgo.NewClient(opts...)
}

// load has every producer go on for a while. The samples are of whole transactions and of commits alone.
func (o *options) load(ctx context.Context, clients []*kgo.Client, length time.Duration) (whole, commits *measure.Sample, err error) {
	whole, commits = &measure.Sample{}, &measure.Sample{}
	end := time.Now().Add(length)
	failed := make([]error, len(clients))
	var producing sync.WaitGroup
	for i, client := range clients {
		producing.Go(func() {
			for due := time.Now(); due.Before(end) && ctx.Err() == nil; {
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
					return
				}
				if failed[i] = o.transact(ctx, client, whole, commits); failed[i] != nil {
					return
				}
				if due = due.Add(o.every); o.every == 0 {
					due = time.Now()
				}
			}
		})
	}
	producing.Wait()
	return whole, commits, errors.Join(append(failed, ctx.Err())...)
}

func (o *options) transact(ctx context.Context, client *kgo.Client, whole, commits *measure.Sample) error {
	records := make([]*kgo.Record, o.partitions)
	for p := range records {
		records[p] = &kgo.Record{Partition: int32(p), Value: make([]byte, o.bytes)}
	}
	began := time.Now()
	if o.plain {
		err := client.ProduceSync(ctx, records...).FirstErr()
		whole.Add(time.Since(began), err)
		return err
	}
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	written := time.Now()
	err := client.EndTransaction(ctx, kgo.TryCommit)
	whole.Add(time.Since(began), err)
	commits.Add(time.Since(written), err)
	return err
}
