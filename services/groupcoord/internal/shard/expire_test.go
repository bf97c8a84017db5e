package shard

import (
	"testing"
	"time"
)

// TestOffsetsAreKeptForEver has nothing expire with the longest retention there is, which is more than a Duration holds.
func TestOffsetsAreKeptForEver(t *testing.T) {
	h := newHarness(t, map[string]string{"offsets.retention.minutes": "2147483647"})
	h.createTopic("a", 1)
	h.image()
	h.commit("g", "a", 0)
	h.wait(time.Hour, func(out outcome) {
		if len(out.records) > 0 {
			t.Errorf("%+v", out.records)
		}
	})
}
