package quota

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestQuota(t *testing.T) {
	q := New(11, 1000)
	now := int64(1_700_000_000_000)
	if q.Record(1<<40, now); q.Exceeded(now) {
		t.Error("exceeded without a limit")
	}
	now += 11_000
	if q.Rate(now) != 0 {
		t.Errorf("rate %f after all windows", q.Rate(now))
	}
	q.SetLimit(1000)
	if q.Record(10_000, now); q.Exceeded(now) {
		t.Error("what ten seconds allow is refused at once")
	}
	if q.Record(100, now); !q.Exceeded(now) {
		t.Error("more than ten seconds allow is let pass")
	}
	if now += 200; q.Exceeded(now) {
		t.Error("still refused")
	}
	now -= 5000 // the clock goes back
	q.Record(1, now)
	q.SetLimit(0)
	if !q.Exceeded(now) {
		t.Error("a limit of 0 allows something")
	}
}

// Whoever takes when it is not exceeded takes about the limit in the long run, whatever the sizes.
func TestTheLimitHoldsInTheLongRun(t *testing.T) {
	for _, size := range []int64{10, 1000, 5000} {
		r := rand.New(rand.NewPCG(1, uint64(size)))
		q := New(11, 1000)
		q.SetLimit(5000)
		now, taken := int64(1_700_000_000_000), int64(0)
		const seconds = 600
		for end := now + seconds*1000; now < end; now += int64(r.IntN(20)) {
			if !q.Exceeded(now) {
				n := r.Int64N(size) + 1
				q.Record(n, now)
				taken += n
			}
		}
		want := min(5000, float64(size)/2/9.5*1000)
		if rate := float64(taken) / seconds; rate > 1.15*want || rate < 0.85*want {
			t.Errorf("sizes up to %d: %f bytes per second, want about %f", size, rate, want)
		}
	}
}

// TestTheLongestMemory has as many and as long windows as Kafka's keys allow.
func TestTheLongestMemory(t *testing.T) {
	q := New(math.MaxInt32, 1000*math.MaxInt32)
	q.SetLimit(1)
	now := int64(1_700_000_000_000)
	if q.Record(1<<40, now); q.Rate(now) <= 0 || q.Exceeded(now) {
		t.Errorf("rate %g", q.Rate(now))
	}
	if n := len(q.taken); n > maxWindows {
		t.Errorf("%d windows", n)
	}
	if q = New(2500, 1000); q.windowMs*int64(len(q.taken)) < 2500_000 {
		t.Errorf("%d windows of %d ms", len(q.taken), q.windowMs)
	}
}
