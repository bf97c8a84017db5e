// Package plan is an assignment in the making: who owns which partition, and how much each member has.
//
// It must be filled before it is evened. Loops over the subscribers of a topic are plain: with 1,000 members and 10,000 partitions they take milliseconds.
package plan

import (
	"cmp"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// Nobody owns what is not assigned.
const Nobody = -1

// maxPasses bounds how often Even goes through the topics. One pass suffices when all members have one subscription;
// where subscriptions overlap, each further pass leaves about half of what is uneven.
const maxPasses = 16

// Plan is an assignment in the making. Members and topics are named by their place in the request.
type Plan struct {
	// Owner is the member by topic and partition. Change it with Give.
	Owner [][]int
	// Load is how many partitions each member has.
	Load []int
	// Subscribers are the members that subscribe to each topic, in order.
	Subscribers [][]int

	request *plugin.Request
}

// New makes a plan in which each member keeps what it has, as far as it still subscribes to it.
func New(r *plugin.Request) *Plan {
	p := &Plan{Owner: make([][]int, len(r.Topics)), Load: make([]int, len(r.Members)), Subscribers: make([][]int, len(r.Topics)), request: r}
	for t := range r.Topics {
		p.Owner[t] = slices.Repeat([]int{Nobody}, int(r.Topics[t].Partitions))
	}
	for m := range r.Members {
		for _, t := range r.Members[m].Topics {
			p.Subscribers[t] = append(p.Subscribers[t], m)
		}
	}
	for m := range r.Members {
		for _, kept := range r.Members[m].Target {
			if _, subscribes := slices.BinarySearch(p.Subscribers[kept.Topic], m); !subscribes {
				continue
			}
			for _, n := range kept.Partitions {
				if owners := p.Owner[kept.Topic]; n >= 0 && int(n) < len(owners) && owners[n] == Nobody {
					p.Give(kept.Topic, int(n), m)
				}
			}
		}
	}
	return p
}

// Give makes a member the owner of a partition.
func (p *Plan) Give(topic, partition, member int) {
	if before := p.Owner[topic][partition]; before != Nobody {
		p.Load[before]--
	}
	p.Owner[topic][partition] = member
	p.Load[member]++
}

// Fill gives each partition that nobody owns to the subscriber with the least load; among several to one that is
// preferred, if preferred is not nil, and then to the first.
func (p *Plan) Fill(preferred func(topic, partition, member int) bool) {
	for _, t := range p.order() {
		for n, owner := range p.Owner[t] {
			if owner == Nobody {
				p.Give(t, n, p.least(t, n, preferred))
			}
		}
	}
}

func (p *Plan) least(t, n int, preferred func(topic, partition, member int) bool) int {
	best := p.Subscribers[t][0]
	likes := preferred != nil && preferred(t, n, best)
	for _, m := range p.Subscribers[t][1:] {
		switch {
		case p.Load[m] < p.Load[best]:
			best, likes = m, preferred != nil && preferred(t, n, m)
		case p.Load[m] == p.Load[best] && preferred != nil && !likes && preferred(t, n, m):
			best, likes = m, true
		}
	}
	return best
}

// Even moves as few partitions as it can until no subscriber of a topic has two more partitions, counted over all topics,
// than another one that could take one from it. It says whether it has moved any.
func (p *Plan) Even() (moved bool) {
	classes := p.classes()
	for range maxPasses {
		again := false
		for _, topics := range classes {
			again = p.evenClass(topics) || again
		}
		if !again {
			break
		}
		moved = true
	}
	return moved
}

// classes are the topics with the same subscribers, which can be evened out together.
func (p *Plan) classes() [][]int {
	var classes [][]int
	for _, t := range p.order() {
		same := func(class []int) bool { return slices.Equal(p.Subscribers[class[0]], p.Subscribers[t]) }
		if i := slices.IndexFunc(classes, same); i >= 0 {
			classes[i] = append(classes[i], t)
		} else {
			classes = append(classes, []int{t})
		}
	}
	return classes
}

func (p *Plan) evenClass(topics []int) (moved bool) {
	type partition struct{ topic, number int }
	held := make([][]partition, len(p.Load)) // by member
	for _, t := range topics {
		for n, m := range p.Owner[t] {
			held[m] = append(held[m], partition{t, n})
		}
	}
	for {
		least, most := Nobody, Nobody
		for _, m := range p.Subscribers[topics[0]] {
			if least == Nobody || p.Load[m] < p.Load[least] {
				least = m
			}
			// Of several the last: the first members keep what is left over.
			if len(held[m]) > 0 && (most == Nobody || p.Load[m] >= p.Load[most]) {
				most = m
			}
		}
		if most == Nobody || p.Load[most]-p.Load[least] <= 1 {
			return moved
		}
		last := held[most][len(held[most])-1]
		held[most] = held[most][:len(held[most])-1]
		held[least] = append(held[least], last)
		p.Give(last.topic, last.number, least)
		moved = true
	}
}

// order is that of the topics with subscribers in which filling comes out most even: those with the most partitions for
// each subscriber first, then those with the fewest subscribers.
func (p *Plan) order() []int {
	var topics []int
	for t := range p.Owner {
		if len(p.Subscribers[t]) > 0 {
			topics = append(topics, t)
		}
	}
	slices.SortStableFunc(topics, func(a, b int) int {
		subscribersA, subscribersB := len(p.Subscribers[a]), len(p.Subscribers[b])
		return cmp.Or(
			cmp.Compare(len(p.Owner[b])*subscribersA, len(p.Owner[a])*subscribersB),
			cmp.Compare(subscribersA, subscribersB))
	})
	return topics
}

// Response is the plan as an answer.
func (p *Plan) Response() plugin.Response {
	answer := make(plugin.Response, len(p.request.Members))
	for t := range p.Owner {
		for n, m := range p.Owner[t] {
			if m == Nobody {
				continue
			}
			if last := len(answer[m]) - 1; last < 0 || answer[m][last].Topic != t {
				answer[m] = append(answer[m], plugin.TopicPartitions{Topic: t})
			}
			list := &answer[m][len(answer[m])-1].Partitions
			*list = append(*list, int32(n))
		}
	}
	return answer
}
