package partition

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/replication"
	"github.com/cauce-stream/cauce/services/broker/internal/watch"
)

// Set is the partitions of one broker. It follows the metadata: Apply creates, changes and deletes replicas.
type Set struct {
	cfg                    SetConfig
	rules                  replication.Rules
	isrExpands, isrShrinks atomic.Int64

	applying sync.Mutex // one Apply or Settle at a time
	settled  bool       // under applying: the image is the present, not a step of history that is followed after a start

	mu     sync.RWMutex
	byName map[string]*Topic
	byID   map[metadata.TopicID]*Topic
	image  *metadata.Image
	moved  chan struct{} // closed and replaced when shards have changed
}

// SetConfig says what a Set works with.
type SetConfig struct {
	NodeID int32
	Logs   *logdir.Set
	// Topic is the config of a topic under an image.
	Topic func(im *metadata.Image, topic string) Config
	// LagMaxMs is replica.lag.time.max.ms.
	LagMaxMs int64
	// Propose sends a leader's wish for other in-sync replicas to the controller, whose answer goes to Partition.Decided.
	// It must not wait.
	Propose func(*Partition, *replication.Proposal)
	NowMs   func() int64
	Logger  *zap.Logger
}

// NewSet makes an empty set.
func NewSet(c SetConfig) *Set {
	s := &Set{
		cfg:    c,
		byName: map[string]*Topic{}, byID: map[metadata.TopicID]*Topic{}, image: metadata.Empty(), moved: make(chan struct{}),
	}
	s.rules = replication.Rules{LagMaxMs: c.LagMaxMs, MayJoin: s.mayJoin}
	return s
}

// Find returns a topic by its id, or by its name if the id is zero; nil if this broker hosts none of its partitions.
func (s *Set) Find(name string, id metadata.TopicID) *Topic {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if id != (metadata.TopicID{}) {
		return s.byID[id]
	}
	return s.byName[name]
}

// WhyNot gives the error for a partition that Find and Topic.Partition do not give: UNKNOWN_TOPIC_ID or
// UNKNOWN_TOPIC_OR_PARTITION if it does not exist, NOT_LEADER_OR_FOLLOWER if others host it.
func (s *Set) WhyNot(name string, id metadata.TopicID, partition int32) error {
	s.mu.RLock()
	im := s.image
	s.mu.RUnlock()
	t, ok := im.TopicByID(id)
	missing := kerr.UnknownTopicID
	if id == (metadata.TopicID{}) {
		t, ok = im.Topic(name)
		missing = kerr.UnknownTopicOrPartition
	}
	switch {
	case !ok:
		return missing
	case partition < 0 || int(partition) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition
	default:
		return kerr.NotLeaderForPartition
	}
}

// LeaderOf is the leader of a partition and its epoch as the newest metadata has them, -1 and -1 when it has none.
func (s *Set) LeaderOf(name string, id metadata.TopicID, partition int32) (leader, epoch int32) {
	im := s.Image()
	t, ok := im.TopicByID(id)
	if id == (metadata.TopicID{}) {
		t, ok = im.Topic(name)
	}
	if !ok || partition < 0 || int(partition) >= len(t.Partitions) {
		return metadata.NoLeader, -1
	}
	return t.Partitions[partition].Leader, t.Partitions[partition].LeaderEpoch
}

// Lookup returns a hosted partition, or the error for the client.
func (s *Set) Lookup(name string, id metadata.TopicID, partition int32) (*Partition, error) {
	if t := s.Find(name, id); t != nil {
		if p, _ := t.Partition(partition); p != nil {
			return p, nil
		}
	}
	return nil, s.WhyNot(name, id, partition)
}

// StartMoved has sessions that read the log's partition mention its new start, which ends nobody's wait.
func (s *Set) StartMoved(l *log.Log) {
	if p, err := s.Lookup(l.Topic(), l.TopicID(), l.Partition()); err == nil {
		var ended watch.Ended
		p.Replicas.Advance(0, &ended)
		p.Watchers.Advance(0, &ended)
		ended.Fire()
	}
}

// Topics yields the hosted topics by name.
func (s *Set) Topics() iter.Seq[*Topic] {
	s.mu.RLock()
	topics := slices.Collect(maps.Values(s.byName))
	s.mu.RUnlock()
	slices.SortFunc(topics, func(a, b *Topic) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return slices.Values(topics)
}

// Apply brings the replicas in line with a new image. It is called with one image after the other.
func (s *Set) Apply(im *metadata.Image, d *metadata.Delta) {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	s.image = im // first, so that readers whose partition goes away learn why
	s.mu.Unlock()
	for _, t := range d.DeletedTopics {
		s.drop(t)
	}
	for _, t := range d.ChangedTopics {
		s.host(im, t)
	}
	s.applyShards(d.ChangedShards)
	s.recheck(d.ChangedNodes)
	s.reconfigure(im, d.ChangedConfigs)
}

// Settle deals with what lay in the log directories and the cluster knows nothing of: such logs are set aside, and
// partitions that they were in the way of are opened. It is called once the image is known to be as new as the node's
// registration: an older one could lack topics that this node served before.
func (s *Set) Settle() {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.settled = true
	defer s.cfg.Logs.ExpectNew()
	for l := range s.cfg.Logs.All() {
		t := s.Find(l.Topic(), metadata.TopicID{})
		if t != nil && (t.ID == l.TopicID() || l.TopicID() == metadata.TopicID{}) {
			if p, _ := t.Partition(l.Partition()); p != nil {
				continue
			}
		}
		s.cfg.Logger.Warn("a log that the cluster does not know is set aside", zap.String("topic", l.Topic()), zap.Int32("partition", l.Partition()), zap.String("dir", l.Dir()))
		if err := s.cfg.Logs.SetAside(l.Topic(), l.Partition()); err != nil {
			s.cfg.Logger.Error("log not set aside", zap.String("dir", l.Dir()), zap.Error(err))
		}
	}
	for t := range s.Topics() {
		s.reopen(t)
		for _, p := range t.Partitions() {
			if p == nil {
				continue
			}
			if err := p.become(p.State()); err != nil {
				s.cfg.Logger.Error("leader epoch not noted", zap.Stringer("partition", p), zap.Error(err))
			}
		}
	}
}

// reopen makes the logs of partitions that could not be opened as they came.
func (s *Set) reopen(t *Topic) {
	next := slices.Clone(t.Partitions())
	for i, p := range next {
		if p == nil || p.log.Load() != nil {
			continue
		}
		fresh := s.create(t, p.ID, s.cfg.Topic(s.image, t.Name))
		if fresh.log.Load() == nil {
			continue
		}
		next[i] = fresh
		if err := fresh.become(p.State()); err != nil {
			s.cfg.Logger.Error("leader epoch not noted", zap.Stringer("partition", fresh), zap.Error(err))
		}
		p.leave()
	}
	t.partitions.Store(&next)
}

// Failed yields the partitions whose log cannot be used and that the metadata does not have as offline yet.
func (s *Set) Failed() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		for t := range s.Topics() {
			for _, p := range t.Partitions() {
				if p != nil && p.Failed() && !p.State().IsOffline(s.cfg.NodeID) && !yield(p) {
					return
				}
			}
		}
	}
}

// host makes, changes or gives up this broker's replicas of one topic.
func (s *Set) host(im *metadata.Image, t *metadata.Topic) {
	s.mu.RLock()
	known := s.byID[t.ID]
	s.mu.RUnlock()
	topic := known
	var old []*Partition
	if known == nil {
		topic = &Topic{Name: t.Name, ID: t.ID}
	} else {
		old = known.Partitions()
	}
	var config *Config
	hosts := false
	next := make([]*Partition, len(t.Partitions))
	for i, state := range t.Partitions {
		var p *Partition
		if i < len(old) {
			p = old[i]
		}
		switch {
		case !state.IsReplica(s.cfg.NodeID):
			if p != nil && s.settled {
				s.remove(p)
			} else if p != nil {
				p.leave() // the replica may have come back since: Settle knows
			}
			continue
		case p == nil:
			if config == nil {
				c := s.cfg.Topic(im, t.Name)
				config = &c
				topic.configure(c)
			}
			p = s.create(topic, state.ID, *config)
		}
		next[i], hosts = p, true
		if err := p.become(state); err != nil {
			s.cfg.Logger.Error("leader epoch not noted", zap.Stringer("partition", p), zap.Error(err))
		}
	}
	topic.partitions.Store(&next)
	if known == nil && hosts {
		s.mu.Lock()
		s.byName[t.Name], s.byID[t.ID] = topic, topic
		s.mu.Unlock()
	}
}

func (s *Set) create(topic *Topic, id int32, config Config) *Partition {
	p := &Partition{Topic: topic, ID: id, set: s}
	if sh, ok := s.image.Shard(topic.Name, id); ok {
		p.shard.epoch.Store(sh.Epoch)
	}
	l, err := s.cfg.Logs.Create(topic.Name, id, topic.ID, config.Log)
	if err != nil {
		s.cfg.Logger.Error("partition is offline: its log cannot be opened",
			zap.String("topic", topic.Name), zap.Int32("partition", id), zap.Error(err))
		return p
	}
	l.SetConfig(config.Log)
	p.log.Store(l)
	return p
}

func (s *Set) remove(p *Partition) {
	p.leave()
	if p.log.Load() == nil {
		return
	}
	if err := s.cfg.Logs.Delete(p.Topic.Name, p.ID); err != nil {
		s.cfg.Logger.Error("log not deleted", zap.String("topic", p.Topic.Name), zap.Int32("partition", p.ID), zap.Error(err))
	}
}

func (s *Set) drop(t *metadata.Topic) {
	s.mu.Lock()
	topic := s.byID[t.ID]
	delete(s.byID, t.ID)
	if s.byName[t.Name] == topic {
		delete(s.byName, t.Name)
	}
	s.mu.Unlock()
	if topic == nil {
		return
	}
	for _, p := range topic.Partitions() {
		if p != nil {
			s.remove(p)
		}
	}
}

// reconfigure gives the logs their new configs: those of one topic, or all when a broker default changed.
func (s *Set) reconfigure(im *metadata.Image, changed []metadata.Resource) {
	for _, r := range changed {
		switch {
		case r.Type == metadata.TopicConfig:
			if t := s.Find(r.Name, metadata.TopicID{}); t != nil {
				s.configure(im, t)
			}
		case r.Type == metadata.BrokerConfig && (r.Name == "" || r.Name == strconv.Itoa(int(s.cfg.NodeID))):
			for t := range s.Topics() {
				s.configure(im, t)
			}
		}
	}
}

func (s *Set) configure(im *metadata.Image, t *Topic) {
	config := s.cfg.Topic(im, t.Name)
	t.configure(config)
	for _, p := range t.Partitions() {
		if p == nil {
			continue
		}
		if l := p.log.Load(); l != nil {
			l.SetConfig(config.Log)
		}
	}
}

// Label is the partition's number as a metric label.
func (p *Partition) Label() string { return strconv.Itoa(int(p.ID)) }

// String names the partition as its folder does.
func (p *Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic.Name, p.ID) }
