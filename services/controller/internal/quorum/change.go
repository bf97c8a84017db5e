package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"go.uber.org/zap"
)

// Why a change of the members is refused; each comes with words of its own.
var (
	// ErrNotCandidate says that the node does not wait to be added, or is not listed among the voters.
	ErrNotCandidate = errors.New("quorum: not a candidate")
	// ErrNotMember says that the node is no member.
	ErrNotMember = errors.New("quorum: not a member")
	// ErrUnsafe says that the quorum could not decide anything after the change, or that another one is under way.
	ErrUnsafe = errors.New("quorum: unsafe change")
)

// candidate is a node that waits to be added, and when it last said so.
type candidate struct {
	member uint64
	at     time.Time
}

// candidacy is how long a candidate counts as waiting after it was heard from.
const candidacy = 5 * time.Second

// Add makes a node that waits for it a member: it learns the log first, and votes once it has it. Add returns before
// that. Of a disk other than 0 it must be the one that the node waits with. It is no error that the node is a member.
func (q *Quorum) Add(ctx context.Context, node int32, disk uint32) (err error) {
	doErr := q.do(ctx, func() { err = q.add(node, disk) })
	return errors.Join(doErr, err)
}

func (q *Quorum) add(node int32, disk uint32) error {
	if q.leadership.Claim == 0 { // a change under way counts in the next claim
		return ErrNotLeader
	}
	q.mu.Lock()
	c, waits := q.candidates[node]
	q.mu.Unlock()
	waits = waits && time.Since(c.at) < candidacy && (disk == 0 || disk == diskOf(c.member))
	for _, m := range q.conf.GetVoters() {
		if nodeID(m) != node {
			continue
		}
		if waits && c.member != m {
			return fmt.Errorf("%w: controller %d votes with a disk that it does not have any more: remove it first", ErrUnsafe, node)
		}
		return nil
	}
	if learners := q.conf.GetLearners(); len(learners) > 0 {
		switch {
		case nodeID(learners[0]) == node && waits && c.member != learners[0]:
			return fmt.Errorf("%w: controller %d learns with a disk that it does not have any more: remove it first", ErrUnsafe, node)
		case nodeID(learners[0]) == node:
			return nil // it will vote by itself, see promote
		}
		return fmt.Errorf("%w: controller %d is being added", ErrUnsafe, nodeID(learners[0]))
	}
	if !waits {
		return fmt.Errorf("%w: controller %d does not ask to be added: it must run, with an empty metadata log, and be among controller.peers", ErrNotCandidate, node)
	}
	return q.change(raftpb.ConfChangeType_ConfChangeAddLearnerNode, c.member)
}

// Remove takes a node out of the group. Of a disk other than 0 it must be the one that the node is a member with; otherwise the
// node is none: a request that comes late removes nobody who was added since.
func (q *Quorum) Remove(ctx context.Context, node int32, disk uint32) (err error) {
	doErr := q.do(ctx, func() { err = q.remove(node, disk) })
	return errors.Join(doErr, err)
}

func (q *Quorum) remove(node int32, disk uint32) error {
	if q.leadership.Claim == 0 {
		return ErrNotLeader
	}
	all := members(q.conf)
	i := slices.IndexFunc(all, func(m uint64) bool { return nodeID(m) == node && (disk == 0 || disk == diskOf(m)) })
	if i < 0 {
		return fmt.Errorf("%w: controller %d", ErrNotMember, node)
	}
	if all[i] == q.self {
		return fmt.Errorf("%w: controller %d leads: stop it, so that another does, or remove it through that one", ErrUnsafe, node)
	}
	voters, active := 0, 0
	q.rn.WithProgress(func(id uint64, kind raft.ProgressType, _ tracker.Progress) {
		if kind == raft.ProgressTypePeer && id != all[i] {
			voters++
			if id == q.self || q.reached(id) {
				active++
			}
		}
	})
	if active <= voters/2 {
		return fmt.Errorf("%w: of the %d controllers that would be left only %d can be reached", ErrUnsafe, voters, active)
	}
	return q.change(raftpb.ConfChangeType_ConfChangeRemoveNode, all[i])
}

// change proposes a change of one member. Its entry takes an index that the claim's next proposal was promised, so the
// claim ends, and another begins when the entry is applied.
func (q *Quorum) change(kind raftpb.ConfChangeType, member uint64) error {
	if err := q.rn.ProposeConfChange(&raftpb.ConfChange{Type: &kind, NodeId: &member}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	q.lastIndex++
	q.log.Info("changing the quorum's members", zap.Stringer("change", kind), zap.Int32("node", nodeID(member)), zap.Uint64("member", member))
	q.endClaim()
	return nil
}

// promote has a learner vote once it has nearly all of the log. It is called now and then.
func (q *Quorum) promote() {
	if q.leadership.Claim == 0 || len(q.conf.GetLearners()) == 0 {
		return
	}
	const nearly = 100 // entries
	ready := uint64(0)
	q.rn.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
		if kind == raft.ProgressTypeLearner && q.reached(id) && pr.State == tracker.StateReplicate && pr.Match+nearly >= q.lastIndex {
			ready = id
		}
	})
	if ready == 0 {
		return
	}
	if err := q.change(raftpb.ConfChangeType_ConfChangeAddNode, ready); err != nil {
		q.log.Warn("a learner cannot vote yet", zap.Int32("node", nodeID(ready)), zap.Error(err))
	}
}

// applyMembers makes conf the members.
func (q *Quorum) applyMembers(conf *raftpb.ConfState) {
	q.conf = conf
	all := members(conf)
	was := q.members.Swap(&all)
	if slices.Contains(*was, q.self) && !slices.Contains(all, q.self) {
		q.log.Error("this controller was removed from the quorum; to have it back, empty its metadata log and add it again")
	}
	if q.peers != nil {
		q.peers.follow(all)
	}
	// Who was a member waits no more, and will not with that disk again.
	q.mu.Lock()
	maps.DeleteFunc(q.candidates, func(_ int32, c candidate) bool {
		return slices.Contains(*was, c.member) || slices.Contains(all, c.member)
	})
	q.mu.Unlock()
	if slices.ContainsFunc(all, func(m uint64) bool { return !slices.Contains(*was, m) }) && q.leads != 0 {
		q.wanted = true // raft lets nobody begin with a snapshot in which it is no member
	}
}
