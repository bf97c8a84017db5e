package quorum

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// handleReady does what raft asks for, in the order that its safety rests on:
//
//  1. A snapshot's file is on disk before the WAL names it, and the WAL holds the hard state and the entries, synced,
//     before anything else learns of them. A crash before that is a message never received.
//  2. Messages go out after that: a vote or an acknowledgement that was sent is one that a restart remembers.
//  3. Committed entries are applied after that, in order, and answered after they are applied. raft may offer entries as
//     committed in the same Ready in which they are to be written, so this order is needed for them too: an answered
//     proposal is always in the WAL of a majority, this node's included if it leads alone.
//  4. A change of leadership is told last: entries that this Ready commits are committed whoever leads now, and their
//     proposals are answered as such before the rest of the claim's are failed.
func (q *Quorum) handleReady() error {
	rd := q.rn.Ready()
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := q.disk.saveSnapshot(rd.Snapshot); err != nil {
			return err
		}
	}
	if err := q.disk.save(rd.HardState, rd.Entries); err != nil {
		return err
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := q.restore(rd.Snapshot); err != nil {
			return err
		}
	}
	if err := q.disk.store.Append(rd.Entries); err != nil {
		return fmt.Errorf("quorum: %w", err)
	}
	if n := len(rd.Entries); n > 0 {
		// A follower's log may also have been cut back to here. A leader's never is, and has counted on to here already.
		if last := rd.Entries[n-1].GetIndex(); q.leadership.Claim == 0 || last > q.lastIndex {
			q.lastIndex = last
		}
	}
	if q.peers != nil {
		q.peers.send(rd.Messages)
	}
	for _, e := range rd.CommittedEntries {
		if err := q.apply(e); err != nil {
			return err
		}
	}
	// Before Advance, which may already make raft lead and append: the next Ready's, of which this one knows nothing.
	q.trackLeadership()
	q.rn.Advance(rd)
	return nil
}

// restore takes over a snapshot that the leader sent in place of entries it no longer has.
func (q *Quorum) restore(s *raftpb.Snapshot) error {
	if err := q.disk.store.apply(s); err != nil {
		return err
	}
	index := s.GetMetadata().GetIndex()
	if err := q.machine.Restore(int64(index), s.GetData()); err != nil {
		return fmt.Errorf("quorum: restore the snapshot at %d: %w", index, err)
	}
	q.applyMembers(s.GetMetadata().GetConfState())
	q.snapshotted = max(q.snapshotted, index)
	q.lastIndex = max(q.lastIndex, index)
	q.logBytes = 0
	q.applied.Store(index)
	return nil
}

func (q *Quorum) apply(e *raftpb.Entry) error {
	switch e.GetType() {
	case raftpb.EntryNormal:
		if len(e.GetData()) > 0 { // an empty entry is raft's own, the first of each term
			if err := q.applyData(e); err != nil {
				return err
			}
		}
	case raftpb.EntryConfChange:
		var cc raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return fmt.Errorf("quorum: entry %d: %w", e.GetIndex(), err)
		}
		q.applyMembers(q.rn.ApplyConfChange(&cc))
	case raftpb.EntryConfChangeV2:
		var cc raftpb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return fmt.Errorf("quorum: entry %d: %w", e.GetIndex(), err)
		}
		q.applyMembers(q.rn.ApplyConfChange(&cc))
	}
	q.applied.Store(e.GetIndex())
	q.logBytes += int64(len(e.GetData()))
	q.finishThrough(e.GetIndex())
	return nil
}

func (q *Quorum) applyData(e *raftpb.Entry) error {
	var value any
	if len(q.pending) > 0 && q.pending[0].index == e.GetIndex() {
		if e.GetTerm() == q.leadership.Term {
			value = q.pending[0].Value
		} else { // another leader's entry took the place; raft tells of the two at once
			q.endClaim()
		}
	}
	if err := q.machine.Apply(int64(e.GetIndex()), e.GetData(), value); err != nil {
		return fmt.Errorf("quorum: apply entry %d: %w", e.GetIndex(), err)
	}
	return nil
}

// finishThrough answers the proposals up to index, those without an entry included.
func (q *Quorum) finishThrough(index uint64) {
	n := 0
	for ; n < len(q.pending) && q.pending[n].index <= index; n++ {
		q.finish(q.pending[n].Proposal, nil)
		q.pending[n] = pendingProposal{}
	}
	if q.pending = q.pending[n:]; len(q.pending) == 0 {
		q.pending = nil
	}
}

// trackLeadership notices that this node began or ceased to lead, or follows another.
func (q *Quorum) trackLeadership() {
	st := q.rn.BasicStatus()
	leads, term := st.RaftState == raft.StateLeader, st.GetTerm()
	if q.leadership.Claim != 0 && (!leads || term != q.leadership.Term) {
		q.endClaim()
	}
	if leads {
		if q.leads != term { // the term's first entry, raft's own, is in this Ready
			q.leads, q.claimFrom = term, q.lastIndex
			clear(q.contacts)
		}
		if q.leadership.Claim == 0 && q.applied.Load() >= q.claimFrom {
			q.claims++
			q.tell(Leadership{Leader: q.cfg.ID, Term: term, Claim: q.claims, Next: int64(q.lastIndex) + 1})
		}
		return
	}
	q.leads = 0
	if leader := nodeID(st.Lead); leader != q.leadership.Leader {
		q.tell(Leadership{Leader: leader, Term: term})
	}
}

func (q *Quorum) tell(l Leadership) {
	q.leadership = l
	q.machine.Leadership(l)
}

// endClaim fails what was proposed under the present claim, whether or not it is committed in the end. The next one
// begins when all of it that is in the log is applied.
func (q *Quorum) endClaim() {
	q.claimFrom = q.lastIndex
	q.tell(Leadership{Leader: -1, Term: q.leadership.Term})
	q.failPending()
}

func (q *Quorum) failPending() {
	pending := q.pending
	q.pending = nil
	for _, p := range pending {
		q.finish(p.Proposal, ErrNotLeader)
	}
}
