package sinktask

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

const (
	// minRetryDelay is the first pause before a batch is put again that the connector has asked no pause for; each further one is twice as long, up
	// to the interval of commits.
	minRetryDelay = 300 * time.Millisecond
	// leastFlushInterval keeps a task whose offset.flush.interval.ms is 0 from doing nothing but commits.
	leastFlushInterval = 10 * time.Millisecond
	// minWait has what is there be read however often a connector wants to be called without records.
	minWait = time.Millisecond
	// defaultRebalanceTimeout is how long the group waits for a task that puts a batch, as max.poll.interval.ms is by default.
	defaultRebalanceTimeout = 5 * time.Minute
	// lastCommitTimeout bounds the commit of partitions that are given up, and what is written to the dead letter queue by a task that fails.
	lastCommitTimeout = 30 * time.Second
	// leaveTimeout is how long a task waits for the coordinator to hear that it leaves the group, which would notice by itself, too, but after 45 s. A
	// broker hears it once it has answered a join under way, which it holds for the 3 s of group.initial.rebalance.delay.ms when a group is new.
	leaveTimeout = 4 * time.Second
)

// run is what a task works with. All but what mu guards is touched by the task's goroutine while it does not wait, and by the client's callbacks
// while it does.
type run struct {
	*Task
	ctx context.Context // Run's
	// converting ends with ctx, or when the task is to stop.
	converting context.Context
	sink       *remote.SinkTask
	client     *kgo.Client
	// disconnected ends whatever the client still waits for.
	disconnected context.CancelFunc
	ready        chan struct{} // closed when the first wait begins, and the callbacks may
	begins       sync.Once

	positions map[plugin.TopicPartition]*position
	batch     batch
	held      held

	nextCommit, nextPut time.Time // nextPut is zero for none
	commitAsked         bool
	paused              bool
	seeks               map[plugin.TopicPartition]int64
	// committing says that a commit is under way, whose outcome comes over committed.
	committing bool
	committed  chan outcome
	// fault is what has failed in a callback; over says that callbacks have nothing to do any more.
	fault error
	over  bool

	mu sync.Mutex
	// begin are offsets at which partitions that are being assigned begin, other than those that are committed.
	begin map[plugin.TopicPartition]int64
}

// outcome is what came of a commit.
type outcome struct {
	offsets map[plugin.TopicPartition]end
	err     error
}

func newRun(ctx context.Context, t *Task, sink *remote.SinkTask) *run {
	r := &run{Task: t, ctx: ctx, sink: sink, ready: make(chan struct{}), positions: map[plugin.TopicPartition]*position{}, held: held{maxBytes: maxHeldBytes},
		committed: make(chan outcome, 1), begin: map[plugin.TopicPartition]int64{}, seeks: map[plugin.TopicPartition]int64{}}
	r.batch.reset()
	return r
}

// connect joins the group.
func (r *run) connect() error {
	given, err := r.deps.Client(Consumer)
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	opts := []kgo.Opt{kgo.ClientID(fmt.Sprintf("connector-consumer-%s-%d", r.config.Connector, r.config.Number)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RebalanceTimeout(defaultRebalanceTimeout)}
	opts = append(opts, given...)
	if r.consumer.assignor != nil {
		opts = append(opts, kgo.Balancers(r.consumer.assignor), kgo.ServerSideBalancer())
	}
	connected, disconnected := context.WithCancel(context.WithoutCancel(r.ctx))
	opts = append(opts, kgo.WithContext(connected))
	opts = append(opts, r.subscription.opts()...)
	opts = append(opts, kgo.ConsumerGroup(r.consumer.group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(r.adjust),
		kgo.OnPartitionsAssigned(r.onAssigned), kgo.OnPartitionsRevoked(r.onRevoked), kgo.OnPartitionsLost(r.onLost))
	if r.client, err = kgo.NewClient(opts...); err != nil {
		disconnected()
		return fmt.Errorf("consumer: %w", err)
	}
	r.disconnected = disconnected
	return nil
}

// disconnect leaves the group.
func (r *run) disconnect() {
	r.over = true
	r.begins.Do(func() { close(r.ready) })
	if r.client == nil {
		return
	}
	r.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaveTimeout)
	defer cancel()
	if err := r.client.LeaveGroupContext(ctx); err != nil {
		r.deps.Log.Warn("the coordinator of the group could not be told that the task leaves it", zap.Error(err))
	}
	r.disconnected() // or closing would wait for requests that joined the group as well
	r.client.Close()
	r.deps.Metrics.Partitions.Store(0)
}

// work reads, puts and commits until it is asked to stop, and returns nil then.
func (r *run) work() error {
	defer r.watch()()
	r.nextCommit = time.Now().Add(r.flushInterval)
	for {
		until := r.nextCommit
		if !r.nextPut.IsZero() && r.nextPut.Before(until) {
			until = r.nextPut
		}
		fetches := r.await(until)
		stop, paused := r.signals.heard()
		if err := r.broken(fetches); err != nil || stop {
			return err
		}
		if paused && !r.paused {
			r.commitAsked = true
		}
		r.paused = paused
		if err := r.step(fetches); err != nil {
			return err
		}
	}
}

// watch wakes the task when the connector's ends, and ends its waiting for a record when it is to stop, until the func that it returns is called.
func (r *run) watch() (end func()) {
	var cancel context.CancelFunc
	r.converting, cancel = context.WithCancel(r.ctx)
	worked, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		stopped := r.signals.stopped
		for {
			select {
			case <-r.sink.Done():
				r.signals.look()
				return
			case <-stopped:
				cancel()
				stopped = nil
			case <-worked:
				return
			}
		}
	}()
	return func() {
		close(worked)
		<-watched
		cancel()
	}
}

// await waits for records, for a signal or until a time. Meanwhile partitions may come and go; when it has returned, they may not.
func (r *run) await(until time.Time) kgo.Fetches {
	ctx, cancel := context.WithTimeout(r.ctx, max(time.Until(until), minWait))
	defer cancel()
	r.signals.listen(cancel)
	idle := r.batch.pending() || r.paused
	r.begins.Do(func() { close(r.ready) })
	r.client.AllowRebalance()
	if idle {
		<-ctx.Done()
	}
	for {
		// It returns nothing when what was there is gone again: only something, if only the end of ctx, holds rebalances back.
		if fetches := r.client.PollRecords(ctx, r.consumer.maxRecords); len(fetches) > 0 {
			return fetches
		}
	}
}

// broken says why the task cannot go on.
func (r *run) broken(fetches kgo.Fetches) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.fault != nil {
		return r.fault
	}
	if r.ended() {
		return r.sink.Err()
	}
	var fatal error
	fetches.EachError(func(topic string, p int32, err error) {
		switch {
		case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		case passes(err):
			r.deps.Log.Warn("cannot read at the moment", zap.String("topic", topic), zap.Int32("partition", p), zap.Error(err))
		case fatal == nil && topic == "":
			fatal = fmt.Errorf("consumer group %q: %w", r.consumer.group, err)
		case fatal == nil:
			fatal = fmt.Errorf("read %s-%d: %w", topic, p, err)
		}
	})
	return fatal
}

// passes says of an error of the client that it goes on by itself.
func passes(err error) bool {
	var lost *kgo.ErrDataLoss
	var session *kgo.ErrGroupSession
	var kafka *kerr.Error
	switch {
	case kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.As(err, &lost):
		return true
	case !errors.As(err, &session):
		return false
	case !errors.As(err, &kafka):
		return true
	}
	switch kafka.Code {
	case kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code, kerr.RebalanceInProgress.Code, kerr.FencedMemberEpoch.Code, kerr.StaleMemberEpoch.Code:
		return true
	}
	return false
}

// step puts what was read, or the batch that could not be put before, or nothing if it is time for that, and commits when it is time.
func (r *run) step(fetches kgo.Fetches) error {
	if !r.batch.pending() {
		if err := r.take(fetches); err != nil {
			return err
		}
	}
	r.seek()
	now := time.Now()
	due := r.commitAsked || !now.Before(r.nextCommit)
	if !r.nextPut.IsZero() {
		due = !now.Before(r.nextPut)
	}
	if due || len(r.batch.ends) > 0 && !r.batch.pending() {
		if err := r.put(); err != nil {
			return err
		}
	}
	if now = time.Now(); r.commitAsked || !now.Before(r.nextCommit) {
		r.nextCommit, r.commitAsked = now.Add(r.flushInterval), false
		return r.commit()
	}
	return nil
}

// put puts the batch. What is left out of it is done with, too, once the rest is put.
func (r *run) put() error {
	r.nextPut = time.Time{}
	ctx, ended := r.putSpan()
	begun := time.Now()
	wishes, err := r.sink.Put(ctx, r.batch.records)
	ended(err)
	if err := r.heed(wishes); err != nil {
		return err
	}
	var fault *remote.Fault
	switch {
	case err == nil:
		r.count(time.Since(begun))
		for p, e := range r.batch.ends {
			if at := r.positions[p]; at != nil {
				at.consumed, at.epoch = e.offset, e.epoch
			}
		}
		r.countActive()
		r.batch.reset()
	case errors.As(err, &fault) && fault.Retriable:
		r.retry(fault)
	default:
		return fmt.Errorf("put %d records: %w", len(r.batch.records), err)
	}
	r.seek()
	return nil
}

func (r *run) count(took time.Duration) {
	m := r.deps.Metrics
	m.Sent.Add(int64(len(r.batch.records)))
	m.Batches.Add(1)
	m.PutNanos.Add(took.Nanoseconds())
	if took.Nanoseconds() > m.MaxPutNanos.Load() {
		m.MaxPutNanos.Store(took.Nanoseconds())
	}
}

// countActive counts what was put and is not committed.
func (r *run) countActive() {
	var active int64
	for _, at := range r.positions {
		if at.consumed != unknown {
			active += at.consumed - at.committed
		}
	}
	r.deps.Metrics.Active.Store(active)
}

// retry has the same batch put again later.
func (r *run) retry(fault *remote.Fault) {
	delay := r.flushInterval
	if r.batch.attempts < 16 {
		delay = min(delay, minRetryDelay<<r.batch.attempts)
	}
	r.batch.attempts++
	if r.nextPut.IsZero() {
		r.nextPut = time.Now().Add(delay)
	}
	r.deps.Log.Warn("the connector could not put a batch, which is put again", zap.Int("records", len(r.batch.records)), zap.Int("attempts", r.batch.attempts), zap.Error(fault))
}

// heed does what the connector has asked for besides its answer; seek does the rest. The error is a record's that is not tolerated.
func (r *run) heed(w remote.Wishes) error {
	if pause := r.mine(w.Pause, "pause"); len(pause) > 0 {
		r.client.PauseFetchPartitions(lists(pause))
	}
	if resume := r.mine(w.Resume, "resume"); len(resume) > 0 {
		r.client.ResumeFetchPartitions(lists(resume))
	}
	if w.NextPut > 0 {
		r.nextPut = time.Now().Add(w.NextPut)
	}
	r.commitAsked = r.commitAsked || w.Commit
	for p, offset := range w.Seek {
		r.seeks[p] = offset
	}
	for _, e := range w.Errant {
		if err := r.errant(e); err != nil {
			return err
		}
	}
	return nil
}

// mine are those of partitions that the task has.
func (r *run) mine(partitions []plugin.TopicPartition, wish string) []plugin.TopicPartition {
	var mine []plugin.TopicPartition
	for _, p := range partitions {
		if r.positions[p] == nil {
			r.deps.Log.Warn("the connector wishes something of a partition that the task does not have", zap.String("wish", wish), zap.String("topic", p.Topic), zap.Int32("partition", p.Partition))
			continue
		}
		mine = append(mine, p)
	}
	return mine
}
