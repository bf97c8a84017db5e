package judgement

import "time"

const (
	// loopRebalances within loopPeriod are a loop.
	loopRebalances = 6
	loopPeriod     = 5 * time.Minute
)

// rebalances are the last changes of a group's generation, loopRebalances+1 at most, which is enough to see a loop.
type rebalances []change

type change struct {
	at         time.Time
	generation int32
}

// see takes down a generation. One that went back is of another group with the same name.
func (r *rebalances) see(now time.Time, generation int32) {
	n := len(*r)
	switch {
	case n > 0 && (*r)[n-1].generation == generation:
		return
	case n > 0 && generation < (*r)[n-1].generation:
		*r = nil
	case n > loopRebalances:
		*r = append((*r)[:0], (*r)[1:]...)
	}
	*r = append(*r, change{now, generation})
}

// loop says whether there were too many of late. The first generation that was seen may be old: it counts for nothing but as a start.
func (r rebalances) loop(now time.Time) bool {
	if len(r) == 0 {
		return false
	}
	newest, before := r[len(r)-1], r[0].generation
	for _, c := range r {
		if now.Sub(c.at) > loopPeriod {
			before = c.generation
		}
	}
	return newest.generation-before >= loopRebalances
}
