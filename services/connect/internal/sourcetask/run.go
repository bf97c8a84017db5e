package sourcetask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

// chunkRecords is how many records of a batch are converted before they are produced.
const chunkRecords = 256

// run is a task that runs.
type run struct {
	*Task
	topics     *topics
	client     *kgo.Client
	partitions *pluginPartitioner // nil: the producer's
	source     *remote.SourceTask
	tracker    *tracker
	guarantee  guarantee
	closing    atomic.Bool // what is not produced yet is given up
	// live ends with the task's context, and when the task is to stop or has failed.
	live context.Context

	// found are numbers of partitions that topics are known to have at least, lacking is when a partition of a topic was not found.
	found   map[string]int32
	lacking map[string]time.Time
}

// guarantee is what sets at least once and exactly once apart.
type guarantee interface {
	// begin is called before the first poll.
	begin(ctx context.Context)
	// before is called before a record for a topic is produced.
	before(topic string) error
	// lost is called when a record could not be produced. The error is the end of the task, nil says that the record is left out.
	lost(f *flight, err error) error
	// due is when sent is to be called even if no batch comes; zero for never.
	due() time.Time
	// sent is called after a batch was handed to the producer, and when it is due.
	sent(ctx context.Context, b remote.Boundary) error
	// pause is called when the task pauses.
	pause(ctx context.Context) error
	// finish is called at the end, failure being why the task has failed, if it has, which is then returned; abandon instead if nothing may be stored.
	finish(ctx context.Context, failure error) error
	abandon()
}

// batch is what one poll has brought.
type batch struct {
	*remote.SourceBatch
	left int // records without an answer, under the tracker's lock
	span trace.Span
}

// flight is a record on its way to a topic.
type flight struct {
	run   *run
	batch *batch
	place int // in the batch
	// submission and bytes are the tracker's.
	submission offsets.Submission
	bytes      int
}

// loop polls and produces until the task is to stop, and returns nil then, or has failed.
func (r *run) loop(ctx context.Context) error {
	backoff := minBackoff
	for paused := false; ; {
		s := r.control.state()
		switch {
		case s.failure != nil:
			return s.failure
		case ctx.Err() != nil:
			return ctx.Err()
		case s.stopping:
			return nil
		case s.paused:
			if !paused {
				if err := r.guarantee.pause(ctx); err != nil {
					return err
				}
			}
			paused = true
			select {
			case <-s.changed:
			case <-ctx.Done():
			case <-r.source.Done():
				return r.ended()
			}
			continue
		}
		paused = false
		if err := r.turn(ctx, s, &backoff); err != nil && !errors.Is(err, errEnding) {
			return err
		}
	}
}

// ended is why the connector's part has ended while nothing was asked of it.
func (r *run) ended() error { return fmt.Errorf("the connector's task: %w", r.source.Err()) }

// errEnding is what a turn is given up with when the task is to stop or has failed elsewhere.
var errEnding = errors.New("the task ends")

// turn polls once and produces what comes, unless the state of control changes before.
func (r *run) turn(ctx context.Context, s state, backoff *time.Duration) error {
	waiting, cancel := r.control.until(ctx, s)
	defer cancel()
	polling := waiting
	if due := r.guarantee.due(); !due.IsZero() {
		var done context.CancelFunc
		polling, done = context.WithDeadline(waiting, due)
		defer done()
	}
	began := time.Now()
	polled, err := r.source.Poll(polling)
	var fault *remote.Fault
	switch {
	case err == nil:
	case polling.Err() != nil && errors.Is(err, polling.Err()):
		if waiting.Err() != nil {
			return nil
		}
		return r.guarantee.sent(ctx, remote.NoBoundary)
	case errors.As(err, &fault) && fault.Retriable:
		r.deps.Log.Warn("the connector could not read from its source; it is polled again", zap.Error(err), zap.Duration("pause", *backoff))
		pause(waiting, backoff)
		return nil
	default:
		return fmt.Errorf("the connector's task: %w", err)
	}
	*backoff = minBackoff
	if len(polled.Records) > 0 {
		if err := r.produce(polled, began); err != nil {
			return err
		}
	}
	return r.guarantee.sent(ctx, polled.Boundary)
}

// produce hands the records of a batch to the producer.
func (r *run) produce(polled *remote.SourceBatch, began time.Time) error {
	now := time.Now()
	r.deps.Metrics.polled(len(polled.Records), now.Sub(began))
	ctx, span := r.deps.Tracer.Start(r.live, "connect.poll", trace.WithTimestamp(began), trace.WithAttributes(attribute.String("cauce.connector", r.config.Connector),
		attribute.Int("cauce.task", r.config.Number), attribute.Int("messaging.batch.message_count", len(polled.Records))))
	span.End()
	b := &batch{SourceBatch: polled, left: len(polled.Records)}
	producing, produced := r.deps.Tracer.Start(ctx, "connect.produce", trace.WithSpanKind(trace.SpanKindProducer))
	b.span = produced
	producing = context.WithoutCancel(producing)
	flights := make([]flight, len(polled.Records))
	for from := 0; from < len(flights); from += chunkRecords {
		to := min(from+chunkRecords, len(flights))
		records, err := r.convert(ctx, polled.Records[from:to])
		if err == nil || len(records) > 0 {
			err = errors.Join(r.send(producing, b, flights[from:from+len(records)], from, records), err)
		}
		if err != nil {
			b.span.SetStatus(codes.Error, err.Error())
			b.span.End()
			return err
		}
	}
	return nil
}

// convert makes of polled records those for topics, nil for what is left out. With an error it returns those before it.
func (r *run) convert(ctx context.Context, polled []data.Record) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, 0, len(polled))
	for i := range polled {
		record, err := r.deps.Pipeline.ToTopic(ctx, &polled[i])
		if err != nil {
			if r.live.Err() != nil {
				err = errEnding
			}
			return records, err
		}
		records = append(records, record)
	}
	return records, nil
}

// send produces records, which begin at that place of the batch.
func (r *run) send(ctx context.Context, b *batch, flights []flight, place int, records []*kgo.Record) error {
	if r.partitions != nil {
		if err := r.assign(records); err != nil {
			return err
		}
	}
	traced := trace.SpanContextFromContext(ctx)
	for i, record := range records {
		f := &flights[i]
		*f = flight{run: r, batch: b, place: place + i}
		if record == nil {
			if err := r.admit(f, 0); err != nil {
				return err
			}
			r.leftOut(f)
			continue
		}
		if err := r.ready(record.Topic); err != nil {
			return err
		}
		if err := r.findPartition(record); err != nil {
			return err
		}
		if traced.IsSampled() {
			nameTrace(record, traced)
		}
		if err := r.admit(f, sizeOf(record)); err != nil {
			return err
		}
		r.client.Produce(ctx, record, f.answered)
	}
	return nil
}

func (r *run) assign(records []*kgo.Record) error {
	for _, record := range records {
		if record != nil {
			if err := r.ready(record.Topic); err != nil {
				return err
			}
		}
	}
	return r.orEnding(r.partitions.assign(r.live, records))
}

// ready has a topic ready for a record.
func (r *run) ready(topic string) error {
	if err := r.guarantee.before(topic); err != nil {
		return err
	}
	return r.orEnding(r.topics.prepare(r.live, topic))
}

// findPartition looks for the partition that a record has: it may be newer than what the producer knows of its topic. One that is not found fails when it is
// produced, and others of the topic are not waited for in the time after that.
func (r *run) findPartition(record *kgo.Record) error {
	if record.Partition < r.found[record.Topic] {
		return nil
	}
	backoff := minBackoff
	for tries := 0; ; tries++ {
		if !r.knows(record.Topic, 0) {
			return nil // nothing is known of the topic yet
		}
		if r.knows(record.Topic, record.Partition) {
			r.found[record.Topic] = record.Partition + 1
			delete(r.lacking, record.Topic)
			return nil
		}
		r.client.ForceMetadataRefresh()
		if time.Since(r.lacking[record.Topic]) < lackingAge {
			return nil
		}
		if tries == unknownPartitionRetries {
			r.lacking[record.Topic] = time.Now()
			return nil
		}
		if !pause(r.live, &backoff) {
			return errEnding
		}
		backoff = min(backoff, minMetadataAge)
	}
}

// knows says whether the producer knows of a partition.
func (r *run) knows(topic string, partition int32) bool {
	leader, _, err := r.client.PartitionLeader(topic, partition)
	return leader >= 0 || err != nil
}

// noPartition is what is wrong with a record for a partition that its topic does not have; nil if that cannot be said.
func (r *run) noPartition(record *kgo.Record) error {
	if record.Partition < 0 || !r.knows(record.Topic, 0) || r.knows(record.Topic, record.Partition) {
		return nil
	}
	n := sort.Search(int(record.Partition), func(n int) bool { return !r.knows(record.Topic, int32(n)) })
	return fmt.Errorf("topic %q has no partition %d, it has %d", record.Topic, record.Partition, n)
}

// admit waits until there is room for a record.
func (r *run) admit(f *flight, bytes int) error {
	ok, err := r.tracker.admit(r.live, f, bytes)
	if err == nil && !ok {
		return errEnding
	}
	return err
}

// orEnding is errEnding in the place of an error that comes of the task's end.
func (r *run) orEnding(err error) error {
	if err != nil && r.live.Err() != nil {
		return errEnding
	}
	return err
}

// answered is called by the producer when a record is stored or will not be.
func (f *flight) answered(record *kgo.Record, err error) {
	r := f.run
	switch {
	case err == nil:
		r.stored(f, record)
		return
	case r.closing.Load():
		r.over(r.tracker.lose(f), f)
		return
	}
	if absent := r.noPartition(record); absent != nil {
		err = absent
	}
	if errors.Is(err, kerr.MessageTooLarge) {
		err = f.tooLarge(record, err)
	}
	if err = r.guarantee.lost(f, err); err == nil {
		r.leftOut(f)
		return
	}
	r.control.fail(err)
	r.over(r.tracker.lose(f), f)
}

// tooLarge adds to an error how large the record is, what it must not exceed, and where the source has it.
func (f *flight) tooLarge(record *kgo.Record, err error) error {
	r := f.run
	where := ""
	if partition, offset := f.batch.Position(f.place); partition != nil {
		where = fmt.Sprintf("; it is of the source's partition %.200s at offset %.200s", partition, offset)
	}
	return fmt.Errorf("%w: the record has %d bytes; max.message.bytes of topic %q %s, max.request.size of the producer is %d%s",
		err, sizeOf(record), record.Topic, r.topics.bound(record.Topic), r.settings.maxRequestBytes, where)
}

func (r *run) stored(f *flight, record *kgo.Record) {
	r.deps.Metrics.Written.Add(1)
	var m *plugin.RecordMetadata
	if r.tracker.wantsAcks {
		m = &plugin.RecordMetadata{Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, TimestampMs: record.Timestamp.UnixMilli()}
	}
	if r.deps.Used != nil {
		r.deps.Used(record.Topic) // the producer answers from one goroutine
	}
	r.over(r.tracker.done(f, m), f)
}

// leftOut is for a record that counts as done without being stored.
func (r *run) leftOut(f *flight) { r.over(r.tracker.done(f, nil), f) }

func (r *run) over(last bool, f *flight) {
	r.deps.Metrics.Active.Add(-1)
	if last {
		f.batch.span.End()
	}
}

// closeWith ends the producer when ctx ends or what it returns is called, which returns when that is done. What was not produced is given up: nobody waits
// for it, or it is to be abandoned.
func (r *run) closeWith(ctx context.Context) func() {
	done := sync.OnceFunc(func() {
		r.closing.Store(true)
		r.client.Close()
	})
	stop := context.AfterFunc(ctx, done)
	return func() {
		stop()
		done()
	}
}

// sizeOf is what a record takes of the room for those on their way.
func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// nameTrace has a record name the trace that it is produced in, unless it comes with one.
func nameTrace(r *kgo.Record, in trace.SpanContext) {
	if slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == tracing.ParentHeader }) {
		return
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: tracing.ParentHeader, Value: tracing.AppendParent(nil, in)})
}
