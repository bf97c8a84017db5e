package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// Timestamps that stand for a place in the log instead of a time.
const (
	latestTimestamp       = -1
	earliestTimestamp     = -2
	maxTimestamp          = -3 // KIP-734, v7+
	earliestLocal         = -4 // KIP-405, v8+
	latestTiered          = -5 // KIP-1005, v9+
	earliestPendingUpload = -6 // KIP-1023, v11+
)

// minVersion of a request that may name the special timestamp.
var minVersion = map[int64]int16{maxTimestamp: 7, earliestLocal: 8, latestTiered: 9, earliestPendingUpload: 11}

// consumer is the replica id of who is none.
const consumer = -1

type foundOffset struct {
	offset, timestampMs int64
	epoch               int32
}

var nothingFound = foundOffset{offset: -1, timestampMs: -1, epoch: -1}

// listOffsets answers ListOffsets v1-11 (KIP-79, KIP-98 isolation level, KIP-320 leader epochs, KIP-734).
func (s *Service) listOffsets(q *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.ListOffsetsResponse)
	named := timesNamed(q)
	for i := range q.Topics {
		t := &q.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			found, err := nothingFound, error(kerr.InvalidRequest)
			key := topicPartition{t.Topic, p.Partition}
			switch named[key] {
			case answered:
				continue
			case 1:
				found, err = s.listOffset(q, t.Topic, p)
			default:
				named[key] = answered
			}
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, wire.Code(err)
			part.Offset, part.Timestamp, part.LeaderEpoch = found.offset, found.timestampMs, found.epoch
			out.Partitions = append(out.Partitions, part)
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp
}

type topicPartition struct {
	topic     string
	partition int32
}

// answered marks a partition that is named several times and has its one answer, INVALID_REQUEST as with Kafka.
const answered = -1

// timesNamed counts how often the request names each partition.
func timesNamed(q *kmsg.ListOffsetsRequest) map[topicPartition]int {
	times := map[topicPartition]int{}
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			times[topicPartition{q.Topics[i].Topic, q.Topics[i].Partitions[j].Partition}]++
		}
	}
	return times
}

func (s *Service) listOffset(q *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition) (foundOffset, error) {
	if q.Version < minVersion[p.Timestamp] {
		return nothingFound, fmt.Errorf("timestamp %d in v%d: %w", p.Timestamp, q.Version, kerr.UnsupportedVersion)
	}
	l, hosted, err := s.leading(topic, p.Partition, p.CurrentLeaderEpoch)
	if err != nil {
		return nothingFound, err
	}
	// A new leader may not know yet of all that was committed: what a client asks for might come before what it has seen.
	var unsure error
	if q.ReplicaID == consumer && !hosted.KnowsCommitted() {
		unsure = kerr.OffsetNotAvailable
		if q.Version < 5 {
			unsure = kerr.LeaderNotAvailable
		}
	}
	bound := l.HighWatermark()
	switch {
	case q.ReplicaID != consumer:
		bound = l.EndOffset()
	case q.IsolationLevel == 1:
		bound = l.StableOffset()
	}
	switch p.Timestamp {
	case latestTimestamp:
		if unsure != nil {
			return nothingFound, unsure
		}
		return foundOffset{bound, -1, l.LatestEpoch()}, nil
	case earliestTimestamp, earliestLocal:
		start := l.StartOffset()
		return foundOffset{start, -1, l.EpochAt(start)}, nil
	case maxTimestamp:
		return within(bound, unsure)(l.MaxTimestamp())
	case latestTiered, earliestPendingUpload:
		return nothingFound, nil // nothing is tiered
	}
	if p.Timestamp < 0 {
		return nothingFound, fmt.Errorf("timestamp %d: %w", p.Timestamp, kerr.UnsupportedVersion)
	}
	return within(bound, unsure)(l.OffsetForTime(p.Timestamp))
}

// within drops what lies at or beyond the bound that the reader may not pass, or says why that is not sure.
func within(bound int64, unsure error) func(offset, timestampMs int64, epoch int32, found bool, err error) (foundOffset, error) {
	return func(offset, timestampMs int64, epoch int32, found bool, err error) (foundOffset, error) {
		if err == nil && (!found || offset >= bound) {
			err = unsure
			found = false
		}
		if err != nil || !found {
			return nothingFound, err
		}
		return foundOffset{offset, timestampMs, epoch}, nil
	}
}
