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
	if len(brokers) == 0 {
		return nil, errors.New("there are no brokers")
	}
	p := newProposal(brokers)
	proposed, err := p.propose(partitions)
	if err != nil {
		return nil, err
	}
	for p.level(proposed) {
	}
	balance(proposed, len(brokers))
	return proposed, nil
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
	p := newProposal(brokers)
	p.stay = true
	for _, b := range brokers {
		p.load[b.ID] = load[b.ID]
	}
	for _, part := range partitions {
		for _, id := range part.Replicas {
			p.load[id]-- // it is counted again as it is kept
		}
	}
	return p.propose(partitions)
}

// proposal gives replicas to the brokers that have the least.
type proposal struct {
	brokers  []Broker
	racks    map[int32]string
	distinct int           // racks
	load     map[int32]int // replicas of each broker
	stay     bool          // all replicas on the brokers do, whatever their racks
}

func newProposal(brokers []Broker) *proposal {
	p := &proposal{brokers: brokers, racks: map[int32]string{}, load: map[int32]int{}}
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
		if rack, ours := p.racks[id]; ours && (p.stay || !used[rack] || p.distinct < len(replicas)) {
			used[rack] = true
			p.load[id]++
			kept = append(kept, id)
		}
	}
	return kept
}

// fill adds replicas: on a rack that the partition is not on yet, where there are the fewest.
func (p *proposal) fill(part *Partition, factor int) {
	for len(part.Replicas) < factor {
		on := p.on(part.Replicas)
		best := -1
		for i, b := range p.brokers {
			if !slices.Contains(part.Replicas, b.ID) && (best < 0 || p.prefer(b, p.brokers[best], on)) {
				best = i
			}
		}
		p.load[p.brokers[best].ID]++
		part.Replicas = append(part.Replicas, p.brokers[best].ID)
	}
}

// on counts replicas by rack.
func (p *proposal) on(replicas []int32) map[string]int {
	racks := map[string]int{}
	for _, id := range replicas {
		racks[p.racks[id]]++
	}
	return racks
}

func (p *proposal) prefer(b, to Broker, on map[string]int) bool {
	return cmp.Or(cmp.Compare(on[b.Rack], on[to.Rack]), cmp.Compare(p.load[b.ID], p.load[to.ID])) < 0
}

// level moves one replica from a broker that has at least two more than another one to that, and says whether it found one. Each
// time the brokers are more alike, so that there is an end to it.
func (p *proposal) level(partitions []Partition) bool {
	byLoad := slices.SortedStableFunc(slices.Values(p.brokers), func(a, b Broker) int { return cmp.Compare(p.load[b.ID], p.load[a.ID]) })
	for _, from := range byLoad {
		for _, to := range slices.Backward(byLoad) {
			if p.load[from.ID]-p.load[to.ID] < 2 {
				break
			}
			for _, part := range partitions {
				if i := slices.Index(part.Replicas, from.ID); i >= 0 && !slices.Contains(part.Replicas, to.ID) && p.mayReplace(part, from, to) {
					part.Replicas[i] = to.ID
					p.load[from.ID]--
					p.load[to.ID]++
					return true
				}
			}
		}
	}
	return false
}

// mayReplace says whether racks allow it.
func (p *proposal) mayReplace(part Partition, from, to Broker) bool {
	return from.Rack == to.Rack || p.distinct < len(part.Replicas) || p.on(part.Replicas)[to.Rack] == 0
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
