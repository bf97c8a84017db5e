package simulation

import (
	"flag"
	"io"
	"strings"
	"testing"
)

var (
	seed = flag.Uint64("seed", 0, "simulate this seed alone, and tell its story")
	runs = flag.Uint64("runs", 3000, "seeds to simulate")
)

// Committed records are never lost nor reordered, and all replicas become the same once nothing fails any more.
func TestSimulation(t *testing.T) {
	if *seed > 0 {
		report(t, *seed, t.Output())
		return
	}
	acknowledged, elections, offline := 0, 0, 0
	for i := range *runs {
		r := report(t, i+1, nil)
		acknowledged += r.Acknowledged
		elections += r.Elections
		if r.Offline {
			offline++
		}
	}
	t.Logf("%d runs: %d records acknowledged, %d elections, %d partitions that only an unclean election could help", *runs, acknowledged, elections, offline)
	if acknowledged < int(*runs)*5 || elections < int(*runs) || offline > 1+int(*runs)/1000 {
		t.Error("that is not what the simulation is for")
	}
}

func report(t *testing.T, n uint64, story io.Writer) Result {
	r := Run(n, None, story)
	if len(r.Violations) > 0 {
		t.Errorf("seed %d: %v", n, r.Violations)
	}
	return r
}

// A rule that is broken on purpose has to be seen.
func TestBrokenRulesAreCaught(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken Broken
		seeds  uint64
	}{
		{"followers truncate to their high watermark", TruncationByWatermark, 200},
		{"leaders from outside of the in-sync replicas", LeadersFromOutsideISR, 200},
		{"in-sync replicas are changed whatever has changed before", WithoutPartitionEpoch, 10_000}, // one run of 1500
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := range c.seeds {
				if r := Run(n+1, c.broken, nil); r.Lost {
					t.Logf("seed %d: %s", n+1, r.Violations[0])
					return
				}
			}
			t.Error("no run shows it")
		})
	}
}

// The same seed gives the same run.
func TestRunsRepeat(t *testing.T) {
	var a, b strings.Builder
	Run(7, None, &a)
	Run(7, None, &b)
	if a.Len() == 0 || a.String() != b.String() {
		t.Error("two runs of one seed differ")
	}
}
