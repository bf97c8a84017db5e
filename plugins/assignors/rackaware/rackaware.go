// Package rackaware has members read from replicas in their own rack where it can, without giving up balance (what
// KIP-881 does for classic groups, and Apache Kafka's server-side assignors do not).
package rackaware

import (
	"context"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/plugins/assignors/internal/plan"
)

// Assignor balances as the uniform assignor does, then exchanges partitions between members as long as more of them come
// to lie in their owner's rack. That outweighs stickiness: a partition moves if that makes it local. Partitions that are
// local stay.
type Assignor struct{}

// Info names it.
func (Assignor) Info() plugin.Info {
	return plugin.Info{Name: "rack-aware", Version: "1.0.0", Doc: "Spreads partitions evenly and keeps them in the member's rack where it can."}
}

// maxPasses bounds the search. There is an end without it, since each change makes the group more even, or as even with one
// more partition local; a few passes are usual.
const maxPasses = 64

// Assign balances and looks for locality until neither finds anything: giving that answer back changes nothing.
func (Assignor) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	l := &locality{request: r, plan: plan.New(r)}
	l.plan.Fill(l.local)
	l.plan.Even()
	for range maxPasses {
		improved := l.improve()
		if evened := l.plan.Even(); !improved && !evened {
			break
		}
	}
	return l.plan.Response(), nil
}

type partition struct{ topic, number int }

// locality is a plan in which partitions find owners in their racks.
type locality struct {
	request *plugin.Request
	plan    *plan.Plan
	owned   [][]partition // by member, during improve
}

// local says whether a replica of a partition is in the member's rack.
func (l *locality) local(topic, number, member int) bool {
	rack, racks := l.request.Members[member].Rack, l.request.Topics[topic].Racks
	return rack != "" && number < len(racks) && slices.Contains(racks[number], rack)
}

func (l *locality) subscribes(member, topic int) bool {
	_, found := slices.BinarySearch(l.request.Members[member].Topics, topic)
	return found
}

// improve goes through all partitions that are not local once.
func (l *locality) improve() (changed bool) {
	l.owned = make([][]partition, len(l.request.Members))
	for t := range l.plan.Owner {
		for n, m := range l.plan.Owner[t] {
			if m != plan.Nobody {
				l.owned[m] = append(l.owned[m], partition{t, n})
			}
		}
	}
	for t := range l.plan.Owner {
		for n, owner := range l.plan.Owner[t] {
			if owner != plan.Nobody && n < len(l.request.Topics[t].Racks) && !l.local(t, n, owner) {
				changed = l.bring(partition{t, n}, owner) || changed
			}
		}
	}
	return changed
}

// bring finds an owner in a rack of the partition: one that has fewer partitions takes it, one that has as many gives
// another in exchange that is no worse off with the present owner.
func (l *locality) bring(p partition, owner int) bool {
	for _, m := range l.plan.Subscribers[p.topic] {
		if m == owner || !l.local(p.topic, p.number, m) {
			continue
		}
		if l.plan.Load[m] < l.plan.Load[owner] {
			l.move(p, owner, m)
			return true
		}
		for _, q := range l.owned[m] {
			if l.subscribes(owner, q.topic) && (!l.local(q.topic, q.number, m) || l.local(q.topic, q.number, owner)) {
				l.move(p, owner, m)
				l.move(q, m, owner)
				return true
			}
		}
	}
	return false
}

func (l *locality) move(p partition, from, to int) {
	l.plan.Give(p.topic, p.number, to)
	i := slices.Index(l.owned[from], p)
	l.owned[from] = slices.Delete(l.owned[from], i, i+1)
	l.owned[to] = append(l.owned[to], p)
}
