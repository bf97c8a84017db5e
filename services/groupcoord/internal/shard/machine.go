// Package shard is a shard of groups: the state machine over one partition of __consumer_offsets.
//
// A request names one group, or several of this shard: the shell splits those that go to several shards and puts the answers
// together. Responses have no version; whoever encodes them knows the request's.
package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	consumers "github.com/cauce-stream/cauce/services/groupcoord/internal/consumer"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/producers"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// group is what the shard asks of a group, whichever protocol its members speak.
type group interface {
	// Type is "classic" or "consumer", as ListGroups has it.
	Type() string
	State() string
	ProtocolType() string
	// Empty says whether the group has no members, Size how many it has. Generation grows with each rebalance.
	Empty() bool
	Size() int
	Generation() int32

	// The requests of the classic protocol; each is answered now or by a later operation.
	Join(o *op.Op, t coordinator.Ticket, c op.Client, req *kmsg.JoinGroupRequest)
	Sync(o *op.Op, t coordinator.Ticket, req *kmsg.SyncGroupRequest)
	Heartbeat(o *op.Op, t coordinator.Ticket, req *kmsg.HeartbeatRequest)
	Leave(o *op.Op, t coordinator.Ticket, req *kmsg.LeaveGroupRequest)

	// Loaded arms the timers of a group that the log told of, Timer does what is due at one of them.
	Loaded(o *op.Op)
	Timer(o *op.Op, k op.TimerKey)
	// Close has an empty group deleted.
	Close(o *op.Op)

	// AdmitCommit says whether offsets may be committed, AdmitFetch whether they may be read, AdmitDelete whether they may be deleted.
	AdmitCommit(o *op.Op, by offsets.Committer) (offsets.Admission, error)
	AdmitFetch(memberID string, memberEpoch int32) error
	AdmitDelete() error
	// Subscribed says whether members may read a topic, so that its offsets are kept.
	Subscribed(topic string) bool
	Retention() offsets.Retention
}

// Kinds of timers of the shard: what goes on in further operations when one has no room for all of it.
const (
	// expiryTimer looks for offsets and groups to forget.
	expiryTimer = "expiry"
	// topicsTimer deletes the offsets of topics that are gone.
	topicsTimer = "topics"
	// loadedTimer starts the sessions of members that the log told of.
	loadedTimer = "loaded"
	// imageTimer lets consumer groups look at the image that are still to do so.
	imageTimer = "image"
)

// maxTimersPerTick bounds what one operation does; what is left is due at once.
const maxTimersPerTick = 256

// Machine is one shard. It implements [coordinator.Machine]. The requests that it is given are its own from then on: it keeps parts of
// them.
type Machine struct {
	image    *metadata.Image
	settings *op.Settings
	timers   *op.Timers
	groups   map[string]group
	offsets  *offsets.Store

	producers *producers.Set
	// verifying are the commits that wait for a coordinator of transactions.
	verifying map[*Verification]bool

	// subscriptions are those of the consumer groups, unshown the ids of those that have still to look at the image.
	subscriptions *consumers.Subscriptions
	unshown       map[string]bool

	// from is the group that a walk over all groups goes on with, by the timer's kind.
	from map[string]string
	// expiryEvery is offsets.retention.check.interval.ms as the timer has it.
	expiryEvery time.Duration
}

// New is an empty shard that sees the cluster as im does.
func New(im *metadata.Image, s *op.Settings) *Machine {
	return &Machine{
		image: im, settings: s, timers: op.NewTimers(), groups: map[string]group{}, offsets: offsets.NewStore(),
		producers: producers.NewSet(), verifying: map[*Verification]bool{},
		subscriptions: consumers.NewSubscriptions(), unshown: map[string]bool{}, from: map[string]string{},
	}
}

// Replay applies a record of the log. Records of unknown types are passed over, as Apache Kafka does.
func (m *Machine) Replay(p coordinator.Producer, r coordinator.Record) error {
	decoded, err := schema.Decode(r)
	if errors.Is(err, schema.ErrUnknownType) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	m.apply(p, decoded)
	return nil
}

// ReplayMarker ends a transaction.
func (m *Machine) ReplayMarker(p coordinator.Producer, marker record.Marker) error {
	m.producers.ReplayMarker(p, marker)
	m.offsets.ReplayMarker(p, marker.Type == record.Commit)
	return nil
}

// apply changes what the log keeps, and nothing else does.
func (m *Machine) apply(p coordinator.Producer, record schema.Record) {
	switch r := record.(type) {
	case *schema.OffsetCommit:
		if r.Value != nil && m.groups[r.Group] == nil {
			m.groups[r.Group] = classic.New(r.Group) // of someone who only stores offsets
		}
		if p != coordinator.NoProducer && r.Value != nil {
			m.producers.Replay(p, r.Value.CommitTimestampMs)
		}
		m.offsets.Replay(p, r)
	case *schema.GroupMetadata:
		m.applyClassic(r)
	default:
		m.applyConsumer(record)
	}
}

func (m *Machine) applyClassic(r *schema.GroupMetadata) {
	g, isClassic := m.groups[r.Group].(*classic.Group)
	switch {
	case r.Value != nil && isClassic:
		g.Replay(r.Value)
	case r.Value != nil:
		g = classic.New(r.Group)
		g.Replay(r.Value)
		m.groups[r.Group] = g
	case isClassic:
		delete(m.groups, r.Group)
	}
}

// begin starts an operation.
func (m *Machine) begin(now time.Time) *op.Op {
	return m.beginTransactional(now, coordinator.NoProducer)
}

// beginTransactional starts one whose records are part of a transaction.
func (m *Machine) beginTransactional(now time.Time, p coordinator.Producer) *op.Op {
	o := op.New(now, m.image, m.settings, m.timers, func(r schema.Record) { m.apply(p, r) })
	o.InTransaction(p)
	return o
}

// Loaded starts the sessions of members, and deletes the offsets of topics that were deleted while nobody had the shard.
func (m *Machine) Loaded(now time.Time) coordinator.Step {
	o := m.begin(now)
	m.armExpiry(o)
	m.deleteTopics(o)
	m.start(o)
	return o.Step()
}

// NextTick is when something may be due; zero for never.
func (m *Machine) NextTick() time.Time { return m.timers.Next() }

// Tick does what is due.
func (m *Machine) Tick(now time.Time) coordinator.Step {
	o := m.begin(now)
	for n := 0; n < maxTimersPerTick && hasRoom(o); n++ {
		k, due := m.timers.Pop(now)
		if !due {
			break
		}
		m.timer(o, k)
	}
	return o.Step()
}

func (m *Machine) timer(o *op.Op, k op.TimerKey) {
	switch k.Kind {
	case expiryTimer:
		m.expire(o)
	case topicsTimer:
		m.deleteTopics(o)
	case loadedTimer:
		m.start(o)
	case imageTimer:
		m.showConsumers(o)
	default:
		if g := m.groups[k.Group]; g != nil {
			g.Timer(o, k)
			m.settle(o, k.Group)
		}
	}
}

// ids are the ids of the groups in order, so that runs repeat.
func (m *Machine) ids() []string { return slices.Sorted(maps.Keys(m.groups)) }
