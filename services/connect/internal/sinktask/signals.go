package sinktask

import (
	"context"
	"sync"
)

// signals are what others want of a task. Each wakes it.
type signals struct {
	mu           sync.Mutex
	stop, paused bool
	rung         bool // since the last wait
	wake         context.CancelFunc
	stopped      chan struct{} // closed by stop
}

func newSignals() *signals { return &signals{stopped: make(chan struct{})} }

func (s *signals) requestStop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stop {
		s.stop = true
		close(s.stopped)
	}
	s.ring()
}

func (s *signals) setPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != paused {
		s.paused = paused
		s.ring()
	}
}

// look wakes the task for it to look around.
func (s *signals) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring()
}

func (s *signals) ring() {
	s.rung = true
	if s.wake != nil {
		s.wake()
	}
}

// listen has wake called at the next signal, or at once if there was one since the last wait ended.
func (s *signals) listen(wake context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
	if s.rung {
		wake()
	}
}

// heard ends a wait, and returns what is wanted.
func (s *signals) heard() (stop, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.rung = nil, false
	return s.stop, s.paused
}
