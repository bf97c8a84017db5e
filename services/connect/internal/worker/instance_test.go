package worker

import (
	"math"
	"testing"
	"time"
)

func TestPausesGrowUpToTheLongest(t *testing.T) {
	for _, most := range []time.Duration{time.Second, 9 * time.Second, math.MaxInt64} {
		pause := time.Second
		for range 100 {
			next := longer(pause, most)
			if next < pause || next > most {
				t.Fatalf("%v after %v, of %v at most", next, pause, most)
			}
			pause = next
		}
		if pause != most {
			t.Errorf("no longer than %v, of %v", pause, most)
		}
	}
}
