package partition

import (
	"math"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/ack"
	"github.com/cauce-stream/cauce/services/broker/internal/replication"
)

// leading is what a partition has while this broker leads it.
type leading struct {
	mu sync.Mutex
	// leader is nil unless this broker leads, and for a partition without followers, whose records are committed as they are
	// appended. It changes with leadership held for writing, and its content under mu.
	leader    *replication.Leader
	producers ack.Queue     // that wait for the high watermark; under mu
	startedAt chan struct{} // closed when a follower tells of another log start; under mu, nil while nobody waits
}

// anyBytes stands for the size of what a new high watermark lets readers see, which nobody counts: whoever waits looks.
const anyBytes = math.MaxInt32

// lead follows the metadata from old, nil at first, to next. leadership is held for writing. Metadata of the past, which is
// gone through after a start, commits nothing: what was in sync then may have been truncated since. Nor does it begin epochs: the
// log may end earlier now than it did then.
func (p *Partition) lead(old, next *metadata.Partition, done *Done) error {
	l := p.log.Load()
	if next.Leader != p.set.cfg.NodeID || l == nil {
		p.stopLeading(done)
		return nil
	}
	p.lag.Store(0)
	now := p.set.cfg.NowMs()
	begins := old == nil || old.LeaderEpoch != next.LeaderEpoch
	if p.set.settled {
		if err := l.AssignEpoch(next.LeaderEpoch); err != nil {
			p.stopLeading(done)
			return err
		}
	}
	at := &p.leading
	at.mu.Lock()
	defer at.mu.Unlock()
	switch {
	case len(next.Replicas) == 1:
		at.leader = nil
		hw := l.HighWatermark()
		if p.set.settled {
			hw = l.SetHighWatermark(l.EndOffset())
		}
		at.producers.Commit(hw, nil, &done.producers)
		return nil
	case begins || at.leader == nil:
		at.leader = replication.NewLeader(p.set.cfg.NodeID, next, p.set.rules, l.EndOffset(), now)
	default:
		before := len(at.leader.ISR())
		at.leader.Update(next, now)
		p.set.countISR(before, len(at.leader.ISR()))
	}
	at.wakeStart()
	if p.set.settled && at.advance(p, l, now, done) {
		p.tellCommitted(done)
	}
	return nil
}

// stopLeading ends the waits of producers. leadership is held for writing.
func (p *Partition) stopLeading(done *Done) {
	at := &p.leading
	at.mu.Lock()
	defer at.mu.Unlock()
	at.leader = nil
	at.producers.Fail(kerr.NotLeaderForPartition, &done.producers)
	at.wakeStart()
}

// enoughReplicas says whether a batch may be appended. leadership is held for reading.
func (p *Partition) enoughReplicas(acksAll bool) error {
	if !acksAll || p.leading.leader == nil {
		return nil
	}
	p.leading.mu.Lock()
	defer p.leading.mu.Unlock()
	return p.leading.leader.CheckBefore(p.Topic.MinISR())
}

// appended notes an append from offset first on. leadership is held for reading.
func (at *leading) appended(p *Partition, l *log.Log, first int64, done *Done) {
	now := p.set.cfg.NowMs()
	at.mu.Lock()
	at.leader.Appended(first, now)
	moved := at.advance(p, l, now, done)
	at.mu.Unlock()
	if moved {
		p.tellCommitted(done)
	}
}

// advance moves the high watermark on where it can, ends the waits of producers that it passes and says whether it moved.
// mu is held.
func (at *leading) advance(p *Partition, l *log.Log, nowMs int64, done *Done) (moved bool) {
	before := l.HighWatermark()
	if hw := at.leader.HighWatermark(l.EndOffset(), p.Topic.MinISR(), nowMs); hw > before {
		moved = l.SetHighWatermark(hw) > before
	}
	at.producers.Commit(l.HighWatermark(), at.leader.CheckAfter(p.Topic.MinISR()), &done.producers)
	return moved
}

// tellCommitted has readers learn of a new high watermark. Followers do with the answer to their next fetch: nobody wakes them
// for it.
func (p *Partition) tellCommitted(done *Done) {
	p.Watchers.Advance(anyBytes, &done.readers)
	p.Replicas.Advance(0, &done.readers)
}

// Await has w wait until the records below end are committed. When they are already it does not wait: err then says why
// they are not to be acknowledged, or is nil.
func (p *Partition) Await(w *ack.Wait, end int64) (waits bool, err error) {
	at := &p.leading
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	if err := p.CheckLeader(-1); err != nil {
		return false, err // since the append
	}
	if at.leader == nil {
		return false, nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if p.log.Load().HighWatermark() >= end {
		return false, at.leader.CheckAfter(p.Topic.MinISR())
	}
	at.producers.Add(w, end)
	return true, nil
}

// GiveUp ends a wait at its deadline, and reports whether it was still waiting.
func (p *Partition) GiveUp(w *ack.Wait) bool {
	p.leading.mu.Lock()
	defer p.leading.mu.Unlock()
	return p.leading.producers.Remove(w)
}

// Fetched notes a follower's fetch, which acknowledges all records below its offset, under the leader epoch and with the
// epoch of its last record that it names. It is for replication.Diverges to say what becomes of a follower whose log is another.
func (p *Partition) Fetched(f replication.Fetch, leaderEpoch, lastFetchedEpoch int32, done *Done) error {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	l, err := p.Leading(leaderEpoch)
	if err != nil {
		return err
	}
	at := &p.leading
	if at.leader == nil {
		return kerr.UnknownLeaderEpoch // as far as is known here there are no followers
	}
	if diverges, _, _, err := replication.Diverges(l, f.Offset, lastFetchedEpoch); err != nil || diverges {
		return err
	}
	if f.Offset < l.StartOffset() || f.Offset > l.EndOffset() {
		return kerr.OffsetOutOfRange
	}
	now := p.set.cfg.NowMs()
	at.mu.Lock()
	err = at.leader.Fetched(f, l.EndOffset(), now)
	var proposal *replication.Proposal
	moved := false
	if err == nil {
		moved = at.advance(p, l, now, done)
		proposal = at.leader.Expand(l.HighWatermark())
		at.wakeStart()
	}
	at.mu.Unlock()
	if moved {
		p.tellCommitted(done)
	}
	p.submit(proposal)
	return err
}

func (p *Partition) submit(proposal *replication.Proposal) {
	if proposal == nil {
		return
	}
	nodes := make([]int32, len(proposal.ISR))
	for i, m := range proposal.ISR {
		nodes[i] = m.Node
	}
	p.set.cfg.Logger.Info("proposing other in-sync replicas", zap.Stringer("partition", p),
		zap.Int32s("isr", p.state.Load().ISR), zap.Int32s("proposed", nodes), zap.Int32("partitionEpoch", proposal.PartitionEpoch))
	p.set.cfg.Propose(p, proposal)
}

// Decided takes the controller's answer to a proposal and says whether it is to be sent again.
func (p *Partition) Decided(proposal *replication.Proposal, d replication.Decision) (again bool) {
	var done Done
	again = p.decided(proposal, d, &done)
	done.Fire()
	return again
}

func (p *Partition) decided(proposal *replication.Proposal, d replication.Decision, done *Done) (again bool) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	at := &p.leading
	if at.leader == nil {
		return false
	}
	now := p.set.cfg.NowMs()
	at.mu.Lock()
	before := len(at.leader.ISR())
	again = at.leader.Decided(proposal, d, now)
	p.set.countISR(before, len(at.leader.ISR()))
	moved := at.advance(p, p.log.Load(), now, done)
	at.mu.Unlock()
	if moved {
		p.tellCommitted(done)
	}
	return again
}

// Pending says whether the proposal still waits for its answer.
func (p *Partition) Pending(proposal *replication.Proposal) bool {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	if p.leading.leader == nil {
		return false
	}
	p.leading.mu.Lock()
	defer p.leading.mu.Unlock()
	return p.leading.leader.Pending(proposal)
}

// checkISR proposes to go on without followers that lag, and moves the high watermark that waited for one in vain.
func (p *Partition) checkISR() {
	p.leadership.RLock()
	at := &p.leading
	if at.leader == nil {
		p.leadership.RUnlock()
		return
	}
	var done Done
	l, now := p.log.Load(), p.set.cfg.NowMs()
	at.mu.Lock()
	proposal := at.leader.Shrink(l.EndOffset(), now)
	if proposal == nil {
		proposal = at.leader.Expand(l.HighWatermark()) // one whose node was not eligible as it caught up
	}
	moved := at.advance(p, l, now, &done)
	at.mu.Unlock()
	p.leadership.RUnlock()
	if moved {
		p.tellCommitted(&done)
	}
	done.Fire()
	p.submit(proposal)
}

// InSync is the number of in-sync replicas and how many there have to be for acks=all, as far as this broker leads the
// partition.
func (p *Partition) InSync() (have, need int, leads bool) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	state := p.state.Load()
	if state.Leader != p.set.cfg.NodeID || p.gone.Load() {
		return 0, 0, false
	}
	if p.leading.leader == nil {
		return len(state.ISR), 1, true
	}
	p.leading.mu.Lock()
	defer p.leading.mu.Unlock()
	return len(p.leading.leader.ISR()), p.leading.leader.EffectiveMinISR(p.Topic.MinISR()), true
}

// KnowsCommitted says whether the high watermark has passed what lay in the log as the leader epoch began. Until then this
// leader may not know of all that was committed before (KIP-207).
func (p *Partition) KnowsCommitted() bool {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	return p.leading.leader == nil || p.log.Load().HighWatermark() >= p.leading.leader.StartOffset()
}

// LowWatermark is the lowest log start of the replicas that are alive, and a channel that is closed when it may have changed;
// kerr.NotLeaderForPartition when this broker leads no more.
func (p *Partition) LowWatermark() (offset int64, changes <-chan struct{}, err error) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	l, err := p.Leading(-1)
	if err != nil {
		return -1, nil, err
	}
	at := &p.leading
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.startedAt == nil {
		at.startedAt = make(chan struct{})
	}
	if at.leader == nil {
		return l.StartOffset(), at.startedAt, nil
	}
	return at.leader.LowWatermark(l.StartOffset(), p.set.alive), at.startedAt, nil
}

func (at *leading) wakeStart() {
	if at.startedAt != nil {
		close(at.startedAt)
		at.startedAt = nil
	}
}

// NearestReplica is the in-sync replica in the rack that a consumer at offset had better read from, by Kafka's
// RackAwareReplicaSelector: the leader if it is in the rack, else the follower there with the most records. It is -1 for the
// leader, and where none is in the rack. listener is where the consumer has to reach it.
func (p *Partition) NearestReplica(offset int64, rack, listener string) int32 {
	im := p.set.Image()
	inRack := func(node int32) bool {
		n, ok := im.Node(node)
		if !ok || n.Fenced || n.Rack != rack {
			return false
		}
		_, ok = n.Listener(listener)
		return ok
	}
	if inRack(p.set.cfg.NodeID) {
		return -1
	}
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	if p.leading.leader == nil {
		return -1
	}
	p.leading.mu.Lock()
	defer p.leading.mu.Unlock()
	nearest, most := int32(-1), int64(-1)
	p.leading.leader.Readable(offset, func(node int32, end int64) {
		if end > most && inRack(node) {
			nearest, most = node, end
		}
	})
	return nearest
}

// alive says whether a node is registered and not fenced.
func (s *Set) alive(node int32) bool {
	n, ok := s.Image().Node(node)
	return ok && !n.Fenced
}

// mayJoin is replication.Rules's.
func (s *Set) mayJoin(node int32, epoch int64) bool {
	n, ok := s.Image().Node(node)
	return ok && n.Active() && (epoch == -1 || epoch == n.Epoch)
}

// CheckISR looks for followers that lag in all partitions that this broker leads. It is to be called every half of
// replica.lag.time.max.ms.
func (s *Set) CheckISR() {
	for t := range s.Topics() {
		for _, p := range t.Partitions() {
			if p != nil {
				p.checkISR()
			}
		}
	}
}

func (s *Set) countISR(before, after int) {
	switch {
	case after > before:
		s.isrExpands.Add(1)
	case after < before:
		s.isrShrinks.Add(1)
	}
}

// ISRChanges is how often the in-sync replicas of partitions that this broker led became more and fewer.
func (s *Set) ISRChanges() (expands, shrinks int64) { return s.isrExpands.Load(), s.isrShrinks.Load() }

// Image is the newest metadata that was applied.
func (s *Set) Image() *metadata.Image {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.image
}

// recheck has partitions look again whose followers' nodes have changed: one that could not join the in-sync replicas may now.
func (s *Set) recheck(nodes []*metadata.Node) {
	if len(nodes) == 0 {
		return
	}
	for t := range s.Topics() {
		for _, p := range t.Partitions() {
			if p == nil {
				continue
			}
			state := p.State()
			if state.Leader == s.cfg.NodeID && slices.ContainsFunc(nodes, func(n *metadata.Node) bool { return state.IsReplica(n.ID) && !state.InSync(n.ID) }) {
				p.checkISR()
			}
		}
	}
}
