// Package assignment decides which worker of a group runs which connectors and tasks: incremental cooperative rebalancing as Apache Kafka's
// workers do it (KIP-415), and the eager kind that workers before Kafka 2.3 know.
//
// In a round the leader hears what each member runs and answers with what changes. What moves is given up in one round and given away in the
// next, so that nothing runs twice. Connectors and tasks are spread by number, each kind on its own: a member has the total divided by the number of members,
// rounded down or up.
package assignment

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Input is what the leader knows in a round.
type Input struct {
	NowMs int64
	// Generation is that of this round, Completed the last one whose assignments the members of the leader's group have had.
	Generation, Completed int32
	// Work is all that there is to run, without repetitions.
	Work []work.Item
	// Members have what each member runs.
	Members map[string][]work.Item
}

// Output is what the leader tells the members.
type Output struct {
	// Assigned is what a member starts and Revoked what it gives up, in order; a member to which nothing happens is in neither.
	Assigned, Revoked map[string][]work.Item
	// DelayMs is after how long the members join again because work is held back or a move was put off; 0 for no such reason.
	DelayMs int32
}

// backoffFactor is by how much the wait grows, from one millisecond, between rounds that move work one after the other.
const backoffFactor = 40

// Leader is what the leader remembers from round to round. A leader that is new has no memory: what no member runs it gives away at once.
type Leader struct {
	maxDelayMs int32
	// expected is what should run after the last round, or is held back for a member that may come back.
	expected   map[work.Item]bool
	members    []string
	generation int32
	// heldUntilMs is when what is held back is given away, 0 when nothing is.
	heldUntilMs int64
	// moved says that the last round which could move work for balance did so, and successive how many since have wanted to as well. They wait
	// until movesFromMs, 0 when none does.
	moved       bool
	successive  int
	movesFromMs int64
}

// NewLeader returns a leader without memory. maxDelayMs is scheduled.rebalance.max.delay.ms: for how long the work of a member that left is held
// back; 0 gives it away at once.
func NewLeader(maxDelayMs int32) *Leader { return &Leader{maxDelayMs: maxDelayMs} }

// Assign decides a round.
func (l *Leader) Assign(in Input) Output {
	if in.Completed != l.generation {
		// The last answer has not reached the members.
		l.expected = nil
	}
	r := newRound(in)
	lost, free := r.idle(l.expected)
	held := l.hold(in, lost)
	if !held {
		free = append(free, lost...)
	}
	if !held {
		l.rebalance(in.NowMs, r)
	}
	r.spread(work.Sort(free))
	l.expected = r.running()
	if held {
		for _, item := range lost {
			l.expected[item] = true
		}
	}
	l.members, l.generation = r.ids, in.Generation
	out := r.output()
	out.DelayMs = l.delayMs(in.NowMs)
	return out
}

// hold says whether what a member ran that left is held back in this round. It is not where everyone is still there: then some member has not
// received its assignment.
func (l *Leader) hold(in Input, lost []work.Item) bool {
	switch {
	case len(lost) == 0:
		l.heldUntilMs = 0
		return false
	case l.heldUntilMs == 0:
		if l.maxDelayMs == 0 || !l.departed(in.Members) {
			return false
		}
		l.heldUntilMs = in.NowMs + int64(l.maxDelayMs)
	case in.NowMs >= l.heldUntilMs:
		l.heldUntilMs, l.moved = 0, false
		return false
	}
	return true
}

// delayMs is how long it is until what waits is decided. Nothing is moved while work is held back.
func (l *Leader) delayMs(nowMs int64) int32 {
	atMs := l.heldUntilMs
	if atMs == 0 {
		atMs = l.movesFromMs
	}
	return int32(min(max(atMs-nowMs, 0), math.MaxInt32))
}

func (l *Leader) departed(members map[string][]work.Item) bool {
	return slices.ContainsFunc(l.members, func(id string) bool { _, there := members[id]; return !there })
}

// rebalance has members give up what they have too much of. Rounds that do so one after the other are spaced out more and more: members that come and
// go would otherwise have tasks stopped and started without end.
func (l *Leader) rebalance(nowMs int64, r *round) {
	surplus := r.surplus()
	if len(surplus) == 0 {
		l.moved, l.successive, l.movesFromMs = false, 0, 0
		return
	}
	if l.moved && l.maxDelayMs > 0 {
		if l.movesFromMs == 0 {
			l.successive++
			l.movesFromMs = nowMs + l.backoffMs()
		}
		if nowMs < l.movesFromMs {
			return
		}
	}
	l.moved, l.movesFromMs = true, 0
	for id, items := range surplus {
		r.revoke(id, items)
	}
}

func (l *Leader) backoffMs() int64 {
	ms := int64(1)
	for range l.successive {
		ms = min(ms*backoffFactor, int64(l.maxDelayMs))
	}
	return ms
}

// Eager gives all work to the members in turns, as a group does whose members have given up everything before.
func Eager(members []string, items []work.Item) map[string][]work.Item {
	members = slices.Sorted(slices.Values(members))
	assigned := map[string][]work.Item{}
	if len(members) == 0 {
		return assigned
	}
	inTurn := slices.SortedFunc(slices.Values(items), func(a, b work.Item) int {
		return cmp.Or(cmp.Compare(kind(a), kind(b)), a.Compare(b))
	})
	for i, item := range inTurn {
		id := members[i%len(members)]
		assigned[id] = append(assigned[id], item)
	}
	for id := range maps.Keys(assigned) {
		assigned[id] = work.Sort(assigned[id])
	}
	return assigned
}
