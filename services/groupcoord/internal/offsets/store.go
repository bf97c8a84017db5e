// Package offsets is what groups committed: the offsets of all groups of a shard, those of open transactions among them. It
// behaves as OffsetMetadataManager of Apache Kafka 4.4 does.
package offsets

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// partition is what an offset is committed for.
type partition struct {
	topic string
	index int32
}

func (p partition) compare(q partition) int {
	return cmp.Or(strings.Compare(p.topic, q.topic), cmp.Compare(p.index, q.index))
}

// entry is a committed offset. The order of entries is that of their records in the log: between an offset and one of a
// transaction the later counts, whenever the transaction ends.
type entry struct {
	schema.OffsetValue
	order int64
}

// life is one life of a topic, or all of them where the id is not known.
type life struct {
	name string
	id   metadata.TopicID
}

// table has the offsets of one group.
type table map[partition]entry

// ordered are the table's partitions in order, so that runs repeat.
func (t table) ordered() []partition {
	return slices.SortedFunc(maps.Keys(t), partition.compare)
}

// Store is the offsets of a shard.
type Store struct {
	committed map[string]table
	// pending has the offsets of open transactions, by group and producer id.
	pending map[string]map[int64]table
	// within has the groups that an open transaction has, or had, offsets of, by producer id.
	within map[int64]map[string]bool
	// topics counts the offsets, pending ones too, by topic.
	topics map[life]int
	order  int64
}

// NewStore is a store without offsets.
func NewStore() *Store {
	return &Store{committed: map[string]table{}, pending: map[string]map[int64]table{}, within: map[int64]map[string]bool{}, topics: map[life]int{}}
}

// Replay applies a record. One of a transaction counts when the transaction is committed.
func (s *Store) Replay(p coordinator.Producer, r *schema.OffsetCommit) {
	at := partition{topic: r.Topic, index: r.Partition}
	switch {
	case r.Value == nil:
		s.drop(s.committed[r.Group], at)
		for _, t := range s.pending[r.Group] {
			s.drop(t, at)
		}
	case p == coordinator.NoProducer:
		if s.committed[r.Group] == nil {
			s.committed[r.Group] = table{}
		}
		s.put(s.committed[r.Group], at, *r.Value)
	default:
		if s.pending[r.Group] == nil {
			s.pending[r.Group] = map[int64]table{}
		}
		if s.pending[r.Group][p.ID] == nil {
			s.pending[r.Group][p.ID] = table{}
		}
		if s.within[p.ID] == nil {
			s.within[p.ID] = map[string]bool{}
		}
		s.within[p.ID][r.Group] = true
		s.put(s.pending[r.Group][p.ID], at, *r.Value)
	}
	s.tidy(r.Group)
}

// ReplayMarker ends a transaction.
func (s *Store) ReplayMarker(p coordinator.Producer, commit bool) {
	for group := range s.within[p.ID] {
		ended := s.pending[group][p.ID]
		for at, e := range ended {
			s.drop(ended, at)
			if before, ok := s.committed[group][at]; !commit || ok && before.order > e.order {
				continue
			}
			if s.committed[group] == nil {
				s.committed[group] = table{}
			}
			s.set(s.committed[group], at, e)
		}
		s.tidy(group)
	}
	delete(s.within, p.ID)
}

// tidy drops the tables of a group that are empty.
func (s *Store) tidy(group string) {
	if len(s.committed[group]) == 0 {
		delete(s.committed, group)
	}
	for id, t := range s.pending[group] {
		if len(t) == 0 {
			delete(s.pending[group], id)
		}
	}
	if len(s.pending[group]) == 0 {
		delete(s.pending, group)
	}
}

// put makes an offset the latest.
func (s *Store) put(t table, at partition, v schema.OffsetValue) {
	s.order++
	s.set(t, at, entry{OffsetValue: v, order: s.order})
}

func (s *Store) set(t table, at partition, e entry) {
	if before, ok := t[at]; ok && before.TopicID == e.TopicID {
		t[at] = e
		return
	}
	s.drop(t, at)
	t[at] = e
	s.topics[life{at.topic, e.TopicID}]++
}

func (s *Store) drop(t table, at partition) {
	e, ok := t[at]
	if !ok {
		return
	}
	delete(t, at)
	l := life{at.topic, e.TopicID}
	if s.topics[l]--; s.topics[l] == 0 {
		delete(s.topics, l)
	}
}

// unstable says whether an open transaction has an offset for a partition.
func (s *Store) unstable(group string, at partition) bool {
	for _, t := range s.pending[group] {
		if _, ok := t[at]; ok {
			return true
		}
	}
	return false
}

// partitions are those that a group has offsets for, pending ones too, in order.
func (s *Store) partitions(group string) []partition {
	all := s.committed[group].ordered()
	for _, t := range s.pending[group] {
		all = append(all, t.ordered()...)
	}
	slices.SortFunc(all, partition.compare)
	return slices.Compact(all)
}

// groups are those that have offsets, pending ones too, in order.
func (s *Store) groups() []string {
	all := slices.Collect(maps.Keys(s.committed))
	all = slices.AppendSeq(all, maps.Keys(s.pending))
	slices.Sort(all)
	return slices.Compact(all)
}

// forget has an offset deleted, and what open transactions have in its place. It says false when the operation has no room.
func forget(o *op.Op, group string, at partition) bool {
	if !o.Room(len(group) + len(at.topic) + fixedBytes) {
		return false
	}
	o.Emit(&schema.OffsetCommit{Group: group, Topic: at.topic, Partition: at.index})
	return true
}

// DeleteAll deletes the offsets of a group, and says false when it had no room for all of them.
func (s *Store) DeleteAll(o *op.Op, group string) bool {
	for _, at := range s.partitions(group) {
		if !forget(o, group, at) {
			return false
		}
	}
	return true
}

// over says whether a life of a topic has ended.
func (l life) over(im *metadata.Image) bool {
	t, ok := im.Topic(l.name)
	return !ok || l.id != (metadata.TopicID{}) && l.id != t.ID
}

// DeleteTopics deletes the offsets of topics that do not exist any more, so that a topic that is created with the same name
// later begins without. It says false when it had no room for all of them.
func (s *Store) DeleteTopics(o *op.Op) bool {
	gone := map[life]bool{}
	for l := range s.topics {
		if l.over(o.Image) {
			gone[l] = true
		}
	}
	if len(gone) == 0 {
		return true
	}
	for _, group := range s.groups() {
		for _, at := range s.partitions(group) {
			if s.isGone(group, at, gone) && !forget(o, group, at) {
				return false
			}
		}
	}
	return true
}

// isGone says whether an offset, or one pending in its place, is of a topic that is gone.
func (s *Store) isGone(group string, at partition, gone map[life]bool) bool {
	if e, ok := s.committed[group][at]; ok && gone[life{at.topic, e.TopicID}] {
		return true
	}
	for _, t := range s.pending[group] {
		if e, ok := t[at]; ok && gone[life{at.topic, e.TopicID}] {
			return true
		}
	}
	return false
}
