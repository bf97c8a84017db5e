package plugin

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin/data/wire"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// sinkRun is one task of a sink.
type sinkRun struct {
	task    SinkTask
	context *SinkContext
	decoder wire.Decoder
	pieces  []SinkRecord // of a Put that goes on
}

// Sink runs one task until its requests end.
func (s *served) Sink(stream grpc.BidiStreamingServer[pluginpb.SinkRequest, pluginpb.SinkAnswer]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first request of a task is not its start")
	}
	o, err := s.find(pluginpb.Kind_KIND_SINK, start.Connector)
	if err != nil {
		return err
	}
	r := &sinkRun{task: o.connector.(SinkConnector).NewSinkTask(), context: &SinkContext{name: start.Name, task: int(start.Task), reports: start.Reports}}
	ctx := withTraceparent(stream.Context(), first.Traceparent)
	fault := attempt(ctx, func() error { return r.task.Start(ctx, r.context, start.Config) })
	err = stream.Send(&pluginpb.SinkAnswer{Answer: &pluginpb.SinkAnswer_Started{Started: &pluginpb.Started{Fault: fault}}})
	if err == nil {
		err = r.serve(stream)
	}
	if fault := attempt(ctx, r.task.Stop); fault != nil && err == nil {
		err = status.Error(codes.Unknown, fault.Text)
	}
	return err
}

func (r *sinkRun) serve(stream grpc.BidiStreamingServer[pluginpb.SinkRequest, pluginpb.SinkAnswer]) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if put := request.GetPut(); put != nil && put.More {
			if err := r.take(put); err != nil {
				return err
			}
			continue
		}
		done := &pluginpb.SinkDone{}
		ctx := withTraceparent(stream.Context(), request.Traceparent)
		done.Fault = attempt(ctx, func() error { return r.handle(ctx, request, done) })
		encodeWishes(r.context.take(), done)
		if err := stream.Send(&pluginpb.SinkAnswer{Answer: &pluginpb.SinkAnswer_Done{Done: done}}); err != nil {
			return err
		}
	}
}

// take keeps a piece of a batch. The task may keep what it is put, so each batch has memory of its own.
func (r *sinkRun) take(put *pluginpb.Put) error {
	count, err := r.decoder.Begin(put.Records)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "records to put: %v", err)
	}
	if n := len(put.OriginalOf); n != 0 && n != count {
		return status.Errorf(codes.InvalidArgument, "%d records to put have the original partitions of %d", count, n)
	}
	before := len(r.pieces)
	r.pieces = slices.Grow(r.pieces, count)[:before+count]
	for i := range count {
		record := &r.pieces[before+i]
		if err := r.decoder.Next(&record.Record); err != nil {
			return status.Errorf(codes.InvalidArgument, "records to put: %v", err)
		}
		record.Original = TopicPartition{record.Topic, record.Partition}
		if len(put.OriginalOf) > 0 && put.OriginalOf[i] > 0 {
			place := put.OriginalOf[i]
			if int64(place) > int64(len(put.Originals)) {
				return status.Errorf(codes.InvalidArgument, "a record is of original partition %d, and there are %d", place, len(put.Originals))
			}
			p := put.Originals[place-1]
			record.Original = TopicPartition{p.Topic, p.Partition}
		}
	}
	return nil
}

func (r *sinkRun) handle(ctx context.Context, request *pluginpb.SinkRequest, done *pluginpb.SinkDone) error {
	follower, follows := r.task.(PartitionFollower)
	switch one := request.Request.(type) {
	case *pluginpb.SinkRequest_Put:
		if err := r.take(one.Put); err != nil {
			return err
		}
		records := r.pieces
		r.pieces = nil
		return r.task.Put(ctx, records)
	case *pluginpb.SinkRequest_PreCommit:
		offsets, err := r.preCommit(ctx, decodeOffsets(one.PreCommit.Offsets))
		done.Offsets = encodeOffsets(offsets)
		return err
	case *pluginpb.SinkRequest_Open:
		if follows {
			return follower.Open(ctx, decodePartitions(one.Open))
		}
	case *pluginpb.SinkRequest_Close:
		if follows {
			return follower.Close(ctx, decodePartitions(one.Close))
		}
	default:
		return errors.New("a request that this SDK does not know")
	}
	return nil
}

func (r *sinkRun) preCommit(ctx context.Context, offsets map[TopicPartition]int64) (map[TopicPartition]int64, error) {
	switch task := r.task.(type) {
	case PreCommitter:
		return task.PreCommit(ctx, offsets)
	case Flusher:
		if err := task.Flush(ctx, offsets); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

func decodePartitions(list *pluginpb.Partitions) []TopicPartition {
	partitions := make([]TopicPartition, len(list.Partitions))
	for i, p := range list.Partitions {
		partitions[i] = TopicPartition{p.Topic, p.Partition}
	}
	return partitions
}

func encodeWishes(w wishes, done *pluginpb.SinkDone) {
	for _, e := range w.errant {
		done.Errant = append(done.Errant, &pluginpb.ErrantRecord{Topic: e.Topic, Partition: e.Partition, Offset: e.offset, Fault: e.fault})
	}
	done.Seek = encodeOffsets(w.seek)
	for p, paused := range w.paused {
		one := &pluginpb.TopicPartition{Topic: p.Topic, Partition: p.Partition}
		if paused {
			done.Pause = append(done.Pause, one)
		} else {
			done.Resume = append(done.Resume, one)
		}
	}
	done.TimeoutMs, done.Commit = w.timeout.Milliseconds(), w.commit
}
