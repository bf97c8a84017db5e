package worker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/member"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// crew is what this worker runs, and keeps it in line with what it was given and with the configuration.
//
// New configurations of tasks have the old ones stopped at once, and the new ones started after the next rebalance only: by then all workers have stopped
// theirs, so that a part of a source that has moved from one task to another is not read by both.
type crew struct {
	w *Worker

	// op is held while things are started and stopped.
	op      sync.Mutex
	running map[work.Item]*instance

	mu    sync.Mutex
	group member.Settlement
	// last is the last generation that this worker was a member of.
	last     int32
	assigned map[work.Item]bool
	known    map[string]bool // the connectors that have been shared out
	dirty    map[string]*dirt
	// lastChange is the offset of the newest record that calls for a rebalance; −1 for none.
	lastChange int64
	unsettled  bool // a settlement waits to be followed
	wakes      chan struct{}
}

// dirt is what has happened to a connector since the crew last looked.
type dirt struct {
	set, tasks, target bool
	restart            *configs.Restart
}

func newCrew(w *Worker) *crew {
	return &crew{
		w: w, running: map[work.Item]*instance{}, assigned: map[work.Item]bool{}, known: map[string]bool{}, dirty: map[string]*dirt{},
		lastChange: -1, wakes: make(chan struct{}, 1),
	}
}

func (c *crew) generation() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *crew) wake() {
	select {
	case c.wakes <- struct{}{}:
	default:
	}
}

// changed takes down a change of the configuration. It is called where the config topic is read, which waits for nothing.
func (c *crew) changed(offset int64, change configs.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(set func(*dirt)) {
		d := c.dirty[change.Connector]
		if d == nil {
			d = &dirt{}
			c.dirty[change.Connector] = d
		}
		set(d)
	}
	rebalance := false
	switch change.Kind {
	case configs.ConnectorSet:
		rebalance = !c.known[change.Connector]
		note(func(d *dirt) { d.set = true })
	case configs.ConnectorRemoved:
		rebalance = true
		note(func(d *dirt) { d.set = true })
	case configs.TasksSet:
		rebalance = true
		note(func(d *dirt) { d.tasks = true })
	case configs.TargetSet:
		note(func(d *dirt) { d.target = true })
	case configs.RestartAsked:
		note(func(d *dirt) { d.restart = &change.Restart })
	default:
		return
	}
	if rebalance {
		c.lastChange = offset
		c.w.herder.SetPending()
	}
	c.wake()
}

// assign is what a rebalance has given to this worker. It is started once the rebalance has settled.
func (c *crew) assign(_ context.Context, items []work.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range items {
		c.assigned[item] = true
	}
}

// revoke stops what a rebalance has taken away, and returns when it has ended.
func (c *crew) revoke(_ context.Context, items []work.Item) {
	c.mu.Lock()
	for _, item := range items {
		delete(c.assigned, item)
	}
	c.mu.Unlock()
	c.op.Lock()
	defer c.op.Unlock()
	c.stop(items, true)
}

// settled takes over what came of a rebalance.
func (c *crew) settled(s member.Settlement) {
	c.mu.Lock()
	led := c.group.Leader
	c.group, c.unsettled = s, true
	if s.MemberID != "" {
		c.last = s.Generation
	}
	clear(c.assigned)
	for _, item := range s.Mine {
		c.assigned[item] = true
	}
	clear(c.known)
	_, items := c.w.topics.progress()
	for _, item := range items {
		c.known[item.Connector] = true
	}
	changed := c.lastChange >= s.ConfigOffset
	mine := maps.Clone(c.assigned)
	c.mu.Unlock()
	if s.MemberID != "" {
		c.w.metrics.rebalanced(s.Generation, s.Leader)
	}
	c.w.topics.lead(s.Leader && led)
	c.w.herder.SetGroup(herder.Group{Leader: s.Leader, LeaderURL: s.LeaderURL, Pending: changed || s.Revoking, Mine: mine, Owners: s.Owners})
	if s.Leader {
		select {
		case c.w.leading <- struct{}{}:
		default:
		}
	}
	if changed {
		c.w.member.Rejoin()
	}
	c.wake()
}

// run follows changes and settlements until ctx ends; by then all has been revoked.
func (c *crew) run(ctx context.Context) error {
	for {
		select {
		case <-c.wakes:
			c.follow(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// follow does what changes and rebalances since the last time call for, in that order: what was stopped by a change starts again by the rebalance.
func (c *crew) follow(ctx context.Context) {
	c.op.Lock()
	defer c.op.Unlock()
	c.mu.Lock()
	dirty, settled := c.dirty, c.unsettled
	c.dirty, c.unsettled = map[string]*dirt{}, false
	rejoin := c.lastChange >= c.group.ConfigOffset
	c.mu.Unlock()
	s := c.w.herder.Configs()
	for _, name := range slices.Sorted(maps.Keys(dirty)) {
		c.followConnector(ctx, s, name, dirty[name])
	}
	if rejoin {
		c.w.member.Rejoin()
	}
	if settled {
		c.startMissing(ctx, s)
	}
}

// followConnector brings what runs of one connector in line with its configuration.
func (c *crew) followConnector(ctx context.Context, s *configs.State, name string, d *dirt) {
	config, exists := s.Connector(name)
	self := work.Connector(name)
	if !exists {
		// What runs of it still is revoked by the rebalance.
		return
	}
	if one := c.running[self]; one != nil && (d.set && !maps.Equal(one.config, config) || one.target != s.Target(name)) {
		c.stop([]work.Item{self}, false)
		c.start(ctx, s, self)
	}
	var tasks []work.Item
	for item := range c.running {
		if item.Connector == name && item.IsTask() {
			tasks = append(tasks, item)
		}
	}
	work.Sort(tasks)
	if d.tasks {
		c.stop(tasks, false)
		tasks = nil
	}
	for _, item := range tasks {
		c.running[item].setPaused(s.Target(name) != configs.Started)
	}
	if d.restart != nil {
		c.restartPlanned(ctx, s, *d.restart)
	}
}

// restartPlanned restarts what is this worker's of a restart that was asked for in the config topic.
func (c *crew) restartPlanned(ctx context.Context, s *configs.State, r configs.Restart) {
	before, err := c.w.herder.Status(r.Connector)
	if err != nil {
		c.w.log.Warn("a restart is asked for of what has no state", zap.String("connector", r.Connector), zap.Error(err))
		return
	}
	plan := herder.Plan(r, before)
	var items []work.Item
	if plan.Connector.State == status.Restarting {
		items = append(items, work.Connector(r.Connector))
	}
	for _, task := range plan.Tasks {
		if task.Status.State == status.Restarting {
			items = append(items, task.ID)
		}
	}
	items = slices.DeleteFunc(items, func(item work.Item) bool { return c.running[item] == nil })
	c.stop(items, false)
	for _, item := range items {
		c.w.states.say(item, status.Restarting, "", "")
		c.start(ctx, s, item)
	}
}

// startMissing starts what this worker was given and does not run.
func (c *crew) startMissing(ctx context.Context, s *configs.State) {
	c.mu.Lock()
	items := work.Sort(slices.Collect(maps.Keys(c.assigned)))
	c.mu.Unlock()
	for _, item := range items {
		if c.running[item] == nil {
			c.start(ctx, s, item)
		}
	}
}

// restart starts something anew that runs here, or has failed here.
func (c *crew) restart(ctx context.Context, item work.Item) error {
	c.op.Lock()
	defer c.op.Unlock()
	if c.running[item] == nil {
		return nil // it is about to be started anyway, after the rebalance
	}
	c.stop([]work.Item{item}, false)
	c.start(context.WithoutCancel(ctx), c.w.herder.Configs(), item)
	return nil
}

// start begins with a connector or task, if it is configured.
func (c *crew) start(ctx context.Context, s *configs.State, item work.Item) {
	config, ok := s.Connector(item.Connector)
	if !ok {
		return
	}
	one := &instance{item: item, config: config, target: s.Target(item.Connector), generation: s.Generation(item.Connector)}
	if item.IsTask() {
		if one.task, ok = s.TaskConfig(item); !ok {
			return
		}
	}
	c.running[item] = one
	one.start(context.WithoutCancel(ctx), c.w)
}

// stop ends things, all at the same time, and forgets them. revoked says that this worker is no longer to have them, which their state will say then.
func (c *crew) stop(items []work.Item, revoked bool) {
	var ending []*instance
	for _, item := range items {
		if one := c.running[item]; one != nil {
			ending = append(ending, one)
			delete(c.running, item)
			one.askToStop()
		}
	}
	if len(ending) == 0 {
		return
	}
	deadline, cancel := context.WithTimeout(context.Background(), c.w.config.Values.DurationMs("task.shutdown.graceful.timeout.ms"))
	defer cancel()
	for _, one := range ending {
		inOrder := one.wait(deadline)
		if !inOrder {
			c.w.log.Warn("does not stop in time and is ended", zap.Stringer("item", one.item))
		}
		if revoked && inOrder && !one.failed() {
			c.w.states.say(one.item, status.Unassigned, "", "")
		}
		if revoked {
			c.w.metrics.forget(one.item)
		}
	}
}
