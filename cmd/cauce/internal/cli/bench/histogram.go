package bench

import (
	"math/bits"
	"time"
)

const (
	subBucketBits = 7 // 128 buckets for each power of two: at most 0.8 % error
	subBuckets    = 1 << subBucketBits
	buckets       = (64 - subBucketBits) * subBuckets
)

// histogram counts durations in buckets that grow with the value. The zero value is empty and ready
// for use. It is not safe for concurrent use.
type histogram struct {
	counts [buckets]int64
	total  int64
	max    int64
}

// add counts d; negative durations, from clocks that disagree, count as zero.
func (h *histogram) add(d time.Duration) {
	v := max(int64(d), 0)
	h.counts[bucket(v)]++
	h.total++
	h.max = max(h.max, v)
}

func bucket(v int64) int {
	shift := max(bits.Len64(uint64(v))-subBucketBits-1, 0)
	return shift*subBuckets + int(v>>shift)
}

// upper is the largest value that bucket i counts.
func upper(i int) int64 {
	shift := max(i/subBuckets-1, 0)
	return (int64(i-shift*subBuckets)+1)<<shift - 1
}

// quantile returns a value that at least the share q of all values is not above, 0 ≤ q ≤ 1. Zero
// when nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q*float64(h.total) + 0.999999999)
	rank = min(max(rank, 1), h.total)
	seen := int64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return time.Duration(min(upper(i), h.max))
		}
	}
	return 0
}

// merge adds what other counted.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}
