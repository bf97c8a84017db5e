package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// Describe answers with a *kmsg.DescribeTransactionsResponseTransactionState. Of a decided transaction it names the partitions
// that have no marker yet.
func (m *Machine) Describe(ticket coordinator.Ticket, id string) coordinator.Step {
	s := m.begin()
	d := kmsg.NewDescribeTransactionsResponseTransactionState()
	d.TransactionalID = id
	t := m.txns[id]
	if t == nil {
		d.ErrorCode, d.ProducerID, d.ProducerEpoch, d.StartTimestamp = kerr.TransactionalIDNotFound.Code, schema.NoProducer, schema.NoEpoch, -1
		return s.answer(ticket, &d)
	}
	d.State, d.TimeoutMillis, d.StartTimestamp = t.State.String(), t.TimeoutMs, t.StartMs
	d.ProducerID, d.ProducerEpoch = t.ProducerID, t.Epoch
	partitions := t.Partitions
	if t.State.Decided() {
		partitions = schema.Sort(slices.Collect(maps.Keys(t.unmarked)))
	}
	for _, p := range partitions {
		if n := len(d.Topics); n == 0 || d.Topics[n-1].Topic != p.Topic {
			d.Topics = append(d.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: p.Topic})
		}
		last := &d.Topics[len(d.Topics)-1]
		last.Partitions = append(last.Partitions, p.ID)
	}
	return s.answer(ticket, &d)
}

// Filter is what a transaction has to be to be listed; an empty field asks for nothing.
type Filter struct {
	States      []schema.State
	ProducerIDs []int64
	// LongerThanMs is how long it has been running, in ms; below 0 for any.
	LongerThanMs int64
	ID           func(id string) bool
}

// admits says whether a transaction is one of those asked for. One that never began is not running.
func (f *Filter) admits(t *transaction, nowMs int64) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		(len(f.ProducerIDs) == 0 || slices.Contains(f.ProducerIDs, t.ProducerID)) &&
		(f.LongerThanMs < 0 || t.StartMs >= 0 && nowMs-t.StartMs > f.LongerThanMs) &&
		(f.ID == nil || f.ID(t.id))
}

// List answers with a []kmsg.ListTransactionsResponseTransactionState.
func (m *Machine) List(now time.Time, ticket coordinator.Ticket, f *Filter) coordinator.Step {
	var list []kmsg.ListTransactionsResponseTransactionState
	for _, id := range slices.Sorted(maps.Keys(m.txns)) {
		if t := m.txns[id]; f.admits(t, now.UnixMilli()) {
			l := kmsg.NewListTransactionsResponseTransactionState()
			l.TransactionalID, l.ProducerID, l.TransactionState = id, t.ProducerID, t.State.String()
			list = append(list, l)
		}
	}
	return m.begin().answer(ticket, list)
}

// Census is how many transactional ids there are by the state of their last transaction, and when the oldest open one began.
type Census struct {
	ByState [schema.CompleteAbort + 1]int
	// OldestMs is when the oldest transaction without an outcome began, in ms since 1970, and OldestDecidedMs when the one that has
	// waited for its markers for longest was decided; 0 for none.
	OldestMs, OldestDecidedMs int64
}

// Count is the shard's census.
func (m *Machine) Count() Census {
	var c Census
	for _, t := range m.txns {
		c.ByState[t.State]++
		switch {
		case t.State == schema.Ongoing:
			c.OldestMs = oldest(c.OldestMs, t.StartMs)
		case t.State.Decided():
			c.OldestDecidedMs = oldest(c.OldestDecidedMs, t.UpdateMs)
		}
	}
	return c
}

// Add adds the census of another shard.
func (c *Census) Add(other Census) {
	for state, n := range other.ByState {
		c.ByState[state] += n
	}
	c.OldestMs = oldest(c.OldestMs, other.OldestMs)
	c.OldestDecidedMs = oldest(c.OldestDecidedMs, other.OldestDecidedMs)
}

// oldest is the earlier of two times of which 0 is none.
func oldest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
