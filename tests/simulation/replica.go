package simulation

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/broker/replicatest"
	"github.com/cauce-stream/cauce/services/controller/clustertest"
)

// produce has a client send one record to a broker that it takes for the leader.
func (w *world) produce(b *broker) {
	acksAll := w.random.IntN(4) > 0
	if !b.ready || b.leader == nil || acksAll && b.leader.CheckBefore(minISR) != nil {
		return
	}
	w.lastValue++
	e := entry{b.state.LeaderEpoch, w.lastValue}
	w.checkAppends(b, e)
	b.leader.Appended(b.disk.EndOffset(), w.nowMs)
	b.disk.append(e)
	if acksAll {
		b.waits = append(b.waits, wait{b.disk.EndOffset()})
	}
	w.advance(b)
}

// advance moves a leader's high watermark, and acknowledges what that passes.
func (w *world) advance(b *broker) {
	if b.leader == nil {
		return
	}
	if hw := b.leader.HighWatermark(b.disk.EndOffset(), minISR, w.nowMs); hw > b.disk.hw {
		b.disk.hw = hw
		w.commitRecords(b)
	}
	enough := b.leader.CheckAfter(minISR) == nil
	for len(b.waits) > 0 && b.waits[0].end <= b.disk.hw {
		if enough {
			w.acknowledge(b.disk.entries[b.waits[0].end-1], b.waits[0].end)
		}
		b.waits = b.waits[1:]
	}
}

// fetchRequest is a follower's, with what it had when it sent it.
type fetchRequest struct {
	id, run     int
	from        *broker
	leaderEpoch int32
	lastEpoch   int32
	fetch       replicatest.Fetch
}

// fetch has a follower ask its leader for more. A fetch before, which was not answered for long, comes to nothing from then
// on, but the leader may still see it.
func (w *world) fetch(b *broker) {
	if !b.ready || b.state == nil || b.state.Leader == b.id || !b.state.HasLeader() || b.fetch != 0 && w.nowMs-b.fetchMs < giveUpMs {
		return
	}
	w.lastFetch++
	b.fetch, b.fetchMs = w.lastFetch, w.nowMs
	q := fetchRequest{
		id: w.lastFetch, run: b.run, from: b, leaderEpoch: b.state.LeaderEpoch, lastEpoch: b.disk.latestEpoch(),
		fetch: replicatest.Fetch{Node: b.id, NodeEpoch: b.epoch, Offset: b.disk.EndOffset(), StartOffset: 0},
	}
	if w.broken == TruncationByWatermark {
		q.lastEpoch = -1
	}
	to := w.broker(b.state.Leader)
	w.send(b.id, to.id, func() { w.serve(to, q) })
}

// answer has the follower do something if it still waits for the answer and follows that leader epoch. It may fetch again at
// once.
func (w *world) answer(from *broker, q fetchRequest, do func(b *broker)) {
	w.send(from.id, q.from.id, func() {
		b := q.from
		if !b.up || b.run != q.run || b.fetch != q.id {
			return
		}
		b.fetch = 0
		if b.state != nil && b.state.Leader != b.id && b.state.LeaderEpoch == q.leaderEpoch {
			do(b)
		}
		if w.random.IntN(4) > 0 {
			w.fetch(b)
		}
	})
}

// serve has a leader answer a fetch.
func (w *world) serve(l *broker, q fetchRequest) {
	if !l.ready || l.leader == nil || l.state.LeaderEpoch != q.leaderEpoch {
		w.answer(l, q, func(*broker) {})
		return
	}
	diverges, epoch, end, err := replicatest.Diverges(&l.disk, q.fetch.Offset, q.lastEpoch)
	switch {
	case err != nil || !diverges && q.fetch.Offset > l.disk.EndOffset():
		w.answer(l, q, func(b *broker) { w.resume(b) })
		return
	case diverges:
		w.answer(l, q, func(b *broker) { w.truncate(b, replicatest.TruncateTo(&b.disk, epoch, end)) })
		return
	}
	if l.leader.Fetched(q.fetch, l.disk.EndOffset(), w.nowMs) != nil {
		w.answer(l, q, func(*broker) {})
		return
	}
	w.advance(l)
	l.propose(l.leader.Expand(l.disk.hw))
	records := l.disk.entries[q.fetch.Offset:min(q.fetch.Offset+w.random.Int64N(5), l.disk.EndOffset())]
	hw := l.disk.hw
	w.answer(l, q, func(b *broker) { w.replicate(b, q.fetch.Offset, records, hw) })
}

// replicate stores what was fetched.
func (w *world) replicate(b *broker, offset int64, records []entry, hw int64) {
	if offset != b.disk.EndOffset() {
		return
	}
	for _, e := range records {
		b.disk.append(e)
	}
	if hw = min(hw, b.disk.EndOffset()); hw > b.disk.hw {
		b.disk.hw = hw
		w.checkReadable(b)
	}
}

func (w *world) truncate(b *broker, to int64) {
	w.checkTruncation(b, to)
	w.tell("node %d truncates %d records to %d", b.id, b.disk.EndOffset(), to)
	b.disk.truncate(to)
}

// resume has a follower that is out of its leader's range ask for that.
func (w *world) resume(b *broker) {
	l, run, epoch := w.broker(b.state.Leader), b.run, b.state.LeaderEpoch
	w.send(b.id, l.id, func() {
		if !l.ready || l.leader == nil || l.state.LeaderEpoch != epoch {
			return
		}
		end := l.disk.EndOffset()
		w.send(l.id, b.id, func() {
			if b.up && b.run == run && b.state != nil && b.state.Leader != b.id && b.state.LeaderEpoch == epoch {
				w.truncate(b, replicatest.OutOfRange(b.disk.EndOffset(), 0, end).Offset)
				b.fetch = 0
			}
		})
	})
}

// checkISR has a leader look for followers that lag, or may join by now.
func (w *world) checkISR(b *broker) {
	if !b.ready || b.leader == nil {
		return
	}
	p := b.leader.Shrink(b.disk.EndOffset(), w.nowMs)
	if p == nil {
		p = b.leader.Expand(b.disk.hw)
	}
	b.propose(p)
	w.advance(b)
}

func (b *broker) propose(p *replicatest.Proposal) {
	if p != nil {
		b.wish, b.wishedMs = p, unanswered
	}
}

// wishFor has a leader send its wish for other in-sync replicas to the controller, until that is answered.
func (w *world) wishFor(b *broker) {
	if b.wish == nil || b.leader == nil || w.nowMs-b.wishedMs < giveUpMs {
		return
	}
	if !b.leader.Pending(b.wish) {
		b.wish = nil
		return
	}
	b.wishedMs = w.nowMs
	w.tell("node %d wishes for %v at %d/%d", b.id, b.wish.ISR, b.wish.LeaderEpoch, b.wish.PartitionEpoch)
	wish, epoch, alteration := b.wish, b.epoch, w.alteration(b)
	w.ask(b, func(r *reign) ([]*metadatapb.Record, func()) {
		if w.broken == WithoutPartitionEpoch {
			alteration.PartitionEpoch = partitionOf(r.image).PartitionEpoch
		}
		answers, recs, err := clustertest.AlterPartitions(r.image, r.env(), b.id, epoch, []clustertest.PartitionAlteration{alteration})
		return recs, func() {
			if err == nil {
				w.decided(b, wish, answers[0])
			}
		}
	})
}

func (w *world) alteration(b *broker) clustertest.PartitionAlteration {
	a := clustertest.PartitionAlteration{
		Topic: topicID(b.image), LeaderEpoch: b.wish.LeaderEpoch, PartitionEpoch: b.wish.PartitionEpoch, LeaderRecoveryState: metadata.LeaderRecovered,
	}
	for _, m := range b.wish.ISR {
		a.ISR = append(a.ISR, clustertest.ReplicaEpoch{NodeID: m.Node, Epoch: m.Epoch})
	}
	return a
}

func (w *world) decided(b *broker, wish *replicatest.Proposal, a clustertest.AlteredPartition) {
	if b.leader == nil {
		return
	}
	d := replicatest.Decision{}
	if err := kerr.ErrorForCode(a.ErrorCode); err != nil && !errors.As(err, &d.Err) {
		d.Err = kerr.UnknownServerError
	}
	if p := a.Partition; p != nil {
		d.LeaderEpoch, d.PartitionEpoch, d.ISR = p.LeaderEpoch, p.PartitionEpoch, p.ISR
	}
	again := b.leader.Decided(wish, d, w.nowMs)
	w.tell("node %d has the answer to %v: %v %v", b.id, wish.ISR, d.Err, d.ISR)
	if b.wish == wish && !again {
		b.wish = nil
	}
	w.advance(b)
}
