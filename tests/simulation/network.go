package simulation

import "slices"

// controllers stands for whoever is the active controller, where a broker's id is expected.
const controllers int32 = 0

const (
	maxFlying  = 200
	maxDelayMs = 500
)

// link is one direction between two nodes.
type link struct{ from, to int32 }

// network has the messages under way. Any of them may be the next to arrive.
type network struct {
	flying []message
	cut    map[link]bool
}

type message struct {
	link
	laterMs int64 // before which it does not arrive
	arrive  func()
}

func (w *world) send(from, to int32, arrive func()) {
	n, laterMs := &w.network, w.nowMs
	if w.random.IntN(w.slow) == 0 {
		laterMs += w.random.Int64N(maxDelayMs)
	}
	if len(n.flying) == maxFlying {
		n.flying = slices.Delete(n.flying, 0, 1)
	}
	n.flying = append(n.flying, message{link{from, to}, laterMs, arrive})
}

// forget loses all that comes from a node.
func (n *network) forget(node int32) {
	n.flying = slices.DeleteFunc(n.flying, func(m message) bool { return m.from == node })
}

// deliver brings one of the messages, mostly one that has waited long, to where it goes, twice at times, or loses it.
func (w *world) deliver() {
	i := w.due()
	if i < 0 {
		return
	}
	m := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	if !w.calm && w.random.IntN(20) == 0 {
		again := m
		again.laterMs = w.nowMs + w.random.Int64N(maxDelayMs)
		w.flying = append(w.flying, again)
	}
	if !w.cut[m.link] && (w.calm || w.random.IntN(15) > 0) {
		m.arrive()
	}
}

// due draws a message that may arrive, -1 for none: one of the first few, if not any.
func (w *world) due() int {
	i := -1
	first := 4
	if w.random.IntN(4) == 0 {
		first = maxFlying
	}
	for k, m := range w.flying {
		if !w.calm && (m.laterMs > w.nowMs || m.to != controllers && w.broker(m.to).pausedMs > w.nowMs) {
			continue
		}
		if first--; i < 0 || w.random.IntN(2) == 0 {
			i = k
		}
		if first == 0 {
			break
		}
	}
	return i
}

// cutOff cuts a broker off from another, or from the controllers, in one direction or both.
func (w *world) cutOff(a int32) {
	b := controllers
	if w.random.IntN(2) == 0 {
		b = int32(w.random.IntN(brokers) + 1)
	}
	if a == b {
		return
	}
	way := w.random.IntN(3)
	if way != 1 {
		w.cut[link{a, b}] = true
	}
	if way != 0 {
		w.cut[link{b, a}] = true
	}
}

// mend ends the cuts between two nodes, or all.
func (w *world) mend() {
	if w.random.IntN(3) == 0 {
		clear(w.cut)
		return
	}
	a, b := int32(w.random.IntN(brokers)+1), int32(w.random.IntN(brokers+1))
	delete(w.cut, link{a, b})
	delete(w.cut, link{b, a})
}
