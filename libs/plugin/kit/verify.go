package kit

import (
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
)

const nobody = -1

// owners are the members by topic and partition.
type owners [][]int

// verify says what is wrong with an answer, and who owns what otherwise.
func verify(r *plugin.Request, answer plugin.Response) (owners, error) {
	o := make(owners, len(r.Topics))
	for t := range r.Topics {
		o[t] = slices.Repeat([]int{nobody}, int(r.Topics[t].Partitions))
	}
	if len(answer) > len(r.Members) {
		return nil, fmt.Errorf("the answer has %d members, the group %d", len(answer), len(r.Members))
	}
	for m, partitions := range answer {
		for _, p := range partitions {
			if err := o.give(r, m, p); err != nil {
				return nil, err
			}
		}
	}
	subscribed := make([]bool, len(r.Topics))
	for _, m := range r.Members {
		for _, t := range m.Topics {
			subscribed[t] = true
		}
	}
	for t := range o {
		for p, owner := range o[t] {
			if subscribed[t] && owner == nobody {
				return nil, fmt.Errorf("nobody gets partition %s-%d", r.Topics[t].Name, p)
			}
		}
	}
	return o, nil
}

func (o owners) give(r *plugin.Request, m int, p plugin.TopicPartitions) error {
	member := r.Members[m].ID
	if p.Topic < 0 || p.Topic >= len(r.Topics) {
		return fmt.Errorf("member %s gets partitions of topic number %d of %d", member, p.Topic, len(r.Topics))
	}
	topic := r.Topics[p.Topic].Name
	if !slices.Contains(r.Members[m].Topics, p.Topic) && len(p.Partitions) > 0 {
		return fmt.Errorf("member %s gets partitions of topic %s, to which it does not subscribe", member, topic)
	}
	for _, n := range p.Partitions {
		if n < 0 || int(n) >= len(o[p.Topic]) {
			return fmt.Errorf("member %s gets partition %s-%d, which does not exist", member, topic, n)
		}
		if before := o[p.Topic][n]; before != nobody {
			return fmt.Errorf("partition %s-%d goes to both %s and %s", topic, n, r.Members[before].ID, member)
		}
		o[p.Topic][n] = m
	}
	return nil
}

// moved counts the partitions that have another owner in other.
func (o owners) moved(other owners) int { return o.movedExceptTo(other, nobody) }

// movedExceptTo counts the partitions that have another owner in other, unless it is that member.
func (o owners) movedExceptTo(other owners, member int) int {
	n := 0
	for t := range o {
		for p := range o[t] {
			if owner := other[t][p]; owner != o[t][p] && owner != member {
				n++
			}
		}
	}
	return n
}

func (o owners) loads(members int) []int {
	loads := make([]int, members)
	for t := range o {
		for _, m := range o[t] {
			if m != nobody {
				loads[m]++
			}
		}
	}
	return loads
}

// setTargets makes what the members own their targets.
func (o owners) setTargets(r *plugin.Request) {
	for m := range r.Members {
		r.Members[m].Target = nil
	}
	for t := range o {
		last := map[int]int{} // the place of topic t in a member's target
		for p, m := range o[t] {
			if m == nobody {
				continue
			}
			target := &r.Members[m].Target
			place, ok := last[m]
			if !ok {
				place = len(*target)
				last[m] = place
				*target = append(*target, plugin.TopicPartitions{Topic: t})
			}
			(*target)[place].Partitions = append((*target)[place].Partitions, int32(p))
		}
	}
}
