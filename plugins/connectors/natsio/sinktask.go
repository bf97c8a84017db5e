package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/payload"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/template"
)

// maxWait is how long a call waits for the time to try again: a worker need not be asked as often as it can ask.
const maxWait = time.Second

// The codes of JetStream's errors that are of the message.
const (
	codeMessageTooLarge = 10054
	codeHeaderTooLarge  = 10097
)

var errHeaderName = errors.New("NATS has no header of that name to set")

// entry is a record that is not yet known to be written.
type entry struct {
	record  plugin.SinkRecord
	message *nats.Msg
	future  jetstream.PubAckFuture // nil where nothing confirms it but a round trip
}

type sinkTask struct {
	context   *plugin.SinkContext
	values    configdef.Values
	subject   template.Template
	keyHeader string
	confirmed bool // by JetStream
	inFlight  int
	timeout   time.Duration
	retry     backoff.Backoff

	connection *connection // nil until there is one, and after a failure
	streams    jetstream.JetStream
	queue      []entry
	sent       int // of the queue, by this connection
	// taken is up to where, by partition, records were put in the queue by a Put that has failed, and that will come again.
	taken map[plugin.TopicPartition]int64
	// fault is why the task is to fail; PreCommit cannot say so.
	fault error
}

// Start connects to nothing yet: a server that is away is waited for.
func (t *sinkTask) Start(_ context.Context, c *plugin.SinkContext, config map[string]string) error {
	v, err := sinkDefinition.Parse(config)
	if err == nil {
		err = checkSink(v).Err()
	}
	if err != nil {
		return err
	}
	t.context, t.values, t.taken, t.retry = c, v, map[plugin.TopicPartition]int64{}, newBackoff(v)
	t.keyHeader, t.confirmed, t.inFlight, t.timeout = v.String(keyHeaderKey), v.Bool(jetstreamKey), int(v.Int(inFlightKey)), v.Millis(timeoutKey)
	t.subject, err = template.Parse(v.String(subjectKey), topicName, keyName)
	return err
}

// Put sends records, and returns when all but the last few are confirmed.
func (t *sinkTask) Put(ctx context.Context, records []plugin.SinkRecord) error {
	if err := t.resume(ctx); err != nil {
		return err
	}
	for i := range records {
		r := &records[i]
		if next, some := t.taken[r.Original]; some && r.Offset < next {
			continue
		}
		for len(t.queue) >= t.inFlight {
			if err := t.settle(ctx); err != nil {
				return err
			}
		}
		message, err := t.message(r)
		if err != nil {
			if err := t.context.Report(r, err); err != nil {
				return err
			}
			t.taken[r.Original] = r.Offset + 1
			continue
		}
		t.queue = append(t.queue, entry{record: *r, message: message})
		t.taken[r.Original] = r.Offset + 1
		if err := t.send(); err != nil {
			return err
		}
	}
	if !t.confirmed && len(t.queue) > 0 {
		if err := t.settle(ctx); err != nil {
			return err
		}
	}
	clear(t.taken)
	return nil
}

// PreCommit waits until all is confirmed. Where that fails, offsets stay before what is not.
func (t *sinkTask) PreCommit(ctx context.Context, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
	if err := t.flush(ctx); err != nil {
		slog.WarnContext(ctx, "offsets are committed without those of the last records", "error", err, "unconfirmed", len(t.queue))
	}
	for i := range t.queue {
		r := &t.queue[i].record
		if offset, asked := offsets[r.Original]; asked && offset > r.Offset {
			offsets[r.Original] = r.Offset
		}
	}
	return offsets, nil
}

func (t *sinkTask) flush(ctx context.Context) error {
	if len(t.queue) == 0 {
		return nil
	}
	err := t.resume(ctx)
	for err == nil && len(t.queue) > 0 {
		err = t.settle(ctx)
	}
	return err
}

// Open has nothing to do.
func (t *sinkTask) Open(context.Context, []plugin.TopicPartition) error { return nil }

// Close forgets the records of partitions, which whoever has them now will send.
func (t *sinkTask) Close(_ context.Context, partitions []plugin.TopicPartition) error {
	kept, sent := t.queue[:0], 0
	for i, e := range t.queue {
		if slices.Contains(partitions, e.record.Original) {
			continue
		}
		if i < t.sent {
			sent++
		}
		kept = append(kept, e)
	}
	clear(t.queue[len(kept):])
	t.queue, t.sent = kept, sent
	for _, p := range partitions {
		delete(t.taken, p)
	}
	return nil
}

// resume sees to it that there is a connection, by which all of the queue is sent.
func (t *sinkTask) resume(ctx context.Context) error {
	if t.fault != nil {
		return t.fault
	}
	if err := t.retry.Wait(ctx, maxWait); err != nil {
		return err
	}
	if left := t.retry.Left(time.Now()); left > 0 {
		t.context.NextPut(left)
		return plugin.Retriable(fmt.Errorf("waiting for another %v before the next try", left.Round(time.Millisecond)))
	}
	if t.connection == nil {
		if err := t.connect(); err != nil {
			return t.failed(err)
		}
	}
	for t.sent < len(t.queue) {
		if err := t.send(); err != nil {
			return err
		}
	}
	return nil
}

func (t *sinkTask) connect() (err error) {
	if t.connection, err = dial(t.values, "cauce "+t.context.Name()+" "+strconv.Itoa(t.context.Task())); err != nil || !t.confirmed {
		return err
	}
	t.streams, err = t.connection.streams(t.values, jetstream.WithPublishAsyncMaxPending(t.inFlight+1), jetstream.WithPublishAsyncTimeout(t.timeout))
	return err
}

// message makes of a record what is sent of it.
func (t *sinkTask) message(r *plugin.SinkRecord) (*nats.Msg, error) {
	key := func() (string, error) {
		if r.Key.V == nil {
			return "", errors.New("the record has no key")
		}
		text, err := payload.Append(nil, r.Key)
		return string(text), err
	}
	subject, err := t.subject.Expand(func(name string) (string, error) {
		if name == topicName {
			return r.Topic, nil
		}
		return key()
	})
	if err == nil {
		err = checkSubject(subject, false)
	}
	if err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: subject}
	if m.Header, err = toMessage(r.Headers); err != nil {
		return nil, err
	}
	if t.keyHeader != "" && r.Key.V != nil {
		text, err := key()
		if err != nil {
			return nil, err
		}
		m.Header[t.keyHeader] = []string{text}
	}
	m.Header.Set(nats.MsgIdHdr, id(r))
	if stream := t.values.String(streamKey); stream != "" && t.confirmed {
		m.Header.Set(nats.ExpectedStreamHdr, stream)
	}
	if r.Value.V != nil {
		m.Data, err = payload.Append(nil, r.Value)
	}
	return m, err
}

// id is by what a stream knows a message again.
func id(r *plugin.SinkRecord) string {
	return r.Original.Topic + "-" + strconv.Itoa(int(r.Original.Partition)) + "-" + strconv.FormatInt(r.Offset, 10)
}

// send sends the next message of the queue.
func (t *sinkTask) send() error {
	e := &t.queue[t.sent]
	var err error
	if t.confirmed {
		e.future, err = t.streams.PublishMsgAsync(e.message, jetstream.WithRetryAttempts(0))
	} else {
		err = t.connection.PublishMsg(e.message)
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrBadHeaderMsg):
		return t.refuse(t.sent, err)
	case err != nil:
		return t.failed(fmt.Errorf("publishing %s: %w", id(&e.record), err))
	}
	t.sent++
	return nil
}

// refuse takes a record out of the queue that cannot be written.
func (t *sinkTask) refuse(place int, err error) error {
	r := t.queue[place].record
	if err := t.context.Report(&r, err); err != nil {
		t.fault = err
		return err
	}
	t.queue = slices.Delete(t.queue, place, place+1)
	if place < t.sent {
		t.sent--
	}
	return nil
}

// settle waits for the oldest message to be confirmed or, where messages are not, for the server to have them all.
func (t *sinkTask) settle(ctx context.Context) error {
	if !t.confirmed {
		limited, cancel := context.WithTimeout(ctx, t.timeout)
		defer cancel()
		if err := t.connection.FlushWithContext(limited); err != nil {
			return t.failed(fmt.Errorf("publishing %d messages: %w", t.sent, err))
		}
		clear(t.queue[:t.sent])
		t.queue, t.sent = t.queue[:copy(t.queue, t.queue[t.sent:])], 0
		t.retry.Succeed()
		return nil
	}
	e := &t.queue[0]
	select {
	case <-e.future.Ok():
		t.queue[0] = entry{}
		t.queue, t.sent = t.queue[1:], t.sent-1
		t.retry.Succeed()
		return nil
	case err := <-e.future.Err():
		var refused *jetstream.APIError
		if errors.As(err, &refused) && (refused.ErrorCode == codeMessageTooLarge || refused.ErrorCode == codeHeaderTooLarge) {
			return t.refuse(0, err)
		}
		return t.failed(fmt.Errorf("publishing %s: %w", id(&e.record), err))
	case <-t.connection.closed:
		return t.failed(fmt.Errorf("publishing %s: %w", id(&e.record), nats.ErrConnectionClosed))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed gives the connection up, so that nothing comes before what has failed, and has it all tried again, or fails the task.
func (t *sinkTask) failed(err error) error {
	t.drop()
	if lasting(err) || !t.retry.Again(time.Now(), 0) {
		t.fault = err
		return err
	}
	t.context.NextPut(t.retry.Left(time.Now()))
	return plugin.Retriable(err)
}

func (t *sinkTask) drop() {
	if t.connection != nil {
		t.connection.end()
		t.connection = nil
	}
	t.sent = 0
}

// Stop closes the connection.
func (t *sinkTask) Stop() error {
	t.drop()
	return nil
}
