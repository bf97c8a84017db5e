package consumer

import (
	"maps"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// reported are the partitions that a member says it owns; nil when it says nothing.
type reported map[metadata.TopicID][]int32

// ownsAny says whether the member may still own one of the partitions: unless it says what it owns, it may.
func (r reported) ownsAny(partitions schema.OwnedPartitions) bool {
	if r == nil {
		return true
	}
	for id, list := range r {
		for _, p := range list {
			if _, ok := partitions[id][p]; ok {
				return true
			}
		}
	}
	return false
}

// within says whether the member owns nothing else than these; it must have said what it owns.
func (r reported) within(partitions schema.OwnedPartitions) bool {
	for id, list := range r {
		for _, p := range list {
			if _, ok := partitions[id][p]; !ok {
				return false
			}
		}
	}
	return r != nil
}

// step is one step of a member from what it has towards its target (KIP-848, as Apache Kafka's CurrentAssignmentBuilder
// takes it).
type step struct {
	current     *schema.CurrentAssignment
	target      assignment.Partitions
	targetEpoch int32
	owned       reported
	// subscribed says whether the member subscribes to a topic: a target may be older than the subscription.
	subscribed func(metadata.TopicID) bool
	// resubscribed says that the subscription has just changed.
	resubscribed bool
	// free says that nobody else has a partition.
	free func(metadata.TopicID, int32) bool
}

// next is what the member has after the step; the same as before when it cannot move.
//
// A member gives partitions up before it gets others: while it is Unrevoked it keeps its epoch and gets nothing. What it
// gets is free, or it waits for it as Unreleased.
func (s *step) next() *schema.CurrentAssignment {
	switch s.current.State {
	case schema.Stable:
		switch {
		case s.current.Epoch != s.targetEpoch:
			return s.advance(s.current.Epoch)
		case s.resubscribed:
			return s.shrink()
		}
		return s.current
	case schema.Unrevoked:
		if s.owned.ownsAny(s.current.Revoking) {
			if s.resubscribed {
				return s.shrink()
			}
			return s.current
		}
		// The member may have had to revoke because of its subscription alone, with no newer target yet.
		return s.advance(min(s.current.Epoch+1, s.targetEpoch))
	case schema.Unreleased:
		return s.advance(s.current.Epoch)
	}
	// A state of a newer version: start from the target. Such a member has given up everything before, see checkEpoch.
	return s.advance(s.targetEpoch)
}

// advance goes to the target as far as it is possible now. epoch is the member's while it has to revoke first.
func (s *step) advance(epoch int32) *schema.CurrentAssignment {
	kept, revoked := schema.OwnedPartitions{}, schema.OwnedPartitions{}
	for id, list := range s.current.Assigned {
		target := s.targetOf(id)
		for p, since := range list {
			if target[p] {
				put(kept, id, p, since)
			} else {
				put(revoked, id, p, since)
			}
		}
	}
	if len(revoked) > 0 && s.owned.ownsAny(revoked) {
		return s.become(schema.Unrevoked, epoch, kept, revoked)
	}
	state := schema.Stable
	for id := range s.target {
		for p := range s.targetOf(id) {
			switch _, has := kept[id][p]; {
			case has:
			case s.free(id, p):
				put(kept, id, p, s.targetEpoch)
			default:
				state = schema.Unreleased
			}
		}
	}
	return s.become(state, s.targetEpoch, kept, schema.OwnedPartitions{})
}

// targetOf are the partitions of a topic that the member is to have.
func (s *step) targetOf(id metadata.TopicID) map[int32]bool {
	if len(s.target[id]) == 0 || !s.subscribed(id) {
		return nil
	}
	set := make(map[int32]bool, len(s.target[id]))
	for _, p := range s.target[id] {
		set[p] = true
	}
	return set
}

// shrink takes away the topics that the member does not subscribe to any more, without waiting for a newer target.
func (s *step) shrink() *schema.CurrentAssignment {
	kept, revoked := schema.OwnedPartitions{}, schema.OwnedPartitions{}
	for id, list := range s.current.Revoking {
		revoked[id] = maps.Clone(list)
	}
	for id, list := range s.current.Assigned {
		if s.subscribed(id) {
			kept[id] = list
			continue
		}
		for p, since := range list {
			put(revoked, id, p, since)
		}
	}
	if len(kept) == len(s.current.Assigned) {
		return s.current
	}
	if s.owned.ownsAny(revoked) {
		return s.become(schema.Unrevoked, s.current.Epoch, kept, revoked)
	}
	return s.become(s.current.State, s.current.Epoch, kept, schema.OwnedPartitions{})
}

func (s *step) become(state schema.MemberState, epoch int32, assigned, revoking schema.OwnedPartitions) *schema.CurrentAssignment {
	next := &schema.CurrentAssignment{Epoch: epoch, Previous: s.current.Previous, State: state, Assigned: assigned, Revoking: revoking}
	if epoch != s.current.Epoch {
		next.Previous = s.current.Epoch
	}
	if sameCurrent(next, s.current) {
		return s.current
	}
	return next
}

func put(o schema.OwnedPartitions, id metadata.TopicID, partition, epoch int32) {
	if o[id] == nil {
		o[id] = map[int32]int32{}
	}
	o[id][partition] = epoch
}

func sameCurrent(a, b *schema.CurrentAssignment) bool {
	return a.Epoch == b.Epoch && a.Previous == b.Previous && a.State == b.State &&
		sameOwned(a.Assigned, b.Assigned) && sameOwned(a.Revoking, b.Revoking)
}

func sameOwned(a, b schema.OwnedPartitions) bool {
	return maps.EqualFunc(a, b, func(x, y map[int32]int32) bool { return maps.Equal(x, y) })
}

// samePartitions leaves out since when the partitions are owned.
func samePartitions(a, b schema.OwnedPartitions) bool {
	return maps.EqualFunc(a, b, func(x, y map[int32]int32) bool {
		return maps.EqualFunc(x, y, func(_, _ int32) bool { return true })
	})
}
