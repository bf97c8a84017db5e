package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data/wire"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// A batch is sent in pieces of at most so many records, and where records are large of about so many bytes.
const (
	pieceRecords = 4096
	pieceBytes   = 4 << 20
)

// Wishes are what a task has reported and asked for since its last answer.
type Wishes struct {
	// Errant are records that could not be written.
	Errant []Errant
	// Seek has the records of partitions put from an offset on.
	Seek map[plugin.TopicPartition]int64
	// Pause and Resume are partitions whose records the task wants none of, and wants again.
	Pause, Resume []plugin.TopicPartition
	// NextPut is the time until Put is to be called again; 0 for any.
	NextPut time.Duration
	// Commit asks for a PreCommit soon.
	Commit bool
}

// Errant is a record that a sink cannot write.
type Errant struct {
	plugin.TopicPartition
	Offset int64
	Fault  string
}

// SinkTask is a running task of a sink. Its methods are for one goroutine at a time, but Done and Err. When the context of a
// call ends before its answer, the task is over: what it has done is not known.
type SinkTask struct {
	process Process
	stream  grpc.BidiStreamingClient[pluginpb.SinkRequest, pluginpb.SinkAnswer]
	cancel  context.CancelFunc
	answers chan *pluginpb.SinkAnswer
	done    chan struct{} // closed when the stream has ended
	err     error         // why; valid when done is closed
	encoder putEncoder

	mu       sync.Mutex
	stopping bool
}

// StartSink starts a task. It is over when Stop has returned.
func (c *Connector) StartSink(ctx context.Context, t Task) (*SinkTask, error) {
	// The stream outlives the call that starts it.
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	task := &SinkTask{process: c.Process, cancel: cancel, answers: make(chan *pluginpb.SinkAnswer, 1), done: make(chan struct{})}
	var err error
	if task.stream, err = c.Client.Sink(streaming, grpc.MaxCallRecvMsgSize(plugin.MaxRequestBytes)); err != nil {
		err = c.Process.explain(err)
		cancel()
		c.Process.end()
		return nil, err
	}
	go task.readAnswers()
	answer, err := task.ask(ctx, &pluginpb.SinkRequest{Request: &pluginpb.SinkRequest_Start{Start: c.start(&t)}})
	if err == nil {
		if started := answer.GetStarted(); started != nil {
			err = decodeFault(started.Fault)
		} else {
			err = errors.New("its first answer is not that it has started")
		}
	}
	if err != nil {
		_ = task.Stop(ctx) // what is wrong is known
		return nil, err
	}
	return task, nil
}

// readAnswers takes answers until the stream ends.
func (t *SinkTask) readAnswers() {
	var err error
	for err == nil {
		var answer *pluginpb.SinkAnswer
		if answer, err = t.stream.Recv(); err != nil {
			break
		}
		select {
		case t.answers <- answer:
		default:
			err = errors.New("it answers what it was not asked")
		}
	}
	t.mu.Lock()
	wanted := t.stopping
	t.mu.Unlock()
	t.err = t.process.ended(err, wanted)
	t.cancel()
	close(t.done)
}

// send sends a request; the error is why the stream has ended.
func (t *SinkTask) send(request *pluginpb.SinkRequest) error {
	if err := t.stream.Send(request); err != nil {
		<-t.done // the reader sees why
		return t.err
	}
	return nil
}

// ask sends a request and waits for its answer.
func (t *SinkTask) ask(ctx context.Context, request *pluginpb.SinkRequest) (*pluginpb.SinkAnswer, error) {
	// Sending may wait for a task that takes nothing, without an end of its own.
	defer context.AfterFunc(ctx, t.cancel)()
	request.Traceparent = traceparent(ctx)
	if err := t.send(request); err != nil {
		return nil, err
	}
	select {
	case answer := <-t.answers:
		return answer, nil
	case <-t.done:
		select {
		case answer := <-t.answers:
			return answer, nil
		default:
		}
		return nil, t.err
	}
}

// do asks for something whose answer is that it is done.
func (t *SinkTask) do(ctx context.Context, request *pluginpb.SinkRequest) (*pluginpb.SinkDone, Wishes, error) {
	answer, err := t.ask(ctx, request)
	if err != nil {
		return nil, Wishes{}, err
	}
	done := answer.GetDone()
	if done == nil {
		return nil, Wishes{}, errors.New("it starts again instead of an answer")
	}
	w := Wishes{Seek: decodeOffsets(done.Seek), Pause: decodePartitions(done.Pause), Resume: decodePartitions(done.Resume), NextPut: millis(done.TimeoutMs), Commit: done.Commit}
	for _, e := range done.Errant {
		w.Errant = append(w.Errant, Errant{plugin.TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Offset, e.Fault})
	}
	return done, w, decodeFault(done.Fault)
}

// Open says which partitions the task has from now on, besides those that it has.
func (t *SinkTask) Open(ctx context.Context, partitions []plugin.TopicPartition) (Wishes, error) {
	_, w, err := t.do(ctx, &pluginpb.SinkRequest{Request: &pluginpb.SinkRequest_Open{Open: encodePartitions(partitions)}})
	return w, err
}

// Close says which partitions the task has no longer.
func (t *SinkTask) Close(ctx context.Context, partitions []plugin.TopicPartition) (Wishes, error) {
	_, w, err := t.do(ctx, &pluginpb.SinkRequest{Request: &pluginpb.SinkRequest_Close{Close: encodePartitions(partitions)}})
	return w, err
}

// Put has records written; there may be none. After a Fault that is retriable the same records are to be put again. After any
// other error the task is over.
func (t *SinkTask) Put(ctx context.Context, records []plugin.SinkRecord) (Wishes, error) {
	defer context.AfterFunc(ctx, t.cancel)()
	var err error
	for len(records) > pieceRecords && err == nil {
		err = t.sendPiece(records[:pieceRecords])
		records = records[pieceRecords:]
	}
	var w Wishes
	if err == nil {
		w, err = t.putPiece(ctx, records)
	}
	var f *Fault
	if err != nil && !errors.As(err, &f) {
		t.cancel() // it may have the first pieces only
		err = errors.Join(ctx.Err(), err)
	}
	return w, err
}

// putPiece sends the last records of a batch and waits for its answer.
func (t *SinkTask) putPiece(ctx context.Context, records []plugin.SinkRecord) (Wishes, error) {
	put, err := t.encoder.encode(records)
	if err != nil {
		return Wishes{}, err
	}
	if half := len(records) / 2; half > 0 && len(put.Records) > pieceBytes {
		if err := t.sendPiece(records[:half]); err != nil {
			return Wishes{}, err
		}
		return t.putPiece(ctx, records[half:])
	}
	_, w, err := t.do(ctx, &pluginpb.SinkRequest{Request: &pluginpb.SinkRequest_Put{Put: put}})
	return w, err
}

// sendPiece sends records of a batch that goes on.
func (t *SinkTask) sendPiece(records []plugin.SinkRecord) error {
	put, err := t.encoder.encode(records)
	if err != nil {
		return err
	}
	if half := len(records) / 2; half > 0 && len(put.Records) > pieceBytes {
		if err := t.sendPiece(records[:half]); err != nil {
			return err
		}
		return t.sendPiece(records[half:])
	}
	put.More = true
	return t.send(&pluginpb.SinkRequest{Request: &pluginpb.SinkRequest_Put{Put: put}})
}

// maxKeptBytes bounds the memory that is kept for the next piece.
const maxKeptBytes = 1 << 20

// putEncoder keeps from one piece to the next what would be made anew for each. A piece is to be sent before the next is encoded:
// gRPC has marshalled it by then.
type putEncoder struct {
	wire   wire.Encoder
	buffer []byte
	places map[plugin.TopicPartition]uint32
}

func (e *putEncoder) encode(records []plugin.SinkRecord) (*pluginpb.Put, error) {
	put := &pluginpb.Put{}
	if e.places == nil {
		e.places = map[plugin.TopicPartition]uint32{}
	}
	clear(e.places)
	e.wire.Begin(e.buffer[:0])
	for i := range records {
		r := &records[i]
		if err := e.wire.Add(&r.Record); err != nil {
			return nil, err
		}
		if r.Original.Topic == r.Topic && r.Original.Partition == r.Partition {
			continue
		}
		place := e.places[r.Original]
		if place == 0 {
			put.Originals = append(put.Originals, &pluginpb.TopicPartition{Topic: r.Original.Topic, Partition: r.Original.Partition})
			place = uint32(len(put.Originals))
			e.places[r.Original] = place
		}
		if put.OriginalOf == nil {
			put.OriginalOf = make([]uint32, len(records))
		}
		put.OriginalOf[i] = place
	}
	put.Records = e.wire.End()
	if e.buffer = put.Records; cap(e.buffer) > maxKeptBytes {
		e.buffer = nil
	}
	if size := len(put.Records); len(records) == 1 && size >= plugin.MaxRequestBytes-pieceBytes {
		return nil, fmt.Errorf("a record of %d bytes is more than a message can have", size)
	}
	return put, nil
}

// PreCommit asks which offsets, of those after what was put, may be committed. After a Fault the task is to go on from the
// last that are.
func (t *SinkTask) PreCommit(ctx context.Context, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, Wishes, error) {
	done, w, err := t.do(ctx, &pluginpb.SinkRequest{Request: &pluginpb.SinkRequest_PreCommit{PreCommit: &pluginpb.PreCommit{Offsets: encodeOffsets(offsets)}}})
	if err != nil {
		return nil, w, err
	}
	return decodeOffsets(done.Offsets), w, nil
}

// Done is closed when the task has ended, Err says why then.
func (t *SinkTask) Done() <-chan struct{} { return t.done }

// Err is why the task has ended.
func (t *SinkTask) Err() error { return t.err }

// Stop has the task end, and its process. When ctx ends first they are ended all the same, and the error says so; another
// error is the task's.
func (t *SinkTask) Stop(ctx context.Context) error {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
	_ = t.stream.CloseSend() // an error is one of the stream, which the reader sees
	return stop(ctx, t.done, func() error { return t.err }, t.cancel, t.process)
}
