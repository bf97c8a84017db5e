package quorum

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"go.uber.org/zap"
)

// Status is what DescribeQuorum tells (KIP-595, KIP-836). Offsets are exclusive ends, as Kafka counts them.
type Status struct {
	Leader int32 // -1: unknown
	Term   uint64
	// HighWatermark is the offset after the last committed entry.
	HighWatermark int64
	// LogEnd is the offset after this node's last entry.
	LogEnd int64
	// Voters, and who is about to be one, in order of id. Where another node leads, only this node's log end is known.
	Voters []Voter
}

// Voter is one voter's progress as its leader knows it.
type Voter struct {
	ID     int32
	Disk   uint32 // number of the disk that it has its log on
	Learns bool   // it does not vote yet
	LogEnd int64  // -1: unknown
	// LastHeard is when the leader last had an answer of the voter, and CaughtUp when the voter last had all that the
	// leader had then; zero when it never did in this term. Both are now for the leader itself.
	LastHeard, CaughtUp time.Time
}

// contact is what a leader knows of a voter's answers.
type contact struct {
	at       time.Time // of the newest
	end      uint64    // the leader's last index then
	caughtUp time.Time
}

// hear notes that a voter has answered. Under load a voter is always a little behind: that it now has what there was at
// its last answer says that it was caught up then (KIP-836).
func (q *Quorum) hear(m *raftpb.Message) {
	if q.leads == 0 || m.GetType() != raftpb.MsgAppResp && m.GetType() != raftpb.MsgHeartbeatResp {
		return
	}
	var match uint64
	q.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == m.GetFrom() {
			match = pr.Match
		}
	})
	c := q.contacts[m.GetFrom()]
	now := time.Now()
	switch {
	case match >= q.lastIndex:
		c.caughtUp = now
	case match >= c.end && !c.at.IsZero():
		c.caughtUp = c.at
	}
	c.at, c.end = now, q.lastIndex
	q.contacts[m.GetFrom()] = c
}

// Status asks Run for the present state.
func (q *Quorum) Status(ctx context.Context) (Status, error) {
	var s Status
	err := q.do(ctx, func() { s = q.status() })
	return s, err
}

// reached says whether a leader has heard of a voter within the time in which others would give it up.
func (q *Quorum) reached(member uint64) bool {
	return time.Since(q.contacts[member].at) < q.cfg.Tick*time.Duration(q.cfg.ElectionTicks)
}

func (q *Quorum) status() Status {
	st := q.rn.BasicStatus()
	s := Status{Leader: nodeID(st.Lead), Term: st.GetTerm(), HighWatermark: int64(st.GetCommit()) + 1, LogEnd: int64(q.lastIndex) + 1}
	if st.RaftState != raft.StateLeader {
		for _, m := range members(q.conf) {
			s.Voters = append(s.Voters, Voter{ID: nodeID(m), Disk: diskOf(m), Learns: slices.Contains(q.conf.GetLearners(), m), LogEnd: -1})
		}
	} else {
		q.rn.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
			c := q.contacts[id]
			s.Voters = append(s.Voters, Voter{
				ID: nodeID(id), Disk: diskOf(id), Learns: kind == raft.ProgressTypeLearner, LogEnd: int64(pr.Match) + 1,
				LastHeard: c.at, CaughtUp: c.caughtUp,
			})
		})
	}
	for i := range s.Voters {
		if s.Voters[i].ID == q.cfg.ID {
			now := time.Now()
			s.Voters[i].LogEnd, s.Voters[i].LastHeard, s.Voters[i].CaughtUp = s.LogEnd, now, now
		}
	}
	slices.SortFunc(s.Voters, func(a, b Voter) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// Applied is the index of the last applied entry. Safe for concurrent use.
func (q *Quorum) Applied() int64 { return int64(q.applied.Load()) }

// raftLog carries raft's own log lines. What raft calls info is of interest to those who look for it.
type raftLog struct{ *zap.SugaredLogger }

func (l raftLog) Info(v ...any)                    { l.SugaredLogger.Debug(v...) }
func (l raftLog) Infof(format string, v ...any)    { l.SugaredLogger.Debugf(format, v...) }
func (l raftLog) Warning(v ...any)                 { l.SugaredLogger.Warn(v...) }
func (l raftLog) Warningf(format string, v ...any) { l.SugaredLogger.Warnf(format, v...) }
