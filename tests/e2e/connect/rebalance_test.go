//go:build e2e && linux

package connect

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/connectrest"
)

// rebalanceDelay is for how long the tasks of a worker that was killed wait for it to come again.
const rebalanceDelay = 3 * time.Second

// programs is how many there are of plugins: of each a worker has a process that answers for its connectors.
const programs = 2

// crowd is connectors that three workers share: half of them witnesses, half of them generators and those that drop what these make.
type crowd struct {
	*stage
	folder string
	names  []string
}

// TestWorkersShareTasks kills one of three workers. What it ran moves once, after the delay, and nothing else moves; when it is back the work is spread evenly
// again. Meanwhile no task runs twice at the same time, as the tasks themselves see it.
func TestWorkersShareTasks(t *testing.T) {
	s := startStage(t, "--set", fmt.Sprint("connect.scheduled.rebalance.max.delay.ms=", rebalanceDelay.Milliseconds()))
	c := &crowd{stage: s, folder: t.TempDir()}
	began := time.Now()
	for i := range *size {
		c.add(i)
	}
	c.settled("all run for the first time", 3)
	t.Logf("%d connectors with %d tasks each run after %.1f s", *size, *tasks, time.Since(began).Seconds())
	c.weigh()
	before := c.witnessed()

	victim := s.nodes("connect")[1]
	killed := time.Now()
	if err := s.cluster.On(t.Context(), "kill", victim.ID); err != nil {
		t.Fatal(err)
	}
	lost := c.of(strings.TrimPrefix(s.rest[victim.ID], "http://"))
	c.settled("all run on two workers", 2)
	t.Logf("%.1f s after the kill of a worker with %d tasks all run, with a delay of %v", time.Since(killed).Seconds(), len(lost), rebalanceDelay)
	after := c.witnessed()
	for name, was := range before {
		starts := len(after[name].starts) - len(was.starts)
		switch {
		case !lost[name] && starts != 0:
			t.Errorf("%s was not on the worker that was killed, and started %d times more", name, starts)
		case lost[name] && starts != 1:
			t.Errorf("%s was on the worker that was killed, and started %d times more", name, starts)
		case lost[name] && after[name].starts[len(was.starts)].Sub(killed) < rebalanceDelay:
			t.Errorf("%s has moved %v after the kill", name, after[name].starts[len(was.starts)].Sub(killed))
		}
	}

	back := time.Now()
	if err := s.cluster.On(t.Context(), "start", victim.ID); err != nil {
		t.Fatal(err)
	}
	c.settled("all run on three workers again", 3)
	t.Logf("%.1f s after its start the work is spread evenly again", time.Since(back).Seconds())
	moved := 0
	for name, is := range c.witnessed() {
		starts := len(is.starts) - len(after[name].starts)
		moved += starts
		if starts > 1 {
			t.Errorf("%s has moved %d times to a worker that came", name, starts)
		}
	}
	t.Logf("%d of %d witnesses moved to it", moved, len(after))
	for _, worker := range s.nodes("connect") {
		c.restarts(s.rest[worker.ID])
	}
	c.remove()
}

// restarts asks a worker, which runs some of the tasks alone, to restart the witnesses with theirs: each starts once, and where it was.
func (c *crowd) restarts(worker string) {
	c.Helper()
	before, places, began := c.witnessed(), c.places(), time.Now()
	for _, name := range c.names {
		if !strings.HasPrefix(name, "witness") {
			continue
		}
		c.eventually("a restart of "+name, func(ctx context.Context) error {
			return connectrest.Ask(ctx, c.http, http.MethodPost, worker+"/connectors/"+name+"/restart?includeTasks=true", nil, nil)
		})
	}
	c.eventually("all have started again", func(context.Context) error {
		after, err := testimonies(c.folder)
		for name, was := range before {
			if starts := len(after[name].starts) - len(was.starts); err == nil && starts < 1 {
				err = fmt.Errorf("%s has not started again", name)
			}
		}
		return err
	})
	c.settled("all run after restarts by "+worker, 3)
	for name, is := range c.witnessed() {
		if starts := len(is.starts) - len(before[name].starts); starts != 1 {
			c.Errorf("%s was restarted once by %s, and started %d times", name, worker, starts)
		}
	}
	c.Logf("%.1f s after restarts by %s all run", time.Since(began).Seconds(), worker)
	if now := c.places(); !maps.Equal(places, now) {
		c.Errorf("restarts by %s have moved tasks: %v, then %v", worker, places, now)
	}
}

// places are the workers of all tasks, by the names of these.
func (c *crowd) places() map[string]string {
	c.Helper()
	all, err := c.statuses(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	at := map[string]string{}
	for name, one := range all {
		for _, task := range one.Tasks {
			at[fmt.Sprintf("%s-%d", name, task.ID)] = task.WorkerID
		}
	}
	return at
}

// add makes the connector of that number.
func (c *crowd) add(i int) {
	c.Helper()
	one := config{"tasks.max": strconv.Itoa(*tasks), folderKey: c.folder, "key.converter": "org.apache.kafka.connect.storage.StringConverter",
		"value.converter": "org.apache.kafka.connect.storage.StringConverter", "topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "1"}
	of := func(class, key string, number int) string {
		one["connector.class"], one[key] = class, fmt.Sprint("crowd-", number)
		return fmt.Sprintf("%s-%d", class, i)
	}
	var name string
	switch i % 4 {
	case 0:
		name = of("witness-source", "topic", i)
	case 1:
		name = of("witness-sink", "topics", i-1)
	case 2:
		name = of("generator", "topic", i)
		one["rate"] = "5"
	default:
		name = of("blackhole", "topics", i-1)
	}
	c.put(name, one)
	c.names = append(c.names, name)
}

// settled waits until all tasks run, spread evenly over that many workers.
func (c *crowd) settled(what string, workers int) {
	c.Helper()
	c.eventually(what, func(ctx context.Context) error {
		all, err := c.statuses(ctx)
		if err != nil {
			return err
		}
		share := map[string]int{}
		for _, name := range c.names {
			one := all[name]
			if one.Connector.State != "RUNNING" || len(one.Tasks) != *tasks {
				return fmt.Errorf("%s is %+v", name, one)
			}
			for _, task := range one.Tasks {
				if task.State != "RUNNING" {
					return fmt.Errorf("%s-%d is %+v", name, task.ID, task)
				}
				share[task.WorkerID]++
			}
		}
		least, most := slices.Min(slices.Collect(maps.Values(share))), slices.Max(slices.Collect(maps.Values(share)))
		if len(share) != workers || most-least > 1 {
			return fmt.Errorf("tasks are spread as %v", share)
		}
		return nil
	})
}

// of are the tasks that a worker has, by their names.
func (c *crowd) of(worker string) map[string]bool {
	c.Helper()
	all, err := c.statuses(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	has := map[string]bool{}
	for name, one := range all {
		for _, task := range one.Tasks {
			if task.WorkerID == worker {
				has[fmt.Sprintf("%s-%d", name, task.ID)] = true
			}
		}
	}
	return has
}

// testimony is what a task has noted.
type testimony struct {
	starts []time.Time
	puts   int
	pid    int // of its last start
}

// witnessed reads the notes of all witnesses, by the names of their tasks. That one has run twice at the same time is a fault.
func (c *crowd) witnessed() map[string]testimony {
	c.Helper()
	all, err := testimonies(c.folder)
	if err != nil {
		c.Fatal(err)
	}
	if len(all) == 0 {
		c.Fatal("no witness has noted anything")
	}
	for name, is := range all {
		if err := syscall.Kill(is.pid, 0); err != nil {
			c.Errorf("%s is said to run, and process %d does not: %v", name, is.pid, err)
		}
	}
	return all
}

func testimonies(folder string) (map[string]testimony, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+notesEnding))
	if err != nil {
		return nil, err
	}
	all := map[string]testimony{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), notesEnding)
		lines, err := notesOf(folder, name)
		if err != nil {
			return nil, err
		}
		is := all[name]
		for _, line := range lines {
			var ms int64
			var pid int
			var what string
			if _, err := fmt.Sscan(line, &ms, &pid, &what); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, line, err)
			}
			switch what {
			case "start":
				is.starts, is.pid = append(is.starts, time.UnixMilli(ms)), pid
			case "put":
				is.puts++
			case "twice":
				return nil, fmt.Errorf("%s was started by process %d while it ran", name, pid)
			}
		}
		all[name] = is
	}
	return all, nil
}

// notesOf are the lines that a task has noted.
func notesOf(folder, task string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, task+notesEnding))
	if err != nil {
		return nil, err
	}
	return slices.Collect(strings.Lines(string(text))), nil
}

// weigh says what workers and the processes of tasks take of the memory: resident, and with what they share divided among them.
func (c *crowd) weigh() {
	c.Helper()
	type sum struct{ processes, rssKb, pssKb int }
	sums := map[string]*sum{}
	add := func(kind string, pid int) {
		rss, pss, err := memoryOf(pid)
		if err != nil {
			c.Error(err)
			return
		}
		if sums[kind] == nil {
			sums[kind] = &sum{}
		}
		sums[kind].processes++
		sums[kind].rssKb += rss
		sums[kind].pssKb += pss
	}
	for _, n := range c.nodes("connect") {
		add("worker", n.PID)
		children, err := childrenOf(n)
		if err != nil {
			c.Fatal(err)
		}
		for _, pid := range children {
			program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if err != nil {
				c.Fatal(err)
			}
			add(filepath.Base(program), pid)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		s := sums[kind]
		c.Logf("%d processes of %s: %.1f MiB resident each, %.1f MiB of them its own or its share", s.processes, kind, float64(s.rssKb)/1024/float64(s.processes), float64(s.pssKb)/1024/float64(s.processes))
	}
}

func memoryOf(pid int) (rssKb, pssKb int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "Rss:":
			rssKb, err = strconv.Atoi(fields[1])
		case "Pss:":
			pssKb, err = strconv.Atoi(fields[1])
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return rssKb, pssKb, nil
}

// remove deletes all connectors, and waits until none of their processes is left.
func (c *crowd) remove() {
	c.Helper()
	for _, name := range c.names {
		c.do(http.MethodDelete, "/connectors/"+name)
	}
	c.eventually("all processes of tasks have ended", func(context.Context) error {
		for _, n := range c.nodes("connect") {
			children, err := childrenOf(n)
			if err != nil {
				return err
			}
			if len(children) > programs {
				return fmt.Errorf("worker %d has %d processes", n.ID, len(children))
			}
		}
		return nil
	})
}
