package replication

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
)

const lagMax = 1000

// rig is a leader, node 1, with the followers 2 and 3, at a time and a log end that the test moves.
type rig struct {
	t *testing.T
	*Leader
	away  map[int32]bool // nodes that may not join
	nowMs int64
	end   int64
	hw    int64
}

func newRig(t *testing.T, end int64, isr ...int32) *rig {
	r := &rig{t: t, away: map[int32]bool{}, nowMs: 10_000, end: end, hw: 0}
	p := &metadata.Partition{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 7, Replicas: []int32{1, 2, 3}, ISR: isr}
	r.Leader = NewLeader(1, p, Rules{LagMaxMs: lagMax, MayJoin: func(node int32, epoch int64) bool { return !r.away[node] && epoch < 100 }}, end, r.nowMs)
	return r
}

func (r *rig) append(n int64) {
	r.Appended(r.end, r.nowMs)
	r.end += n
}

func (r *rig) fetch(node int32, offset int64) {
	r.t.Helper()
	if err := r.Fetched(Fetch{Node: node, NodeEpoch: 1, Offset: offset, StartOffset: 0}, r.end, r.nowMs); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) wantHW(want int64) {
	r.t.Helper()
	if hw := r.HighWatermark(r.end, 1, r.nowMs); hw > r.hw {
		r.hw = hw
	}
	if r.hw != want {
		r.t.Errorf("high watermark %d, want %d", r.hw, want)
	}
}

func wantMembers(t *testing.T, p *Proposal, want ...int32) {
	t.Helper()
	var got []int32
	if p != nil {
		for _, m := range p.ISR {
			got = append(got, m.Node)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("proposed %v, want %v", got, want)
	}
}

func TestTheHighWatermarkIsTheLeastOfTheMaximalISR(t *testing.T) {
	r := newRig(t, 10, 1, 2, 3)
	r.wantHW(0) // nobody has fetched under this epoch
	r.fetch(2, 10)
	r.wantHW(0)
	r.fetch(3, 4)
	r.wantHW(4)
	r.fetch(3, 9)
	r.wantHW(9)

	// Node 3 leaves; until that is decided it counts.
	r.fetch(2, 10)
	r.nowMs += 2 * lagMax
	r.fetch(2, 10)
	p := r.Shrink(r.end, r.nowMs)
	wantMembers(t, p, 1, 2)
	r.wantHW(9)
	if r.Decided(p, Decision{LeaderEpoch: 5, PartitionEpoch: 8, ISR: []int32{1, 2}}, r.nowMs) {
		t.Error("to be sent again")
	}
	r.wantHW(10)

	// It comes back; from the proposal on it counts.
	r.append(5)
	r.fetch(2, 15)
	r.wantHW(15)
	r.fetch(3, 15)
	p = r.Expand(r.hw)
	wantMembers(t, p, 1, 2, 3)
	r.append(5)
	r.fetch(2, 20)
	r.wantHW(15)
	if r.Decided(p, Decision{LeaderEpoch: 5, PartitionEpoch: 9, ISR: []int32{1, 2, 3}}, r.nowMs) || !slices.Equal(r.ISR(), []int32{1, 2, 3}) {
		t.Errorf("in sync: %v", r.ISR())
	}
}

func TestWhoJoins(t *testing.T) {
	r := newRig(t, 10, 1)
	r.wantHW(10)
	r.fetch(2, 9)
	wantMembers(t, r.Expand(r.hw)) // below the watermark
	r.away[2] = true
	r.fetch(2, 10)
	wantMembers(t, r.Expand(r.hw)) // fenced, or leaving
	r.away[2] = false
	if err := r.Fetched(Fetch{Node: 2, NodeEpoch: 100, Offset: 10}, r.end, r.nowMs); err != nil {
		t.Fatal(err)
	}
	wantMembers(t, r.Expand(r.hw)) // another registration than the one that is known
	if err := r.Fetched(Fetch{Node: 2, NodeEpoch: 99, Offset: 10}, r.end, r.nowMs); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("an earlier registration: %v", err)
	}
	r.fetch(3, 10)
	p := r.Expand(r.hw)
	wantMembers(t, p, 1, 3)
	if p.LeaderEpoch != 5 || p.PartitionEpoch != 7 || p.ISR[1].Epoch != 1 {
		t.Errorf("%+v", p)
	}
	wantMembers(t, r.Expand(r.hw)) // one at a time

	// With a watermark that is behind, the start of the epoch is the bar.
	r = newRig(t, 10, 1, 2)
	r.fetch(3, 9)
	wantMembers(t, r.Expand(0))
	r.fetch(3, 10)
	wantMembers(t, r.Expand(0), 1, 2, 3)
}

// The watermark waits for a follower that is about to join, but not for ever.
func TestTheHighWatermarkWaitsForOneThatCatchesUp(t *testing.T) {
	r := newRig(t, 10, 1)
	r.fetch(2, 10) // caught up: only the controller's word is missing
	r.append(5)
	r.wantHW(10)
	r.nowMs += lagMax + 1
	r.wantHW(15)
}

func TestWhoIsOutOfSync(t *testing.T) {
	r := newRig(t, 10, 1, 2, 3)
	r.fetch(2, 10)
	r.fetch(3, 10)
	r.nowMs += 50 * lagMax
	wantMembers(t, r.Shrink(r.end, r.nowMs)) // nothing to catch up with
	r.append(1)
	wantMembers(t, r.Shrink(r.end, r.nowMs)) // it was caught up until now
	r.nowMs += lagMax / 2
	r.fetch(2, 11)
	r.append(10)
	r.nowMs += lagMax / 2
	r.fetch(2, 15) // behind, but not behind what there was at its last fetch
	r.append(10)
	r.nowMs += lagMax / 2
	r.fetch(2, 21)
	wantMembers(t, r.Shrink(r.end, r.nowMs), 1, 2)
}

func TestTooFewReplicas(t *testing.T) {
	r := newRig(t, 10, 1)
	if hw := r.HighWatermark(r.end, 2, r.nowMs); hw != -1 {
		t.Errorf("high watermark %d below min.insync.replicas", hw)
	}
	if err := r.CheckBefore(2); !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Error(err)
	}
	if err := r.CheckAfter(2); !errors.Is(err, kerr.NotEnoughReplicasAfterAppend) {
		t.Error(err)
	}
	r = newRig(t, 10, 1, 2, 3)
	if r.CheckBefore(9) != nil || r.CheckAfter(9) != nil || r.EffectiveMinISR(9) != 3 {
		t.Error("min.insync.replicas above the number of replicas")
	}
	if err := r.Fetched(Fetch{Node: 4, Offset: 1}, r.end, r.nowMs); !errors.Is(err, kerr.UnknownLeaderEpoch) {
		t.Errorf("a stranger: %v", err)
	}
}

func TestAnswersToProposals(t *testing.T) {
	for _, c := range []struct {
		err     *kerr.Error
		again   bool
		pending bool // the larger set counts on
	}{
		{kerr.IneligibleReplica, false, false},
		{kerr.OperationNotAttempted, false, false},
		{kerr.FencedLeaderEpoch, false, true},
		{kerr.InvalidUpdateVersion, false, true},
		{kerr.InvalidRequest, false, true},
		{kerr.NewLeaderElected, false, true},
		{kerr.UnknownTopicID, false, true},
		{kerr.UnknownServerError, true, true},
		{kerr.RequestTimedOut, true, true},
	} {
		r := newRig(t, 10, 1, 2)
		r.fetch(2, 10)
		r.fetch(3, 10)
		p := r.Expand(r.hw)
		if again := r.Decided(p, Decision{Err: c.err}, r.nowMs); again != c.again || r.Pending(p) != c.pending {
			t.Errorf("%v: again %v, pending %v", c.err, again, r.Pending(p))
		}
		r.append(1)
		r.fetch(2, 11)
		if hw := r.HighWatermark(r.end, 1, r.nowMs); hw != 10 {
			t.Errorf("%v: high watermark %d passes a replica that may be in sync", c.err, hw)
		}
	}
}

// A replica that joins may end a reassignment, by which this leader's epoch ends too.
func TestAGrantThatEndsTheEpochCountsOn(t *testing.T) {
	r := newRig(t, 10, 1, 2)
	r.fetch(2, 10)
	r.fetch(3, 10)
	p := r.Expand(r.hw)
	if r.Decided(p, Decision{LeaderEpoch: 6, PartitionEpoch: 8, ISR: []int32{1, 3}}, r.nowMs) || !r.Pending(p) {
		t.Error("the grant is to be sent again, or is forgotten")
	}
	r.append(5)
	r.fetch(2, 15)
	r.wantHW(10) // node 3 may be elected by now
}

func TestNewerMetadataEndsAProposal(t *testing.T) {
	r := newRig(t, 10, 1, 2)
	r.fetch(2, 10)
	r.fetch(3, 10)
	p := r.Expand(r.hw)
	r.Update(&metadata.Partition{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 7, Replicas: []int32{1, 2, 3}, ISR: []int32{1}}, r.nowMs)
	if !r.Pending(p) || len(r.ISR()) != 2 {
		t.Error("metadata that is no newer changed something")
	}
	r.Update(&metadata.Partition{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 9, Replicas: []int32{1, 3}, ISR: []int32{1, 3}}, r.nowMs)
	if r.Pending(p) || !slices.Equal(r.ISR(), []int32{1, 3}) {
		t.Errorf("in sync: %v", r.ISR())
	}
	if r.Decided(p, Decision{LeaderEpoch: 5, PartitionEpoch: 8, ISR: []int32{1, 2, 3}}, r.nowMs) || !slices.Equal(r.ISR(), []int32{1, 3}) {
		t.Error("an old answer changed the replicas in sync")
	}
	r.wantHW(10)
}

// A follower whose disk has failed was caught up a moment ago, and its node is well. Nobody waits for it.
func TestNobodyWaitsForAnOfflineReplica(t *testing.T) {
	r := newRig(t, 10, 1, 2, 3)
	r.fetch(2, 10)
	r.fetch(3, 10)
	r.wantHW(10)
	r.Update(&metadata.Partition{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 8, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}, Offline: []int32{3}}, r.nowMs)
	r.append(5)
	r.fetch(2, 15)
	r.wantHW(15)
	r.fetch(3, 15) // was under way
	wantMembers(t, r.Expand(r.hw))
	if low := r.LowWatermark(9, func(int32) bool { return true }); low != 0 {
		t.Errorf("low watermark %d, want that of node 2", low)
	}
	r.Update(&metadata.Partition{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 9, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}, r.nowMs)
	wantMembers(t, r.Expand(r.hw), 1, 2, 3)
}
