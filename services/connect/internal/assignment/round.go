package assignment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// kinds are connectors and tasks, which are counted apart.
const kinds = 2

func kind(item work.Item) int {
	if item.IsTask() {
		return 1
	}
	return 0
}

// round is the work of the members as a round changes it.
type round struct {
	ids        []string // sorted
	members    map[string]*member
	configured []work.Item
	// owners are who runs what; no item has two.
	owners map[work.Item]string
}

type member struct {
	items             map[work.Item]bool
	count             [kinds]int
	assigned, revoked []work.Item
}

// newRound takes down what the members run. What is not configured any more is revoked, and what runs twice is revoked but from one.
func newRound(in Input) *round {
	r := &round{
		ids: slices.Sorted(maps.Keys(in.Members)), members: make(map[string]*member, len(in.Members)), configured: in.Work,
		owners: make(map[work.Item]string, len(in.Work)),
	}
	configured := make(map[work.Item]bool, len(in.Work))
	for _, item := range in.Work {
		configured[item] = true
	}
	for _, id := range r.ids {
		m := &member{items: map[work.Item]bool{}}
		r.members[id] = m
		for _, item := range in.Members[id] {
			_, twice := r.owners[item]
			if m.items[item] {
				continue
			}
			if !configured[item] || twice {
				m.revoked = append(m.revoked, item)
				continue
			}
			r.owners[item] = id
			m.items[item] = true
			m.count[kind(item)]++
		}
	}
	return r
}

// idle is what nobody runs: lost is what somebody was to run, free is the rest.
func (r *round) idle(expected map[work.Item]bool) (lost, free []work.Item) {
	for _, item := range r.configured {
		if _, runs := r.owners[item]; runs {
			continue
		}
		if expected[item] {
			lost = append(lost, item)
		} else {
			free = append(free, item)
		}
	}
	return lost, free
}

// surplus is what each member has more of than its share. The remainder of the division is left with those that have most.
func (r *round) surplus() map[string][]work.Item {
	surplus := map[string][]work.Item{}
	if len(r.ids) == 0 {
		return surplus
	}
	var total [kinds]int
	for _, item := range r.configured {
		total[kind(item)]++
	}
	for k := range kinds {
		share, more := total[k]/len(r.ids), total[k]%len(r.ids)
		byCount := slices.SortedStableFunc(slices.Values(r.ids), func(a, b string) int {
			return cmp.Compare(r.members[b].count[k], r.members[a].count[k])
		})
		for i, id := range byCount {
			most := share
			if i < more {
				most++
			}
			if over := r.members[id].count[k] - most; over > 0 {
				surplus[id] = append(surplus[id], r.last(id, k, over)...)
			}
		}
	}
	return surplus
}

// last are the last n items of a kind that a member has, in order.
func (r *round) last(id string, k, n int) []work.Item {
	var items []work.Item
	for item := range r.members[id].items {
		if kind(item) == k {
			items = append(items, item)
		}
	}
	work.Sort(items)
	return items[len(items)-n:]
}

func (r *round) revoke(id string, items []work.Item) {
	m := r.members[id]
	m.revoked = append(m.revoked, items...)
	for _, item := range items {
		delete(m.items, item)
		m.count[kind(item)]--
		delete(r.owners, item)
	}
}

// spread gives items away, each to a member that has fewest of its kind.
func (r *round) spread(items []work.Item) {
	if len(r.ids) == 0 {
		return
	}
	for _, item := range items {
		k := kind(item)
		id := slices.MinFunc(r.ids, func(a, b string) int { return cmp.Compare(r.members[a].count[k], r.members[b].count[k]) })
		m := r.members[id]
		m.items[item] = true
		m.count[k]++
		m.assigned = append(m.assigned, item)
		r.owners[item] = id
	}
}

// running is what members run after the round.
func (r *round) running() map[work.Item]bool {
	running := make(map[work.Item]bool, len(r.owners))
	for item := range r.owners {
		running[item] = true
	}
	return running
}

func (r *round) output() Output {
	out := Output{Assigned: map[string][]work.Item{}, Revoked: map[string][]work.Item{}}
	for _, id := range r.ids {
		m := r.members[id]
		if len(m.assigned) > 0 {
			out.Assigned[id] = work.Sort(m.assigned)
		}
		if len(m.revoked) > 0 {
			out.Revoked[id] = work.Sort(m.revoked)
		}
	}
	return out
}
