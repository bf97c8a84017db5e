package fetcher

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zapcore"
)

// initialEpoch is that of a fetch that asks for a new session (KIP-227).
const initialEpoch = 0

// session is the follower's side of a fetch session: a request names what has changed since the one before.
type session struct {
	id, epoch int32
	changed   map[key]*replica // to be named in the next request
	known     map[key]struct{} // fetched for us by the leader
	forgotten map[key]struct{} // known, and not wanted any more; never changed too
	topics    map[[16]byte]int // of the request being made, by id
}

// position is what a request says of a partition.
type position struct {
	offset, start int64
	lastEpoch     int32
}

func newSession() session {
	return session{changed: map[key]*replica{}, known: map[key]struct{}{}, forgotten: map[key]struct{}{}, topics: map[[16]byte]int{}}
}

// want has the partition fetched, from where its log ends.
func (s *session) want(r *replica) {
	s.changed[r.key] = r
	delete(s.forgotten, r.key)
}

// drop has the partition fetched no more.
func (s *session) drop(r *replica) {
	delete(s.changed, r.key)
	if _, ok := s.known[r.key]; ok {
		s.forgotten[r.key] = struct{}{}
	}
}

// moved has the leader learn of what has become of the partition's log, if that is anything.
func (s *session) moved(r *replica) {
	if r.position() != r.told {
		s.changed[r.key] = r
	}
}

// position is where the log ends and begins; a log that has failed has none.
func (r *replica) position() position {
	l, err := r.partition.Log()
	if err != nil {
		return position{lastEpoch: -1}
	}
	return position{l.EndOffset(), l.StartOffset(), l.LatestEpoch()}
}

// reset begins anew, with all partitions that are fetched.
func (s *session) reset(fetched func(func(*replica) bool)) {
	s.id, s.epoch = 0, initialEpoch
	clear(s.known)
	clear(s.forgotten)
	clear(s.changed)
	for r := range fetched {
		s.changed[r.key] = r
	}
}

// answered takes the session's id from an answer. It is 0 when the leader keeps none.
func (s *session) answered(id int32, fetched func(func(*replica) bool)) {
	switch {
	case id == 0:
		s.reset(fetched)
		return
	case s.epoch == math.MaxInt32:
		s.epoch = 0
	}
	s.id, s.epoch = id, s.epoch+1
}

// request is the next fetch.
func (s *session) request(cfg *Config) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.ReplicaID = cfg.NodeID
	q.ReplicaState.ID, q.ReplicaState.Epoch = cfg.NodeID, cfg.NodeEpoch()
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = int32(cfg.MaxWait/time.Millisecond), cfg.MinBytes, cfg.MaxBytes
	q.SessionID, q.SessionEpoch = s.id, s.epoch
	for _, r := range s.changed {
		r.told = r.position()
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.PartitionMaxBytes = r.key.partition, r.leaderEpoch, cfg.MaxPartitionBytes
		p.FetchOffset, p.LogStartOffset, p.LastFetchedEpoch = r.told.offset, r.told.start, r.told.lastEpoch
		i, ok := s.topics[r.key.topic]
		if !ok {
			i = len(q.Topics)
			s.topics[r.key.topic] = i
			q.Topics = append(q.Topics, kmsg.FetchRequestTopic{TopicID: r.key.topic})
		}
		q.Topics[i].Partitions = append(q.Topics[i].Partitions, p)
		s.known[r.key] = struct{}{}
	}
	clear(s.changed)
	clear(s.topics)
	for k := range s.forgotten {
		q.ForgottenTopics = append(q.ForgottenTopics, kmsg.FetchRequestForgottenTopic{TopicID: k.topic, Partitions: []int32{k.partition}})
		delete(s.known, k)
	}
	clear(s.forgotten)
	return q
}

// backoff is the wait before the next try of something that failed.
type backoff struct{ last time.Duration }

// next doubles from try to try, up to the longest.
func (b *backoff) next(longest time.Duration) time.Duration {
	b.last = min(max(2*b.last, firstBackoff), max(longest, firstBackoff))
	return b.last
}

func (b *backoff) reset() { b.last = 0 }

// level is what a failure is logged at: only the first in a row is told to everybody.
func (b *backoff) level() zapcore.Level {
	if b.last > 0 {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}
