package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/protocol"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// stay follows an assignment and sends heartbeats until the worker has to join again. What is being stopped and started is finished first, or given up
// when the membership is lost.
func (m *Member) stay(ctx context.Context, a *protocol.Assignment) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	settled := make(chan outcome, 1)
	running := m.mine()
	go func() { settled <- m.settle(following, a, running) }()
	beat := time.NewTicker(m.config.HeartbeatInterval)
	defer beat.Stop()
	var due <-chan time.Time
	if a.DelayMs > 0 {
		timer := time.NewTimer(time.Duration(a.DelayMs) * time.Millisecond)
		defer timer.Stop()
		due = timer.C
	}
	again := false
	for !again || settled != nil {
		var err error
		select {
		case o := <-settled:
			settled = nil
			again = again || o.again
			m.take(a, o)
			err = o.err
		case <-beat.C:
			err = m.heartbeat(ctx)
		case <-due:
			again = true
		case <-m.rejoin:
			again = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		if errors.Is(err, kerr.RebalanceInProgress) {
			again, err = true, nil
		}
		if err != nil && m.lost(err) {
			cancel()
			if settled != nil {
				m.take(a, <-settled)
			}
			return err
		}
	}
	return nil
}

// lost says whether an error ends the worker's stay. It does not as long as the coordinator may just be elsewhere, or out of reach for a moment.
func (m *Member) lost(err error) bool {
	var kafka *kerr.Error
	switch {
	case errors.Is(err, errBehind), errors.Is(err, context.Canceled), time.Since(m.contact) >= m.config.SessionTimeout:
		return true
	case errors.As(err, &kafka) && !kafka.Retriable:
		return true
	}
	m.deps.Log.Info("the coordinator does not take a heartbeat", zap.Error(err))
	m.coordinator = ""
	return false
}

// take makes an outcome the member's state.
func (m *Member) take(a *protocol.Assignment, o outcome) {
	m.last = a
	clear(m.running)
	for _, item := range o.running {
		m.running[item] = true
	}
	if a.Code == protocol.NoError && o.err == nil {
		m.deps.Settled(Settlement{
			Generation: m.generation, MemberID: m.id, ConfigOffset: a.ConfigOffset, Leader: m.owners != nil, LeaderURL: a.LeaderURL, Owners: m.owners, Revoking: m.revoking, Mine: o.running,
		})
	}
}

// outcome is what came of following an assignment.
type outcome struct {
	running []work.Item
	// again says that the worker has to join once more for the leader to go on.
	again bool
	err   error
}

// settle brings what runs in line with an assignment. It does not touch the state of the member, which goes on with its heartbeats. Nothing is started
// by another configuration than the assignment was made with: its tasks may not be there any more.
func (m *Member) settle(ctx context.Context, a *protocol.Assignment, running []work.Item) outcome {
	offset, _ := m.deps.Configs()
	if offset < a.ConfigOffset {
		if err := m.catchUp(ctx, a.ConfigOffset); err != nil {
			return outcome{running: running, err: err}
		}
		offset, _ = m.deps.Configs()
	}
	o := outcome{running: running, again: len(a.Revoked) > 0 || a.Code != protocol.NoError || offset != a.ConfigOffset}
	stop := only(a.Revoked, running, true)
	if a.Version == protocol.Eager {
		stop = only(running, a.Assigned, false)
	}
	if len(stop) > 0 {
		m.deps.Stop(context.WithoutCancel(ctx), stop)
		o.running = only(running, stop, false)
	}
	start := only(a.Assigned, o.running, false)
	if len(start) == 0 || offset != a.ConfigOffset || ctx.Err() != nil {
		return o
	}
	m.deps.Start(ctx, start)
	o.running = work.Sort(slices.Concat(o.running, start))
	return o
}

// only are the items that are in another list, or are not.
func only(items, others []work.Item, in bool) []work.Item {
	set := make(map[work.Item]bool, len(others))
	for _, item := range others {
		set[item] = true
	}
	var some []work.Item
	for _, item := range items {
		if set[item] == in {
			some = append(some, item)
		}
	}
	return some
}

func (m *Member) catchUp(ctx context.Context, offset int64) error {
	ctx, cancel := context.WithTimeout(ctx, m.config.SyncTimeout)
	defer cancel()
	if err := m.deps.CatchUp(ctx, offset); err != nil {
		return fmt.Errorf("%w, %d: %w", errBehind, offset, err)
	}
	return nil
}
