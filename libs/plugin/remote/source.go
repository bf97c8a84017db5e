package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/data/wire"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

const (
	// pollsAhead is how many polls wait for their answer while there is nothing wrong: the source reads while what it has read is
	// being stored.
	pollsAhead = 2
	// maxCommits bounds commits whose answer nobody has waited for.
	maxCommits = 16
	// maxQuestions bounds the questions for offsets that are being answered.
	maxQuestions = 16
)

// Boundary says what becomes of the transaction after a batch.
type Boundary int

// The boundaries of transactions.
const (
	NoBoundary Boundary = iota
	Commit
	Abort
)

// SourceBatch is what one poll has brought.
type SourceBatch struct {
	// First is the number of the first record among all of the task; acknowledgements go by it.
	First    uint64
	Records  []data.Record
	Boundary Boundary

	partitions  []json.RawMessage
	partitionOf []uint32 // one more than the place among partitions, 0 for none; nil when no record has one
	offsets     []json.RawMessage
}

// Position returns the partition of the source that record i comes from, and where that goes on after it: JSON objects, nil
// for none. The partition is the same slice for all records of a batch that it has.
func (b *SourceBatch) Position(i int) (partition, offset json.RawMessage) {
	if b.partitionOf == nil || b.partitionOf[i] == 0 {
		return nil, nil
	}
	if b.offsets != nil && len(b.offsets[i]) > 0 {
		offset = b.offsets[i]
	}
	return b.partitions[b.partitionOf[i]-1], offset
}

// polled is the answer of a poll.
type polled struct {
	batch *SourceBatch
	err   error
}

// SourceTask is a running task of a source. Poll is for one goroutine, all else for any.
type SourceTask struct {
	process Process
	stream  grpc.BidiStreamingClient[pluginpb.SourceRequest, pluginpb.SourceAnswer]
	cancel  context.CancelFunc
	read    func(context.Context, []json.RawMessage) ([]json.RawMessage, error)
	started chan *pluginpb.Started

	wantsCommit, wantsAcks bool

	sending sync.Mutex // of the stream

	results   chan polled
	committed chan *pluginpb.Fault
	done      chan struct{} // closed when the stream has ended
	err       error         // why; valid when done is closed

	commit  sync.Mutex
	commits int // asked for and not answered, under commit

	mu       sync.Mutex
	stopping bool // the end of the stream is wanted
	polls    int  // asked for and not answered

	// The reader's.
	decoder   wire.Decoder
	partial   *SourceBatch
	next      uint64
	questions sync.WaitGroup
	slots     chan struct{}
}

// StartSource starts a task. It is over when Stop has returned.
func (c *Connector) StartSource(ctx context.Context, t Task) (*SourceTask, error) {
	// The stream outlives the call that starts it.
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	task := &SourceTask{process: c.Process, cancel: cancel, read: t.ReadOffsets, started: make(chan *pluginpb.Started, 1),
		results: make(chan polled, pollsAhead), committed: make(chan *pluginpb.Fault, maxCommits), done: make(chan struct{}), slots: make(chan struct{}, maxQuestions)}
	var err error
	if task.stream, err = c.Client.Source(streaming, grpc.MaxCallRecvMsgSize(plugin.MaxRequestBytes)); err != nil {
		err = c.Process.explain(err)
		cancel()
		c.Process.end()
		return nil, err
	}
	go task.readAnswers(streaming)
	err = task.send(ctx, &pluginpb.SourceRequest{Request: &pluginpb.SourceRequest_Start{Start: c.start(&t)}})
	if err == nil {
		err = task.awaitStart(ctx)
	}
	for i := 0; i < pollsAhead && err == nil; i++ {
		err = task.sendPoll(ctx)
	}
	if err != nil {
		_ = task.Stop(ctx) // what is wrong is known
		return nil, err
	}
	return task, nil
}

func (t *SourceTask) awaitStart(ctx context.Context) error {
	select {
	case s := <-t.started:
		t.wantsCommit, t.wantsAcks = s.WantsCommit, s.WantsAcks
		return decodeFault(s.Fault)
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a request; the error is why the stream has ended.
func (t *SourceTask) send(ctx context.Context, request *pluginpb.SourceRequest) error {
	request.Traceparent = traceparent(ctx)
	t.sending.Lock()
	err := t.stream.Send(request)
	t.sending.Unlock()
	if err != nil {
		<-t.done // the reader sees why
		return t.err
	}
	return nil
}

// readAnswers takes answers until the stream ends.
func (t *SourceTask) readAnswers(ctx context.Context) {
	var err error
	for err == nil {
		var answer *pluginpb.SourceAnswer
		if answer, err = t.stream.Recv(); err == nil {
			err = t.take(ctx, answer)
		}
	}
	t.mu.Lock()
	wanted := t.stopping
	t.mu.Unlock()
	t.err = t.process.ended(err, wanted)
	t.cancel()
	t.questions.Wait()
	close(t.done)
}

func (t *SourceTask) take(ctx context.Context, answer *pluginpb.SourceAnswer) error {
	switch a := answer.Answer.(type) {
	case *pluginpb.SourceAnswer_Started:
		select {
		case t.started <- a.Started:
		default:
			return errors.New("it has started twice")
		}
	case *pluginpb.SourceAnswer_Batch:
		return t.takeBatch(a.Batch)
	case *pluginpb.SourceAnswer_Fault:
		t.partial = nil
		return t.result(polled{err: decodeFault(a.Fault)})
	case *pluginpb.SourceAnswer_ReadOffsets:
		return t.answer(ctx, a.ReadOffsets)
	case *pluginpb.SourceAnswer_Committed:
		select {
		case t.committed <- a.Committed.Fault:
		default:
			return errors.New("it confirms commits that it was not asked for")
		}
	}
	return nil
}

func (t *SourceTask) result(p polled) error {
	t.mu.Lock()
	asked := t.polls > 0
	if asked {
		t.polls--
	}
	t.mu.Unlock()
	if !asked {
		return errors.New("it answers polls that it was not asked for")
	}
	t.results <- p // there is room for all that were asked for
	return nil
}

func (t *SourceTask) sendPoll(ctx context.Context) error {
	t.mu.Lock()
	t.polls++
	t.mu.Unlock()
	return t.send(ctx, &pluginpb.SourceRequest{Request: &pluginpb.SourceRequest_Poll{Poll: &pluginpb.Poll{}}})
}

func (t *SourceTask) takeBatch(b *pluginpb.SourceBatch) error {
	records, err := t.decoder.Decode(b.Records)
	if err != nil {
		return err
	}
	batch := t.partial
	if batch == nil {
		batch = &SourceBatch{First: t.next}
	}
	if err := batch.add(records, b); err != nil {
		return err
	}
	t.next += uint64(len(records))
	if t.partial = nil; b.More {
		t.partial = batch
		return nil
	}
	batch.Boundary = Boundary(b.Boundary)
	return t.result(polled{batch: batch})
}

// add appends a piece of a batch.
func (b *SourceBatch) add(records []data.Record, piece *pluginpb.SourceBatch) error {
	if n := len(piece.PartitionOf); n != 0 && n != len(records) {
		return fmt.Errorf("a batch of %d records has the partitions of %d", len(records), n)
	}
	if n := len(piece.Offsets); n != 0 && n != len(records) {
		return fmt.Errorf("a batch of %d records has the offsets of %d", len(records), n)
	}
	for _, place := range piece.PartitionOf {
		if int64(place) > int64(len(piece.Partitions)) {
			return fmt.Errorf("a record is of partition %d, and there are %d", place, len(piece.Partitions))
		}
	}
	before, places := len(b.Records), uint32(len(b.partitions))
	if before == 0 {
		b.Records = records
	} else {
		b.Records = append(b.Records, records...)
	}
	for _, p := range piece.Partitions {
		b.partitions = append(b.partitions, p)
	}
	if len(piece.PartitionOf) > 0 || b.partitionOf != nil {
		b.partitionOf = append(b.partitionOf, make([]uint32, len(b.Records)-len(b.partitionOf))...)
		for i, place := range piece.PartitionOf {
			if place > 0 {
				b.partitionOf[before+i] = places + place
			}
		}
	}
	if len(piece.Offsets) > 0 || b.offsets != nil {
		b.offsets = append(b.offsets, make([]json.RawMessage, len(b.Records)-len(b.offsets))...)
		for i, offset := range piece.Offsets {
			b.offsets[before+i] = offset
		}
	}
	return nil
}

// answer has a question for offsets answered.
func (t *SourceTask) answer(ctx context.Context, q *pluginpb.ReadOffsets) error {
	if t.read == nil {
		return errors.New("it asks for offsets, and there are none")
	}
	select {
	case t.slots <- struct{}{}:
	default:
		return fmt.Errorf("it asks more than %d questions for offsets at once", maxQuestions)
	}
	partitions := make([]json.RawMessage, len(q.Partitions))
	for i, p := range q.Partitions {
		partitions[i] = p
	}
	t.questions.Go(func() {
		defer func() { <-t.slots }()
		answer := &pluginpb.Offsets{Question: q.Question}
		offsets, err := t.read(ctx, partitions)
		if err != nil {
			answer.Fault = err.Error()
		}
		for _, o := range offsets {
			answer.Offsets = append(answer.Offsets, o)
		}
		t.sending.Lock()
		defer t.sending.Unlock()
		_ = t.stream.Send(&pluginpb.SourceRequest{Request: &pluginpb.SourceRequest_Offsets{Offsets: answer}}) // the reader sees why
	})
	return nil
}

// Poll returns the next batch, which may be without records if a transaction ends there. The task reads on while the batch is
// being handled. After a Fault that is not retriable, and any other error but that of ctx, nothing more comes.
func (t *SourceTask) Poll(ctx context.Context) (*SourceBatch, error) {
	select {
	case r := <-t.results: // also of a stream that has ended since
		return t.polled(ctx, r)
	default:
	}
	select {
	case r := <-t.results:
		return t.polled(ctx, r)
	case <-t.done:
		select {
		case r := <-t.results:
			return t.polled(ctx, r)
		default:
		}
		return nil, t.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// polled returns an answer and asks for another one.
func (t *SourceTask) polled(ctx context.Context, r polled) (*SourceBatch, error) {
	var f *Fault
	if r.err == nil || errors.As(r.err, &f) && f.Retriable {
		_ = t.sendPoll(ctx) // a stream that has ended says so at the next call
	}
	return r.batch, r.err
}

// Ack says what became of a record.
type Ack struct {
	Record uint64 // its number: SourceBatch.First and its place
	// Stored says where the record is; nil for one that was left out.
	Stored *plugin.RecordMetadata
}

// WantsAcks says whether the task wants to know of each record.
func (t *SourceTask) WantsAcks() bool { return t.wantsAcks }

// Acknowledge tells a task that wants to know of records that were stored or left out.
func (t *SourceTask) Acknowledge(ctx context.Context, acks []Ack) error {
	if !t.wantsAcks || len(acks) == 0 {
		return nil
	}
	list := make([]*pluginpb.Ack, len(acks))
	for i, a := range acks {
		list[i] = &pluginpb.Ack{Record: a.Record}
		if m := a.Stored; m != nil {
			list[i] = &pluginpb.Ack{Record: a.Record, Stored: true, Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, TimestampMs: m.TimestampMs}
		}
	}
	return t.send(ctx, &pluginpb.SourceRequest{Request: &pluginpb.SourceRequest_Acks{Acks: &pluginpb.Acks{Acks: list}}})
}

// Commit tells a task that wants to know that the offsets of all acknowledged records are stored, and waits until it has
// taken note. A Fault is the task's.
func (t *SourceTask) Commit(ctx context.Context) error {
	if !t.wantsCommit {
		return nil
	}
	t.commit.Lock()
	defer t.commit.Unlock()
	if t.commits == maxCommits {
		return fmt.Errorf("%d commits wait for their answer", maxCommits)
	}
	if err := t.send(ctx, &pluginpb.SourceRequest{Request: &pluginpb.SourceRequest_Commit{Commit: &pluginpb.Commit{}}}); err != nil {
		return err
	}
	t.commits++
	var fault error
	for t.commits > 0 {
		select {
		case f := <-t.committed:
			t.commits--
			fault = decodeFault(f)
		case <-t.done:
			return t.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fault
}

// StopPolling ends the poll that the task is at: its last batches may still be taken, then Poll waits in vain. Acknowledge and
// Commit go on.
func (t *SourceTask) StopPolling(ctx context.Context) error {
	return t.send(ctx, &pluginpb.SourceRequest{Request: &pluginpb.SourceRequest_StopPolling{StopPolling: &pluginpb.StopPolling{}}})
}

// Done is closed when the task has ended, Err says why then.
func (t *SourceTask) Done() <-chan struct{} { return t.done }

// Err is why the task has ended.
func (t *SourceTask) Err() error { return t.err }

// Stop has the task end, and its process. When ctx ends first they are ended all the same, and the error says so; another
// error is the task's.
func (t *SourceTask) Stop(ctx context.Context) error {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
	defer context.AfterFunc(ctx, t.cancel)() // sending may wait for a task that takes nothing
	t.sending.Lock()
	_ = t.stream.CloseSend() // an error is one of the stream, which the reader sees
	t.sending.Unlock()
	return stop(ctx, t.done, func() error { return t.err }, t.cancel, t.process)
}

// stop waits for the end of a stream, or brings it about.
func stop(ctx context.Context, done <-chan struct{}, why func() error, cancel func(), process Process) error {
	select {
	case <-done:
	case <-ctx.Done():
		cancel()
	}
	process.end()
	<-done
	switch err := why(); {
	case errors.Is(err, errStopped):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("it did not stop in time: %w", ctx.Err())
	default:
		return err
	}
}
