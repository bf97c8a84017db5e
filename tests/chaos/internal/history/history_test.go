package history

import (
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func one(offset int64) map[int32]int64 { return map[int32]int64{0: offset} }

// TestFaults shows that each of the faults is found, and what is none.
func TestFaults(t *testing.T) {
	p := []int32{0}
	for name, c := range map[string]struct {
		run  func(h *History)
		want string
	}{
		"handed over": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Revoked("g", "a", p, at(1))
			h.Assigned("g", "b", p, at(1))
		}, ""},
		"two owners": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Assigned("g", "b", p, at(1))
			h.Revoked("g", "a", p, at(1.1))
		}, "is b's from 00:00:01.000 on, and a's until 00:00:01.100"},
		"two owners for ever": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Assigned("g", "b", p, at(9))
		}, "until the end"},
		"a session that ended unknown to its member": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Heard("a", at(1))
			h.Assigned("g", "b", p, at(11))
			h.Heard("a", at(12)) // UNKNOWN_MEMBER_ID
			h.Lost("g", "a", p, at(12))
		}, ""},
		"a session that ended before its member left": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Heard("a", at(1))
			h.Assigned("g", "b", p, at(12))
			h.Revoked("g", "a", p, at(13))
		}, ""},
		"a member expelled that knows it at once": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Heard("a", at(5))
			h.Heard("a", at(6)) // UNKNOWN_MEMBER_ID
			h.Lost("g", "a", p, at(6))
			h.Assigned("g", "b", p, at(7))
		}, ""},
		"a session that ended long before its member learnt it": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Heard("a", at(1))
			h.Assigned("g", "b", p, at(15))
			h.Heard("a", at(20)) // NOT_COORDINATOR
			h.Heard("a", at(21)) // UNKNOWN_MEMBER_ID
			h.Lost("g", "a", p, at(21))
		}, ""},
		"a member expelled before its session ended": {func(h *History) {
			h.Assigned("g", "a", p, at(0))
			h.Heard("a", at(5))
			h.Assigned("g", "b", p, at(11))
			h.Heard("a", at(12))
			h.Lost("g", "a", p, at(12))
		}, "is b's from 00:00:11.000 on, and a's until 00:00:12.000"},
		"a restart from before what was committed": {func(h *History) {
			h.Committed("g", one(7), at(0), at(0))
			h.Assigned("g", "a", p, at(1))
			h.Read("g", "a", 0, 6)
		}, "at offset 6, though 7 was committed"},
		"a restart from what was committed": {func(h *History) {
			h.Committed("g", one(7), at(0), at(0))
			h.Assigned("g", "a", p, at(1))
			h.Read("g", "a", 0, 7)
			h.Read("g", "a", 0, 8)
		}, ""},
		"an offset moved back":  {func(h *History) { h.Fetched("g", "node 1", one(6), one(7)) }, "has committed offset 6"},
		"an offset lost":        {func(h *History) { h.Fetched("g", "node 1", nil, one(7)) }, "has no committed offset"},
		"an offset that is new": {func(h *History) { h.Fetched("g", "node 1", one(8), one(7)) }, ""},
	} {
		h := New(10 * time.Second)
		c.run(h)
		got := strings.Join(h.Faults(), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// TestNextCommit leaves out commits that were on their way already.
func TestNextCommit(t *testing.T) {
	h := New(time.Second)
	next := h.NextCommit("g", at(5))
	h.Committed("g", one(1), at(4), at(6))
	h.Committed("other", one(1), at(6), at(6))
	select {
	case got := <-next:
		t.Fatalf("a commit at %v", got)
	default:
	}
	h.Committed("g", one(2), at(5), at(7))
	h.Committed("g", one(3), at(8), at(9))
	if got := <-next; !got.Equal(at(7)) {
		t.Errorf("the next commit is at %v", got)
	}
	if got := h.Acknowledged("g")[0]; got != 3 {
		t.Errorf("acknowledged %d", got)
	}
}
