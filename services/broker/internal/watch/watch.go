// Package watch tells readers that wait at the end of partitions when there is more to read.
//
// A Source is one partition; a Set is everything one fetch (or one fetch session) reads; a Watch ties the two.
// An append adds its bytes to the sets that watch the partition, so a waiting fetch ends after exactly the
// append that completes it, and a set knows which of its partitions changed without looking at the others:
// the cost of an append is O(watchers of that partition), the cost of a fetch O(partitions that changed).
//
// Lock order: Source.mu before Set.mu. A Set never takes a Source's lock while it holds its own.
package watch

import "sync"

// Watch ties one Source to one Set. The zero value is ready for Start.
type Watch struct {
	// Value is the owner's; the package never touches it.
	Value any

	set    *Set
	source *Source

	// Guarded by source.mu.
	prev, next *Watch

	// Guarded by set.mu.
	queued      bool
	nextChanged *Watch
}

// Source is a partition's list of watches. The zero value is ready to use.
type Source struct {
	mu    sync.Mutex
	first *Watch
}

// Start makes set learn of everything that happens to source from now on. Whatever was there before is not news: the
// owner marks the watch if it has yet to look. A nil source makes a watch that only its owner marks.
func (w *Watch) Start(source *Source, set *Set) {
	w.set, w.source = set, source
	if source == nil {
		return
	}
	source.mu.Lock()
	w.prev, w.next = nil, source.first
	if source.first != nil {
		source.first.prev = w
	}
	source.first = w
	source.mu.Unlock()
}

// Stop ends the watch. The set no longer hears of the source; a mark that is already queued stays until taken.
func (w *Watch) Stop() {
	s := w.source
	if s == nil {
		return
	}
	s.mu.Lock()
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		s.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	s.mu.Unlock()
	w.source = nil
}

// Ended collects sets whose wait an Advance or Interrupt ended. Fire runs them; the zero value is empty.
type Ended struct{ first, last *Set }

// Fire calls the end function of each set, in the order in which they ended. The caller must hold no lock.
func (e *Ended) Fire() {
	for s := e.first; s != nil; {
		next := s.nextEnded
		s.nextEnded = nil
		s.onEnd()
		s = next
	}
	e.first, e.last = nil, nil
}

func (e *Ended) add(s *Set) {
	if e.last == nil {
		e.first = s
	} else {
		e.last.nextEnded = s
	}
	e.last = s
}

// Advance tells the watchers that addedBytes more can be read. Sets whose wait is over are added to ended.
func (s *Source) Advance(addedBytes int64, ended *Ended) {
	s.mu.Lock()
	for w := s.first; w != nil; w = w.next {
		w.set.changed(w, addedBytes, false, ended)
	}
	s.mu.Unlock()
}

// Interrupt ends the wait of every watcher: the partition has something to say that is not data.
func (s *Source) Interrupt(ended *Ended) {
	s.mu.Lock()
	for w := s.first; w != nil; w = w.next {
		w.set.changed(w, 0, true, ended)
	}
	s.mu.Unlock()
}

// Set is what one reader watches. It has one user at a time, who takes changed watches with Next and may then
// Wait; between a Wait that returned true and the end function it has none.
type Set struct {
	onEnd func()

	mu                        sync.Mutex
	firstChanged, lastChanged *Watch
	round                     uint64 // counts Begin
	advancedBytes             int64  // since Begin
	interrupted               bool   // since Begin
	waiting                   bool
	missingBytes              int64 // while waiting

	nextEnded *Set // owned by the Ended list that holds the set
}

// Init sets the function that is called once after each Wait that returned true. It must not be nil.
func (s *Set) Init(onEnd func()) { s.onEnd = onEnd }

// Begin starts a look at the changed watches: what comes later counts towards Wait. It returns the round's number,
// for Cancel.
func (s *Set) Begin() (round uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	s.advancedBytes, s.interrupted = 0, false
	return s.round
}

// Next takes the watch that has been marked the longest, nil when none is left.
func (s *Set) Next() *Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.firstChanged
	if w == nil {
		return nil
	}
	s.firstChanged = w.nextChanged
	if s.firstChanged == nil {
		s.lastChanged = nil
	}
	w.nextChanged, w.queued = nil, false
	return w
}

// Mark puts w at the end of the changed watches, if it is not among them.
func (s *Set) Mark(w *Watch) {
	s.mu.Lock()
	s.mark(w)
	s.mu.Unlock()
}

func (s *Set) mark(w *Watch) {
	if w.queued {
		return
	}
	w.queued = true
	if s.lastChanged == nil {
		s.firstChanged = w
	} else {
		s.lastChanged.nextChanged = w
	}
	s.lastChanged = w
}

// Wait parks the set until missingBytes more than at Begin can be read, or an interruption, or Cancel. It returns
// false, and does not park, when that has happened since Begin.
func (s *Set) Wait(missingBytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupted || s.advancedBytes >= missingBytes {
		return false
	}
	s.waiting, s.missingBytes = true, missingBytes-s.advancedBytes
	return true
}

// Cancel ends the round's wait from outside (a timeout), or keeps it from starting. It returns true when it ended a
// wait: the caller then owns the set. It returns false when the wait has been ended by somebody else, belongs to
// another round, or has not begun.
func (s *Set) Cancel(round uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if round != s.round {
		return false
	}
	was := s.waiting
	s.waiting, s.interrupted = false, true
	return was
}

func (s *Set) changed(w *Watch, addedBytes int64, interrupt bool, ended *Ended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark(w)
	s.advancedBytes += addedBytes
	s.interrupted = s.interrupted || interrupt
	if !s.waiting {
		return
	}
	if s.missingBytes -= addedBytes; s.missingBytes <= 0 || interrupt {
		s.waiting = false
		ended.add(s)
	}
}
