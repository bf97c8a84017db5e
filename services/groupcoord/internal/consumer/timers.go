package consumer

import (
	"strconv"
	"time"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// Kinds of timers.
const (
	timerSession     = "consumer.session"     // of a member: it has not been heard of
	timerRebalance   = "consumer.rebalance"   // of a member: it does not give up its partitions
	timerJoin        = "consumer.join"        // of a classic member: it does not join again
	timerSync        = "consumer.sync"        // of a classic member: it does not sync
	timerWait        = "consumer.wait"        // of a member that joins: the assignor takes too long
	timerAssignor    = "consumer.assignor"    // a question may be asked
	timerExpressions = "consumer.expressions" // topics are to be searched for expressions
)

func (g *Group) timer(kind, member string) op.TimerKey {
	return op.TimerKey{Kind: kind, Group: g.id, Member: member}
}

// Timer does what a timer of the group was set for.
func (g *Group) Timer(o *op.Op, k op.TimerKey) {
	m := g.members[k.Member]
	switch k.Kind {
	case timerSession, timerSync:
		if m != nil {
			g.remove(o, m)
		}
	case timerJoin:
		delete(g.joinTimers, k.Member)
		if m != nil {
			g.remove(o, m)
		}
	case timerRebalance:
		// The timer was set anew with every step of the member, and cleared when it was done.
		if m != nil && m.current.State == schema.Unrevoked {
			g.remove(o, m)
		}
	case timerWait:
		if g.waiting[k.Member] != nil {
			g.answerNow(o, k.Member)
		}
	case timerAssignor:
		g.ask(o)
	case timerExpressions:
		g.OnImage(o)
	}
}

// extendSession counts the member's session from now.
func (g *Group) extendSession(o *op.Op, m *member) {
	timeout := g.keys(o).sessionTimeout
	if m.classic() {
		timeout = milliseconds(m.said.Classic.SessionTimeoutMs)
	}
	o.SetTimer(g.timer(timerSession, m.id), o.Now.Add(timeout))
}

func (g *Group) setRebalanceTimer(o *op.Op, m *member) {
	o.SetTimer(g.timer(timerRebalance, m.id), o.Now.Add(milliseconds(m.said.RebalanceTimeoutMs)))
}

// expectJoin gives a classic member its rebalance timeout to join again, counted from when it was first told.
func (g *Group) expectJoin(o *op.Op, m *member) {
	if !g.joinTimers[m.id] {
		g.joinTimers[m.id] = true
		o.SetTimer(g.timer(timerJoin, m.id), o.Now.Add(milliseconds(m.said.RebalanceTimeoutMs)))
	}
}

func (g *Group) clearTimers(o *op.Op, id string) {
	for _, kind := range []string{timerSession, timerRebalance, timerSync, timerWait} {
		o.ClearTimer(g.timer(kind, id))
	}
	g.clearJoinTimer(o, id)
}

func (g *Group) clearJoinTimer(o *op.Op, id string) {
	delete(g.joinTimers, id)
	o.ClearTimer(g.timer(timerJoin, id))
}

// keys are the group's keys as of some settings.
type keys struct {
	of                                             *op.Settings
	sessionTimeout, heartbeatInterval, assignEvery time.Duration
}

// keys are looked up once for each change of settings: every heartbeat needs them.
func (g *Group) keys(o *op.Op) *keys {
	if g.known.of != o.Settings {
		overrides := o.Settings.Group(g.id)
		of := func(key string) time.Duration {
			if ms, err := strconv.ParseInt(overrides[key], 10, 32); err == nil {
				return milliseconds(int32(ms))
			}
			return o.Settings.Broker.DurationMs("group." + key)
		}
		g.known = keys{of: o.Settings, sessionTimeout: of("consumer.session.timeout.ms"), heartbeatInterval: of("consumer.heartbeat.interval.ms"),
			assignEvery: of("consumer.assignment.interval.ms")}
	}
	return &g.known
}
