// Package fetch answers Fetch: long polls that end with the append that completes them, fetch sessions (KIP-227),
// and responses whose records go from the segment file to the socket.
package fetch

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/quota"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// Config bounds what fetches cost.
type Config struct {
	MaxBytes           int32         // fetch.max.bytes: most bytes of records in one response
	SessionSlots       int           // max.incremental.fetch.session.cache.slots
	SessionEvictsAfter time.Duration // min.incremental.fetch.session.eviction.ms
	// RackAware sends consumers to the replica in their rack (replica.selector.class, KIP-392).
	RackAware bool
	// Throttle limits what followers that are not in sync get of throttled partitions (KIP-73).
	Throttle *quota.Quota
}

// maxWait bounds a wait, which outlives the connection that asked for it.
const maxWait = 5 * time.Minute

// Service answers Fetch requests.
type Service struct {
	cfg      Config
	parts    *partition.Set
	sessions cache
	pool     sync.Pool
}

// New makes a Service over the broker's partitions.
func New(cfg Config, parts *partition.Set) *Service {
	s := &Service{cfg: cfg, parts: parts}
	s.sessions = cache{slots: cfg.SessionSlots, evictAfter: cfg.SessionEvictsAfter, sessions: map[int32]*session{}}
	s.pool.New = func() any {
		f := &fetch{service: s}
		f.sent, f.carryOn = f.recycle, f.run
		return f
	}
	return s
}

// SessionStats returns how many sessions and partitions in idle sessions are cached, and how many were evicted
// (kafka.server:type=FetchSessionCache).
func (s *Service) SessionStats() (sessions, partitions int, evictions int64) {
	return s.sessions.stats()
}

// fetch is one request on its way. It is owned by one goroutine at a time: the reader of its connection, then, if it
// had to wait, whoever ended the wait (see watch.Set).
type fetch struct {
	service  *Service
	request  kmsg.FetchRequest
	r        *server.Request
	session  *session
	scratch  *session // for requests without a session, one after the other
	full     bool     // every partition is answered, not only those with news
	deadline time.Time
	timer    *time.Timer // ends the wait, while there is one

	results []result
	later   []*entry // looked at, and to be looked at again by the next fetch
	chunks  []server.Chunk
	leaders wire.Leaders
	traces  []byte         // of a partition's records, for a follower
	done    partition.Done // waits that a follower's fetch has ended
	sent    func()         // recycle, bound once
	carryOn func()         // run, bound once
}

// result is what the response says of one partition.
type result struct {
	entry                              *entry
	err                                error
	highWatermark, stableOffset, start int64
	divergingEpoch                     int32 // -1 for none
	divergingEndOffset                 int64
	preferred                          int32 // replica to read from instead, -1 for none
	aborted                            []log.AbortedTxn
	bound                              int64 // what the reader may see ends here
	slice                              log.Slice
}

// Handle answers one Fetch request; it runs on the connection's reading goroutine and does not block.
func (s *Service) Handle(r *server.Request) {
	f := s.pool.Get().(*fetch)
	f.r = r
	f.request = kmsg.FetchRequest{Topics: f.request.Topics[:0]} // fields that a version lacks must not be the last request's
	if err := r.Decode(&f.request); err != nil {
		f.recycle()
		r.Fail(err)
		return
	}
	now := time.Now()
	if err := f.open(now); err != nil {
		f.refuse(err)
		return
	}
	// A response can have no more than it may: waiting for more would be in vain.
	f.request.MinBytes = min(f.request.MinBytes, f.request.MaxBytes, s.cfg.MaxBytes)
	f.deadline = now.Add(min(time.Duration(f.request.MaxWaitMillis)*time.Millisecond, maxWait))
	f.session.fetch = f
	if f.session.replica.isOne() {
		r.CountAsFollower()
		f.done.Fire() // what the followers have now was waited for
	}
	r.ReleaseBody()
	f.run()
}

// open finds or makes the session that the request reads with, and brings it up to date with the request.
func (f *fetch) open(now time.Time) error {
	q, sessions := &f.request, &f.service.sessions
	f.full = q.Version < 7 || q.SessionEpoch == sessionlessEpoch || q.SessionEpoch == initialEpoch
	if !f.full {
		session, err := sessions.take(q.SessionID, q.SessionEpoch, now)
		if err != nil {
			return err
		}
		if session.usesIDs != (q.Version >= 13) {
			sessions.release(session)
			return kerr.FetchSessionTopicIDError
		}
		if session.replica != replicaOf(q) {
			sessions.release(session)
			return kerr.FetchSessionIDNotFound
		}
		f.session = session
		f.update()
		if len(session.entries) == 0 { // all are forgotten: the client learns from the id 0 that its session is, too
			sessions.drop(session.id)
			session.id = 0
		}
		return nil
	}
	if q.SessionID != 0 {
		sessions.drop(q.SessionID)
	}
	if f.scratch == nil {
		f.scratch = newSession()
	}
	f.session = f.scratch
	f.session.usesIDs, f.session.replica = q.Version >= 13, replicaOf(q)
	f.update()
	if q.Version >= 7 && q.SessionEpoch == initialEpoch && len(f.session.entries) > 0 && sessions.admit(f.session, now) {
		f.scratch = nil
	}
	return nil
}

func (f *fetch) update() {
	q := &f.request
	for i := range q.ForgottenTopics {
		t := &q.ForgottenTopics[i]
		for _, p := range t.Partitions {
			f.session.remove(entryKey{t.Topic, t.TopicID, p})
		}
	}
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			e := f.session.put(f.service.parts, entryKey{t.Topic, t.TopicID, p.Partition}, p)
			if f.session.replica.isOne() {
				// Whether it succeeds is said when the partition has its turn, but producers need not wait for that.
				_ = f.acknowledge(e)
			}
		}
	}
}

// run answers at once when there is enough to say, else waits. A panic, which the request turns into the end of its
// connection, ends the session as well: nobody would give it back.
func (f *fetch) run() {
	session, sessions, sane := f.session, &f.service.sessions, false
	defer func() {
		if !sane {
			sessions.drop(session.id)
			sessions.release(session)
		}
	}()
	f.answerOrWait(session)
	sane = true
}

func (f *fetch) answerOrWait(session *session) {
	for {
		round := session.Begin()
		bytes, urgent := f.collect(round)
		wait := time.Until(f.deadline)
		if urgent || bytes >= int64(f.request.MinBytes) || wait <= 0 || len(session.entries) == 0 {
			f.answer()
			return
		}
		f.r.Trace().Did("read")
		f.putBack()
		f.timer = time.AfterFunc(wait, func() {
			if session.Cancel(round) {
				f.deadline = time.Time{}
				f.r.Trace().Waited("wait for records")
				f.r.Protect(f.carryOn)
			}
		})
		if session.Wait(int64(f.request.MinBytes) - bytes) {
			return // f belongs to whoever ends the wait, and carries on in resume
		}
		f.timer.Stop()
	}
}

// resume looks again after an append or an interruption ended the wait. It may find too little, and wait on: an append
// is told after its producer was answered, so that its records may have been read before.
func (f *fetch) resume() {
	f.timer.Stop()
	f.r.Trace().Waited("wait for records")
	f.r.Protect(f.carryOn)
}

// collect reads what the changed partitions have to say, each of them once in a round. Urgent means that it must be
// said at once.
func (f *fetch) collect(round uint64) (bytes int64, urgent bool) {
	budget := min(f.request.MaxBytes, f.service.cfg.MaxBytes)
	for {
		if budget <= 0 && bytes > 0 && !f.full {
			return bytes, urgent // the rest keeps its place at the head of the session's queue
		}
		w := f.session.Next()
		if w == nil {
			return bytes, urgent
		}
		e := w.Value.(*entry)
		switch {
		case e.removed:
			continue
		case e.round == round: // it advanced since
			f.later = append(f.later, e)
			continue
		}
		e.round = round
		res := f.read(e, int(budget), bytes == 0)
		n := int64(res.slice.Size())
		bytes += n
		budget -= int32(min(n, int64(budget)))
		// A response ends with the segment: waiting would not add to it (Kafka's DelayedFetch, cases F and G).
		urgent = urgent || res.err != nil || res.divergingEpoch >= 0 || res.preferred >= 0 || res.slice.More()
		if f.full || f.isNews(&res) {
			f.results = append(f.results, res)
		} else if res.hasMore() {
			f.later = append(f.later, e)
		}
	}
}

// isNews reports whether an incremental response has to mention the partition (KIP-227).
func (f *fetch) isNews(res *result) bool {
	return res.err != nil || res.divergingEpoch >= 0 || res.preferred >= 0 || res.slice.Size() > 0 ||
		res.highWatermark != res.entry.sentHighWatermark || res.start != res.entry.sentStart
}

// hasMore reports whether the next fetch has to look at the partition even if nothing happens to it meanwhile: it
// answered with records or an error, or it had no room.
func (res *result) hasMore() bool {
	return res.err != nil || res.divergingEpoch >= 0 || res.preferred >= 0 || res.entry.offset < res.bound
}

// putBack undoes collect: what was looked at counts as changed again and the segments are let go.
func (f *fetch) putBack() {
	for i := range f.results {
		f.session.Mark(&f.results[i].entry.watch)
	}
	f.markLater()
	f.releaseResults()
}

func (f *fetch) markLater() {
	for _, e := range f.later {
		f.session.Mark(&e.watch)
	}
	clear(f.later)
	f.later = f.later[:0]
}

func (f *fetch) releaseResults() {
	for i := range f.results {
		f.results[i].slice.Release()
	}
	clear(f.results)
	f.results = f.results[:0]
}

// refuse answers a request whose session is unknown.
func (f *fetch) refuse(err error) {
	resp := kmsg.NewPtrFetchResponse()
	resp.ErrorCode = wire.Code(err)
	r := f.r
	f.recycle()
	r.Reply(resp)
}

// recycle lets the segments go and returns the fetch to the pool: its response was sent, or its connection is gone.
func (f *fetch) recycle() {
	f.releaseResults()
	clear(f.later)
	clear(f.chunks)
	f.later, f.chunks = f.later[:0], f.chunks[:0]
	f.r, f.session, f.timer = nil, nil, nil
	f.service.pool.Put(f)
}
