//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestControllerLosesItsDisk wipes one of three controllers and has it back by the command line.
func TestControllerLosesItsDisk(t *testing.T) {
	l := newLab(t, "--controllers", "3", "--brokers", "1", "--groupcoords", "0")
	_, bootstrap := l.of("broker")
	load := startCreations(t, bootstrap, 2)
	load.goOn(t)
	ids, _ := l.of("controller")
	leader := load.leader(t)
	lost := ""
	for _, id := range ids {
		if fmt.Sprint(id) != leader {
			lost = fmt.Sprint(id)
		}
	}
	l.do("kill", lost)
	if err := os.RemoveAll(filepath.Join(l.dir, lost, "data")); err != nil {
		t.Fatal(err)
	}
	l.do("start", "--wait=false", lost)
	load.goOn(t)
	quorum := func(verb string) error {
		cmd := exec.Command(filepath.Join("..", "..", "bin", "cauce"), "quorum", verb, lost, "-b", bootstrap[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cauce quorum %s %s: %w: %s", verb, lost, err, out)
		}
		return nil
	}
	if err := quorum("remove"); err != nil {
		t.Fatal(err)
	}
	// It asks the others to be added, maybe not yet.
	eventually(t, "adding it", func(context.Context) error { return quorum("add") })
	load.goOn(t)

	// Its vote counts: the leader goes, and one of the two that are left is the one that lost its disk.
	l.do("kill", load.leader(t))
	load.goOn(t)
	load.stop()
	load.done.Wait()
	if err := errors.Join(load.faults...); err != nil {
		t.Error(err)
	}
}
