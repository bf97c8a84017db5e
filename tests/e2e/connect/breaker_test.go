//go:build e2e && linux

package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cauce-stream/cauce/tests/localcluster"
	"github.com/cauce-stream/cauce/tests/postgres"
)

// breaker kills what the tables need, one after the other, and has it start again.
type breaker struct {
	*stage
	database *postgres.Server
	random   *rand.Rand
	// freezes says that workers stand still, too: without exactly-once support what they send afterwards may be in the topic behind what is newer.
	freezes bool
}

const (
	worker           = "worker"
	taskProcess      = "process of a task"
	broker           = "broker"
	groupCoordinator = "coordinator of groups"
	txnCoordinator   = "coordinator of transactions"
	theDatabase      = "database"
	// both is a broker or the database and, while tasks wait for another leader or for it, a worker that has some.
	both = "worker whose tasks wait"
	// frozenWorker stands still for longer than its session, and does not know then that others run its tasks.
	frozenWorker = "worker that stands still"
)

// victims are drawn from like cards: each comes as often as the others.
var victims = []string{worker, worker, taskProcess, taskProcess, broker, groupCoordinator, txnCoordinator, theDatabase, both}

const (
	// session is for how long a worker may be silent.
	session = 4 * time.Second
	// delay is for how long its tasks wait for it then.
	delay = 1500 * time.Millisecond
)

const (
	leastDown, mostDown = 100 * time.Millisecond, 1500 * time.Millisecond
	leastUp, mostUp     = 200 * time.Millisecond, 2 * time.Second
)

func (b *breaker) between(least, most time.Duration) time.Duration {
	return least + time.Duration(b.random.Int64N(int64(most-least)))
}

// run does count faults.
func (b *breaker) run(count int) {
	b.Helper()
	var cards []string
	began := time.Now()
	for n := range count {
		if len(cards) == 0 {
			cards = slices.Clone(victims)
			if b.freezes {
				cards = append(cards, frozenWorker)
			}
			b.random.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
		}
		down := b.between(leastDown, mostDown)
		if cards[0] == frozenWorker {
			down += session + delay + time.Second // others run its tasks by then
		}
		what, err := b.kill(cards[0], down)
		if err != nil {
			b.Fatalf("kill a %s: %v", cards[0], err)
		}
		b.Logf("%2d at %5.2fs: %s, for %v", n+1, time.Since(began).Seconds(), what, down.Round(time.Millisecond))
		cards = cards[1:]
		pause(b.Context(), b.between(leastUp, mostUp))
	}
}

// kill kills one, and has it start again after that time.
func (b *breaker) kill(victim string, down time.Duration) (what string, err error) {
	ctx := b.Context()
	switch victim {
	case theDatabase:
		if err := b.database.Kill(); err != nil {
			return "", err
		}
		pause(ctx, down)
		return victim, b.database.Start(ctx)
	case taskProcess:
		return b.killTask()
	case both:
		return b.killBoth(down)
	}
	role := map[string]string{worker: "connect", frozenWorker: "connect", broker: "broker", groupCoordinator: "groupcoord", txnCoordinator: "txncoord"}[victim]
	nodes := b.nodes(role)
	node := nodes[b.random.IntN(len(nodes))]
	begin, end := "kill", "start"
	if victim == frozenWorker {
		begin, end = "pause", "resume"
	}
	if err := b.cluster.On(ctx, begin, node.ID); err != nil {
		return "", err
	}
	pause(ctx, down)
	return fmt.Sprintf("%s %d", victim, node.ID), b.cluster.On(ctx, end, node.ID)
}

// killBoth kills a broker or the database, and the worker of a source or a sink some time later.
func (b *breaker) killBoth(down time.Duration) (what string, err error) {
	ctx := b.Context()
	brokers := b.nodes("broker")
	nodes, connector := []int32{brokers[b.random.IntN(len(brokers))].ID}, []string{"events", "items"}[b.random.IntN(2)]
	what = fmt.Sprintf("broker %d", nodes[0])
	if b.random.IntN(2) == 0 {
		nodes, connector, what = nil, []string{"event-sink", "item-sink"}[b.random.IntN(2)], theDatabase
	}
	var is status
	if err := b.ask(ctx, http.MethodGet, "/connectors/"+connector+"/status", nil, &is); err != nil {
		b.Logf("nobody says who runs %s: %v", connector, err)
	}
	if nodes == nil {
		err = b.database.Kill()
	} else {
		err = b.cluster.On(ctx, "kill", nodes...)
	}
	if err != nil {
		return "", err
	}
	pause(ctx, down/2)
	for id, url := range b.rest {
		if len(is.Tasks) > 0 && url == "http://"+is.Tasks[0].WorkerID {
			what += fmt.Sprintf(", then the worker %d of %s", id, connector)
			nodes = append(nodes, id)
			err = b.cluster.On(ctx, "kill", id)
		}
	}
	pause(ctx, down/2)
	if len(nodes) > 0 {
		err = errors.Join(err, b.cluster.On(ctx, "start", nodes...))
	}
	if strings.HasPrefix(what, theDatabase) {
		err = errors.Join(err, b.database.Start(ctx))
	}
	return what, err
}

// killTask kills a process that a worker has started: that of a task, seldom the one that answers for a program's connectors.
func (b *breaker) killTask() (string, error) {
	var all []int
	for _, n := range b.nodes("connect") {
		children, err := childrenOf(n)
		if err != nil {
			return "", err
		}
		all = append(all, children...)
	}
	if len(all) == 0 {
		return "no task, since none runs", nil
	}
	pid := all[b.random.IntN(len(all))]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return "", err
	}
	return fmt.Sprintf("%s %d", taskProcess, pid), nil
}

// childrenOf are the processes that a node has started.
func childrenOf(n localcluster.Node) ([]int, error) {
	if n.PID == 0 {
		return nil, nil
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", n.PID))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range bytes.Fields(text) {
			pid, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// mender restarts tasks whose process was killed, as operators do. That a task fails for anything else is a fault.
type mender struct {
	*stage
	restarts int
	told     map[string]bool
}

// allowed are what a task may fail with: its process was killed, or another worker has it since its own stood still.
var allowed = regexp.MustCompile(`signal: killed|another task with the same transactional id has taken over`)

func (m *mender) run(ctx context.Context) {
	m.told = map[string]bool{}
	for ctx.Err() == nil {
		pause(ctx, 300*time.Millisecond)
		all, err := m.statuses(ctx)
		if err != nil {
			continue // no worker is there just now
		}
		for name, one := range all {
			failed := one.Connector.State == "FAILED"
			for _, task := range append(one.Tasks, one.Connector) {
				if task.State != "FAILED" {
					continue
				}
				failed = true
				if !allowed.MatchString(task.Trace) && !m.told[task.Trace] {
					m.told[task.Trace] = true
					m.Errorf("%s has failed: %+v", name, task)
				}
			}
			if failed && m.ask(ctx, http.MethodPost, "/connectors/"+name+"/restart?includeTasks=true&onlyFailed=true", nil, nil) == nil {
				m.restarts++
			}
		}
	}
}
