package quorum

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// ticks tell raft that time passes, as seldom as it matters, since each is a process that wakes up: to a leader when the next
// heartbeat is due, to a follower only when it has not heard its leader for so long that the next tick may be the last.
type ticks struct {
	every time.Duration
	// patience stands for as many ticks as spared, and a part of one that is another at each voter, so that they do not all
	// stand for election at once.
	patience time.Duration
	spared   int
	timer    *time.Timer
	due      int    // ticks to give when the timer fires
	term     uint64 // of the leader whose message they were put off for, 0 if they were not
}

// newTicks begins to count.
func newTicks(cfg *Config) *ticks {
	rank := 0
	for id := range cfg.Voters {
		if id < cfg.ID {
			rank++
		}
	}
	spared := cfg.ElectionTicks - 1
	return &ticks{
		every:    cfg.Tick,
		patience: time.Duration(spared)*cfg.Tick + time.Duration(rank)*cfg.Tick/time.Duration(len(cfg.Voters)),
		spared:   spared,
		timer:    time.NewTimer(cfg.Tick),
		due:      1,
	}
}

// fired tells when to call fire. There are no ticks, nil, for a single voter.
func (t *ticks) fired() <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.timer.C
}

// fire gives raft the ticks that are due.
func (t *ticks) fire(rn *raft.RawNode) {
	for range t.due {
		rn.Tick()
	}
	t.due, t.term = 1, 0
	if rn.BasicStatus().RaftState == raft.StateLeader {
		t.due = heartbeatTicks
	}
	t.timer.Reset(time.Duration(t.due) * t.every)
}

// heard reports whether m, which raft was given, has put an election off.
func (t *ticks) heard(rn *raft.RawNode, m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgHeartbeat, raftpb.MsgApp, raftpb.MsgSnap:
	default:
		return false
	}
	s := rn.BasicStatus()
	return s.RaftState == raft.StateFollower && s.Lead == m.GetFrom() && s.HardState.GetTerm() == m.GetTerm()
}

// settle puts the ticks off once raft was given messages of which one was heard, and counts them one by one again as soon as
// there is another election.
func (t *ticks) settle(rn *raft.RawNode, heard bool) {
	term := rn.BasicStatus().HardState.GetTerm()
	switch {
	case heard:
		t.start(t.patience, t.spared, term)
	case t.term != 0 && t.term != term:
		t.start(t.every, 1, 0)
	}
}

// start takes another timer: one that is only set to later wakes the process at the old time too.
func (t *ticks) start(after time.Duration, due int, term uint64) {
	t.timer.Stop()
	t.timer, t.due, t.term = time.NewTimer(after), due, term
}
