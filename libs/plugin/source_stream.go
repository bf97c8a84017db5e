package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin/data/wire"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

const (
	// maxWaitingPolls is how many polls may wait for their answer.
	maxWaitingPolls = 16
	// maxWaitingCommits is how many acks and commits may wait until the task has taken those before; the sender waits, too.
	maxWaitingCommits = 64
	// A batch is sent in pieces of at most so many records, and where records are large of about so many bytes.
	pieceRecords = 4096
	pieceBytes   = 4 << 20
)

// sourceRun is one task of a source.
//
//	reader ---polls---> poller ---batches---> stream
//	       --commits--> committer
//	       --offsets--> whoever has asked
type sourceRun struct {
	stream  grpc.BidiStreamingServer[pluginpb.SourceRequest, pluginpb.SourceAnswer]
	task    SourceTask
	context *SourceContext

	polls   chan string // the trace of each
	commits chan *pluginpb.SourceRequest

	sending sync.Mutex // of the stream

	mu        sync.Mutex
	questions map[uint64]chan *pluginpb.Offsets
	asked     uint64
	unacked   unacked
	encoder   batchEncoder // the poller's
}

// Source runs one task until its requests end.
func (s *served) Source(stream grpc.BidiStreamingServer[pluginpb.SourceRequest, pluginpb.SourceAnswer]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first request of a task is not its start")
	}
	o, err := s.find(pluginpb.Kind_KIND_SOURCE, start.Connector)
	if err != nil {
		return err
	}
	r := &sourceRun{stream: stream, task: o.connector.(SourceConnector).NewSourceTask(),
		polls: make(chan string, maxWaitingPolls), commits: make(chan *pluginpb.SourceRequest, maxWaitingCommits), questions: map[uint64]chan *pluginpb.Offsets{}}
	r.context = &SourceContext{name: start.Name, task: int(start.Task), transactions: start.Transactions, read: r.readOffsets}
	return r.run(withTraceparent(stream.Context(), first.Traceparent), start)
}

func (r *sourceRun) run(ctx context.Context, start *pluginpb.StartTask) error {
	polling, stopPolling := context.WithCancel(ctx)
	defer stopPolling()
	read := make(chan error, 1)
	go func() { read <- r.readRequests(stopPolling) }()
	fault := attempt(polling, func() error { return r.task.Start(polling, r.context, start.Config) })
	_, wantsCommit := r.task.(SourceCommitter)
	_, wantsAcks := r.task.(RecordCommitter)
	err := r.send(&pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Started{
		Started: &pluginpb.Started{Fault: fault, WantsCommit: wantsCommit, WantsAcks: wantsAcks}}})
	var work sync.WaitGroup
	if err == nil && fault == nil {
		work.Go(func() { r.poll(polling, wantsAcks) })
	}
	work.Go(func() { r.commit(ctx) })
	err = errors.Join(err, <-read)
	work.Wait()
	if fault := attempt(ctx, r.task.Stop); fault != nil && err == nil {
		err = status.Error(codes.Unknown, fault.Text)
	}
	return err
}

// readRequests takes requests until they end, and never waits for the task but while maxWaitingCommits wait.
func (r *sourceRun) readRequests(stopPolling func()) error {
	defer close(r.commits)
	defer stopPolling()
	for {
		request, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch one := request.Request.(type) {
		case *pluginpb.SourceRequest_Poll:
			select {
			case r.polls <- request.Traceparent:
			default:
				return status.Errorf(codes.ResourceExhausted, "more than %d polls wait for their answer", maxWaitingPolls)
			}
		case *pluginpb.SourceRequest_Offsets:
			r.mu.Lock()
			if waiting := r.questions[one.Offsets.Question]; waiting != nil {
				delete(r.questions, one.Offsets.Question)
				waiting <- one.Offsets
			}
			r.mu.Unlock()
		case *pluginpb.SourceRequest_Acks, *pluginpb.SourceRequest_Commit:
			select {
			case r.commits <- request:
			case <-r.stream.Context().Done():
				return r.stream.Context().Err()
			}
		case *pluginpb.SourceRequest_StopPolling:
			stopPolling()
		}
	}
}

func (r *sourceRun) send(answer *pluginpb.SourceAnswer) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.stream.Send(answer)
}

// readOffsets asks for the stored offsets of partitions.
func (r *sourceRun) readOffsets(ctx context.Context, partitions [][]byte) ([][]byte, error) {
	answer := make(chan *pluginpb.Offsets, 1)
	r.mu.Lock()
	r.asked++
	question := r.asked
	r.questions[question] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.questions, question)
		r.mu.Unlock()
	}()
	if err := r.send(&pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_ReadOffsets{
		ReadOffsets: &pluginpb.ReadOffsets{Question: question, Partitions: partitions}}}); err != nil {
		return nil, err
	}
	select {
	case offsets := <-answer:
		switch {
		case offsets.Fault != "":
			return nil, errors.New(offsets.Fault)
		case len(offsets.Offsets) != len(partitions):
			return nil, fmt.Errorf("asked for %d offsets, told %d", len(partitions), len(offsets.Offsets))
		}
		return offsets.Offsets, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.stream.Context().Done():
		return nil, r.stream.Context().Err()
	}
}

// poll answers polls until ctx ends or a poll fails for good.
func (r *sourceRun) poll(ctx context.Context, acks bool) {
	for {
		var traceparent string
		select {
		case traceparent = <-r.polls:
		case <-ctx.Done():
			return
		}
		var records []SourceRecord
		fault := attempt(ctx, func() (err error) {
			for len(records) == 0 && err == nil && ctx.Err() == nil && r.context.boundary == noBoundary {
				records, err = r.task.Poll(withTraceparent(ctx, traceparent))
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		boundary := r.context.boundary
		r.context.boundary = noBoundary
		if fault == nil {
			if acks {
				r.unacked.add(records)
			}
			fault = attempt(ctx, func() error { return r.sendBatch(records, boundary) })
		}
		if fault == nil {
			continue
		}
		if err := r.send(&pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Fault{Fault: fault}}); err != nil || !fault.Retriable {
			return // the reader sees why, or asks to end
		}
	}
}

func (r *sourceRun) sendBatch(records []SourceRecord, boundary boundary) error {
	for len(records) > pieceRecords {
		if err := r.sendPiece(records[:pieceRecords], true, noBoundary); err != nil {
			return err
		}
		records = records[pieceRecords:]
	}
	return r.sendPiece(records, false, boundary)
}

// sendPiece sends records as one message, or as several when they take too many bytes.
func (r *sourceRun) sendPiece(records []SourceRecord, more bool, end boundary) error {
	batch, err := r.encoder.encode(records)
	if err != nil {
		return err
	}
	if half := len(records) / 2; half > 0 && len(batch.Records) > pieceBytes {
		if err := r.sendPiece(records[:half], true, noBoundary); err != nil {
			return err
		}
		return r.sendPiece(records[half:], more, end)
	}
	if len(batch.Records) >= MaxRequestBytes-pieceBytes {
		return fmt.Errorf("a record of %d bytes is more than a message can have", len(batch.Records))
	}
	batch.More, batch.Boundary = more, pluginpb.Boundary(end)
	return r.send(&pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Batch{Batch: batch}})
}

// maxKeptBytes bounds the memory that is kept for the next piece.
const maxKeptBytes = 1 << 20

// batchEncoder keeps from one piece to the next what would be made anew for each. A piece is to be sent before the next is encoded:
// gRPC has marshalled it by then.
type batchEncoder struct {
	wire   wire.Encoder
	buffer []byte
	places map[*SourcePartition]uint32
}

func (e *batchEncoder) encode(records []SourceRecord) (*pluginpb.SourceBatch, error) {
	batch := &pluginpb.SourceBatch{}
	if e.places == nil {
		e.places = map[*SourcePartition]uint32{}
	}
	clear(e.places)
	e.wire.Begin(e.buffer[:0])
	for i := range records {
		record := &records[i]
		if err := e.wire.Add(&record.Record); err != nil {
			return nil, err
		}
		if record.Source == nil {
			continue
		}
		if batch.PartitionOf == nil {
			batch.PartitionOf = make([]uint32, len(records))
		}
		place := e.places[record.Source]
		if place == 0 {
			batch.Partitions = append(batch.Partitions, record.Source.key)
			place = uint32(len(batch.Partitions))
			e.places[record.Source] = place
		}
		batch.PartitionOf[i] = place
		if record.Offset == nil {
			continue
		}
		if batch.Offsets == nil {
			batch.Offsets = make([][]byte, len(records))
		}
		var err error
		if batch.Offsets[i], err = encodeOffset(record.Offset); err != nil {
			return nil, fmt.Errorf("offset of record %d: %w", i, err)
		}
	}
	batch.Records = e.wire.End()
	if e.buffer = batch.Records; cap(e.buffer) > maxKeptBytes {
		e.buffer = nil
	}
	return batch, nil
}

func encodeOffset(offset any) ([]byte, error) {
	if text, ok := offset.(json.RawMessage); ok {
		return text, nil
	}
	return object(offset)
}

// commit tells the task of acks and commits until requests end.
func (r *sourceRun) commit(ctx context.Context) {
	for request := range r.commits {
		ctx := withTraceparent(ctx, request.Traceparent)
		if acks := request.GetAcks(); acks != nil {
			r.acknowledge(ctx, acks.Acks)
			continue
		}
		c, ok := r.task.(SourceCommitter)
		if !ok {
			continue
		}
		fault := attempt(ctx, func() error { return c.Commit(ctx) })
		_ = r.send(&pluginpb.SourceAnswer{Answer: &pluginpb.SourceAnswer_Committed{Committed: &pluginpb.Committed{Fault: fault}}}) // the reader sees why
	}
}

func (r *sourceRun) acknowledge(ctx context.Context, acks []*pluginpb.Ack) {
	c, ok := r.task.(RecordCommitter)
	if !ok {
		return
	}
	for _, ack := range acks {
		record := r.unacked.take(ack.Record)
		if record == nil {
			continue
		}
		var m *RecordMetadata
		if ack.Stored {
			m = &RecordMetadata{Topic: ack.Topic, Partition: ack.Partition, Offset: ack.Offset, TimestampMs: ack.TimestampMs}
		}
		if fault := attempt(ctx, func() error { return c.CommitRecord(ctx, record, m) }); fault != nil {
			slog.WarnContext(ctx, "record was not confirmed to its source", "error", fault.Text)
		}
	}
}

// unacked are the records that were sent and not acknowledged, by their numbers. How many there are is up to Cauce, which
// bounds what it has under way.
type unacked struct {
	mu      sync.Mutex
	first   uint64
	records []*SourceRecord // nil for those acknowledged
}

func (u *unacked) add(records []SourceRecord) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range records {
		u.records = append(u.records, &records[i])
	}
}

// take removes a record; nil when it is not there.
func (u *unacked) take(number uint64) *SourceRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	if number < u.first || number-u.first >= uint64(len(u.records)) {
		return nil
	}
	record := u.records[number-u.first]
	u.records[number-u.first] = nil
	for len(u.records) > 0 && u.records[0] == nil {
		u.records = u.records[1:]
		u.first++
	}
	return record
}
