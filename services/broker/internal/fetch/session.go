package fetch

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/watch"
)

const (
	sessionlessEpoch = -1 // a fetch outside any session (KIP-227)
	initialEpoch     = 0  // a fetch that asks for a new session
)

// session is what one reader reads: kept between fetches (KIP-227), or made for a single one.
//
// A session is used by one fetch at a time: busy, guarded by the cache's lock, says so. Only the embedded watch.Set
// is touched by others meanwhile.
type session struct {
	watch.Set

	id       int32 // 0 for a fetch without a session
	epoch    int32 // the one the next fetch must name
	usesIDs  bool  // topics are named by id (Fetch v13+)
	replica  replica
	lastUsed time.Time
	busy     bool

	entries map[entryKey]*entry
	spare   []*entry // closed ones, to be used again
	fetch   *fetch   // the one that uses the session
}

// maxSpareEntries bounds what a session that is used for one fetch after the other keeps.
const maxSpareEntries = 64

type entryKey struct {
	topic     string           // Fetch before v13
	topicID   metadata.TopicID // Fetch v13+
	partition int32
}

// entry is one partition in a session.
type entry struct {
	watch watch.Watch
	key   entryKey

	partition *partition.Partition // nil while the broker does not host it
	removed   bool                 // taken out of the session, perhaps still queued as changed
	round     uint64               // the session's round in which it was looked at last

	offset           int64
	start            int64 // of a follower's log, -1 when it tells none
	acknowledged     bool  // the partition knows that the follower has everything below offset
	maxBytes         int32
	leaderEpoch      int32 // what the client believes, -1 for none
	lastFetchedEpoch int32 // of the client's last record, -1 for none (KIP-595)

	// What the client was told last; -1 for nothing yet.
	sentHighWatermark, sentStart int64
}

func newSession() *session {
	s := &session{entries: map[entryKey]*entry{}}
	s.Init(func() { s.fetch.resume() })
	return s
}

func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// put adds a partition to the session or changes what is read of it. Either way it counts as changed.
func (s *session) put(parts *partition.Set, key entryKey, p *kmsg.FetchRequestTopicPartition) *entry {
	e := s.entries[key]
	fresh := e == nil
	if fresh {
		if last := len(s.spare) - 1; last >= 0 {
			e, s.spare = s.spare[last], s.spare[:last]
		} else {
			e = new(entry)
		}
		*e = entry{key: key, sentHighWatermark: -1, sentStart: -1}
		e.watch.Value = e
		s.entries[key] = e
	}
	e.offset, e.maxBytes, e.leaderEpoch, e.lastFetchedEpoch = p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch
	e.start, e.acknowledged = p.LogStartOffset, false
	if fresh || e.partition != nil && e.partition.Gone() {
		e.resolve(parts, s)
	}
	s.Mark(&e.watch)
	return e
}

// resolve finds the partition anew and watches it.
func (e *entry) resolve(parts *partition.Set, s *session) {
	e.watch.Stop()
	e.partition, e.acknowledged = nil, false
	if t := parts.Find(e.key.topic, e.key.topicID); t != nil {
		e.partition, _ = t.Partition(e.key.partition)
	}
	var source *watch.Source
	switch {
	case e.partition == nil:
	case s.replica.isOne():
		source = &e.partition.Replicas
	default:
		source = &e.partition.Watchers
	}
	e.watch.Start(source, &s.Set)
}

func (s *session) remove(key entryKey) {
	if e := s.entries[key]; e != nil {
		e.removed = true
		e.watch.Stop()
		delete(s.entries, key)
	}
}

// close stops all watches. The session may then be used anew.
func (s *session) close() {
	for _, e := range s.entries {
		e.removed = true
		e.watch.Stop()
		if len(s.spare) < maxSpareEntries {
			s.spare = append(s.spare, e)
		}
	}
	clear(s.entries)
	for s.Next() != nil {
	}
}

// cache holds the sessions that clients come back to.
type cache struct {
	slots      int           // max.incremental.fetch.session.cache.slots
	evictAfter time.Duration // min.incremental.fetch.session.eviction.ms
	mu         sync.Mutex
	sessions   map[int32]*session
	evictions  int64
}

// take finds the session that a request continues. The caller owns it until release.
func (c *cache) take(id, epoch int32, now time.Time) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[id]
	switch {
	case s == nil:
		return nil, kerr.FetchSessionIDNotFound
	case s.busy || s.epoch != epoch:
		return nil, kerr.InvalidFetchSessionEpoch
	}
	s.busy, s.lastUsed, s.epoch = true, now, nextEpoch(epoch)
	return s, nil
}

// admit keeps a new session if there is room, or a stale one to evict; else the fetch goes on without a session,
// which the client learns from the id 0.
func (c *cache) admit(s *session, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) >= c.slots && !c.evict(now, s.replica.isOne()) {
		return false
	}
	for s.id == 0 || c.sessions[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	s.busy, s.lastUsed, s.epoch = true, now, initialEpoch+1
	c.sessions[s.id] = s
	return true
}

// evict drops the session that was used the longest ago, if that is long enough ago. A follower takes a consumer's place in any
// case.
func (c *cache) evict(now time.Time, forFollower bool) bool {
	var oldest *session
	for _, s := range c.sessions {
		if !s.busy && (!forFollower || !s.replica.isOne()) && (oldest == nil || s.lastUsed.Before(oldest.lastUsed)) {
			oldest = s
		}
	}
	if oldest == nil || !forFollower && now.Sub(oldest.lastUsed) < c.evictAfter {
		return false
	}
	delete(c.sessions, oldest.id)
	oldest.close()
	c.evictions++
	return true
}

// drop ends a session at its client's wish. One that is in use ends when its fetch does.
func (c *cache) drop(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		delete(c.sessions, id)
		if !s.busy {
			s.close()
		}
	}
}

// release gives the session back after its fetch.
func (c *cache) release(s *session) {
	c.mu.Lock()
	s.busy, s.fetch = false, nil
	kept := s.id != 0 && c.sessions[s.id] == s
	c.mu.Unlock()
	if !kept {
		s.close()
	}
}

func (c *cache) stats() (sessions, partitions int, evictions int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		if !s.busy {
			partitions += len(s.entries)
		}
	}
	return len(c.sessions), partitions, c.evictions
}
