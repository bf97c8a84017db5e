package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

const (
	// maxRepeated is how many confirmations are kept that the server may not have, before it is asked whether it has.
	maxRepeated = 1024
	// extensions is how often more time is asked for in the time after which messages are delivered again.
	extensions = 3
	// maxSettling is for how many times that time messages are waited for that are missing.
	maxSettling = 3
)

// What confirms a message, gives it back, and asks for more time.
var (
	confirmation = []byte("+ACK")
	refusal      = []byte("-NAK")
	extension    = []byte("+WPI")
)

// place is the partition of the source.
type place struct {
	Stream string `json:"stream"`
}

// position is the last message of a stream that was read.
type position struct {
	Sequence uint64 `json:"sequence"`
	// CreatedMs is when the stream was made, as another one of the same name has the same sequences; 0 where it is not known.
	CreatedMs int64 `json:"created,omitempty"`
}

// streamReader reads a stream by a durable pull consumer.
type streamReader struct {
	stream, durable string
	wanted          jetstream.ConsumerConfig // of a consumer that is made
	values          configdef.Values
	batch           int
	maker           maker
	partition       *plugin.SourcePartition
	createdMs       int64
	known           bool // there is a stored offset, or a message was read: a consumer that is made begins after it

	consumer jetstream.Consumer
	next     uint64    // the consumer's own number of the next message
	since    time.Time // when messages were first missing; zero when none is
	waits    bool      // the server does not deliver messages again before their time is over
	held     map[uint64]delivered

	mu         sync.Mutex
	ledger     *ledger
	connection *connection // nil before the first

	stop   context.CancelFunc // of the goroutine that asks for more time
	ended  chan struct{}
	limits time.Duration
}

// delivered is a message, and when the stream got it.
type delivered struct {
	jetstream.Msg
	at time.Time
}

func newStreamReader(ctx context.Context, c *plugin.SourceContext, v configdef.Values, m maker) (*streamReader, error) {
	s := &streamReader{stream: v.String(streamKey), durable: v.String(durableKey), values: v, batch: int(v.Int(batchKey)), maker: m, held: map[uint64]delivered{}, limits: v.Millis(timeoutKey)}
	s.wanted = jetstream.ConsumerConfig{Durable: s.durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: v.Millis(ackWaitKey), MaxAckPending: int(v.Int(maxPendingKey)),
		MaxDeliver: -1, DeliverPolicy: jetstream.DeliverAllPolicy}
	if v.String(policyKey) == policyNew {
		s.wanted.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	if subjects := v.List(subjectsKey); len(subjects) == 1 {
		s.wanted.FilterSubject = subjects[0] // which servers before 2.10 know as well
	} else {
		s.wanted.FilterSubjects = subjects
	}
	var err error
	if s.partition, err = c.Partition(ctx, place{s.stream}); err != nil {
		return nil, err
	}
	var at position
	if s.known, err = s.partition.Offset(&at); err != nil {
		return nil, err
	}
	s.ledger, s.createdMs = newLedger(at.Sequence), at.CreatedMs
	return s, nil
}

// open finds the stream and the consumer, and has what is not confirmed delivered again.
func (s *streamReader) open(ctx context.Context, c *connection) error {
	streams, err := c.streams(s.values)
	if err != nil {
		return err
	}
	stream, err := streams.Stream(ctx, s.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.stream, err)
	}
	if err := s.checkStream(stream.CachedInfo()); err != nil {
		return final{err}
	}
	if s.consumer, err = s.findConsumer(ctx, streams, stream.CachedInfo().Config.Retention); err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", s.durable, s.stream, err)
	}
	if err := s.repeat(ctx, c); err != nil {
		return err
	}
	info, anew, err := s.again(ctx, c, streams)
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", s.durable, s.stream, err)
	}
	if anew {
		clear(s.held)
	}
	s.next, s.since = info.Delivered.Consumer+1, time.Time{}
	s.mu.Lock()
	s.ledger.begin(anew)
	s.ledger.settle(info.NumAckPending)
	s.connection = c
	s.mu.Unlock()
	if s.stop == nil {
		s.extend(info.Config.AckWait / extensions)
	}
	return nil
}

// again has the consumer deliver at once what is not confirmed, and says whether it does. Servers that do not know how, and those
// that may not, do it when the time of each message is over.
func (s *streamReader) again(ctx context.Context, c *connection, streams jetstream.JetStream) (info *jetstream.ConsumerInfo, anew bool, err error) {
	if !s.waits {
		reset, err := streams.ResetConsumer(ctx, s.stream, s.durable)
		if err == nil {
			return reset.ConsumerInfo, true, nil
		}
		if c.IsClosed() || ctx.Err() != nil {
			return nil, false, err
		}
		slog.InfoContext(ctx, "messages that are not confirmed cannot be had at once, and are waited for", "consumer", s.durable, "error", err)
		s.waits = true
	}
	info, err = s.consumer.Info(ctx)
	return info, false, err
}

// checkStream finds out whether the offset is one of this stream.
func (s *streamReader) checkStream(info *jetstream.StreamInfo) error {
	created := info.Created.UnixMilli()
	switch last := s.ledger.last; {
	case s.createdMs != 0 && created != s.createdMs:
		return fmt.Errorf("stream %s was made at %s, after the one that was read up to sequence %d: reset the connector's offsets to read it from its begin",
			s.stream, info.Created.UTC().Format(time.RFC3339), last)
	case info.State.LastSeq < last:
		return fmt.Errorf("stream %s ends at sequence %d, and was read up to %d: reset the connector's offsets to read it from its begin", s.stream, info.State.LastSeq, last)
	}
	s.createdMs = created
	return nil
}

// findConsumer returns the consumer, which it makes when it is missing.
func (s *streamReader) findConsumer(ctx context.Context, streams jetstream.JetStream, retention jetstream.RetentionPolicy) (jetstream.Consumer, error) {
	consumer, err := streams.Consumer(ctx, s.stream, s.durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		config := s.wanted
		if s.known && retention != jetstream.WorkQueuePolicy { // of which every consumer begins with all
			config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, s.ledger.last+1
		}
		return streams.CreateConsumer(ctx, s.stream, config)
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil, final{err}
	case err != nil:
		return nil, err
	}
	config := consumer.CachedInfo().Config
	if config.AckPolicy != jetstream.AckExplicitPolicy {
		return nil, final{errors.New("each message must be confirmed (ack policy explicit)")}
	}
	filter := config.FilterSubjects
	if config.FilterSubject != "" {
		filter = []string{config.FilterSubject}
	}
	wanted := slices.Sorted(slices.Values(s.values.List(subjectsKey)))
	if len(wanted) > 0 && !slices.Equal(wanted, slices.Sorted(slices.Values(filter))) {
		return nil, final{fmt.Errorf("it is for the subjects %q, not %q", filter, wanted)}
	}
	return consumer, nil
}

// repeat sends the confirmations once more that the server may not have.
func (s *streamReader) repeat(ctx context.Context, c *connection) error {
	s.mu.Lock()
	repeated := slices.Clone(s.ledger.repeated)
	s.mu.Unlock()
	for _, confirm := range repeated {
		if err := c.Publish(confirm, confirmation); err != nil {
			return err
		}
	}
	return s.confirmed(ctx, c, len(repeated))
}

// confirmed returns when the server has the first confirmations, which need not be sent again then.
func (s *streamReader) confirmed(ctx context.Context, c *connection, count int) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits)
	defer cancel()
	if err := c.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("confirming messages: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.repeated = slices.Delete(s.ledger.repeated, 0, min(count, len(s.ledger.repeated)))
	return nil
}

// read fetches messages, and returns the records of those that are next.
func (s *streamReader) read(ctx context.Context, c *connection) ([]plugin.SourceRecord, error) {
	fetched, err := s.consumer.FetchNoWait(s.batch)
	if err == nil {
		var some bool
		if some, err = s.take(ctx, fetched, c); err == nil && !some {
			if fetched, err = s.consumer.Fetch(1, jetstream.FetchMaxWait(emptyWait)); err == nil {
				_, err = s.take(ctx, fetched, c)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading stream %s: %w", s.stream, err)
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	released := s.ledger.release()
	s.mu.Unlock()
	records := make([]plugin.SourceRecord, 0, len(released))
	for _, sequence := range released {
		m := s.held[sequence]
		delete(s.held, sequence)
		r, err := s.maker.record(m.Subject(), m.Headers(), m.Data(), m.at)
		if err != nil {
			return nil, fmt.Errorf("message %d of stream %s: %w", sequence, s.stream, err)
		}
		records, s.known = append(records, plugin.SourceRecord{Record: r, Source: s.partition, Offset: position{sequence, s.createdMs}}), true
	}
	return records, nil
}

// take takes note of fetched messages, and says whether there were any. What it leaves when the task or the connection ends comes
// again to the next one.
func (s *streamReader) take(ctx context.Context, fetched jetstream.MessageBatch, c *connection) (some bool, err error) {
	for {
		select {
		case m, ok := <-fetched.Messages():
			if !ok {
				return some, fetched.Error()
			}
			some = true
			if err := s.note(m, c); err != nil {
				return some, err
			}
		case <-c.closed:
			return some, nats.ErrConnectionClosed
		case <-ctx.Done():
			return some, ctx.Err()
		}
	}
}

func (s *streamReader) note(m jetstream.Msg, c *connection) error {
	metadata, err := m.Metadata()
	if err != nil {
		return err
	}
	if metadata.Sequence.Consumer != s.next {
		return fmt.Errorf("consumer %s delivers message %d, and %d was next: some were lost, or others read by it", s.durable, metadata.Sequence.Consumer, s.next)
	}
	s.next++
	s.mu.Lock()
	fresh, stored := s.ledger.receive(metadata.Sequence.Stream, m.Reply())
	s.mu.Unlock()
	if fresh {
		s.held[metadata.Sequence.Stream] = delivered{m, metadata.Timestamp}
	}
	if stored {
		return c.Publish(m.Reply(), confirmation)
	}
	return nil
}

// settle asks, while messages may be missing, whether all have come.
func (s *streamReader) settle(ctx context.Context) error {
	s.mu.Lock()
	settled := s.ledger.settled
	s.mu.Unlock()
	if settled {
		s.since = time.Time{}
		return nil
	}
	info, err := s.consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", s.durable, s.stream, err)
	}
	s.mu.Lock()
	s.ledger.settle(info.NumAckPending)
	missing := info.NumAckPending - s.ledger.count()
	settled = s.ledger.settled
	s.mu.Unlock()
	switch {
	case settled:
	case s.since.IsZero():
		s.since = time.Now()
		slog.InfoContext(ctx, "messages that were delivered before come again", "missing", missing, "within_ms", info.Config.AckWait.Milliseconds())
	case time.Since(s.since) > maxSettling*info.Config.AckWait:
		return final{fmt.Errorf("consumer %s of stream %s: %d messages are delivered and do not come again: does somebody else read by it?", s.durable, s.stream, missing)}
	}
	return nil
}

// stored confirms the message of a record that is stored.
func (s *streamReader) stored(ctx context.Context, offset any) error {
	at, ok := offset.(position)
	if !ok {
		return fmt.Errorf("%T is no position of a stream", offset)
	}
	s.mu.Lock()
	confirm, flies := s.ledger.store(at.Sequence)
	c, count := s.connection, len(s.ledger.repeated)
	s.mu.Unlock()
	if !flies || c == nil || c.IsClosed() {
		return nil // what is kept is sent by the next connection
	}
	err := c.Publish(confirm, confirmation)
	if err == nil && count >= maxRepeated {
		err = s.confirmed(ctx, c, count)
	}
	return err
}

// extend has a goroutine ask for more time for what is not confirmed, until close.
func (s *streamReader) extend(every time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.ended = cancel, make(chan struct{})
	go func() {
		defer close(s.ended)
		ticker := time.NewTicker(max(every, time.Millisecond))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.tell(extension)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// tell says the same of all messages that are not confirmed.
func (s *streamReader) tell(word []byte) {
	s.mu.Lock()
	c, places := s.connection, s.ledger.open()
	s.mu.Unlock()
	if c == nil || c.IsClosed() {
		return
	}
	for _, to := range places {
		if err := c.Publish(to, word); err != nil {
			return // the connection has ended, which whoever reads sees
		}
	}
}

// close gives back what is not stored, so that it need not be waited for.
func (s *streamReader) close() {
	if s.stop == nil {
		return
	}
	s.stop()
	<-s.ended
	s.tell(refusal)
	if c := s.connection; !c.IsClosed() {
		_ = c.FlushTimeout(s.limits) // without it they come again later
	}
}
