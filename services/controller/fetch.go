package controller

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/services/controller/internal/quorum"
)

// What one answer to a fetch holds at least and at most, unless a single batch is larger.
const (
	minFetchBytes = 16 << 10
	maxFetchBytes = 4 << 20
)

// serveFetch answers nodes that have to catch up. Every controller does, from what it has applied.
func (s *Service) serveFetch() (subscriptions, error) {
	handle := func(_ context.Context, req *controlpb.FetchRequest, reply func(*controlpb.FetchResponse, error)) {
		reply(s.fetch(req), nil)
	}
	shared, err := controlpb.Fetch.ServeShared(s.bus, handle)
	if err != nil {
		return nil, err
	}
	own, err := controlpb.Fetch.At(s.cfg.ID).Serve(s.bus, handle)
	if err != nil {
		shared.Close()
		return nil, err
	}
	return subscriptions{shared, own}, nil
}

func (s *Service) fetch(req *controlpb.FetchRequest) *controlpb.FetchResponse {
	resp := &controlpb.FetchResponse{ControllerId: s.cfg.ID, EndOffset: s.Image().Offset()}
	limit := min(max(int(req.GetMaxBytes()), minFetchBytes), maxFetchBytes)
	if req.GetSnapshotOffset() > 0 {
		s.snapshotChunk(resp, req.GetSnapshotOffset(), req.GetSnapshotPosition(), limit)
		return resp
	}
	entries, err := s.quorum.EntriesAfter(req.GetFromOffset(), limit)
	switch {
	case errors.Is(err, quorum.ErrCompacted):
		index, _ := s.quorum.Snapshot()
		s.snapshotChunk(resp, index, 0, limit)
	case err != nil:
		resp.ErrorCode, resp.ErrorMessage = int32(kerr.UnknownServerError.Code), err.Error()
	}
	for _, e := range entries {
		resp.Batches = append(resp.Batches, &controlpb.FetchResponse_Batch{Offset: e.Index, Records: e.Data})
	}
	return resp
}

// snapshotChunk answers with a part of the snapshot at offset, if that is still the newest.
func (s *Service) snapshotChunk(resp *controlpb.FetchResponse, offset, position int64, limit int) {
	index, data := s.quorum.Snapshot()
	if index != offset || position < 0 || position > int64(len(data)) {
		resp.ErrorCode, resp.ErrorMessage = int32(kerr.SnapshotNotFound.Code), kerr.SnapshotNotFound.Description
		return
	}
	resp.Snapshot = &controlpb.FetchResponse_SnapshotChunk{
		Offset: index, Position: position, Size: int64(len(data)),
		Data: data[position:min(position+int64(limit), int64(len(data)))],
	}
}
