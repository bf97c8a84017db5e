package judgement

import (
	"sort"
	"time"
)

// trailPoints bounds a trail. When it is full every second point goes: what is older is known less exactly, but never lost.
const trailPoints = 32

// longest is beyond what anybody would believe of a log that grows slowly.
const longest = 10 * 365 * 24 * time.Hour

// trail is where the end of a log was at which time, the oldest first. It tells how long ago the record of an offset was written
// without reading it.
type trail []point

type point struct {
	at  time.Time
	end int64
}

func (t trail) end() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].end
}

// with adds a point. Points before the one that a committed offset has passed last are not needed any more.
func (t trail) with(now time.Time, end, committed int64) trail {
	for len(t) > 1 && t[1].end <= committed {
		t = t[1:]
	}
	if len(t) == trailPoints {
		for i := 2; i < len(t); i += 2 {
			t[i/2] = t[i]
		}
		t = t[:len(t)/2]
	}
	return append(t, point{now, end})
}

// age is how long ago the record at an offset was written; 0 if it is not yet. Between two points, and before the first one, the log
// is taken to have grown evenly. A log that has not grown at all since the first look tells only that it is no younger than that.
func (t trail) age(now time.Time, offset int64) time.Duration {
	i := sort.Search(len(t), func(i int) bool { return t[i].end > offset })
	switch {
	case i == len(t):
		return 0
	case i > 0:
		written := t[i-1].at.Add(share(t[i].at.Sub(t[i-1].at), offset-t[i-1].end, t[i].end-t[i-1].end))
		return now.Sub(written)
	}
	first, last := t[0], t[len(t)-1]
	seen := now.Sub(first.at)
	if last.end == first.end {
		return seen
	}
	return seen + share(last.at.Sub(first.at), first.end-offset, last.end-first.end)
}

// share is d·part/whole, or longest if that is less.
func share(d time.Duration, part, whole int64) time.Duration {
	return time.Duration(min(float64(d)*(float64(part)/float64(whole)), float64(longest)))
}
