package classic

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// Kinds of timers.
const (
	// SessionTimer goes off when nothing was heard of a member, or of a pending id, and when a pending id was waited for enough.
	SessionTimer = "classic-session"
	// JoinTimer ends the wait for members to join.
	JoinTimer = "classic-join"
	// SyncTimer ends the wait for members to sync.
	SyncTimer = "classic-sync"
)

// newMemberTimeout is how long the first join of a member is parked at most.
const newMemberTimeout = 5 * time.Minute

// pendingWait is how long a rebalance waits at most for a member that was given an id to join with it: as long as members that are
// there take to hear of the rebalance (heartbeat.interval.ms). A consumer that is closed before it has its id cannot give it back.
const pendingWait = 3 * time.Second

// leastWait is how long static members are waited for again at least: they may ask for a rebalance timeout of nothing.
const leastWait = time.Second

func (g *Group) session(id string) op.TimerKey {
	return op.TimerKey{Kind: SessionTimer, Group: g.id, Member: id}
}

func (g *Group) joinTimer() op.TimerKey { return op.TimerKey{Kind: JoinTimer, Group: g.id} }
func (g *Group) syncTimer() op.TimerKey { return op.TimerKey{Kind: SyncTimer, Group: g.id} }

// keepAlive starts a member's session timeout over.
func (g *Group) keepAlive(o *op.Op, m *member) {
	o.SetTimer(g.session(m.id), o.Now.Add(m.sessionTimeout))
}

// Loaded starts the sessions of the members that the log told of. They may be as old as they will: the time until now was not
// theirs to heartbeat.
func (g *Group) Loaded(o *op.Op) {
	for _, m := range g.ordered() {
		g.keepAlive(o, m)
	}
	if limit := o.Settings.Broker.Int("group.max.size"); len(g.members) > limit {
		g.prepare(o, fmt.Sprintf("the group has %d members, more than %d", len(g.members), limit))
	}
}

// Timer does what is due at one of the group's timers.
func (g *Group) Timer(o *op.Op, k op.TimerKey) {
	switch k.Kind {
	case SessionTimer:
		g.expire(o, k.Member)
	case JoinTimer:
		g.endJoin(o)
	case SyncTimer:
		g.expireSync(o)
	}
}

// rebalance begins a rebalance, or goes on with the one under way.
func (g *Group) rebalance(o *op.Op, reason string) {
	if g.state == PreparingRebalance {
		g.tryCompleteJoin(o)
		return
	}
	g.prepare(o, reason)
}

// prepare begins a rebalance: every member has to join again.
func (g *Group) prepare(o *op.Op, reason string) {
	if g.state == CompletingRebalance {
		for _, m := range g.ordered() {
			m.assignment = nil
			if m.sync != 0 {
				answerSync(o, m, syncError(kerr.RebalanceInProgress))
				g.keepAlive(o, m)
			}
		}
	}
	clear(g.unsynced)
	o.ClearTimer(g.syncTimer())
	g.initial = g.state == Empty
	g.state, g.sinceMs = PreparingRebalance, o.Now.UnixMilli()
	g.tell(o, reason)
	switch {
	case g.initial:
		delay := o.Settings.Broker.DurationMs("group.initial.rebalance.delay.ms")
		g.grew, g.delayLeft = false, max(g.rebalanceTimeout()-delay, 0)
		o.SetTimer(g.joinTimer(), o.Now.Add(delay))
	case g.allJoined():
		g.completeJoin(o)
	default:
		o.SetTimer(g.joinTimer(), o.Now.Add(g.rebalanceTimeout()))
	}
}

// tryCompleteJoin ends the join phase if nobody has to be waited for. That of a group that was empty takes its time.
func (g *Group) tryCompleteJoin(o *op.Op) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		g.completeJoin(o)
	}
}

// endJoin ends the join phase because its time is over, unless members came to a group that was empty and the time that their
// rebalance timeout gives is not used up.
func (g *Group) endJoin(o *op.Op) {
	if g.state != PreparingRebalance {
		return
	}
	if g.initial && g.grew && g.delayLeft > 0 {
		delay := min(o.Settings.Broker.DurationMs("group.initial.rebalance.delay.ms"), g.delayLeft)
		g.grew, g.delayLeft = false, g.delayLeft-delay
		o.SetTimer(g.joinTimer(), o.Now.Add(delay))
		return
	}
	g.completeJoin(o)
}

// completeJoin begins a generation of those who joined. Static members may be away for a while, others are dropped.
func (g *Group) completeJoin(o *op.Op) {
	o.ClearTimer(g.joinTimer())
	for _, m := range g.ordered() {
		if m.join == 0 && m.instanceID == nil {
			g.goodbye(o, m.id, fmt.Sprintf("it did not join a rebalance within %v", g.rebalanceTimeout()), true)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		// Static members alone, and none of them there: their sessions decide.
		o.SetTimer(g.joinTimer(), o.Now.Add(max(g.rebalanceTimeout(), leastWait)))
		return
	}
	g.generation++
	g.initial = false
	if len(g.members) == 0 {
		g.protocol, g.leader = "", ""
		o.Emit(emptied(g.id, g.protocolType, g.generation, o.Now))
		g.tell(o, "the last member is gone")
		return
	}
	g.protocol = g.selectProtocol()
	g.topics = g.subscriptions()
	g.state, g.sinceMs = CompletingRebalance, o.Now.UnixMilli()
	g.tell(o, "everyone has joined, "+g.leader+" leads")
	for _, m := range g.ordered() {
		g.finishJoin(o, m, g.joined(m))
		g.keepAlive(o, m)
		m.fresh = false
		g.unsynced[m.id] = true
	}
	o.SetTimer(g.syncTimer(), o.Now.Add(g.rebalanceTimeout()))
}

// electLeader sees to it that the leader is one who joined, and says whether there is one.
func (g *Group) electLeader() bool {
	if m := g.members[g.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range g.ordered() {
		if m.join != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// selectProtocol is what most members prefer among the protocols that all support; of those with equal votes, the one that the
// first member by id voted for.
func (g *Group) selectProtocol() string {
	candidates := map[string]bool{}
	for name, n := range g.supported {
		candidates[name] = n == len(g.members)
	}
	votes := map[string]int{}
	members := g.ordered()
	for _, m := range members {
		votes[m.vote(candidates)]++
	}
	selected := ""
	for _, m := range members {
		if v := m.vote(candidates); votes[v] > votes[selected] || selected == "" {
			selected = v
		}
	}
	return selected
}

// expire drops a member, or a pending id, that was not heard of in time. A pending id may be joined with longer than it is waited for.
func (g *Group) expire(o *op.Op, id string) {
	m := g.members[id]
	switch {
	case g.pending[id].After(o.Now):
		delete(g.awaited, id)
		o.SetTimer(g.session(id), g.pending[id])
		g.tryCompleteJoin(o)
	case g.isPending(id):
		g.remove(o, id)
		g.completeIfAllJoined(o)
	case m != nil && !m.waits():
		silence := m.sessionTimeout
		if m.fresh {
			silence = newMemberTimeout
		}
		g.goodbye(o, id, fmt.Sprintf("nothing was heard of it for %v", silence), true)
		if g.state == PreparingRebalance {
			g.completeIfAllJoined(o)
			return
		}
		g.prepare(o, "member "+id+" was not heard of for too long")
	}
}

// completeIfAllJoined ends the join phase when the last one waited for is gone, of a group that was empty too.
func (g *Group) completeIfAllJoined(o *op.Op) {
	if g.state == PreparingRebalance && g.allJoined() {
		g.completeJoin(o)
	}
}

// expireSync drops the members that do not sync, although they may heartbeat.
func (g *Group) expireSync(o *op.Op) {
	if len(g.unsynced) == 0 || g.state != CompletingRebalance && g.state != Stable {
		return
	}
	var dropped []string
	for _, m := range g.ordered() {
		if g.unsynced[m.id] {
			dropped = append(dropped, m.id)
		}
	}
	for _, id := range dropped {
		g.goodbye(o, id, "it did not ask for its assignment in time", true)
	}
	g.prepare(o, "members did not sync: "+strings.Join(dropped, ", "))
}

// tell has the shell log where the group stands.
func (g *Group) tell(o *op.Op, reason string) {
	o.Job(Event{Group: g.id, State: g.state, Generation: g.generation, Members: len(g.members), Reason: reason})
}

// finishJoin answers a member's join if it has one.
func (g *Group) finishJoin(o *op.Op, m *member, resp *kmsg.JoinGroupResponse) {
	if m.join != 0 {
		g.joining--
		answerJoin(o, m, resp)
	}
}

func answerJoin(o *op.Op, m *member, resp *kmsg.JoinGroupResponse) {
	o.Answer(m.join, resp)
	m.join = 0
}
