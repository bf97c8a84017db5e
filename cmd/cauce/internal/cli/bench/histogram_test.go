package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreContiguousAndTight(t *testing.T) {
	for i := range buckets - subBuckets {
		top := upper(i)
		if bucket(top) != i || bucket(top+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, but that is in %d and the next value in %d", i, top, bucket(top), bucket(top+1))
		}
	}
	if got := bucket(math.MaxInt64); got >= buckets {
		t.Fatalf("the largest value is in bucket %d of %d", got, buckets)
	}
}

func TestQuantile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	values := make([]time.Duration, 10_000)
	for i := range values {
		values[i] = time.Duration(math.Exp(random.Float64() * 20))
		h.add(values[i])
	}
	slices.Sort(values)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := values[max(int(math.Ceil(q*10_000))-1, 0)]
		got := h.quantile(q)
		if got < want || float64(got) > float64(want)*1.008+1 {
			t.Errorf("quantile(%v) = %d, want %d or up to 0.8 %% more", q, got, want)
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
	h.add(-time.Second)
	h.add(time.Hour)
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("a negative duration counts as %v, want 0", got)
	}
	if got := h.quantile(1); got != time.Hour {
		t.Errorf("the maximum is %v, want exactly 1h", got)
	}
	var sum histogram
	sum.merge(&h)
	sum.merge(&h)
	if sum.total != 4 || sum.quantile(1) != time.Hour {
		t.Errorf("merged: %d values up to %v", sum.total, sum.quantile(1))
	}
}

func BenchmarkHistogramAdd(b *testing.B) {
	var h histogram
	for i := time.Duration(0); b.Loop(); i += 1013 {
		h.add(i)
	}
}
