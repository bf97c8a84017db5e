package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Broker is a node that may have replicas.
type Broker struct {
	ID   int32
	Rack string // empty: none
}

// Spread proposes brokers for partitions: each broker gets as many replicas as any other, and as many as possible stay where
// they are. A partition's replicas are on different racks as far as there are enough.
func Spread(partitions []Partition, brokers []Broker) ([]Partition, error) {
	total := 0
	for _, p := range partitions {
		total += len(p.Replicas)
	}
	if len(brokers) == 0 {
		return nil, errors.New("there are no brokers")
	}
	proposed, err := newProposal(brokers, shares(partitions, brokers, total)).propose(partitions)
	balance(proposed, len(brokers))
	return proposed, err
}

// balance changes which replicas come first where a broker would be the preferred leader of more partitions than its share.
func balance(partitions []Partition, brokers int) {
	leads := map[int32]int{}
	share := (len(partitions) + brokers - 1) / brokers
	var others []Partition
	for _, p := range partitions {
		if leads[p.Replicas[0]] < share {
			leads[p.Replicas[0]]++
		} else {
			others = append(others, p)
		}
	}
	for _, p := range others {
		i := 0
		for at, id := range p.Replicas {
			if leads[id] < leads[p.Replicas[i]] {
				i = at
			}
		}
		p.Replicas[0], p.Replicas[i] = p.Replicas[i], p.Replicas[0]
		leads[p.Replicas[0]]++
	}
}

// Evacuate proposes brokers for replicas that are on none of the brokers; all others stay. load is how many replicas each
// broker has in all.
func Evacuate(partitions []Partition, brokers []Broker, load map[int32]int) ([]Partition, error) {
	const enough = 1 << 30
	room := map[int32]int{}
	for _, b := range brokers {
		room[b.ID] = enough - load[b.ID]
	}
	for _, p := range partitions {
		for _, id := range p.Replicas {
			if room[id] > 0 {
				room[id]++ // for the one it has
			}
		}
	}
	p := newProposal(brokers, room)
	p.stay = true
	return p.propose(partitions)
}

// shares are how many replicas each broker is to have. Those that do not divide evenly go to the brokers that have the most.
func shares(partitions []Partition, brokers []Broker, total int) map[int32]int {
	has := map[int32]int{}
	for _, p := range partitions {
		for _, id := range p.Replicas {
			has[id]++
		}
	}
	fullestFirst := slices.SortedStableFunc(slices.Values(brokers), func(a, b Broker) int { return cmp.Compare(has[b.ID], has[a.ID]) })
	share := map[int32]int{}
	for i, b := range fullestFirst {
		share[b.ID] = total / len(brokers)
		if i < total%len(brokers) {
			share[b.ID]++
		}
	}
	return share
}

// proposal fills room, which is how many more replicas each broker is to have.
type proposal struct {
	brokers  []Broker
	racks    map[int32]string
	distinct int // racks
	room     map[int32]int
	stay     bool // all replicas on the brokers do, whatever their racks
}

func newProposal(brokers []Broker, room map[int32]int) *proposal {
	p := &proposal{brokers: brokers, room: room, racks: map[int32]string{}}
	seen := map[string]bool{}
	for _, b := range brokers {
		p.racks[b.ID], seen[b.Rack] = b.Rack, true
	}
	p.distinct = len(seen)
	return p
}

func (p *proposal) propose(partitions []Partition) ([]Partition, error) {
	proposed := make([]Partition, len(partitions))
	for i, part := range partitions {
		if len(part.Replicas) > len(p.brokers) {
			return nil, fmt.Errorf("%s has %d replicas, and there are %d brokers for them", part.Name(), len(part.Replicas), len(p.brokers))
		}
		proposed[i] = Partition{Topic: part.Topic, Partition: part.Partition, Replicas: p.keep(part.Replicas)}
	}
	for i, part := range partitions {
		p.fill(&proposed[i], len(part.Replicas))
	}
	return proposed, nil
}

// keep are the replicas that stay.
func (p *proposal) keep(replicas []int32) []int32 {
	var kept []int32
	used := map[string]bool{}
	for _, id := range replicas {
		if rack := p.racks[id]; p.room[id] > 0 && (p.stay || !used[rack] || p.distinct < len(replicas)) {
			used[rack] = true
			p.room[id]--
			kept = append(kept, id)
		}
	}
	return kept
}

// fill adds replicas: on a rack that the partition is not on yet, where there is the most room.
func (p *proposal) fill(part *Partition, factor int) {
	for len(part.Replicas) < factor {
		racks := map[string]int{}
		for _, id := range part.Replicas {
			racks[p.racks[id]]++
		}
		best := -1
		for i, b := range p.brokers {
			if slices.Contains(part.Replicas, b.ID) {
				continue
			}
			if best < 0 || p.prefer(b, p.brokers[best], racks) {
				best = i
			}
		}
		p.room[p.brokers[best].ID]--
		part.Replicas = append(part.Replicas, p.brokers[best].ID)
	}
}

func (p *proposal) prefer(b, to Broker, racks map[string]int) bool {
	return cmp.Or(cmp.Compare(racks[to.Rack], racks[b.Rack]), cmp.Compare(p.room[b.ID], p.room[to.ID])) > 0
}

// Last is the partition with the node as its last replica, so that it leads only when no other can.
func Last(p Partition, node int32) Partition {
	i := slices.Index(p.Replicas, node)
	if i < 0 {
		return p
	}
	p.Replicas = append(slices.Delete(slices.Clone(p.Replicas), i, i+1), node)
	return p
}
