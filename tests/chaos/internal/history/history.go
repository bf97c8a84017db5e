// Package history records what the members of consumer groups see, and says what of it must not have happened: a partition
// with two owners at once, a committed offset that is lost or moved back. All members run in one process, so that there
// is one clock.
package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// History is that of all groups on one topic. Safe for concurrent use.
type History struct {
	session time.Duration

	mu     sync.Mutex
	groups map[string]*group
	heard  map[string][]time.Time // by member, in order
	faults []string
}

type group struct {
	stays     map[int32][]*stay
	committed map[int32]int64 // the highest acknowledged offset of each partition
	waits     []wait
}

// stay is the time in which a member owns a partition.
type stay struct {
	member string
	from   time.Time
	until  time.Time // zero while it lasts
	// protectedUntil is the time from which on another member may own the partition: the end of the stay, or an earlier one when
	// the member's session ended without its knowing.
	protectedUntil time.Time
	floor          int64 // the offset at which the member begins to read, at the least
	reading        bool
}

type wait struct {
	since time.Time
	done  chan time.Time
}

// New makes a history of members with a session timeout.
func New(session time.Duration) *History {
	return &History{session: session, groups: map[string]*group{}, heard: map[string][]time.Time{}}
}

func (h *History) of(name string) *group {
	g := h.groups[name]
	if g == nil {
		g = &group{stays: map[int32][]*stay{}, committed: map[int32]int64{}}
		h.groups[name] = g
	}
	return g
}

func (g *group) current(member string, partition int32) *stay {
	for _, s := range slices.Backward(g.stays[partition]) {
		if s.member == member && s.until.IsZero() {
			return s
		}
	}
	return nil
}

func (h *History) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// Heard notes that a member's heartbeat was answered. A member's times must not go backwards.
func (h *History) Heard(member string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[member] = append(h.heard[member], at)
}

// Assigned notes that a member owns partitions from now on.
func (h *History) Assigned(group, member string, partitions []int32, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.of(group)
	for _, p := range partitions {
		g.stays[p] = append(g.stays[p], &stay{member: member, from: at, floor: g.committed[p]})
	}
}

// Revoked notes that a member has given partitions up.
func (h *History) Revoked(group, member string, partitions []int32, at time.Time) {
	h.release(group, member, partitions, at, 0)
}

// Lost notes that a member learnt that it owns partitions no more. The answer that said so is the last that was heard.
func (h *History) Lost(group, member string, partitions []int32, at time.Time) {
	h.release(group, member, partitions, at, 1)
}

func (h *History) release(group, member string, partitions []int32, at time.Time, refusals int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.of(group)
	for _, p := range partitions {
		s := g.current(member, p)
		if s == nil {
			continue // of an assignment that the member was never told of
		}
		s.until, s.protectedUntil = at, at
		if end := h.sessionEnd(s, refusals); end.Before(at) {
			s.protectedUntil = end
		}
	}
}

// sessionEnd is when the session of a stay's member ended at the earliest, by all but the last so many answers: it did once
// nothing had been answered for so long, whatever was answered later.
func (h *History) sessionEnd(s *stay, without int) time.Time {
	last := s.from
	heard := h.heard[s.member]
	for _, at := range heard[:max(0, len(heard)-without)] {
		if at.Sub(last) > h.session {
			break
		}
		if at.After(last) {
			last = at
		}
	}
	return last.Add(h.session)
}

// Read notes that a member was given the record at offset of a partition that it owns.
func (h *History) Read(group, member string, partition int32, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of(group).current(member, partition)
	if s == nil || s.reading {
		return
	}
	s.reading = true
	if offset < s.floor {
		h.fault("%s: %s begins to read partition %d at offset %d, though %d was committed before it got it", group, member, partition, offset, s.floor)
	}
}

// Committed notes an acknowledged commit, and when it was begun.
func (h *History) Committed(group string, offsets map[int32]int64, began, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.of(group)
	for p, offset := range offsets {
		g.committed[p] = max(g.committed[p], offset)
	}
	g.waits = slices.DeleteFunc(g.waits, func(w wait) bool {
		if began.Before(w.since) {
			return false
		}
		w.done <- at
		return true
	})
}

// Acknowledged are the highest offsets that a group's members know to be committed.
func (h *History) Acknowledged(group string) map[int32]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.of(group).committed)
}

// Fetched compares committed offsets that a server named with those that were acknowledged before it was asked.
func (h *History) Fetched(group, from string, got, acknowledged map[int32]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, want := range acknowledged {
		if offset, ok := got[p]; !ok {
			h.fault("%s: %s has no committed offset of partition %d, %d was acknowledged", group, from, p, want)
		} else if offset < want {
			h.fault("%s: %s has committed offset %d of partition %d, %d was acknowledged", group, from, offset, p, want)
		}
	}
}

// NextCommit tells when the first commit is acknowledged that the group's members begin after a time.
func (h *History) NextCommit(group string, since time.Time) <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := make(chan time.Time, 1)
	g := h.of(group)
	g.waits = append(g.waits, wait{since, done})
	return done
}

// Stays counts how often a member came to own a partition.
func (h *History) Stays() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, g := range h.groups {
		for _, stays := range g.stays {
			n += len(stays)
		}
	}
	return n
}

// Faults are what must not have happened so far, in no particular order.
func (h *History) Faults() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := slices.Clone(h.faults)
	for name, g := range h.groups {
		for p, stays := range g.stays {
			faults = append(faults, h.doubles(fmt.Sprintf("%s: partition %d", name, p), stays)...)
		}
	}
	return faults
}

// doubles are the times at which a partition had two owners that were both entitled to think so.
func (h *History) doubles(what string, stays []*stay) []string {
	var faults []string
	stays = slices.SortedStableFunc(slices.Values(stays), func(a, b *stay) int { return a.from.Compare(b.from) })
	for i, a := range stays {
		protected := a.protectedUntil
		if a.until.IsZero() {
			protected = h.sessionEnd(a, 0)
		}
		for _, b := range stays[i+1:] {
			if b.member != a.member && b.from.Before(protected) {
				faults = append(faults, fmt.Sprintf("%s is %s's from %s on, and %s's until %s (entitled until %s)", what,
					b.member, clock(b.from), a.member, cmp.Or(clock(a.until), "the end"), clock(protected)))
			}
		}
	}
	return faults
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format("15:04:05.000")
}
