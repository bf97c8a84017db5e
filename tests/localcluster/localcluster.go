// Package localcluster runs `cauce cluster` of the built binary, for tests that break a cluster of real processes.
package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"

	"github.com/cauce-stream/cauce/tests/devserver"
)

// Cluster is one that was brought up, in a folder.
type Cluster struct {
	Dir    string
	binary string
}

// Node is what `cauce cluster status` says of one.
type Node struct {
	ID        int32
	Roles     []string
	Bootstrap string // empty for a controller
	Admin     string
	REST      string // host:port of a Connect worker's REST interface; empty for another node
	PID       int    // 0: none
	State     string
	Log       string // the file that its runs write to
}

// Up brings a cluster up in dir and returns when it serves. It goes on until [Cluster.Down].
func Up(ctx context.Context, dir string, flags ...string) (*Cluster, error) {
	binary, err := devserver.Binary()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, binary: binary}
	if _, err := c.Do(ctx, "up", flags...); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

// Do runs a command under `cauce cluster` and returns what it prints.
func (c *Cluster) Do(ctx context.Context, verb string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"cluster", verb, "--data-dir", c.Dir}, args...)...)
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	var said []byte
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said = exit.Stderr
	}
	return out, fmt.Errorf("cauce cluster %s %v: %w: %s", verb, args, err, said)
}

// On does a command to nodes.
func (c *Cluster) On(ctx context.Context, verb string, ids ...int32) error {
	var args []string
	if verb == "start" {
		args = []string{"--wait=false"}
	}
	for _, id := range ids {
		args = append(args, strconv.Itoa(int(id)))
	}
	_, err := c.Do(ctx, verb, args...)
	return err
}

// Nodes are all of the cluster, in the order of their ids.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	out, err := c.Do(ctx, "status", "-o", "json")
	if err != nil {
		return nil, err
	}
	var status struct{ Nodes []Node }
	if err := json.Unmarshal(out, &status); err != nil {
		return nil, fmt.Errorf("cauce cluster status: %w", err)
	}
	return status.Nodes, nil
}

// Of are the nodes of a role.
func (c *Cluster) Of(ctx context.Context, role string) ([]Node, error) {
	nodes, err := c.Nodes(ctx)
	return slices.DeleteFunc(nodes, func(n Node) bool { return !slices.Contains(n.Roles, role) }), err
}

// Down ends all nodes, in good order if they do so in time.
func (c *Cluster) Down() error {
	_, err := c.Do(context.Background(), "down", "--timeout", "30s")
	return err
}
