package isolation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// graph has an edge from each transaction to those that must have come after it, with the reason.
type graph map[ID]map[ID]string

func (g graph) add(from, to ID, why string) {
	if from == to {
		return
	}
	if g[from] == nil {
		g[from] = map[ID]string{}
	}
	if _, ok := g[from][to]; !ok {
		g[from][to] = why
	}
}

// cycles finds transactions of which each comes before the other. Those that nobody can read have no place in any order.
func (c *checker) cycles(h History) {
	g := graph{}
	sessions := map[string][]ID{}
	for _, t := range h.Txns {
		if c.visible(t) {
			sessions[t.Process] = append(sessions[t.Process], t.ID)
		}
	}
	for _, session := range sessions {
		slices.SortFunc(session, func(a, b ID) int { return cmp.Compare(a.Number, b.Number) })
		for i := 1; i < len(session); i++ {
			g.add(session[i-1], session[i], "began before")
		}
	}
	for list, sights := range h.Lists {
		last := map[string]ID{}
		for _, s := range sights {
			if before, any := last[s.Txn.Process]; any {
				g.add(before, s.Txn, fmt.Sprintf("wrote to %v before", list))
			}
			last[s.Txn.Process] = s.Txn
		}
	}
	written := map[ID]bool{} // in a cycle of writes
	for _, cycle := range g.cycles() {
		for _, id := range cycle {
			written[id] = true
		}
		c.found.Add(WriteCycle, "%s", g.tell(cycle))
	}
	for _, t := range h.Txns {
		for _, e := range t.Reads {
			if c.visible(t) {
				g.add(e.Txn, t.ID, "was read by")
			}
		}
	}
	for _, cycle := range g.cycles() {
		if !slices.ContainsFunc(cycle, func(id ID) bool { return written[id] }) {
			c.found.Add(CircularFlow, "%s", g.tell(cycle))
		}
	}
}

// visible says whether a transaction took place, as far as anybody can tell.
func (c *checker) visible(t Txn) bool {
	for i := range t.Appends {
		if len(c.places[Element{t.ID, i}]) > 0 {
			return true
		}
	}
	return t.Outcome == Committed
}

// cycles are shortest ones, one of each set of transactions that are all before one another.
func (g graph) cycles() [][]ID {
	var found [][]ID
	for _, component := range g.components() {
		if len(component) > 1 {
			found = append(found, g.cycleIn(component))
		}
	}
	return found
}

// components are the strongly connected ones (Tarjan's algorithm, with a stack of its own: a history may be as long as a path).
func (g graph) components() [][]ID {
	const unvisited = 0
	order, low, onStack := map[ID]int{}, map[ID]int{}, map[ID]bool{}
	var stack []ID
	var components [][]ID
	type frame struct {
		id   ID
		next []ID
	}
	var calls []frame
	enter := func(id ID) {
		order[id] = len(order) + 1
		low[id] = order[id]
		stack, onStack[id] = append(stack, id), true
		calls = append(calls, frame{id, slices.SortedFunc(maps.Keys(g[id]), compareIDs)})
	}
	for _, root := range slices.SortedFunc(maps.Keys(g), compareIDs) {
		if order[root] == unvisited {
			enter(root)
		}
		for len(calls) > 0 {
			top := &calls[len(calls)-1]
			if len(top.next) > 0 {
				to := top.next[0]
				top.next = top.next[1:]
				if order[to] == unvisited {
					enter(to)
				} else if onStack[to] {
					low[top.id] = min(low[top.id], order[to])
				}
				continue
			}
			id := top.id
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				caller := calls[len(calls)-1].id
				low[caller] = min(low[caller], low[id])
			}
			if low[id] == order[id] {
				at := len(stack) - 1
				for stack[at] != id {
					at--
				}
				components = append(components, slices.Clone(stack[at:]))
				for _, member := range stack[at:] {
					onStack[member] = false
				}
				stack = stack[:at]
			}
		}
	}
	return components
}

func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
}

// cycleIn is a shortest cycle through the first transaction of a component.
func (g graph) cycleIn(component []ID) []ID {
	in := map[ID]bool{}
	for _, id := range component {
		in[id] = true
	}
	start := slices.MinFunc(component, compareIDs)
	from := map[ID]ID{}
	for queue := []ID{start}; len(queue) > 0; queue = queue[1:] {
		for _, to := range slices.SortedFunc(maps.Keys(g[queue[0]]), compareIDs) {
			if to == start {
				cycle := []ID{queue[0]}
				for id := queue[0]; id != start; {
					id = from[id]
					cycle = append(cycle, id)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := from[to]; in[to] && !seen {
				from[to] = queue[0]
				queue = append(queue, to)
			}
		}
	}
	return component // not reached: a component of several has a cycle through each
}

const maxTold = 10

// tell says why each comes before the next, of the first few.
func (g graph) tell(cycle []ID) string {
	var text strings.Builder
	for i, id := range cycle[:min(len(cycle), maxTold)] {
		next := cycle[(i+1)%len(cycle)]
		fmt.Fprintf(&text, "%v %s ", id, g[id][next])
	}
	if n := len(cycle) - maxTold; n > 0 {
		fmt.Fprintf(&text, "… %d more … ", n)
	}
	fmt.Fprint(&text, cycle[0])
	return text.String()
}
