// Package fetcher copies what this broker follows: it fetches from leaders, appends, and truncates where a log diverges.
//
// For each leader there are num.replica.fetchers goroutines, each with a connection and a fetch session of its own. A fetch
// acknowledges what the one before has brought, so the next goes out before anything else is done.
package fetcher

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/quota"
)

// Config says who fetches, and how much at once. Sizes are in bytes.
type Config struct {
	NodeID int32
	// NodeEpoch is the epoch of this node's registration.
	NodeEpoch func() int64
	// Listener is inter.broker.listener.name; empty for the leaders' first one without encryption and authentication.
	Listener          string
	Fetchers          int           // num.replica.fetchers, until SetFetchers
	MinBytes          int32         // replica.fetch.min.bytes
	MaxWait           time.Duration // replica.fetch.wait.max.ms
	MaxBytes          int32         // replica.fetch.response.max.bytes
	MaxPartitionBytes int32         // replica.fetch.max.bytes
	Backoff           time.Duration // replica.fetch.backoff.ms
	SocketTimeout     time.Duration // replica.socket.timeout.ms
	Throttle          *quota.Quota  // follower.replication.throttled.rate
	Log               *zap.Logger
	Tracer            *tracing.Tracer // nil: no spans
}

// key names a partition.
type key struct {
	topic     metadata.TopicID
	partition int32
}

// source is one connection to a leader.
type source struct {
	leader int32
	lane   int // below Set.lanes
}

// assignment is what is fetched of one partition.
type assignment struct {
	partition   *partition.Partition
	leaderEpoch int32
	from        source
}

// Set is the fetchers of one broker.
type Set struct {
	cfg    Config
	parts  *partition.Set
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	lanes    int // fetchers of each leader
	assigned map[key]assignment
	fetchers map[source]*fetcher
}

// New makes a Set that follows nothing. Close must be called.
func New(cfg Config, parts *partition.Set) *Set {
	s := &Set{cfg: cfg, parts: parts, lanes: max(cfg.Fetchers, 1), assigned: map[key]assignment{}, fetchers: map[source]*fetcher{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close stops all fetchers and waits for them.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// Follow brings the fetchers in line with what has become of the topics, which partition.Set has applied already.
func (s *Set) Follow(topics ...*metadata.Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, t := range topics {
		hosted := s.parts.Find(t.Name, t.ID)
		for _, p := range t.Partitions {
			var here *partition.Partition
			if hosted != nil {
				here, _ = hosted.Partition(p.ID)
			}
			s.assign(key{t.ID, p.ID}, here)
		}
	}
	s.endIdle()
}

// endIdle stops fetchers that have nothing to fetch any more. mu is held.
func (s *Set) endIdle() {
	for from, f := range s.fetchers {
		if f.partitions == 0 {
			f.stop()
			delete(s.fetchers, from)
		}
	}
}

// SetFetchers changes how many fetchers there are for each leader, and deals the partitions out anew.
func (s *Set) SetFetchers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = max(n, 1); s.closed || n == s.lanes {
		return
	}
	s.lanes = n
	for k, a := range maps.Clone(s.assigned) {
		s.assign(k, a.partition)
	}
	s.endIdle()
}

// FollowAll is Follow for all topics.
func (s *Set) FollowAll() {
	var all []*metadata.Topic
	for t := range s.parts.Image().Topics() {
		all = append(all, t)
	}
	s.Follow(all...)
}

// assign has a partition fetched from its leader, or not at all. mu is held.
func (s *Set) assign(k key, p *partition.Partition) {
	old, had := s.assigned[k]
	next, wanted := s.wanted(k, p)
	if had == wanted && old == next {
		return
	}
	if had {
		f := s.fetchers[old.from]
		f.partitions--
		f.change(k, assignment{})
		delete(s.assigned, k)
	}
	if wanted {
		f := s.fetchers[next.from]
		if f == nil {
			f = s.start(next.from)
		}
		f.partitions++
		f.change(k, next)
		s.assigned[k] = next
	}
}

func (s *Set) wanted(k key, p *partition.Partition) (assignment, bool) {
	if p == nil || p.Gone() {
		return assignment{}, false
	}
	state := p.State()
	if p.Failed() || !state.HasLeader() || state.Leader == s.cfg.NodeID {
		return assignment{}, false
	}
	hash := uint32(k.partition)
	for _, b := range k.topic {
		hash = hash*31 + uint32(b)
	}
	return assignment{p, state.LeaderEpoch, source{state.Leader, int(hash % uint32(s.lanes))}}, true
}

// start begins a fetcher. mu is held.
func (s *Set) start(from source) *fetcher {
	ctx, stop := context.WithCancel(s.ctx)
	f := newFetcher(&s.cfg, from, s.parts.Image)
	f.stop = stop
	s.fetchers[from] = f
	s.wg.Go(func() { f.run(ctx) })
	return f
}
