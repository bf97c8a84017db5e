// Command exclusive is an example of an assignor in Go: each topic is consumed by one member alone, so that its records are
// handled in one place whatever their partitions.
package main

import (
	"context"

	"github.com/cauce-stream/cauce/libs/plugin"
)

func main() { plugin.Serve(exclusive{}) }

type exclusive struct{}

// Info says what consumers name in group.remote.assignor.
func (exclusive) Info() plugin.Info {
	return plugin.Info{Name: "exclusive", Version: "1.0.0", Doc: "Gives each topic to one member alone."}
}

// Assign leaves a topic with the member that has it. Other topics go to the subscriber with the fewest, the first in case
// of doubt; so do topics of a member that has two more than another one that could take one of them.
func (exclusive) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	d := newDistribution(r)
	for t := range r.Topics {
		if d.owner[t] == nobody && len(d.subscribers[t]) > 0 {
			d.give(t, d.idlest(t))
		}
	}
	for moved := true; moved; { // each move makes the distribution more even, so there is an end to it
		moved = false
		for t, owner := range d.owner {
			if owner == nobody {
				continue
			}
			if m := d.idlest(t); d.topics[owner] > d.topics[m]+1 {
				d.topics[owner]--
				d.give(t, m)
				moved = true
			}
		}
	}
	return d.response(), nil
}

const nobody = -1

// distribution is who has which topic. Members and topics go by their place in the request.
type distribution struct {
	request     *plugin.Request
	subscribers [][]int // by topic
	owner       []int   // by topic
	topics      []int   // by member: how many it has
}

func newDistribution(r *plugin.Request) *distribution {
	d := &distribution{request: r, subscribers: make([][]int, len(r.Topics)), owner: make([]int, len(r.Topics)), topics: make([]int, len(r.Members))}
	for m, member := range r.Members {
		for _, t := range member.Topics {
			d.subscribers[t] = append(d.subscribers[t], m)
		}
	}
	for t := range d.owner {
		d.owner[t] = nobody
		for _, m := range d.subscribers[t] {
			if d.owner[t] == nobody && hasAll(r, m, t) {
				d.give(t, m)
			}
		}
	}
	return d
}

// hasAll says whether a member has all partitions of a topic now.
func hasAll(r *plugin.Request, m, t int) bool {
	for _, target := range r.Members[m].Target {
		if target.Topic == t {
			return len(target.Partitions) == int(r.Topics[t].Partitions)
		}
	}
	return false
}

func (d *distribution) give(t, m int) {
	d.owner[t] = m
	d.topics[m]++
}

// idlest is the subscriber of a topic that has the fewest topics.
func (d *distribution) idlest(t int) int {
	best := d.subscribers[t][0]
	for _, m := range d.subscribers[t] {
		if d.topics[m] < d.topics[best] {
			best = m
		}
	}
	return best
}

func (d *distribution) response() plugin.Response {
	response := make(plugin.Response, len(d.request.Members))
	for t, owner := range d.owner {
		if owner == nobody {
			continue
		}
		all := plugin.TopicPartitions{Topic: t}
		for p := range d.request.Topics[t].Partitions {
			all.Partitions = append(all.Partitions, p)
		}
		response[owner] = append(response[owner], all)
	}
	return response
}
