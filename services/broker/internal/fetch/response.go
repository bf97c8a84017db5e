package fetch

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// copyBelowBytes is the size under which records are read into the response instead of being sent from the file:
// the second system call costs more than the copy (docs/performance.md).
const copyBelowBytes = 8 << 10

// answer writes the response that the results make. The fetch returns to the pool once it was sent.
func (f *fetch) answer() {
	q, session := &f.request, f.session
	head := f.r.Begin()
	flexible := q.Version >= 12
	head = kbin.AppendInt32(head, 0) // throttle
	if q.Version >= 7 {
		head = kbin.AppendInt16(head, 0)
		head = kbin.AppendInt32(head, session.id)
	}
	f.leaders.Reset()
	head = wire.AppendArrayLen(head, f.topicRuns(), flexible)
	for i := 0; i < len(f.results); {
		n := f.sameTopic(i)
		head = f.appendTopic(head, i, n)
		i += n
	}
	switch {
	case q.Version >= 16:
		head = f.leaders.AppendEndpoints(head, f.service.parts.Image(), f.r.Conn.Listener())
	case flexible:
		head = append(head, 0)
	}
	f.remember()
	f.noteAnswer()
	r := f.r
	f.session = nil
	f.service.sessions.release(session)
	r.Finish(head, f.chunks, f.sent)
}

// sameTopic counts the results from i on that are of the same topic: consecutive ones share one element of the response.
func (f *fetch) sameTopic(i int) int {
	first := &f.results[i].entry.key
	n := 1
	for ; i+n < len(f.results); n++ {
		if next := &f.results[i+n].entry.key; next.topic != first.topic || next.topicID != first.topicID {
			break
		}
	}
	return n
}

func (f *fetch) topicRuns() int {
	runs := 0
	for i := 0; i < len(f.results); i += f.sameTopic(i) {
		runs++
	}
	return runs
}

func (f *fetch) appendTopic(head []byte, from, n int) []byte {
	version, key := f.request.Version, &f.results[from].entry.key
	flexible := version >= 12
	if version >= 13 {
		head = append(head, key.topicID[:]...)
	} else {
		head = wire.AppendString(head, key.topic, flexible)
	}
	head = wire.AppendArrayLen(head, n, flexible)
	for i := range n {
		head = f.appendPartition(head, &f.results[from+i])
	}
	if flexible {
		head = append(head, 0)
	}
	return head
}

func (f *fetch) appendPartition(head []byte, res *result) []byte {
	version := f.request.Version
	flexible := version >= 12
	head = kbin.AppendInt32(head, res.entry.key.partition)
	head = kbin.AppendInt16(head, wire.Code(res.err))
	head = kbin.AppendInt64(head, res.highWatermark)
	head = kbin.AppendInt64(head, res.stableOffset)
	if version >= 5 {
		head = kbin.AppendInt64(head, res.start)
	}
	head = f.appendAborted(head, res)
	if version >= 11 {
		head = kbin.AppendInt32(head, res.preferred)
	}
	head = f.appendRecords(head, res)
	if !flexible {
		return head
	}
	if version >= 16 && wire.Misdirected(res.err) {
		key := &res.entry.key
		leader, epoch := f.service.parts.LeaderOf(key.topic, key.topicID, key.partition)
		return f.leaders.AppendCurrent(append(head, 1), 1, leader, epoch)
	}
	if res.divergingEpoch < 0 {
		return f.appendTraces(head, res)
	}
	head = append(head, 1, 0, 13) // one tag: number 0, 13 bytes
	head = kbin.AppendInt32(head, res.divergingEpoch)
	head = kbin.AppendInt64(head, res.divergingEndOffset)
	return append(head, 0)
}

// appendAborted lists the aborted transactions for a reader of committed records; for others the list is null.
func (f *fetch) appendAborted(head []byte, res *result) []byte {
	flexible := f.request.Version >= 12
	if f.request.IsolationLevel != 1 {
		if flexible {
			return append(head, 0)
		}
		return kbin.AppendInt32(head, -1)
	}
	head = wire.AppendArrayLen(head, len(res.aborted), flexible)
	for _, txn := range res.aborted {
		head = kbin.AppendInt64(head, txn.ProducerID)
		head = kbin.AppendInt64(head, txn.FirstOffset)
		if flexible {
			head = append(head, 0)
		}
	}
	return head
}

// appendRecords appends the records or leaves their place for the range of the file. An empty partition has a
// field of no bytes, never null (some clients fail on null).
func (f *fetch) appendRecords(head []byte, res *result) []byte {
	size := res.slice.Size()
	if f.request.Version >= 12 {
		head = kbin.AppendUvarint(head, uint32(size)+1)
	} else {
		head = binary.BigEndian.AppendUint32(head, uint32(size))
	}
	if size == 0 {
		return head
	}
	res.entry.partition.Topic.Counters().BytesOut.Add(int64(size))
	if f.session.replica.isOne() && res.entry.partition.ThrottledAsLeader() {
		f.service.cfg.Throttle.Record(int64(size), time.Now().UnixMilli())
	}
	if size < copyBelowBytes {
		if whole, err := res.slice.AppendTo(head); err == nil {
			return whole
		}
		// The file range fails the same way as it is sent, and closes the connection there.
	}
	f.chunks = append(f.chunks, server.Chunk{After: len(head), File: res.slice.File(), Offset: res.slice.Position(), Size: size})
	return head
}

// remember notes what the client knows now. Partitions that had no room count as changed for the next fetch, and behind
// them those that answered with records or an error.
func (f *fetch) remember() {
	if f.session.id == 0 {
		return
	}
	for i := range f.results {
		if res := &f.results[i]; res.slice.Size() == 0 && res.hasMore() {
			f.session.Mark(&res.entry.watch)
		}
	}
	f.markLater()
	for i := range f.results {
		res := &f.results[i]
		res.entry.sentHighWatermark, res.entry.sentStart = res.highWatermark, res.start
		if res.hasMore() {
			f.session.Mark(&res.entry.watch)
		}
	}
}
