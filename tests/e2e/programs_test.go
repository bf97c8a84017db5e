//go:build e2e

// Package e2e runs the programs of a cluster as processes of their own and uses them as a client would.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
)

// program is one running process.
type program struct {
	name  string
	admin string // address of its admin server
	cmd   *exec.Cmd
	log   bytes.Buffer
	done  chan error
}

// start runs bin/<name> with args; the test fails when it ends by itself.
func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{name: name, admin: testport.Address(t), done: make(chan error, 1)}
	p.cmd = exec.Command(filepath.Join("..", "..", "bin", name), append(args, "--admin", p.admin)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s (make build first): %v", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.tail())
		}
	})
	return p
}

func (p *program) tail() []byte {
	text := p.log.Bytes()
	return text[max(0, len(text)-8<<10):]
}

// stop asks the process to end and demands that it does so cleanly.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("%s: %v", p.name, err)
		return
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("%s after SIGTERM: %v", p.name, err)
		}
	case <-time.After(stopTimeout):
		t.Errorf("%s still runs %v after SIGTERM", p.name, stopTimeout)
	}
}

// kill ends the process without a warning.
func (p *program) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-p.done; !errors.As(err, &exit) {
		t.Fatalf("%s after SIGKILL: %v", p.name, err)
	}
}

// eventually tries until it works, with a pause between tries, or fails the test at the timeout.
func eventually(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	if err := retry.Until(t.Context(), startTimeout, try); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// cluster is one process of each program.
type cluster struct {
	bus, raft  string
	dir        string
	controller *program
	nodes      []*program
	kafka      []string // addresses of the nodes, in the order of roles
}

// roles are the programs with a Kafka listener, and their node ids.
var roles = []struct {
	name string
	id   int
}{{"broker", 1}, {"groupcoord", 11}, {"txncoord", 21}, {"connect", 31}}

func newCluster(t *testing.T) *cluster {
	return &cluster{bus: testport.Address(t), raft: testport.Address(t), dir: t.TempDir()}
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.startController(t)
	c.startNodes(t)
	return c
}

func (c *cluster) startNodes(t *testing.T) {
	t.Helper()
	for _, role := range roles {
		address := testport.Address(t)
		c.kafka = append(c.kafka, address)
		c.nodes = append(c.nodes, start(t, "cauce-"+role.name, "--listen", address, "--data-dir", filepath.Join(c.dir, role.name),
			"--set", fmt.Sprint("node.id=", role.id), "--set", "bus.servers=nats://"+c.bus, "--set", "offsets.topic.replication.factor=1",
			"--set", "transaction.state.log.replication.factor=1", "--set", "transaction.state.log.min.isr=1", "--set", "connect.listeners=http://127.0.0.1:0",
			"--set", "connect.config.storage.replication.factor=1", "--set", "connect.offset.storage.replication.factor=1",
			"--set", "connect.status.storage.replication.factor=1"))
	}
}

func (c *cluster) startController(t *testing.T) {
	t.Helper()
	dir := filepath.Join(c.dir, "controller")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.controller = start(t, "cauce-controller", "--data-dir", dir, "--set", "node.id=100",
		"--set", "controller.bus.listener="+c.bus, "--set", "controller.listener="+c.raft)
}
