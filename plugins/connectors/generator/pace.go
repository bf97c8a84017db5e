package generator

import (
	"math"
	"time"
)

// pace says how many records are due at a rate. What is late is made up for.
type pace struct {
	began     time.Time
	perSecond float64 // 0 for any number at any time
	passed    int64   // records that were given out
}

func (p *pace) due(now time.Time) int64 {
	if p.perSecond == 0 {
		return math.MaxInt64
	}
	return int64(now.Sub(p.began).Seconds()*p.perSecond) - p.passed
}

// wait returns how long it takes until one more is due, at most a second: the rate may be very small.
func (p *pace) wait(now time.Time) time.Duration {
	next := float64(p.passed+1) / p.perSecond
	seconds := min(next-now.Sub(p.began).Seconds(), 1)
	return max(time.Duration(seconds*float64(time.Second)), time.Microsecond)
}
