package shard

import (
	"time"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// groupBytes is what one group may make of an operation, as a rule.
const groupBytes = 128 << 10

// each visits all groups, in order. When the operation's batch is full, or visit says that it is, a timer of this kind goes off at
// once: then the walk goes on where it was. each says whether it has come to the end.
func (m *Machine) each(o *op.Op, kind string, visit func(id string, g group) bool) bool {
	for _, id := range m.ids() {
		if id < m.from[kind] {
			continue
		}
		if !hasRoom(o) || !visit(id, m.groups[id]) {
			m.from[kind] = id
			o.SetTimer(op.TimerKey{Kind: kind}, m.next(o))
			return false
		}
	}
	delete(m.from, kind)
	return true
}

// start has each group start its timers.
func (m *Machine) start(o *op.Op) {
	m.each(o, loadedTimer, func(_ string, g group) bool {
		g.Loaded(o)
		return true
	})
}

// next is when to go on with what the operation had no room for: at once, unless a batch cannot hold even one record.
func (m *Machine) next(o *op.Op) time.Time {
	if !emitted(o) {
		return o.Now.Add(m.expiryEvery)
	}
	return o.Now
}

func emitted(o *op.Op) bool { return len(o.Step().Records) > 0 }

// hasRoom says whether an operation can take on another group.
func hasRoom(o *op.Op) bool { return !emitted(o) || o.Room(groupBytes) }

// roomToClose says whether the operation has room for the tombstones of an empty group.
func roomToClose(o *op.Op, id string) bool {
	const tombstones, fixedBytes = 8, 64
	return o.Room(tombstones * (len(id) + fixedBytes))
}
