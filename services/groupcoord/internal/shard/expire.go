package shard

import (
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// expiryInterval is the key of the time between two looks for what to forget.
const expiryInterval = "offsets.retention.check.interval.ms"

func (m *Machine) armExpiry(o *op.Op) {
	m.expiryEvery = o.Settings.Broker.DurationMs(expiryInterval)
	o.SetTimer(op.TimerKey{Kind: expiryTimer}, o.Now.Add(m.expiryEvery))
}

// expire deletes offsets that were kept for long enough, and groups that have neither members nor offsets.
func (m *Machine) expire(o *op.Op) {
	done := m.each(o, expiryTimer, func(id string, g group) bool {
		none, all := m.offsets.Expire(o, id, g.Retention(), g.Subscribed)
		if !all || none && g.Empty() && !roomToClose(o, id) {
			return false
		}
		if none && g.Empty() {
			g.Close(o)
		}
		return true
	})
	if done {
		m.expireProducers(o)
		m.armExpiry(o)
	}
}

// deleteTopics deletes the offsets of topics that the image does not have any more.
func (m *Machine) deleteTopics(o *op.Op) {
	if !m.offsets.DeleteTopics(o) {
		o.SetTimer(op.TimerKey{Kind: topicsTimer}, m.next(o))
	}
}
