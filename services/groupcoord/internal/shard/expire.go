package shard

import (
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
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
		forgotten := m.offsets.Expire(o, id, g.Retention(), g.Subscribed)
		if !offsets.Room(o) {
			m.expiryFrom = id
			o.SetTimer(op.TimerKey{Kind: expiryTimer}, o.Now)
			return
		}
		if forgotten && g.Empty() {
			g.Close(o)
		}
	}
	m.expiryFrom = ""
	m.armExpiry(o)
}

// deleteTopics deletes the offsets of topics that the image does not have any more.
func (m *Machine) deleteTopics(o *op.Op) {
	if !m.offsets.DeleteTopics(o) {
		o.SetTimer(op.TimerKey{Kind: topicsTimer}, o.Now)
	}
}
