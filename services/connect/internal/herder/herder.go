// Package herder answers for what a group of Connect workers runs: what is configured, what state it is in, and how both change.
//
// A Herder knows what its worker has read from the topics and what the last rebalance said. Reads are answered from that. A change is written to
// a topic, and made once it has been read back, so that all workers make the same changes in the same order; most are for the leader alone to
// write, and some for the worker that runs the connector: others are told where to go.
package herder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// What a request can be refused for. Errors that wrap none of these are failures of the worker or of a plugin.
var (
	ErrNotFound = errors.New("not found")
	// ErrConflict is for what exists already and for what cannot be done while the group rebalances.
	ErrConflict = errors.New("conflict")
	ErrInvalid  = errors.New("not valid")
	// ErrForbidden is for what the worker's configuration does not allow.
	ErrForbidden = errors.New("not allowed")
	// ErrNotReady is for a worker that has not read the topics or joined its group yet.
	ErrNotReady = errors.New("not ready")
)

// Elsewhere is the error of a request that another worker has to answer.
type Elsewhere struct {
	// URL is the address of that worker's REST interface.
	URL string
}

func (e *Elsewhere) Error() string { return "to be answered by the worker at " + e.URL }

// Type is what a connector is.
type Type string

// The types of connectors.
const (
	Source  Type = "source"
	Sink    Type = "sink"
	Unknown Type = "unknown"
)

// Validation is what there is to say of a connector's configuration.
type Validation struct {
	// Name is the connector's class.
	Name       string
	Groups     []string
	Definition configdef.Definition
	Values     []configdef.Value
}

// Errors are those of all keys, in order.
func (v *Validation) Errors() []string {
	var all []string
	for _, value := range v.Values {
		all = append(all, value.Errors...)
	}
	return all
}

// Deps are what a Herder does not do itself.
type Deps struct {
	// WriteConfigs appends to the config topic, all or nothing, and returns once the herder has followed the records.
	WriteConfigs func(context.Context, []configs.Record) error
	// WriteStatus appends to the status topic in the same way.
	WriteStatus func(context.Context, []status.Record) error
	// Validate checks a connector's configuration, which has a class. The error wraps ErrInvalid for a class that there is not.
	Validate func(context.Context, configs.Config) (*Validation, error)
	// TypeOf is the type of a configured connector.
	TypeOf func(configs.Config) Type
	// Restart starts a connector or task of this worker again.
	Restart func(context.Context, work.Item) error
	// Offsets are where a connector stands.
	Offsets func(ctx context.Context, connector string, c configs.Config) ([]offsets.Entry, error)
	// AlterOffsets changes where a stopped connector stands; nil entries forget all. managed says that the connector's plugin has put right
	// what it keeps of offsets itself.
	AlterOffsets func(ctx context.Context, connector string, c configs.Config, entries []offsets.Entry) (managed bool, err error)
	// Fence ends the producers of so many earlier tasks of a source.
	Fence func(ctx context.Context, connector string, tasks int) error
}

// Config is what a Herder was configured with.
type Config struct {
	// TrackTopics and ResetTopics are topic.tracking.enable and topic.tracking.allow.reset.
	TrackTopics, ResetTopics bool
	// ExactlyOnce says that exactly.once.source.support is enabled.
	ExactlyOnce bool
	// SettleTimeout is for how long a request waits while the group is about to rebalance, or has no leader that is known.
	SettleTimeout time.Duration
}

// Group is what the last rebalance said.
type Group struct {
	// Leader says that this worker leads. LeaderURL is where the leader's REST interface is, empty while nobody knows.
	Leader    bool
	LeaderURL string
	// Pending says that the configuration has changed since and that the group is to rebalance.
	Pending bool
	// Mine is what this worker runs.
	Mine map[work.Item]bool
	// Owners have the URLs of the workers that run things, which only the leader knows.
	Owners map[work.Item]string
}

// Herder is safe for concurrent use.
type Herder struct {
	deps   Deps
	config Config

	fencing chan struct{} // holds one while a round of fencing is under way

	mu    sync.Mutex
	ready bool
	group Group
	// regrouped is closed, and another made, when group changes.
	regrouped chan struct{}
	configs   *configs.State
	status    *status.Table
}

// New returns a Herder that has read nothing.
func New(c Config, d Deps) *Herder {
	return &Herder{deps: d, config: c, fencing: make(chan struct{}, 1), regrouped: make(chan struct{}), configs: configs.New(), status: status.New()}
}

// SetGroup takes over what a rebalance said. The first time makes the herder ready.
func (h *Herder) SetGroup(g Group) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.Mine, g.Owners = maps.Clone(g.Mine), maps.Clone(g.Owners)
	h.group, h.ready = g, true
	close(h.regrouped)
	h.regrouped = make(chan struct{})
}

// SetPending says that the configuration has changed and that the group is to rebalance.
func (h *Herder) SetPending() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group.Pending = true
}

// Group is what was last known of the group. Its maps are not to be changed.
func (h *Herder) Group() Group {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.group
}

// settled waits while the group is about to rebalance: what is asked then is mostly about what was changed a moment ago.
func (h *Herder) settled(ctx context.Context) {
	if h.config.SettleTimeout == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.SettleTimeout)
	defer cancel()
	for {
		h.mu.Lock()
		waits, regrouped := h.ready && (h.group.Pending || h.group.LeaderURL == "" && !h.group.Leader), h.regrouped
		h.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-regrouped:
		case <-ctx.Done():
			return
		}
	}
}

// Ready says whether the worker has read the topics and is in its group.
func (h *Herder) Ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ready
}

// FollowConfig applies a record of the config topic.
func (h *Herder) FollowConfig(offset int64, key string, value []byte) (configs.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.configs.Apply(offset, key, value)
}

// FollowStatus applies a record of the status topic.
func (h *Herder) FollowStatus(key string, value []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.Apply(key, value)
}

// Await returns once the herder is ready, or with ctx.
func (h *Herder) Await(ctx context.Context) error {
	for {
		h.mu.Lock()
		ready, regrouped := h.ready, h.regrouped
		h.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-regrouped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// MayWriteStatus says whether writing a status is safe: no other worker has written one in a later generation.
func (h *Herder) MayWriteStatus(item work.Item, s status.Status) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.MayWrite(item, s)
}

// Configs is a copy of what the config topic says.
func (h *Herder) Configs() *configs.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.configs.Clone()
}

// lead is an error unless this worker leads a group that is at rest.
func (h *Herder) lead(ctx context.Context) error {
	h.settled(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.ready:
		return fmt.Errorf("%w: the worker has not joined its group", ErrNotReady)
	case h.group.Pending:
		return fmt.Errorf("%w: the group is about to rebalance", ErrConflict)
	case h.group.Leader:
		return nil
	case h.group.LeaderURL == "":
		return fmt.Errorf("%w: the group has no leader that is known", ErrConflict)
	}
	return &Elsewhere{h.group.LeaderURL}
}

// own is an error unless this worker runs the item. Only the leader knows who else does.
func (h *Herder) own(ctx context.Context, item work.Item) error {
	h.settled(ctx)
	h.mu.Lock()
	mine, owner, pending := h.group.Mine[item], h.group.Owners[item], h.group.Pending
	h.mu.Unlock()
	if mine && !pending {
		return nil
	}
	if err := h.lead(ctx); err != nil {
		return err
	}
	if owner == "" {
		return fmt.Errorf("%w: no worker runs %v", ErrConflict, item)
	}
	return &Elsewhere{owner}
}

// connector is the configuration of a connector that has to be there.
func (h *Herder) connector(name string) (configs.Config, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.configs.Connector(name)
	if !ok {
		return nil, fmt.Errorf("%w: connector %q", ErrNotFound, name)
	}
	return c, nil
}
