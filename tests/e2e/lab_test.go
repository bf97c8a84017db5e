//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cauce-stream/cauce/libs/testport"
)

// lab is a cluster that `cauce cluster` runs, to be broken.
type lab struct {
	t   *testing.T
	dir string
}

// labNode is what `cauce cluster status` says of one node.
type labNode struct {
	ID        int32
	Roles     []string
	Bootstrap string
	PID       int
	State     string
}

// newLab brings a cluster up; it goes down with the test.
func newLab(t *testing.T, flags ...string) lab {
	t.Helper()
	l := lab{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range l.nodes() {
				out, _ := exec.Command("tail", "-n", "20", filepath.Join(l.dir, strconv.Itoa(int(n.ID)), "log")).Output()
				t.Logf("node %d (%s):\n%s", n.ID, n.State, out)
			}
		}
		l.do("down")
	})
	l.do("up", append(flags, "--base-port", strconv.Itoa(testport.Range(t, 40)))...)
	return l
}

// do runs one of the commands under `cauce cluster`.
func (l lab) do(verb string, args ...string) []byte {
	l.t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "bin", "cauce"), append([]string{"cluster", verb, "--data-dir", l.dir}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok {
			said = exit.Stderr
		}
		l.t.Fatalf("cauce cluster %s %v: %v\n%s", verb, args, err, said)
	}
	return out
}

func (l lab) nodes() []labNode {
	l.t.Helper()
	var status struct{ Nodes []labNode }
	if err := json.Unmarshal(l.do("status", "-o", "json"), &status); err != nil {
		l.t.Fatal(err)
	}
	return status.Nodes
}

// of are the nodes of a role.
func (l lab) of(role string) (ids []int32, bootstrap []string) {
	l.t.Helper()
	for _, n := range l.nodes() {
		if n.Roles[0] == role {
			ids, bootstrap = append(ids, n.ID), append(bootstrap, n.Bootstrap)
		}
	}
	return ids, bootstrap
}
