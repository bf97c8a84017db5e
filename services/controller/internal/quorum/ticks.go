package quorum

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// ticks tell raft that time passes, as seldom as it matters, since each is a process that wakes up: to a leader when the next
// heartbeat is due, to a follower only when one is late.
type ticks struct {
	every time.Duration
	// patience is how long after its leader's last message a follower begins to count. It is another at each voter, so
	// that they do not all stand for election at once.
	patience time.Duration
	timer    *time.Timer
	due      int // ticks to make up for when the timer fires
}

// newTicks begins to count. rank is the voter's place among those of the configuration.
func newTicks(every time.Duration, rank int) *ticks {
	return &ticks{
		every:    every,
		patience: heartbeatTicks*every + every/2 + time.Duration(rank)*every/16,
		timer:    time.NewTimer(every),
		due:      1,
	}
}

// fire gives raft the ticks that are due.
func (t *ticks) fire(rn *raft.RawNode) {
	for range t.due {
		rn.Tick()
	}
	t.due = 1
	if rn.BasicStatus().RaftState == raft.StateLeader {
		t.due = heartbeatTicks
	}
	t.timer.Reset(time.Duration(t.due) * t.every)
}

// hear puts off what is due, as the leader's message m, which raft has taken, puts off the election.
func (t *ticks) hear(rn *raft.RawNode, m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgHeartbeat, raftpb.MsgApp, raftpb.MsgSnap:
	default:
		return
	}
	if s := rn.BasicStatus(); s.RaftState == raft.StateFollower && s.Lead == m.GetFrom() {
		t.due = heartbeatTicks
		t.timer.Reset(t.patience)
	}
}
