package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/testport"
)

func TestLayoutGivesEachNodeItsOwnIDAndPorts(t *testing.T) {
	s := Shape{Controllers: 3, Brokers: 3, Groupcoords: 2, Txncoords: 1, Connects: 1, BasePort: 20000}
	nodes := layout(s, func(int) string { return "127.0.0.1" })
	ids, addresses := map[int32]bool{}, map[string]bool{}
	for _, n := range nodes {
		ids[n.ID] = true
		for _, address := range []string{n.Kafka, n.Admin, n.Bus, n.Routes, n.Quorum, n.REST} {
			if address != "" && addresses[address] {
				t.Errorf("%s is taken twice", address)
			}
			addresses[address] = true
		}
		if (n.Kafka == "") != (n.Role == controller) || (n.Quorum == "") == (n.Role == controller) || n.Admin == "" || (n.REST == "") == (n.Role == connect) {
			t.Errorf("addresses of %+v", n)
		}
	}
	delete(addresses, "")
	if len(nodes) != 10 || len(ids) != 10 || len(addresses) != s.ports() {
		t.Errorf("%d nodes, %d ids, %d addresses of %d ports", len(nodes), len(ids), len(addresses), s.ports())
	}
	if nodes[0].Kafka != "127.0.0.1:20000" || nodes[0].ID != 1 || nodes[0].Role != "broker" {
		t.Errorf("the first node is %+v", nodes[0])
	}
	if last := fmt.Sprint("127.0.0.1:", s.BasePort+s.ports()-1); !addresses[last] {
		t.Errorf("%s is not taken", last)
	}
}

func TestShapesThatCannotBe(t *testing.T) {
	good := Shape{Controllers: 1, Brokers: 1, BasePort: 20000}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for fault, change := range map[string]func(*Shape){
		"2 controllers":         func(s *Shape) { s.Controllers = 2 },
		"0 brokers":             func(s *Shape) { s.Brokers = 0 },
		"role txncoord":         func(s *Shape) { s.Txncoords = -1 },
		"2 racks":               func(s *Shape) { s.Racks = 2 },
		"base port 65535":       func(s *Shape) { s.BasePort = 65535 },
		"base port 0":           func(s *Shape) { s.BasePort = 0 },
		"num.partitons":         func(s *Shape) { s.Settings = []string{"num.partitons=3"} },
		"not of the form key=v": func(s *Shape) { s.Settings = []string{"num.partitions"} },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: error %v", fault, err)
		}
	}
}

// TestPropertiesAreReadAsWritten loads what each node gets.
func TestPropertiesAreReadAsWritten(t *testing.T) {
	c := create(t, Shape{Controllers: 3, Brokers: 2, Groupcoords: 1, Racks: 2, BasePort: 20000, Settings: []string{`data.dir=C:\data`, "num.partitions=7"}}, false)
	for _, n := range c.Nodes() {
		v, err := config.Load(configkeys.Broker(), config.Options{File: filepath.Join(c.folder(n), "node.properties")})
		if err != nil {
			t.Fatal(err)
		}
		if v.Int("node.id") != int(n.ID) || v.String("admin.listener") != n.Admin || v.Int("num.partitions") != 7 || v.String("data.dir") != `C:\data` {
			t.Errorf("node %d: id %d, admin %s, data in %s", n.ID, v.Int("node.id"), v.String("admin.listener"), v.String("data.dir"))
		}
		if got := v.Int("offsets.topic.replication.factor"); got != 2 {
			t.Errorf("node %d: %d replicas of offsets with 2 brokers", n.ID, got)
		}
		if rack := v.String("broker.rack"); (n.Role == "broker") != (rack == fmt.Sprint("rack-", n.ID)) {
			t.Errorf("node %d: in rack %q", n.ID, rack)
		}
		switch n.Role {
		case controller:
			if len(v.List("controller.peers")) != 3 || len(v.List("controller.bus.routes")) != 2 || slices.Contains(v.List("controller.bus.routes"), "nats://"+n.Routes) {
				t.Errorf("controller %d: peers %v, routes %v", n.ID, v.List("controller.peers"), v.List("controller.bus.routes"))
			}
		default:
			if len(v.List("bus.servers")) != 3 || v.List("listeners")[0] != "PLAINTEXT://"+n.Kafka {
				t.Errorf("node %d: bus %v, listeners %v", n.ID, v.List("bus.servers"), v.List("listeners"))
			}
		}
	}
	again, err := Open(c.dir, c.programs)
	if err != nil || !again.Shape().Equal(c.Shape()) || len(again.Nodes()) != len(c.Nodes()) {
		t.Errorf("opened as %+v, %v", again, err)
	}
	if _, err := Create(c.dir, c.programs, c.Shape(), false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := Open(t.TempDir(), c.programs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened where there is none: %v", err)
	}
}

func TestProcesses(t *testing.T) {
	c := create(t, Shape{Controllers: 1, Brokers: 2, BasePort: testport.Range(t, 20)}, false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, second := c.Nodes()[0], c.Nodes()[1]
	is := func(n Node, want State) int {
		t.Helper()
		state, pid, err := c.Process(n)
		if err != nil || state != want || (pid == 0) != (want == Stopped) {
			t.Fatalf("node %d is %s (%d), %v; want %s", n.ID, state, pid, err, want)
		}
		return pid
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is(first, Stopped)
	if c.Kill(ctx, first) == nil {
		t.Error("a node that does not run was killed")
	}
	do(c.Start(c.Nodes()...))
	pid := is(first, Running)
	do(c.Start(first))
	if again := is(first, Running); again != pid {
		t.Errorf("started again as %d, not %d", again, pid)
	}
	do(c.Pause(ctx, first))
	is(first, Paused)
	do(c.Resume(ctx, first))
	is(first, Running)
	do(c.Kill(ctx, first))
	is(first, Stopped)
	do(c.Pause(ctx, second))
	do(c.Stop(ctx, second))
	is(second, Stopped)
	do(c.Start(first))
	is(first, Running)

	// The pid of a process that is gone may be another's by now.
	do(os.WriteFile(c.pidFile(second), fmt.Appendf(nil, "%d %d\n", os.Getpid(), 1), 0o644))
	is(second, Stopped)
	do(c.Down(ctx))
	for _, n := range c.Nodes() {
		is(n, Stopped)
	}
}

// TestAProcessThatEndsIsNotAwaited has a program that fails at once.
func TestAProcessThatEndsIsNotAwaited(t *testing.T) {
	c := create(t, Shape{Controllers: 1, Brokers: 1, BasePort: 20000}, false)
	broken := c.Nodes()[0]
	program := filepath.Join(c.programs, "cauce-broker")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho the disk is on fire >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(broken); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.AwaitReady(ctx, broken); err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("waiting for it: %v", err)
	}
}
