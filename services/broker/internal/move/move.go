// Package move copies replicas from one log directory of the node to another (KIP-113).
package move

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/quota"
)

const (
	// quotaPause is how often a move looks whether it may go on again.
	quotaPause = 100 * time.Millisecond
	// retryPause is after a step that failed.
	retryPause = time.Second
	// maxThreads bounds what is copied at a time whatever the key says: more than that no disk does faster.
	maxThreads = 256
)

// Config says how much is moved at once.
type Config struct {
	Threads int          // num.replica.alter.log.dirs.threads: how many replicas are copied at a time
	Quota   *quota.Quota // replica.alter.log.dirs.io.max.bytes.per.second
	NowMs   func() int64
	Log     *zap.Logger
}

// Set is the moves that are under way.
type Set struct {
	cfg  Config
	wake chan struct{} // has one token when there is something to do

	mu     sync.Mutex
	queue  []*partition.Partition        // each once, in order of their turns
	moving map[*partition.Partition]bool // those in the queue, or in a step of which Start was told meanwhile (true) or not
}

// New makes a set without moves.
func New(cfg Config) *Set {
	return &Set{cfg: cfg, wake: make(chan struct{}, 1), moving: map[*partition.Partition]bool{}}
}

// Start has Run take up a partition's move, which has begun (logdir.Set.Move). It does not wait.
func (s *Set) Start(p *partition.Partition) {
	s.mu.Lock()
	if _, ok := s.moving[p]; !ok {
		s.queue = append(s.queue, p)
	}
	s.moving[p] = true
	s.mu.Unlock()
	s.signal()
}

// Moving is how many replicas move.
func (s *Set) Moving() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.moving)
}

func (s *Set) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run copies until ctx ends.
func (s *Set) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range min(max(s.cfg.Threads, 1), maxThreads) {
		wg.Go(func() { s.work(ctx) })
	}
	wg.Wait()
}

// work takes one step of a move after the other, of all of them in turn.
func (s *Set) work(ctx context.Context) {
	for ctx.Err() == nil {
		p := s.take()
		if p == nil {
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		for s.cfg.Quota.Exceeded(s.cfg.NowMs()) && pause(ctx, quotaPause) {
		}
		goesOn, failed := s.step(ctx, p)
		if failed {
			pause(ctx, retryPause)
		}
		s.giveBack(p, goesOn)
	}
}

func (s *Set) take() *partition.Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	p := s.queue[0]
	s.queue = s.queue[1:]
	s.moving[p] = false
	if len(s.queue) > 0 {
		s.signal() // another goroutine may take the next
	}
	return p
}

func (s *Set) giveBack(p *partition.Partition, goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if goesOn || s.moving[p] {
		s.queue = append(s.queue, p)
	} else {
		delete(s.moving, p)
		return
	}
	s.signal()
}

// step takes one step of a move.
func (s *Set) step(ctx context.Context, p *partition.Partition) (goesOn, failed bool) {
	n, moved, err := p.MoveStep()
	s.cfg.Quota.Record(int64(n), s.cfg.NowMs())
	switch {
	case ctx.Err() != nil:
		return true, false
	case errors.Is(err, partition.ErrNotMoving):
		s.cfg.Log.Info("replica moves no more", zap.Stringer("partition", p))
		return false, false
	case errors.Is(err, kerr.KafkaStorageError), errors.Is(err, kerr.CorruptMessage):
		s.cfg.Log.Error("replica cannot be moved to another log directory", zap.Stringer("partition", p), zap.Error(err))
		return false, false
	case err != nil:
		s.cfg.Log.Warn("move of a replica is tried again", zap.Stringer("partition", p), zap.Error(err))
		return true, true
	case moved:
		s.cfg.Log.Info("replica has moved to another log directory", zap.Stringer("partition", p))
	}
	return !moved, false
}

// pause waits, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
