package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// rival is a voter of three and its ticks, whose other two are played by the test.
type rival struct {
	t     *testing.T
	rn    *raft.RawNode
	store *raft.MemoryStorage
	ticks *ticks
}

func newRival(t *testing.T, id int32) *rival {
	t.Helper()
	cfg := Config{ID: id, Voters: map[int32]string{1: "", 2: "", 3: ""}}.withDefaults()
	store := raft.NewMemoryStorage()
	if err := store.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}, Index: new(uint64(1)), Term: new(uint64(1)),
	}}); err != nil {
		t.Fatal(err)
	}
	if err := store.SetHardState(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(1))}); err != nil {
		t.Fatal(err)
	}
	rn, err := raft.NewRawNode(&raft.Config{
		ID: uint64(id), ElectionTick: cfg.ElectionTicks, HeartbeatTick: heartbeatTicks, Storage: store,
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 256, CheckQuorum: true, PreVote: true, Applied: 1,
		Logger: raftLog{zap.NewNop().Sugar()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &rival{t: t, rn: rn, store: store, ticks: newTicks(&cfg)}
}

func (r *rival) take(typ raftpb.MessageType, term uint64) {
	r.t.Helper()
	m := &raftpb.Message{Type: &typ, From: new(uint64(3)), To: new(r.rn.BasicStatus().ID), Term: &term}
	if err := r.rn.Step(m); err != nil {
		r.t.Fatal(err)
	}
	r.ticks.settle(r.rn, r.ticks.heard(r.rn, m))
	r.sent()
}

// sent is what raft sends by now, its disk being as fast as memory.
func (r *rival) sent() (types []raftpb.MessageType) {
	r.t.Helper()
	for r.rn.HasReady() {
		rd := r.rn.Ready()
		if !raft.IsEmptyHardState(rd.HardState) {
			if err := r.store.SetHardState(rd.HardState); err != nil {
				r.t.Fatal(err)
			}
		}
		if err := r.store.Append(rd.Entries); err != nil {
			r.t.Fatal(err)
		}
		for _, m := range rd.Messages {
			types = append(types, m.GetType())
		}
		r.rn.Advance(rd)
	}
	return types
}

// run lets time pass, and returns how often the ticks fired.
func (r *rival) run(d time.Duration) int {
	over := time.After(d)
	for n := 0; ; n++ {
		select {
		case <-r.ticks.fired():
			r.ticks.fire(r.rn)
			r.sent()
		case <-over:
			return n
		}
	}
}

// A follower is not woken while it hears its leader, and gives it up in time once it does not.
func TestTicksOfAFollower(t *testing.T) {
	for id := range int32(2) {
		for range 20 { // raft draws the time
			synctest.Test(t, func(t *testing.T) {
				r := newRival(t, id+1)
				r.take(raftpb.MsgHeartbeat, 1)
				fired := 0
				for range 50 {
					fired += r.run(heartbeatTicks * defaultTick)
					r.take(raftpb.MsgHeartbeat, 1)
				}
				if fired > 0 {
					t.Errorf("fired %d times between heartbeats", fired)
				}
				silent := time.Now()
				for r.rn.BasicStatus().RaftState == raft.StateFollower {
					<-r.ticks.fired()
					r.ticks.fire(r.rn)
				}
				least := defaultElectionTicks*defaultTick + time.Duration(id)*defaultTick/3
				if waited := time.Since(silent); waited < least || waited > least+(defaultElectionTicks-1)*defaultTick {
					t.Errorf("voter %d stood for election after %v", id+1, waited)
				}
				r.ticks.timer.Stop()
			})
		}
	}
}

// Whoever was asked to lead in the leader's place beats at once and in time: what it was spared as a follower is not its own.
func TestTicksOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRival(t, 1)
		r.take(raftpb.MsgHeartbeat, 1)
		r.take(raftpb.MsgTimeoutNow, 1)
		r.take(raftpb.MsgVoteResp, 2)
		if s := r.rn.BasicStatus(); s.RaftState != raft.StateLeader {
			t.Fatalf("%v", s.RaftState)
		}
		if n := r.run(defaultTick + time.Millisecond); n != 1 {
			t.Errorf("fired %d times in the first tick", n)
		}
		for range 2 { // two, as raft gives up who hears nobody
			beats := 0
			<-r.ticks.fired()
			r.ticks.fire(r.rn)
			for _, typ := range r.sent() {
				if typ == raftpb.MsgHeartbeat {
					beats++
				}
			}
			if beats != 2 {
				t.Errorf("%d heartbeats to two followers", beats)
			}
		}
		r.ticks.timer.Stop()
	})
}

// A vote for somebody else begins a time of its own, which is not shortened by what the former leader's follower was spared.
func TestTicksAfterAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRival(t, 1)
		r.take(raftpb.MsgHeartbeat, 1)
		r.run(r.ticks.patience - time.Millisecond)
		typ, index := raftpb.MsgVote, uint64(9)
		m := &raftpb.Message{
			Type: &typ, From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(2)), Index: &index, LogTerm: new(uint64(1)),
			Context: []byte("CampaignTransfer"),
		}
		if err := r.rn.Step(m); err != nil {
			t.Fatal(err)
		}
		r.ticks.settle(r.rn, r.ticks.heard(r.rn, m))
		if s := r.rn.BasicStatus(); s.HardState.GetTerm() != 2 || s.HardState.GetVote() != 2 {
			t.Fatalf("no vote: %+v", s)
		}
		voted := time.Now()
		for r.rn.BasicStatus().RaftState == raft.StateFollower {
			<-r.ticks.fired()
			r.ticks.fire(r.rn)
		}
		if waited := time.Since(voted); waited < defaultElectionTicks*defaultTick {
			t.Errorf("stood for election %v after a vote for another", waited)
		}
		r.ticks.timer.Stop()
	})
}
