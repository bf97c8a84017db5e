package coordinator

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	pulseEvery = time.Second
	// stallAfter is less than a node can be silent before its shards go to others (Kafka config broker.session.timeout.ms).
	stallAfter = 3 * time.Second
)

// stalls notices when the process stood still: it was stopped, or its machine was. Others may own its shards since, so that
// what it has in memory may be old.
type stalls struct {
	began  time.Time
	pulse  atomic.Int64 // when the process was last seen to run, in ns since began
	number atomic.Int64
}

// watch keeps the pulse until ctx ends.
func (p *stalls) watch(ctx context.Context) {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			now := time.Now() // the tick may be from before a stall
			p.count(now)
			p.pulse.Store(int64(now.Sub(p.began)))
		case <-ctx.Done():
			return
		}
	}
}

// count is the number of stalls until now, some perhaps counted twice. Whoever comes first after a stall counts it: the pulse is
// renewed only after that.
func (p *stalls) count(now time.Time) int64 {
	if at := int64(now.Sub(p.began)); at-p.pulse.Load() > int64(stallAfter) {
		p.number.Add(1)
		p.pulse.Store(at)
	}
	return p.number.Load()
}

// confirm has a fence appended before the next answer when the process stood still since the last one: if the shard is another's
// by now, that is how it learns so. mu is held.
func (s *shard[M]) confirm(now time.Time) {
	n := s.r.stalls.count(now)
	if n == s.stalls {
		return
	}
	s.stalls = n
	s.log.Warn("the process stood still; the shard is confirmed before it goes on")
	s.position++
	s.queue.push(&batch{producer: NoProducer, position: s.position})
	s.signal()
}
