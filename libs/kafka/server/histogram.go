package server

import (
	"math/bits"
	"sync/atomic"
)

const (
	subBuckets     = 4 // per power of two: a quantile is at most a quarter too high
	histogramSlots = 128
)

// histogram counts values from 0 to 2^32 in fixed buckets. Zeros are not stored, as most phases of most
// requests take none: whoever reads the histogram knows the number of all values.
type histogram struct {
	sum     atomic.Int64
	buckets [histogramSlots]atomic.Uint64
}

// record adds a value. Negative ones count as zero.
func (h *histogram) record(v int64) {
	if v <= 0 {
		return
	}
	h.sum.Add(v)
	h.buckets[bucketOf(uint64(v))].Add(1)
}

// bucketOf is the bucket of a value: values below subBuckets have their own, larger ones share a quarter of
// their power of two, and what is beyond the last falls into it.
func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	exponent := bits.Len64(v) - 1
	fraction := int(v>>(exponent-2)) & (subBuckets - 1)
	return min((exponent-1)*subBuckets+fraction, histogramSlots-1)
}

// bucketTop is the largest value of a bucket.
func bucketTop(i int) uint64 {
	if i < subBuckets {
		return uint64(i)
	}
	exponent, fraction := i/subBuckets+1, uint64(i%subBuckets)
	return (subBuckets+fraction+1)<<(exponent-2) - 1
}

// counts is a histogram's buckets at one moment.
type counts [histogramSlots]uint64

func (h *histogram) counts() *counts {
	var c counts
	for i := range h.buckets {
		c[i] = h.buckets[i].Load()
	}
	return &c
}

// quantiles gives the values below which the given shares of total values lie, of the values counted in c but
// not in before. Values that c does not hold were zero.
func (c *counts) quantiles(before *counts, total uint64, shares []float64) []float64 {
	stored := uint64(0)
	for i := range c {
		stored += c[i] - before[i]
	}
	zeros := total - min(stored, total)
	result := make([]float64, len(shares))
	for k, share := range shares {
		rank, cumulated := share*float64(zeros+stored), zeros
		for i := 0; i < histogramSlots && float64(cumulated) < rank; i++ {
			if n := c[i] - before[i]; n > 0 {
				cumulated += n
				result[k] = float64(bucketTop(i))
			}
		}
	}
	return result
}
