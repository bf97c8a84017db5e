package produce

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// appendResponse appends the body of the response at the request's version to dst.
func (p *produce) appendResponse(dst []byte) []byte {
	q := &p.request
	flexible := q.Version >= 9
	dst = wire.AppendArrayLen(dst, len(q.Topics), flexible)
	next := 0
	p.leaders.Reset()
	for i := range q.Topics {
		t := &q.Topics[i]
		if q.Version >= 13 {
			dst = append(dst, t.TopicID[:]...)
		} else {
			dst = wire.AppendString(dst, t.Topic, flexible)
		}
		dst = wire.AppendArrayLen(dst, len(t.Partitions), flexible)
		for j := range t.Partitions {
			id, res := t.Partitions[j].Partition, &p.results[next]
			dst = appendPartition(dst, id, res, q.Version)
			switch {
			case q.Version >= 10 && wire.Misdirected(res.err):
				leader, epoch := p.service.parts.LeaderOf(t.Topic, t.TopicID, id)
				dst = p.leaders.AppendCurrent(append(dst, 1), 0, leader, epoch)
			case flexible:
				dst = append(dst, 0)
			}
			next++
		}
		if flexible {
			dst = append(dst, 0)
		}
	}
	dst = kbin.AppendInt32(dst, 0) // throttle
	if flexible {
		dst = p.leaders.AppendEndpoints(dst, p.service.parts.Image(), p.r.Conn.Listener())
	}
	return dst
}

// appendPartition appends what is said of one partition, without its tagged fields.
func appendPartition(dst []byte, id int32, res *result, version int16) []byte {
	baseOffset, appendTimeMs, start := res.info.FirstOffset, res.info.LogAppendTimeMs, res.info.LogStartOffset
	if res.err != nil {
		baseOffset, appendTimeMs, start = -1, -1, -1
	}
	dst = kbin.AppendInt32(dst, id)
	dst = kbin.AppendInt16(dst, wire.Code(res.err))
	dst = kbin.AppendInt64(dst, baseOffset)
	dst = kbin.AppendInt64(dst, appendTimeMs)
	if version >= 5 {
		dst = kbin.AppendInt64(dst, start)
	}
	if version >= 8 {
		dst = appendErrors(dst, res.err, version >= 9)
	}
	return dst
}

// appendErrors appends record_errors and error_message (KIP-467).
func appendErrors(dst []byte, err error, flexible bool) []byte {
	var bad *log.RecordError
	if errors.As(err, &bad) {
		dst = wire.AppendArrayLen(dst, 1, flexible)
		dst = kbin.AppendInt32(dst, bad.BatchIndex)
		dst = wire.AppendNullableString(dst, &bad.Message, flexible)
		if flexible {
			dst = append(dst, 0)
		}
	} else {
		dst = wire.AppendArrayLen(dst, 0, flexible)
	}
	return wire.AppendNullableString(dst, wire.Message(err), flexible)
}
