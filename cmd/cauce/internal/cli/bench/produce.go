package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
	producing "github.com/cauce-stream/cauce/cmd/cauce/internal/cli/produce"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

const produceLong = `Write records and measure throughput and the time to acknowledgement.

With --rate the latency of a record counts from when it was due, not from when the client got
round to sending it: a server that stalls delays every record that was due meanwhile, and all of
those delays count. Without --rate records are sent as fast as the client's buffer takes them, and
latency counts from there: it then says more about the buffer than about the server.

Values carry the time they were due, for cauce bench consume --latency.`

type production struct {
	session    *session.Session
	tuning     producing.Tuning
	extent     extent
	size       int
	payload    string
	rate       float64
	partition  int32
	partitions int32
	buffer     int
}

func produce(s *session.Session) *cobra.Command {
	p := &production{session: s}
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write records and measure throughput and latency",
		Long:  produceLong,
		Example: `  cauce bench produce load --create 6 --duration 30s
  cauce bench produce load --rate 2000 --size 1000 --warmup 5s --duration 30s -o json`,
		Args:              cobra.ExactArgs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
		ValidArgsFunction: s.CompleteTopics(1),
	}
	flags := cmd.Flags()
	p.extent.bind(flags)
	p.tuning.Bind(flags)
	flags.IntVarP(&p.size, "size", "s", 1000, "`BYTES` of each value")
	flags.StringVar(&p.payload, "payload", "random", "what values consist of: `random|text|zero`")
	flags.Float64Var(&p.rate, "rate", 0, "write `N` records a second (0: as many as possible)")
	flags.Int32VarP(&p.partition, "partition", "p", -1, "write to partition `N` only (-1: all)")
	flags.Int32Var(&p.partitions, "create", 0, "create the topic with `N` partitions if it does not exist")
	flags.IntVar(&p.buffer, "buffer", 10_000, "`N` records in flight at most")
	return cmd
}

func (p *production) run(ctx context.Context, topic string) error {
	payload, options, err := p.prepare(topic)
	if err != nil {
		return err
	}
	client, err := p.session.Connect(ctx, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.ensure(ctx, client, topic); err != nil {
		return err
	}
	load := newLoad(client, payload, p)
	stopWatching := p.extent.watch(load.meter, p.session.Err)
	interrupted := load.run(ctx)
	flushed := load.flush(p.session.Timeout)
	stopWatching()
	from := "call"
	if p.rate > 0 {
		from = "due"
	}
	return errors.Join(print(p.session, load.meter.result(topic, from)), load.failed(topic), flushed, interrupted)
}

func (p *production) prepare(topic string) (*payload, []kgo.Opt, error) {
	switch {
	case p.size < 0 || p.size > 100<<20:
		return nil, nil, exit.Usagef("--size %d: must be 0 to 100 MiB", p.size)
	case p.rate < 0:
		return nil, nil, exit.Usagef("--rate %v: must be positive", p.rate)
	case p.buffer < 1:
		return nil, nil, exit.Usagef("--buffer %d: must be positive", p.buffer)
	}
	if err := p.extent.check(); err != nil {
		return nil, nil, err
	}
	if p.extent.records == 0 && p.extent.duration == 0 {
		p.extent.duration = p.extent.warmup + 10*time.Second
	}
	payload, err := newPayload(p.payload, p.size)
	if err != nil {
		return nil, nil, err
	}
	options, err := p.tuning.Options()
	if err != nil {
		return nil, nil, err
	}
	if p.partition >= 0 {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return payload, append(options, kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(p.buffer+1),
		kgo.RecordDeliveryTimeout(p.session.Timeout), kgo.AllowIdempotentProduceCancellation()), nil
}

// ensure makes sure that the topic and partition exist.
func (p *production) ensure(ctx context.Context, client *kgo.Client, topic string) error {
	ctx, cancel := p.session.Bounded(ctx)
	defer cancel()
	admin := kadm.NewClient(client)
	if p.partitions > 0 {
		answer, err := admin.CreateTopic(ctx, p.partitions, -1, nil, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return topicFault(topic, err, answer.ErrMessage)
		}
		if err == nil {
			return nil
		}
	}
	details, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return topicFault(topic, err, "")
	}
	if err := details[topic].Err; err != nil {
		return topicFault(topic, err, "")
	}
	if _, ok := details[topic].Partitions[p.partition]; p.partition >= 0 && !ok {
		return position.NoPartition(topic, p.partition, len(details[topic].Partitions))
	}
	return nil
}

// load sends records and measures how long their acknowledgement takes.
type load struct {
	client    *kgo.Client
	payload   *payload
	meter     *meter
	extent    extent
	rate      float64
	partition int32
	spare     sync.Pool     // of *kgo.Record whose value may be written over
	inFlight  chan struct{} // holds one element for each record not yet acknowledged

	mu    sync.Mutex
	fault error
	stop  context.CancelFunc
}

func newLoad(client *kgo.Client, payload *payload, p *production) *load {
	l := &load{client: client, payload: payload, meter: newMeter(true), extent: p.extent, rate: p.rate, partition: p.partition, inFlight: make(chan struct{}, p.buffer)}
	l.spare.New = func() any { return new(kgo.Record) }
	return l
}

// run sends until all is sent, the time is over, a record failed, or ctx ends; only the last is an error.
func (l *load) run(parent context.Context) error {
	ctx, cancel := l.extent.within(parent)
	defer cancel()
	l.stop = cancel
	start := time.Now()
	for n := int64(0); l.extent.records == 0 || n < l.extent.records; n++ {
		var due time.Time
		if l.rate > 0 {
			due = start.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
			sleep(ctx, time.Until(due))
		}
		select {
		case l.inFlight <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		if l.rate == 0 {
			due = time.Now()
		}
		l.send(due)
	}
	return parent.Err()
}

// sleep returns after d, or earlier when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *load) send(due time.Time) {
	record := l.spare.Get().(*kgo.Record)
	*record = kgo.Record{Value: l.payload.fill(record.Value), Partition: l.partition}
	stamp(record.Value, due)
	// What is in flight when the run ends still counts, so its context does not end with the run.
	l.client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
		<-l.inFlight
		if err != nil {
			l.fail(err)
		} else {
			l.meter.add(len(record.Value), time.Since(due))
		}
		l.spare.Put(record)
	})
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		l.fault = err
		l.stop()
	}
}

func (l *load) failed(topic string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return nil
	}
	return topicFault(topic, l.fault, "")
}

func (l *load) flush(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.client.Flush(ctx)
}
