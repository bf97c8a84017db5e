// Package member keeps a worker in its group: a loop of JoinGroup, SyncGroup and Heartbeat of the classic protocol with Connect's messages.
//
// Order in a round: join, and sync with what the leader assigns; read the config topic to where the assignment was made; stop what was revoked, then
// start what was assigned; join again at once if anything was revoked, so that the leader can give it away. Heartbeats go on while tasks stop and start.
package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/assignment"
	"github.com/cauce-stream/cauce/services/connect/internal/protocol"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Config is how a worker takes part in its group. All fields are needed.
type Config struct {
	// GroupID and URL are group.id and the address that other workers reach this one's REST interface by.
	GroupID, URL string
	// Bootstrap are brokers, host:port each, that know who coordinates the group.
	Bootstrap []string
	// Version is the newest protocol to offer.
	Version protocol.Version
	// SessionTimeout, RebalanceTimeout and HeartbeatInterval are Kafka's configs of the same names. Once nothing has been heard of the coordinator for the
	// session timeout the worker stops all that it runs: others may have it.
	SessionTimeout, RebalanceTimeout, HeartbeatInterval time.Duration
	// SyncTimeout and UnsyncBackoff are worker.sync.timeout.ms and worker.unsync.backoff.ms.
	SyncTimeout, UnsyncBackoff time.Duration
	// RetryBackoff is the pause after a request that failed.
	RetryBackoff time.Duration
	// MaxDelayMs is scheduled.rebalance.max.delay.ms.
	MaxDelayMs int32
}

// Deps are what a member does not do itself. The functions are called one at a time, each with a context that ends with the membership; the
// context of Stop does not end with that of Run.
type Deps struct {
	Log *zap.Logger
	// Do sends a request to host:port. It has to wait longer than the rebalance timeout for an answer.
	Do func(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error)
	// Configs are how far the config topic has been read, and what there is to run by that.
	Configs func() (offset int64, items []work.Item)
	// CatchUp reads the config topic at least up to an offset.
	CatchUp func(ctx context.Context, offset int64) error
	// Start and Stop begin and end work. Stop returns when it has ended.
	Start, Stop func(context.Context, []work.Item)
	// Settled tells what came of a rebalance; the zero value that the worker is no member.
	Settled func(Settlement)
}

// Settlement is what came of a rebalance.
type Settlement struct {
	Generation int32
	// MemberID is this worker's.
	MemberID string
	// ConfigOffset is that of the configuration which the work was shared out by.
	ConfigOffset int64
	// Leader says that this worker leads. Owners have the URLs of who runs what then.
	Leader    bool
	LeaderURL string
	Owners    map[work.Item]string
	// Revoking says, to the leader, that some have to give work up yet: another round follows.
	Revoking bool
	// Mine is what this worker runs, in order.
	Mine []work.Item
}

// Member is one worker's membership. Its state belongs to the goroutine of Run.
type Member struct {
	config Config
	deps   Deps
	rejoin chan struct{}

	coordinator string // host:port, empty when not known
	bootstrap   int    // the next of them to ask
	id          string
	generation  int32
	// completed is the last generation whose assignment this worker has had.
	completed int32
	// protocol is the group's in this round, agreed that of the last one that was completed.
	protocol, agreed protocol.Version
	// leader remembers what was assigned, for the rounds that this worker leads. owners is who runs what since the last round if it led that, else nil.
	leader   *assignment.Leader
	owners   map[work.Item]string
	revoking bool // in that round some had to give work up
	// last is the last assignment; nil before the first, and once the membership was lost.
	last    *protocol.Assignment
	running map[work.Item]bool
	// contact is when the coordinator was last heard of.
	contact time.Time
	// confirmed says that a heartbeat has been taken since the member joined. Until then an answer may have lain there while the process stood still.
	confirmed bool
}

const noGeneration = -1

// New returns a member that is not in its group yet.
func New(c Config, d Deps) *Member {
	return &Member{
		config: c, deps: d, rejoin: make(chan struct{}, 1), generation: noGeneration, completed: noGeneration, leader: assignment.NewLeader(c.MaxDelayMs), running: map[work.Item]bool{},
	}
}

// Rejoin has the group rebalance, as the configuration has changed. It may be called from any goroutine.
func (m *Member) Rejoin() {
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// Run takes part in the group until ctx ends, and leaves it then with all work stopped. An error is one that trying again does not help.
func (m *Member) Run(ctx context.Context) error {
	m.contact = time.Now()
	var err error
	for ctx.Err() == nil && err == nil {
		if err = m.round(ctx); err != nil {
			err = m.recover(ctx, err)
		}
	}
	m.stopAll(context.WithoutCancel(ctx))
	m.leave(context.WithoutCancel(ctx))
	return err
}

// errBehind is that the config topic could not be read as far as the group's leader has.
var errBehind = errors.New("the config topic cannot be read as far as the leader has")

// recover decides what to do about a round that failed. It returns an error that ends the membership for good.
func (m *Member) recover(ctx context.Context, err error) error {
	pause := m.config.RetryBackoff
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, kerr.MemberIDRequired), errors.Is(err, kerr.RebalanceInProgress):
		return nil
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration):
		m.deps.Log.Info("the group does not know this worker any more", zap.Error(err))
		if !m.confirmed && errors.Is(err, kerr.UnknownMemberID) {
			m.contact = time.Now().Add(-m.config.SessionTimeout) // its session has ended since the coordinator answered
		}
		m.id, m.generation, pause = "", noGeneration, 0
	case errors.Is(err, errBehind):
		m.deps.Log.Warn("leaving the group for a while", zap.Duration("pause", m.config.UnsyncBackoff), zap.Error(err))
		m.stopAll(ctx)
		m.leave(ctx)
		pause = m.config.UnsyncBackoff
	case errors.Is(err, kerr.InconsistentGroupProtocol), errors.Is(err, kerr.InvalidSessionTimeout), errors.Is(err, kerr.InvalidGroupID),
		errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.UnsupportedVersion):
		return fmt.Errorf("group %q: %w", m.config.GroupID, err)
	default:
		m.deps.Log.Warn("trying again to be in the group", zap.Error(err))
		m.coordinator = ""
	}
	if m.last != nil && time.Since(m.contact) >= m.config.SessionTimeout {
		m.deps.Log.Warn("stopping all work: others may have it", zap.Duration("unheard", time.Since(m.contact)))
		m.stopAll(ctx)
	}
	wait(ctx, pause)
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stopAll ends all work as that of no member.
func (m *Member) stopAll(ctx context.Context) {
	m.last = nil
	m.deps.Settled(Settlement{})
	if items := m.mine(); len(items) > 0 {
		clear(m.running)
		m.deps.Stop(ctx, items)
	}
}

// mine is what runs, in order.
func (m *Member) mine() []work.Item { return work.Sort(slices.Collect(maps.Keys(m.running))) }
