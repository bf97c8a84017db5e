// Package replication decides what the leader and the followers of a partition do, by Kafka's rules: who is in sync, up to
// where records are committed (KIP-497, KIP-903, KIP-966), and where a follower's log leaves its leader's (KIP-101, KIP-279).
//
// The package is pure: time, the log's offsets and what is known of other nodes come in as arguments.
package replication

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
)

const unknown = -1

// Rules are what a leader goes by that is not the partition's own.
type Rules struct {
	// LagMaxMs is replica.lag.time.max.ms: a follower that has not caught up for longer is out of sync.
	LagMaxMs int64
	// MayJoin says whether a node of that registration may become an in-sync replica: it is known, neither fenced nor leaving,
	// and the epoch is the one of its registration, or -1 for a follower that tells none (KIP-903).
	MayJoin func(node int32, epoch int64) bool
}

// Leader is what the leader of a partition knows during one leader epoch. Its owner serialises calls.
//
// While a change of the in-sync replicas is under way, the larger of both sets counts for the high watermark: whatever the
// controller has decided, no record is committed that one of its in-sync replicas lacks.
type Leader struct {
	rules          Rules
	self           int32
	epoch          int32
	partitionEpoch int32
	startOffset    int64 // where the log ended as the epoch began
	isr            []int32
	proposal       *Proposal // under way, nil for none
	followers      []follower
}

// follower is one replica as its fetches show it.
type follower struct {
	node      int32
	offline   bool  // its log directory has failed: nobody waits for it
	nodeEpoch int64 // of its registration, -1 while unknown
	end       int64 // of its log, -1 before its first fetch of the leader epoch
	start     int64 // of its log, -1 while unknown
	// caughtUpMs is when it had last fetched everything that there was.
	caughtUpMs int64
	// fetchedMs and fetchedEnd are when its last fetch came, and where the leader's log ended then.
	fetchedMs, fetchedEnd int64
}

// Member is an in-sync replica and the epoch of its registration, -1 when unknown.
type Member struct {
	Node  int32
	Epoch int64
}

// Proposal is a leader's wish for other in-sync replicas.
type Proposal struct {
	LeaderEpoch, PartitionEpoch int32
	ISR                         []Member
	Expands                     bool
}

// NewLeader begins a leader epoch. end is the log's end.
func NewLeader(self int32, p *metadata.Partition, rules Rules, end, nowMs int64) *Leader {
	l := &Leader{rules: rules, self: self, epoch: p.LeaderEpoch, startOffset: end}
	l.adopt(p, nowMs)
	return l
}

// Update takes the partition from newer metadata of the same leader epoch. What the controller has answered already may be
// newer still.
func (l *Leader) Update(p *metadata.Partition, nowMs int64) {
	if p.PartitionEpoch > l.partitionEpoch {
		l.adopt(p, nowMs)
	}
}

func (l *Leader) adopt(p *metadata.Partition, nowMs int64) {
	before := l.isr
	l.partitionEpoch, l.isr, l.proposal = p.PartitionEpoch, p.ISR, nil
	followers := make([]follower, 0, len(p.Replicas))
	for _, node := range p.Replicas {
		if node == l.self {
			continue
		}
		f := follower{node: node, nodeEpoch: unknown, end: unknown, start: unknown}
		if known := l.find(node); known != nil {
			f = *known
		}
		f.offline = p.IsOffline(node)
		followers = append(followers, f)
	}
	l.followers = followers
	l.welcome(before, nowMs)
}

// welcome gives the followers that were not in sync before as long as any other to catch up.
func (l *Leader) welcome(before []int32, nowMs int64) {
	for _, node := range l.isr {
		if f := l.find(node); f != nil && !slices.Contains(before, node) {
			f.caughtUpMs = max(f.caughtUpMs, nowMs)
		}
	}
}

func (l *Leader) find(node int32) *follower {
	for i := range l.followers {
		if l.followers[i].node == node {
			return &l.followers[i]
		}
	}
	return nil
}

// Fetch is a follower's fetch: it has everything below Offset.
type Fetch struct {
	Node        int32
	NodeEpoch   int64 // of the follower's registration, -1 when it tells none
	Offset      int64
	StartOffset int64 // of the follower's log, -1 when it tells none
}

// Fetched notes a follower's fetch; end is the leader's log end. Errors wrap kerr.UnknownLeaderEpoch for a node that is no
// replica as far as is known here, and kerr.NotLeaderForPartition for an earlier registration of one.
func (l *Leader) Fetched(f Fetch, end, nowMs int64) error {
	r := l.find(f.Node)
	switch {
	case r == nil:
		return fmt.Errorf("node %d is no follower: %w", f.Node, kerr.UnknownLeaderEpoch)
	case f.NodeEpoch != unknown && f.NodeEpoch < r.nodeEpoch:
		return fmt.Errorf("node %d has registered with epoch %d after %d: %w", f.Node, r.nodeEpoch, f.NodeEpoch, kerr.NotLeaderForPartition)
	}
	switch {
	case f.Offset >= end:
		r.caughtUpMs = max(r.caughtUpMs, nowMs)
	case r.end != unknown && f.Offset >= r.fetchedEnd:
		r.caughtUpMs = max(r.caughtUpMs, r.fetchedMs)
	}
	r.nodeEpoch, r.end, r.start = f.NodeEpoch, f.Offset, f.StartOffset
	r.fetchedMs, r.fetchedEnd = nowMs, end
	return nil
}

// Appended notes that the log went on at offset first: a follower that had everything was caught up until now. Without it a
// partition that rested would find its followers out of sync with the next record.
func (l *Leader) Appended(first, nowMs int64) {
	for i := range l.followers {
		if f := &l.followers[i]; f.end >= first {
			f.caughtUpMs = max(f.caughtUpMs, nowMs)
		}
	}
}

// HighWatermark is the offset below which all of the maximal in-sync replicas have the log, whose end is end; -1 while there
// are fewer than minISR of them, when nothing is committed (KIP-966). Followers that are about to join count too, lest they
// never reach a watermark that moves on without them.
func (l *Leader) HighWatermark(end int64, minISR int, nowMs int64) int64 {
	if len(l.isr) < l.EffectiveMinISR(minISR) {
		return unknown
	}
	hw := end
	for i := range l.followers {
		f := &l.followers[i]
		if f.end < hw && (l.inMaximalISR(f.node) || l.isCaughtUp(f, end, nowMs) && l.mayJoin(f)) {
			hw = f.end
		}
	}
	return hw
}

// EffectiveMinISR is min.insync.replicas, at most the number of replicas.
func (l *Leader) EffectiveMinISR(minISR int) int { return min(minISR, len(l.followers)+1) }

// CheckBefore says whether a batch with acks=all may be appended: kerr.NotEnoughReplicas if not.
func (l *Leader) CheckBefore(minISR int) error {
	if need := l.EffectiveMinISR(minISR); len(l.isr) < need {
		return fmt.Errorf("%d replicas are in sync, min.insync.replicas is %d: %w", len(l.isr), need, kerr.NotEnoughReplicas)
	}
	return nil
}

// CheckAfter says whether a batch that the high watermark has passed may be acknowledged: kerr.NotEnoughReplicasAfterAppend
// if not.
func (l *Leader) CheckAfter(minISR int) error {
	if need, have := l.EffectiveMinISR(minISR), l.maximalISR(); have < need {
		return fmt.Errorf("%d replicas are in sync, min.insync.replicas is %d: %w", have, need, kerr.NotEnoughReplicasAfterAppend)
	}
	return nil
}

// inMaximalISR says whether a follower is in the in-sync replicas, as they are or as they may be already.
func (l *Leader) inMaximalISR(node int32) bool {
	return slices.Contains(l.isr, node) || l.proposal != nil && l.proposal.has(node)
}

func (l *Leader) maximalISR() int {
	if l.proposal != nil {
		return max(len(l.isr), len(l.proposal.ISR))
	}
	return len(l.isr)
}

func (p *Proposal) has(node int32) bool {
	return slices.ContainsFunc(p.ISR, func(m Member) bool { return m.Node == node })
}

func (l *Leader) isCaughtUp(f *follower, end, nowMs int64) bool {
	return f.end >= end || nowMs-f.caughtUpMs <= l.rules.LagMaxMs
}

func (l *Leader) mayJoin(f *follower) bool { return !f.offline && l.rules.MayJoin(f.node, f.nodeEpoch) }

// Expand proposes the followers that have reached the high watermark and what lay in the log as the epoch began; nil when
// there is none, or a proposal is under way.
func (l *Leader) Expand(highWatermark int64) *Proposal {
	if l.proposal != nil {
		return nil
	}
	var joining []int32
	for i := range l.followers {
		f := &l.followers[i]
		if !slices.Contains(l.isr, f.node) && f.end >= max(highWatermark, l.startOffset) && l.mayJoin(f) {
			joining = append(joining, f.node)
		}
	}
	if joining == nil {
		return nil
	}
	return l.propose(append(slices.Clone(l.isr), joining...), true)
}

// Shrink proposes to go on without the followers that are out of sync; nil when there is none, or a proposal is under way.
func (l *Leader) Shrink(end, nowMs int64) *Proposal {
	if l.proposal != nil {
		return nil
	}
	kept := make([]int32, 0, len(l.isr))
	for _, node := range l.isr {
		if f := l.find(node); f == nil || l.isCaughtUp(f, end, nowMs) {
			kept = append(kept, node)
		}
	}
	if len(kept) == len(l.isr) {
		return nil
	}
	return l.propose(kept, false)
}

func (l *Leader) propose(isr []int32, expands bool) *Proposal {
	p := &Proposal{LeaderEpoch: l.epoch, PartitionEpoch: l.partitionEpoch, Expands: expands}
	for _, node := range isr {
		m := Member{Node: node, Epoch: unknown}
		if f := l.find(node); f != nil {
			m.Epoch = f.nodeEpoch
		}
		p.ISR = append(p.ISR, m)
	}
	l.proposal = p
	return p
}

// Decision is the controller's answer to a proposal.
type Decision struct {
	Err                         *kerr.Error // nil: the rest is the partition as it is now
	LeaderEpoch, PartitionEpoch int32
	ISR                         []int32
}

// Decided takes the answer to a proposal and says whether the same proposal is to be sent again. An answer to a proposal that
// newer metadata has overtaken changes nothing.
func (l *Leader) Decided(p *Proposal, d Decision, nowMs int64) (again bool) {
	if l.proposal != p {
		return false
	}
	switch d.Err {
	case nil:
		if d.LeaderEpoch > l.epoch {
			// It was granted and has ended a reassignment, which begins an epoch: it counts until the metadata says so.
			return false
		}
		if d.PartitionEpoch > l.partitionEpoch {
			before := l.isr
			l.partitionEpoch, l.isr = d.PartitionEpoch, d.ISR
			l.welcome(before, nowMs)
		}
		l.proposal = nil
		return false
	case kerr.IneligibleReplica, kerr.OperationNotAttempted:
		l.proposal = nil // it was refused for certain
		return false
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.FencedLeaderEpoch, kerr.InvalidRequest,
		kerr.InvalidUpdateVersion, kerr.NewLeaderElected:
		return false // the metadata here is old: the proposal counts until newer comes
	default:
		return true
	}
}

// Pending says whether the proposal is still under way.
func (l *Leader) Pending(p *Proposal) bool { return l.proposal == p }

// ISR is the in-sync replicas that the controller has confirmed, not to be changed.
func (l *Leader) ISR() []int32 { return l.isr }

// StartOffset is where the log ended as the leader epoch began.
func (l *Leader) StartOffset() int64 { return l.startOffset }

// LowWatermark is the lowest start offset of the replicas that counts says and that are not offline, the leader's own start included.
func (l *Leader) LowWatermark(start int64, counts func(node int32) bool) int64 {
	for i := range l.followers {
		if f := &l.followers[i]; !f.offline && counts(f.node) {
			start = min(start, f.start)
		}
	}
	return start
}

// Readable yields the in-sync followers that have the offset, with the end of their log, for a consumer to read from.
func (l *Leader) Readable(offset int64, yield func(node int32, end int64)) {
	for i := range l.followers {
		if f := &l.followers[i]; slices.Contains(l.isr, f.node) && f.start <= offset && offset <= f.end {
			yield(f.node, f.end)
		}
	}
}
