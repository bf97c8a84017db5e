// Package lagaware balances what members have to catch up with, instead of how many partitions they have.
package lagaware

import (
	"cmp"
	"context"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/plugins/assignors/internal/plan"
)

// Assignor weighs a partition by its lag in records, plus one so that partitions without lag are spread as well; unknown
// lag counts as the mean of the known. Partitions move only while two members differ by more than the tolerance. Where no
// lag is known it does what the uniform assignor does.
type Assignor struct{}

// Info names it.
func (Assignor) Info() plugin.Info {
	return plugin.Info{Name: "lag-aware", Version: "1.0.0", WantsLag: true,
		Doc: "Balances by measured lag, and lets differences of a fifth be."}
}

const (
	// tolerated is the part of the larger of two members' weights by which they may differ, as one in so many.
	tolerated = 5
	// maxPasses bounds how often all members are looked at; a pass that moves nothing ends it.
	maxPasses = 16
)

// Assign keeps what members have, fills up from the heaviest partition on, and moves what is beyond the tolerance.
func (Assignor) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	b := newBalance(r)
	if b == nil {
		p := plan.New(r)
		p.Fill(nil)
		p.Even()
		return p.Response(), nil
	}
	b.fill()
	for range maxPasses {
		if !b.pass() {
			break
		}
	}
	return b.plan.Response(), nil
}

type partition struct {
	topic, number int
	weight        int64
}

// balance is a plan with the weight of each member.
type balance struct {
	plan   *plan.Plan
	weight []int64       // by member
	owned  [][]partition // by member
	free   []partition
}

// newBalance returns nil when no lag is known.
func newBalance(r *plugin.Request) *balance {
	mean, known := meanLag(r)
	if !known {
		return nil
	}
	b := &balance{plan: plan.New(r), weight: make([]int64, len(r.Members)), owned: make([][]partition, len(r.Members))}
	for t := range b.plan.Owner {
		lag := r.Topics[t].Lag
		for n, m := range b.plan.Owner[t] {
			p := partition{t, n, mean + 1}
			if n < len(lag) && lag[n] >= 0 {
				p.weight = lag[n] + 1
			}
			switch {
			case m != plan.Nobody:
				b.owned[m] = append(b.owned[m], p)
				b.weight[m] += p.weight
			case len(b.plan.Subscribers[t]) > 0:
				b.free = append(b.free, p)
			}
		}
	}
	return b
}

func meanLag(r *plugin.Request) (mean int64, known bool) {
	sum, count := 0.0, 0
	for _, t := range r.Topics {
		for _, lag := range t.Lag {
			if lag >= 0 {
				sum += float64(lag)
				count++
			}
		}
	}
	if count == 0 {
		return 0, false
	}
	return int64(sum / float64(count)), true
}

// lightest is the subscriber of a topic that weighs least, and of several the one with the fewest partitions.
func (b *balance) lightest(topic int) int {
	return slices.MinFunc(b.plan.Subscribers[topic], func(x, y int) int {
		return cmp.Or(cmp.Compare(b.weight[x], b.weight[y]), cmp.Compare(b.plan.Load[x], b.plan.Load[y]))
	})
}

func (b *balance) fill() {
	slices.SortStableFunc(b.free, func(x, y partition) int { return cmp.Compare(y.weight, x.weight) })
	for _, p := range b.free {
		b.give(p, b.lightest(p.topic))
	}
}

func (b *balance) give(p partition, m int) {
	b.plan.Give(p.topic, p.number, m)
	b.owned[m] = append(b.owned[m], p)
	b.weight[m] += p.weight
}

// pass relieves each member, the heaviest first.
func (b *balance) pass() (moved bool) {
	order := make([]int, len(b.weight))
	for m := range order {
		order[m] = m
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.weight[y], b.weight[x]) })
	for _, m := range order {
		for b.relieve(m) {
			moved = true
		}
	}
	return moved
}

// relieve moves one partition of a member to a lighter one if they differ by more than is tolerated: the partition that
// brings the two closest. The heavier of the two becomes lighter by each move, so there is an end to it.
func (b *balance) relieve(m int) bool {
	best, to, bestPeak := -1, plan.Nobody, b.weight[m]
	lightest := map[int]int{}
	for i, p := range b.owned[m] {
		other, ok := lightest[p.topic]
		if !ok {
			other = b.lightest(p.topic)
			lightest[p.topic] = other
		}
		if b.weight[m]-b.weight[other] <= b.weight[m]/tolerated {
			continue
		}
		if peak := max(b.weight[m]-p.weight, b.weight[other]+p.weight); peak < bestPeak {
			best, to, bestPeak = i, other, peak
		}
	}
	if best < 0 {
		return false
	}
	p := b.owned[m][best]
	b.owned[m] = slices.Delete(b.owned[m], best, best+1)
	b.weight[m] -= p.weight
	b.give(p, to)
	return true
}
