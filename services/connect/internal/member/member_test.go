package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/protocol"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// cluster is workers with one coordinator, and what they run.
type cluster struct {
	t           *testing.T
	coordinator *coordinator

	mu      sync.Mutex
	offset  int64
	items   []work.Item
	runners map[work.Item]string
	starts  map[work.Item]int
	stops   int
}

type testWorker struct {
	name    string
	member  *Member
	cluster *cluster
	stop    context.CancelFunc
	done    chan error

	mu     sync.Mutex
	cut    bool
	behind bool // it cannot read the config topic
	// still is how long it stands still while the next answer to a JoinGroup lies there.
	still   time.Duration
	settled Settlement
	// stopTakes is how long it takes to stop anything.
	stopTakes time.Duration
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, coordinator: newCoordinator(t), runners: map[work.Item]string{}, starts: map[work.Item]int{}}
}

// configure adds connectors of some tasks, and tells the workers.
func (c *cluster) configure(tasks int, workers []*testWorker, names ...string) {
	c.mu.Lock()
	for _, name := range names {
		c.items = work.Sort(append(append(c.items, work.Connector(name)), work.Tasks(name, tasks)...))
		c.offset++
	}
	c.mu.Unlock()
	for _, w := range workers {
		w.member.Rejoin()
	}
}

func (c *cluster) worker(name string, change func(*Config)) *testWorker {
	w := &testWorker{name: name, cluster: c, done: make(chan error, 1)}
	config := Config{
		GroupID: "workers", URL: "http://" + name + ":8083/", Bootstrap: []string{broker}, Version: protocol.Sessioned, SessionTimeout: session, RebalanceTimeout: rebalance,
		HeartbeatInterval: 3 * time.Second, SyncTimeout: 3 * time.Second, UnsyncBackoff: 5 * time.Minute, RetryBackoff: 100 * time.Millisecond, MaxDelayMs: 300_000,
	}
	if change != nil {
		change(&config)
	}
	w.member = New(config, Deps{
		Log: zap.NewNop(),
		Do: func(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
			resp, err := c.coordinator.do(ctx, addr, req, w.isCut)
			if _, joins := req.(*kmsg.JoinGroupRequest); joins && err == nil {
				wait(ctx, w.standStill())
			}
			return resp, err
		},
		Configs: w.configs,
		CatchUp: w.catchUp,
		Start:   w.start,
		Stop:    w.end,
		Settled: func(s Settlement) { w.mu.Lock(); w.settled = s; w.mu.Unlock() },
	})
	ctx, cancel := context.WithCancel(c.t.Context())
	w.stop = cancel
	go func() { w.done <- w.member.Run(ctx) }()
	return w
}

func (w *testWorker) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

func (w *testWorker) standStill() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.still
	w.still = 0
	return d
}

func (w *testWorker) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *testWorker) at() Settlement {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled
}

func (w *testWorker) configs() (int64, []work.Item) {
	w.mu.Lock()
	behind := w.behind
	w.mu.Unlock()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if behind {
		return 0, nil
	}
	return w.cluster.offset, w.cluster.items
}

func (w *testWorker) catchUp(ctx context.Context, _ int64) error {
	w.mu.Lock()
	behind := w.behind
	w.mu.Unlock()
	if behind {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (w *testWorker) start(_ context.Context, items []work.Item) {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range items {
		if other := c.runners[item]; other != "" {
			c.t.Errorf("%v: %s starts %v, which runs on %s", time.Now(), w.name, item, other)
		}
		c.runners[item] = w.name
		c.starts[item]++
	}
}

func (w *testWorker) end(_ context.Context, items []work.Item) {
	if w.stopTakes > 0 {
		wait(context.Background(), w.stopTakes)
	}
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range items {
		if c.runners[item] != w.name {
			c.t.Errorf("%s stops %v, which it does not run", w.name, item)
		}
		delete(c.runners, item)
		c.stops++
	}
}

// stopped is how many items were stopped so far.
func (c *cluster) stopped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stops
}

// wantBalance checks that everything runs and how many items each worker has.
func (c *cluster) wantBalance(when string, want map[string]int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := map[string]int{}
	for _, name := range c.runners {
		got[name]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Errorf("%s: %v run so much, not %v", when, got, want)
	}
}

func (w *testWorker) shutDown(t *testing.T) {
	t.Helper()
	w.stop()
	if err := <-w.done; err != nil {
		t.Errorf("%s: %v", w.name, err)
	}
}

func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%02d", prefix, i)
	}
	return list
}

// later lets time pass until the workers have nothing to do.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestLife has workers join one after the other, one being lost for good and one leaving: everything runs once, spread evenly.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a := c.worker("a", nil)
		later(time.Second)
		c.configure(2, []*testWorker{a}, names("c", 6)...)
		later(time.Second)
		c.wantBalance("one worker", map[string]int{"a": 18})
		b := c.worker("b", nil)
		later(10 * time.Second)
		c.wantBalance("two workers", map[string]int{"a": 9, "b": 9})
		d := c.worker("d", nil)
		later(20 * time.Second)
		c.wantBalance("three workers", map[string]int{"a": 6, "b": 6, "d": 6})
		if s := a.at(); !s.Leader || len(s.Owners) != 18 || len(s.Mine) != 6 || s.LeaderURL != "http://a:8083/" {
			t.Errorf("the leader has settled for %+v", s)
		}
		if s := b.at(); s.Leader || s.Owners != nil || s.LeaderURL != "http://a:8083/" || s.Generation != a.at().Generation {
			t.Errorf("another has settled for %+v", s)
		}
		for item, url := range a.at().Owners {
			if want := "http://" + c.runners[item] + ":8083/"; url != want {
				t.Errorf("%v is said to run at %s, not %s", item, url, want)
			}
		}
		before, runners := maps.Clone(c.starts), maps.Clone(c.runners)
		d.set(func() { d.cut = true })
		later(30 * time.Second)
		c.wantBalance("while the work of the lost one is held", map[string]int{"a": 6, "b": 6})
		later(5 * time.Minute)
		c.wantBalance("after the delay", map[string]int{"a": 9, "b": 9})
		for item, n := range c.starts {
			if moved := runners[item] == "d"; moved != (n == before[item]+1) {
				t.Errorf("%v was started %d times, %d before its worker was lost: %v", item, n, before[item], moved)
			}
		}
		b.shutDown(t)
		later(time.Second)
		c.wantBalance("after one has left", map[string]int{"a": 9})
		later(5*time.Minute + 10*time.Second)
		c.wantBalance("after the second delay", map[string]int{"a": 18})
		a.shutDown(t)
		c.wantBalance("at the end", map[string]int{})
		d.shutDown(t)
	})
}

// TestRestart has a worker come again within the delay: nothing else moves, and it gets as much as it had.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.configure(1, nil, names("c", 4)...)
		a := c.worker("a", nil)
		later(time.Second)
		b := c.worker("b", nil)
		later(20 * time.Second)
		c.wantBalance("at first", map[string]int{"a": 4, "b": 4})
		before := c.stopped()
		b.shutDown(t)
		later(time.Minute)
		again := c.worker("b", nil)
		later(5 * time.Minute)
		c.wantBalance("after the restart", map[string]int{"a": 4, "b": 4})
		if c.stopped() != before+4 {
			t.Errorf("%d items were stopped, 4 of them with their worker", c.stopped()-before)
		}
		again.shutDown(t)
		a.shutDown(t)
	})
}

// TestCutOffWorkerStopsInTime has the others take over at once what a worker runs that cannot reach the coordinator.
func TestCutOffWorkerStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.configure(1, nil, names("c", 4)...)
		noDelay := func(c *Config) { c.MaxDelayMs = 0 }
		a := c.worker("a", noDelay)
		later(time.Second)
		b := c.worker("b", noDelay)
		later(20 * time.Second)
		b.set(func() { b.cut = true })
		later(time.Minute)
		c.wantBalance("without the delay", map[string]int{"a": 8})
		if b.at().MemberID != "" {
			t.Errorf("it still thinks to be a member: %+v", b.at())
		}
		b.set(func() { b.cut = false })
		later(time.Minute)
		c.wantBalance("once it is back", map[string]int{"a": 4, "b": 4})
		a.shutDown(t)
		b.shutDown(t)
	})
}

// TestCoordinatorMoves has heartbeats refused for a while that is shorter than the session.
func TestCoordinatorMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.configure(1, nil, names("c", 4)...)
		a := c.worker("a", nil)
		later(10 * time.Second)
		generation := a.at().Generation
		for _, code := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable} {
			c.coordinator.mu.Lock()
			c.coordinator.refuse = code
			c.coordinator.mu.Unlock()
			later(7 * time.Second)
			c.coordinator.mu.Lock()
			c.coordinator.refuse = nil
			c.coordinator.mu.Unlock()
			later(5 * time.Second)
		}
		if got := a.at().Generation; got != generation || c.stopped() != 0 {
			t.Errorf("generation %d after %d, %d items were stopped", got, generation, c.stopped())
		}
		// A coordinator that has forgotten the group: the worker goes on with what it runs.
		c.coordinator.mu.Lock()
		clear(c.coordinator.members)
		c.coordinator.order = nil
		c.coordinator.mu.Unlock()
		later(10 * time.Second)
		c.wantBalance("as another member", map[string]int{"a": 8})
		if c.stopped() != 0 || a.at().Generation == generation {
			t.Errorf("%d items were stopped, generation %d", c.stopped(), a.at().Generation)
		}
		a.shutDown(t)
	})
}

// TestSlowStops has heartbeats go on while a worker takes longer than its session to stop what was revoked.
func TestSlowStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.configure(1, nil, names("c", 4)...)
		a := c.worker("a", nil)
		a.stopTakes = 25 * time.Second
		later(5 * time.Second)
		b := c.worker("b", nil)
		later(time.Minute)
		c.wantBalance("after the move", map[string]int{"a": 4, "b": 4})
		if c.stopped() != 4 {
			t.Errorf("%d items were stopped", c.stopped())
		}
		b.shutDown(t)
		a.shutDown(t)
	})
}

// TestBehind has a worker that cannot read the config topic: it stays out of the group, and comes again.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.configure(1, nil, names("c", 2)...)
		noDelay := func(c *Config) { c.MaxDelayMs = 0 }
		a := c.worker("a", noDelay)
		later(time.Second)
		b := c.worker("b", noDelay)
		b.set(func() { b.behind = true })
		later(time.Minute)
		c.wantBalance("while one cannot read", map[string]int{"a": 4})
		b.set(func() { b.behind = false })
		later(6 * time.Minute)
		c.wantBalance("once it can", map[string]int{"a": 2, "b": 2})
		// A leader that cannot read gives way to one that can.
		a.set(func() { a.behind = true })
		c.configure(1, []*testWorker{b}, "new")
		later(12 * time.Minute)
		c.wantBalance("led by the other", map[string]int{"b": 6})
		if !b.at().Leader {
			t.Error("it does not lead")
		}
		a.shutDown(t)
		b.shutDown(t)
	})
}

// TestEagerGroup has a worker that offers the first version only: all work is given up in each rebalance.
func TestEagerGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.configure(1, nil, names("c", 4)...)
		a := c.worker("a", nil)
		later(5 * time.Second)
		b := c.worker("b", func(c *Config) { c.Version = protocol.Eager })
		later(10 * time.Second)
		c.wantBalance("with an old worker", map[string]int{"a": 4, "b": 4})
		b.shutDown(t)
		later(10 * time.Second)
		c.wantBalance("without it", map[string]int{"a": 8})
		a.shutDown(t)
	})
}

func TestWhatTryingAgainDoesNotHelp(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InconsistentGroupProtocol, kerr.GroupAuthorizationFailed, kerr.InvalidSessionTimeout} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.coordinator.refuse = code
			a := c.worker("a", nil)
			if err := <-a.done; !errors.Is(err, code) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestStandingStill has a worker find the answer to its JoinGroup when the group has long forgotten it: that the answer comes is no sign of life, and all of
// its work may run elsewhere by now.
func TestStandingStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("a", nil)
		c.configure(2, nil, names("c", 3)...)
		later(time.Minute)
		c.wantBalance("at first", map[string]int{"a": 9})
		const still = 3 * session
		w.set(func() { w.still = still })
		w.member.Rejoin()
		later(still - time.Second)
		if c.stopped() != 0 {
			t.Fatalf("%d were stopped while the worker stood still", c.stopped())
		}
		later(time.Second + session/2)
		if c.stopped() != 9 {
			t.Errorf("%d of 9 were stopped once it went on", c.stopped())
		}
		later(time.Minute)
		c.wantBalance("in the end", map[string]int{"a": 9})
		w.shutDown(t)
	})
}
