//go:build e2e && linux

// Package connect has Connect workers move records while what they need is killed, and looks for what is missing, twice there or out of order.
package connect

import (
	"flag"
	"os"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

var (
	seed   = flag.Uint64("seed", 0, "seed of the first run of faults; 0 for another one each time")
	runs   = flag.Int("runs", 1, "runs of faults, each by the next seed")
	faults = flag.Int("faults", 20, "faults of a run")
	size   = flag.Int("connectors", 8, "connectors that workers share while one of them is killed")
	tasks  = flag.Int("tasks", 3, "tasks of each of those")
	keep   = flag.String("keep", "", "folder in which the folders of clusters are kept whose test has failed")
)

// TestMain makes the program a plugin where a worker has started it.
func TestMain(m *testing.M) {
	if os.Getenv(plugin.CookieKey) == plugin.CookieValue {
		plugin.Serve(witnessSource{}, witnessSink{})
		return
	}
	os.Exit(m.Run())
}
