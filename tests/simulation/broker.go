package simulation

import (
	"slices"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/broker/replicatest"
	"github.com/cauce-stream/cauce/services/controller/clustertest"
)

const (
	minISR     = 2
	lagMaxMs   = 150
	beatMs     = 60
	giveUpMs   = 120 // until a request that is not answered is sent anew
	noEpoch    = -1
	unanswered = -1 << 40
)

// broker is a process that comes and goes, and its disk.
type broker struct {
	id       int32
	disk     disk
	lost     bool  // records since it was in sync last
	previous int64 // epoch of the registration that ended in good order, noEpoch otherwise

	up  bool
	run int // grows whenever a process starts or ends
	process
}

// process is what a broker forgets when it ends.
type process struct {
	epoch    int64 // of the registration, noEpoch before
	ready    bool  // in service, and the metadata says so
	draining bool
	askedMs  int64 // when it last registered or beat
	seen     int   // images of the log
	image    *metadata.Image
	state    *metadata.Partition // nil while no replica is here
	leader   *replicatest.Leader // nil unless it leads
	leads    int32               // the epoch that it has led in service, -1 for none
	waits    []wait
	wish     *replicatest.Proposal // for other in-sync replicas, nil for none
	wishedMs int64                 // when it was sent
	fetch    int                   // the one under way, 0 for none
	fetchMs  int64
	pausedMs int64 // until when it stands still
}

// wait is a producer's, with acks=all, for the records below end.
type wait struct{ end int64 }

// start has a new process begin, which reads what its disk has.
func (w *world) start(b *broker) {
	if b.up {
		return
	}
	b.up = true
	b.run++
	b.process = process{epoch: noEpoch, leads: -1, image: metadata.Empty(), askedMs: unanswered, wishedMs: unanswered, fetchMs: unanswered}
	b.disk.begin()
	w.tell("node %d starts, with %d records", b.id, b.disk.EndOffset())
}

// end is the end of the process; in good order the disk has everything.
func (w *world) end(b *broker, previous int64) {
	b.up = false
	b.run++
	b.previous = previous
	b.process = process{epoch: noEpoch}
}

// crash ends a process without a word. Its machine may fail with it, and with that what was not flushed is gone.
func (w *world) crash(b *broker) {
	loses := w.random.IntN(2) == 0
	if !b.up || !w.mayCrash(b, loses) {
		return
	}
	if loses {
		b.disk.truncate(b.disk.flushed)
		b.lost = true
	}
	w.tell("node %d crashes, loses records %v, has %d", b.id, loses, b.disk.EndOffset())
	w.end(b, noEpoch)
	if loses && !w.elr {
		w.fenceAtOnce(b)
	}
}

// fenceAtOnce has the controller notice the end of a process before anything else happens.
func (w *world) fenceAtOnce(b *broker) {
	w.forget(b.id)
	r := w.acting
	n, ok := r.image.Node(b.id)
	if !ok {
		return
	}
	recs, _ := r.sessions.Absent(r.image, r.env(), clustertest.Absence{NodeID: b.id, Epoch: n.Epoch, SinceMs: w.nowMs, Refused: true})
	r.propose(recs, func() {})
	w.commitAll()
}

// mayCrash says whether what is promised covers the crash.
//
// With eligible leader replicas (KIP-966) a broker may lose records, or be taken for one that has, while none other is between
// its crash and its next registration, and another has all records and is known for that. Without, the last in-sync replica
// leads again whatever it has lost: the controller has to notice its end before it is the last.
func (w *world) mayCrash(b *broker, loses bool) bool {
	if !w.elr {
		return !loses || w.acting != nil && (!w.inSomeISR(b.id) || slices.ContainsFunc(w.brokers, func(o *broker) bool { return o != b && w.isSpare(o) }))
	}
	lost, spare := loses, false
	for _, o := range w.brokers {
		if o.lost = o.lost && !(w.isSpare(o) && partitionOf(w.committed()).InSync(o.id)); o.lost {
			lost = true
		}
		spare = spare || o != b && w.isSpare(o)
	}
	between := slices.ContainsFunc(w.brokers, func(o *broker) bool {
		n, ok := w.committed().Node(o.id)
		return o != b && ok && !(o.up && o.epoch == n.Epoch) && o.previous != n.Epoch
	})
	return !lost || spare && !between
}

// isSpare says whether a broker is up, has all that is committed, and may lead as far as the controllers know.
func (w *world) isSpare(b *broker) bool {
	n, ok := w.committed().Node(b.id)
	return b.up && ok && n.Epoch == b.epoch && w.mayLead(b.id) && w.hasCommitted(b)
}

func (w *world) inSomeISR(id int32) bool {
	return slices.ContainsFunc(w.everyImage(), func(im *metadata.Image) bool {
		p := partitionOf(im)
		return p != nil && p.InSync(id)
	})
}

// follow has a broker see the next image.
func (w *world) follow(b *broker) {
	if !b.up || b.seen == len(w.images) || w.cut[link{controllers, b.id}] {
		return
	}
	b.image = w.images[b.seen]
	b.seen++
	if p := partitionOf(b.image); p != nil {
		w.become(b, p)
	}
	if n, ok := b.image.Node(b.id); !b.ready && ok && n.Epoch == b.epoch && !n.Fenced {
		b.ready = true
		if b.state == nil {
			b.disk = disk{} // the cluster knows nothing of it
			return
		}
		w.become(b, b.state)
	}
}

// become has a broker lead, follow, or give its replica up. Before it is in service it goes through the past, which commits
// nothing.
func (w *world) become(b *broker, p *metadata.Partition) {
	old := b.state
	if b.ready && old != p {
		w.tell("node %d sees epoch %d/%d", b.id, p.LeaderEpoch, p.PartitionEpoch)
	}
	if !p.IsReplica(b.id) {
		if old != nil && b.ready {
			b.disk = disk{}
		}
		b.state, b.leader, b.wish, b.waits, b.fetch = nil, nil, nil, nil, 0
		return
	}
	b.state = p
	begins := old == nil || old.LeaderEpoch != p.LeaderEpoch
	if begins {
		b.fetch = 0
	}
	if p.Leader != b.id {
		if begins && old != nil && w.broken == TruncationByWatermark {
			b.disk.truncate(b.disk.hw)
		}
		b.leader, b.wish, b.waits = nil, nil, nil
		return
	}
	if begins || b.leader == nil {
		w.tell("node %d leads epoch %d with %d records, %d are committed", b.id, p.LeaderEpoch, b.disk.EndOffset(), len(w.history))
		b.leader = replicatest.NewLeader(b.id, p, replicatest.Rules{LagMaxMs: lagMaxMs, MayJoin: b.mayJoin}, b.disk.EndOffset(), w.nowMs)
		b.wish = nil
	} else {
		b.leader.Update(p, w.nowMs)
	}
	if !b.ready {
		return
	}
	b.disk.assign(p.LeaderEpoch)
	if b.leads != p.LeaderEpoch && b.seen == len(w.images) {
		w.checkLeader(b)
	}
	b.leads = p.LeaderEpoch
	w.advance(b)
}

func (b *broker) mayJoin(node int32, epoch int64) bool {
	n, ok := b.image.Node(node)
	return ok && n.Active() && (epoch == noEpoch || epoch == n.Epoch)
}

// keepInTouch registers a broker, or has it beat.
func (w *world) keepInTouch(b *broker) {
	every := int64(giveUpMs)
	if b.epoch != noEpoch {
		every = beatMs
	}
	if !b.up || w.nowMs-b.askedMs < every {
		return
	}
	b.askedMs = w.nowMs
	if b.epoch == noEpoch {
		w.register(b)
		return
	}
	beat := clustertest.Beat{NodeID: b.id, Epoch: b.epoch, Offset: b.image.Offset(), WantShutdown: b.draining}
	w.ask(b, func(r *reign) ([]*metadatapb.Record, func()) {
		answer, recs, err := r.sessions.Heartbeat(r.image, r.env(), beat)
		return recs, func() {
			if err == nil && answer.ShouldShutdown && beat.WantShutdown {
				b.disk.flush()
				b.disk.checkpoint = b.disk.hw
				w.tell("node %d ends in good order", b.id)
				w.end(b, b.epoch)
			}
		}
	})
}

func (w *world) register(b *broker) {
	reg := clustertest.Registration{
		NodeID: b.id, Incarnation: [16]byte{byte(b.id), byte(b.run), byte(b.run >> 8)}, Roles: []string{metadata.RoleBroker},
		Listeners: []metadata.Listener{{Name: "L"}}, Features: metadata.SupportedFeatures(), PreviousEpoch: b.previous,
	}
	run := b.run
	w.ask(b, func(r *reign) ([]*metadatapb.Record, func()) {
		if b.run != run {
			return nil, func() {} // the request of a process that has ended is not taken for its successor's
		}
		epoch, recs, err := r.sessions.Register(r.image, r.env(), reg)
		return recs, func() {
			if err == nil && b.epoch == noEpoch {
				b.epoch, b.askedMs = epoch, unanswered
			}
		}
	})
}

// drain has a broker ask to end in good order.
func (w *world) drain(b *broker) {
	if b.up && b.ready {
		b.draining = true
	}
}
