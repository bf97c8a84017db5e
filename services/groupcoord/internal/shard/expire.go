package shard

import (
	"time"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// expiryInterval is the key of the time between two looks for what to forget.
const expiryInterval = "offsets.retention.check.interval.ms"

func (m *Machine) armExpiry(o *op.Op) {
	m.expiryEvery = o.Settings.Broker.DurationMs(expiryInterval)
	o.SetTimer(op.TimerKey{Kind: expiryTimer}, o.Now.Add(m.expiryEvery))
}

// expire deletes offsets that were kept for long enough, and groups that have neither members nor offsets. One operation does as much
// as a batch has room for.
func (m *Machine) expire(o *op.Op) {
	for _, id := range m.ids() {
		if id < m.expiryFrom {
			continue
		}
		g := m.groups[id]
		none, all := m.offsets.Expire(o, id, g.Retention(), g.Subscribed)
		if !all || none && g.Empty() && !roomToClose(o, id) {
			m.expiryFrom = id
			o.SetTimer(op.TimerKey{Kind: expiryTimer}, m.next(o))
			return
		}
		if none && g.Empty() {
			g.Close(o)
		}
	}
	m.expiryFrom = ""
	m.armExpiry(o)
}

// deleteTopics deletes the offsets of topics that the image does not have any more.
func (m *Machine) deleteTopics(o *op.Op) {
	if !m.offsets.DeleteTopics(o) {
		o.SetTimer(op.TimerKey{Kind: topicsTimer}, m.next(o))
	}
}

// next is when to go on with what the operation had no room for: at once, unless a batch cannot hold even one record.
func (m *Machine) next(o *op.Op) time.Time {
	if len(o.Step().Records) == 0 {
		return o.Now.Add(m.expiryEvery)
	}
	return o.Now
}

// roomToClose says whether the operation has room for the tombstones of an empty group.
func roomToClose(o *op.Op, id string) bool {
	const tombstones, fixedBytes = 8, 64
	return o.Room(tombstones * (len(id) + fixedBytes))
}
