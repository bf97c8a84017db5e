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
	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
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
	set, removed, tasks bool
	restart             *configs.Restart
}

// merge is a restart of all that either of two concerns.
func merge(earlier *configs.Restart, r configs.Restart) *configs.Restart {
	if earlier != nil {
		r.IncludeTasks, r.OnlyFailed = r.IncludeTasks || earlier.IncludeTasks, r.OnlyFailed && earlier.OnlyFailed
	}
	return &r
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

// read takes over a record of the config topic. It waits for nothing. Who holds mu sees the configuration and what has changed in it at the same time.
func (c *crew) read(r topiclog.Record, live bool) (configs.Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change, err := c.w.herder.FollowConfig(r.Offset, string(r.Key), r.Value)
	// A restart that was asked for before the worker began is over.
	if err == nil && (live || change.Kind != configs.RestartAsked) {
		c.changed(r.Offset, change)
	}
	return change, err
}

// changed takes down a change of the configuration. mu is held.
func (c *crew) changed(offset int64, change configs.Change) {
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
		note(func(d *dirt) { d.removed = true })
	case configs.TasksSet:
		rebalance = true
		note(func(d *dirt) { d.tasks = true })
	case configs.TargetSet:
		note(func(*dirt) {})
	case configs.RestartAsked:
		note(func(d *dirt) { d.restart = merge(d.restart, change.Restart) })
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
	c.stop(items, items)
	for _, item := range items {
		c.w.metrics.forget(item)
	}
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
	changed := s.MemberID != "" && c.lastChange >= s.ConfigOffset
	c.w.topics.lead(s.Leader && led)
	c.w.herder.SetGroup(herder.Group{Leader: s.Leader, LeaderURL: s.LeaderURL, Pending: changed || s.Revoking, Mine: maps.Clone(c.assigned), Owners: s.Owners})
	c.mu.Unlock()
	c.w.metrics.regrouped(s)
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

// follow does what changes and rebalances since the last time call for. What has been given to this worker is started once nothing calls for a further
// rebalance: others may still run what that takes away from them.
func (c *crew) follow(ctx context.Context) {
	c.op.Lock()
	defer c.op.Unlock()
	c.mu.Lock()
	s := c.w.herder.Configs()
	dirty := c.dirty
	c.dirty = map[string]*dirt{}
	rejoin := c.group.MemberID != "" && c.lastChange >= c.group.ConfigOffset
	start := c.unsettled && !rejoin
	c.unsettled = c.unsettled && rejoin
	c.mu.Unlock()
	c.followConnectors(ctx, s, dirty)
	if rejoin {
		c.w.member.Rejoin()
	}
	if start {
		c.startMissing(ctx, s)
	}
}

// followConnectors brings what runs in line with the configuration. All that has to stop does so at the same time.
func (c *crew) followConnectors(ctx context.Context, s *configs.State, dirty map[string]*dirt) {
	var again, idle []work.Item
	for item, one := range c.running {
		d := dirty[item.Connector]
		config, exists := s.Connector(item.Connector)
		switch {
		case d == nil || !exists:
			// What runs of a connector that there is no longer is revoked by the rebalance.
		case item.IsTask() && d.tasks:
			idle = append(idle, item)
		case item.IsTask():
			one.setPaused(s.Target(item.Connector) != configs.Started)
		case d.removed || d.set && !maps.Equal(one.config, config) || one.target != s.Target(item.Connector):
			again = append(again, item)
		}
	}
	c.stop(slices.Concat(again, idle), idle)
	for _, item := range work.Sort(again) {
		c.start(ctx, s, item)
	}
	for _, name := range slices.Sorted(maps.Keys(dirty)) {
		if _, exists := s.Connector(name); exists && dirty[name].restart != nil {
			c.restartAsked(ctx, s, *dirty[name].restart)
		}
	}
}

// restartAsked restarts what is this worker's of a restart that was asked for in the config topic.
func (c *crew) restartAsked(ctx context.Context, s *configs.State, r configs.Restart) {
	items := c.concerned(r)
	c.stop(items, nil)
	for _, item := range items {
		c.w.states.say(item, status.Restarting, "", "")
		c.start(ctx, s, item)
	}
}

// concerned is what runs here, or has failed here, of what is to be restarted. What the status topic says of it may not be read yet, or not be written.
func (c *crew) concerned(r configs.Restart) []work.Item {
	var items []work.Item
	for item, one := range c.running {
		if item.Connector == r.Connector && (r.IncludeTasks || !item.IsTask()) && (!r.OnlyFailed || one.failed()) {
			items = append(items, item)
		}
	}
	return work.Sort(items)
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
	c.stop([]work.Item{item}, nil)
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

// stop ends things, all at the same time, and forgets them. The state of those that are idle then, as nothing starts them here before the next rebalance,
// is to say so.
func (c *crew) stop(items, idle []work.Item) {
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
	inOrder := c.await(ending)
	s := c.w.herder.Configs()
	for _, item := range idle {
		if one := inOrder[item]; one != nil && !one.failed() && configured(s, item) {
			c.w.states.say(item, status.Unassigned, "", "")
		}
	}
}

// await returns which have ended by themselves. All others are ended at the same time.
func (c *crew) await(ending []*instance) map[work.Item]*instance {
	deadline, cancel := context.WithTimeout(context.Background(), c.w.config.Values.DurationMs("task.shutdown.graceful.timeout.ms"))
	defer cancel()
	inOrder := map[work.Item]*instance{}
	var overdue []*instance
	for _, one := range ending {
		if one.ends(deadline) {
			inOrder[one.item] = one
			continue
		}
		c.w.log.Warn("does not stop in time and is ended", zap.Stringer("item", one.item))
		one.abandon()
		overdue = append(overdue, one)
	}
	for _, one := range overdue {
		<-one.done
	}
	return inOrder
}

// configured says whether there is such a connector or task: of others the leader takes away what their states say.
func configured(s *configs.State, item work.Item) bool {
	_, ok := s.Connector(item.Connector)
	if ok && item.IsTask() {
		_, ok = s.TaskConfig(item)
	}
	return ok
}
