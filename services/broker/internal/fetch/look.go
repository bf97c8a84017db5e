package fetch

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/replication"
)

// replica is who fetches, if it is a follower.
type replica struct {
	id    int32 // of the node, -1 for a consumer
	epoch int64 // of its registration, -1 when it tells none
}

func (r replica) isOne() bool { return r.id >= 0 }

// replicaOf is who sends the request. Negative ids are consumers, those that pose as none in particular too.
func replicaOf(q *kmsg.FetchRequest) replica {
	r := replica{q.ReplicaID, -1}
	if q.Version >= 15 {
		r = replica{q.ReplicaState.ID, q.ReplicaState.Epoch}
	}
	if r.id < 0 {
		return replica{-1, -1}
	}
	return r
}

// read looks at one partition.
func (f *fetch) read(e *entry, budget int, minOneBatch bool) result {
	if e.partition == nil || e.partition.Gone() {
		e.resolve(f.service.parts, f.session)
	}
	res := result{entry: e, highWatermark: -1, stableOffset: -1, start: -1, divergingEpoch: -1, divergingEndOffset: -1, preferred: -1}
	if res.err = f.look(e, &res, budget, minOneBatch); res.err != nil {
		res.highWatermark, res.stableOffset, res.start = -1, -1, -1
		if e.partition != nil {
			e.partition.Topic.Counters().FailedFetchRequests.Add(1)
		}
	}
	return res
}

func (f *fetch) look(e *entry, res *result, budget int, minOneBatch bool) error {
	q := &f.request
	if q.Version >= 13 && e.key.topicID == (metadata.TopicID{}) {
		return kerr.UnknownTopicID
	}
	if e.partition == nil {
		return f.service.parts.WhyNot(e.key.topic, e.key.topicID, e.key.partition)
	}
	l, err := f.openLog(e)
	if err != nil {
		return err
	}
	diverges, epoch, endOffset, err := replication.Diverges(l, e.offset, e.lastFetchedEpoch)
	if err != nil {
		return err
	}
	res.highWatermark, res.stableOffset, res.start = l.HighWatermark(), l.StableOffset(), l.StartOffset()
	if diverges {
		res.divergingEpoch, res.divergingEndOffset = epoch, endOffset
		return nil
	}
	isolation := log.HighWatermark
	res.bound = res.highWatermark
	switch {
	case f.session.replica.isOne():
		isolation, res.bound = log.LogEnd, l.EndOffset()
	case q.IsolationLevel == 1:
		isolation, res.bound = log.Stable, res.stableOffset
	}
	if res.preferred = f.preferred(e, res.start); res.preferred >= 0 || f.throttled(e) {
		return nil
	}
	slice, err := l.Read(e.offset, min(budget, int(e.maxBytes)), isolation, minOneBatch)
	if err != nil {
		return err
	}
	res.slice = slice
	if isolation == log.Stable && slice.Size() > 0 {
		res.aborted, err = l.AbortedTxns(nil, e.offset, slice.UpTo())
	}
	return err
}

// throttled says whether the follower has to wait for its records: it is not in sync, and those that are throttled have had what
// they may. The partition has its turn again with the next fetch.
func (f *fetch) throttled(e *entry) bool {
	who := f.session.replica
	return who.isOne() && e.partition.ThrottledAsLeader() && !e.partition.State().InSync(who.id) && f.service.cfg.Throttle.Exceeded(time.Now().UnixMilli())
}

// openLog finds the log that may be read: the leader's for followers, any replica's for consumers that know of that (KIP-392).
func (f *fetch) openLog(e *entry) (*log.Log, error) {
	switch {
	case f.session.replica.isOne():
		if !e.acknowledged {
			if err := f.acknowledge(e); err != nil {
				return nil, err
			}
			f.done.Fire()
		}
		return e.partition.Leading(e.leaderEpoch)
	case f.request.Version >= 11:
		return e.partition.Serving(e.leaderEpoch)
	default:
		return e.partition.Leading(e.leaderEpoch)
	}
}

// acknowledge tells the partition how far the follower has come, once for each offset that it names.
func (f *fetch) acknowledge(e *entry) error {
	if e.partition == nil {
		return kerr.NotLeaderForPartition
	}
	who := f.session.replica
	err := e.partition.Fetched(replication.Fetch{Node: who.id, NodeEpoch: who.epoch, Offset: e.offset, StartOffset: e.start},
		e.leaderEpoch, e.lastFetchedEpoch, &f.done)
	e.acknowledged = err == nil
	return err
}

// preferred is the replica that the consumer had better read from, -1 for this one.
func (f *fetch) preferred(e *entry, start int64) int32 {
	q := &f.request
	if !f.service.cfg.RackAware || q.Version < 11 || q.Rack == "" || f.session.replica.isOne() || e.offset < start || e.partition.CheckLeader(-1) != nil {
		return -1
	}
	return e.partition.NearestReplica(e.offset, q.Rack, f.r.Conn.Listener())
}
