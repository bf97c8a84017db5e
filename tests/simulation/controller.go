package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/security"
	"github.com/cauce-stream/cauce/services/controller/clustertest"
)

const (
	topicName        = "t"
	sessionTimeoutMs = 400
	// stoodStillMs is how long a controller may not have looked at its sessions before it gives all nodes new ones.
	stoodStillMs = 200
)

// controllerConfig is the configuration of the controllers' processes.
func controllerConfig(broken Broken) configkeys.Values {
	v, err := config.FromMap(configkeys.Broker(), map[string]string{
		"broker.session.timeout.ms":      fmt.Sprint(sessionTimeoutMs),
		"unclean.leader.election.enable": fmt.Sprint(broken == LeadersFromOutsideISR),
	})
	if err != nil {
		panic(err)
	}
	return v
}

// reign is one controller's time as the active one: what it has decided, and which of that is not committed yet.
type reign struct {
	w        *world
	id       int32
	image    *metadata.Image // with all decisions
	next     int64           // offset of the next decision
	sessions *clustertest.Sessions
	lookedMs int64 // at the sessions
	proposed []proposal
}

// proposal is a decision on its way into the log. It is answered once it is committed, and those before it.
type proposal struct {
	image  *metadata.Image // nil when the decision changes nothing
	answer func()
}

func (r *reign) env() clustertest.Env {
	return clustertest.Env{
		NowMs: r.w.nowMs, Rand: r.w.ids, Static: r.w.static, ControllerID: r.id, Features: metadata.SupportedFeatures(),
	}
}

// begin has another controller become the active one. It has all that is committed.
func (w *world) begin() {
	w.terms++
	r := &reign{w: w, id: 100 + int32(w.terms%3), image: w.committed(), next: w.committed().Offset() + 1 + w.random.Int64N(2), lookedMs: w.nowMs}
	r.sessions = clustertest.NewSessions(r.image, r.env())
	r.propose(clustertest.Activate(r.image, r.env(), w.terms, "simulated"), func() {})
	w.acting = r
	w.tell("controller %d is active, at offset %d", r.id, r.next)
}

// depose ends the reign of the active controller, which may not know that. Some of what it has proposed is in the log of its
// successor, whether anybody is told or not.
func (w *world) depose() {
	r := w.acting
	if r == nil {
		return
	}
	survive := w.random.IntN(len(r.proposed) + 1)
	told := w.random.IntN(2) == 0
	for _, p := range r.proposed[:survive] {
		w.commit(p, told)
	}
	r.proposed = r.proposed[survive:]
	w.deposed, w.acting = r, nil
	w.tell("controller %d is deposed, and %d of its decisions lost", r.id, len(r.proposed))
}

// propose has a decision go into the log. As with raft, one that changes nothing does not ask the other voters.
func (r *reign) propose(recs []*metadatapb.Record, answer func()) {
	p := proposal{answer: answer}
	switch {
	case len(recs) > 0:
		image, _, err := r.image.Apply(r.next, recs)
		if err != nil {
			panic(err)
		}
		p.image, r.image = image, image
		r.next++
	case len(r.proposed) == 0:
		answer()
		return
	}
	r.proposed = append(r.proposed, p)
}

// commit makes a decision part of the log, and sends the answer if told says so.
func (w *world) commit(p proposal, told bool) {
	if p.image != nil {
		w.images = append(w.images, p.image)
		w.elections += countElection(w.images[len(w.images)-2], p.image)
		w.tellChange(w.images[len(w.images)-2], p.image)
	}
	if told {
		p.answer()
	}
}

func countElection(old, next *metadata.Image) int {
	a, b := partitionOf(old), partitionOf(next)
	if a == nil || b == nil {
		return 0
	}
	return int(b.LeaderEpoch - a.LeaderEpoch)
}

// commitNext commits the oldest decision of the active controller that is not.
func (w *world) commitNext() {
	if r := w.acting; r != nil && len(r.proposed) > 0 {
		p := r.proposed[0]
		r.proposed = r.proposed[1:]
		w.commit(p, true)
	}
}

func (w *world) commitAll() {
	for w.acting != nil && len(w.acting.proposed) > 0 {
		w.commitNext()
	}
}

// look fences the nodes that have fallen silent.
func (r *reign) look() {
	if r.w.nowMs-r.lookedMs > stoodStillMs {
		r.sessions = clustertest.NewSessions(r.image, r.env())
	}
	r.lookedMs = r.w.nowMs
	for {
		_, recs, ok := r.sessions.Expire(r.image, r.env())
		if !ok {
			return
		}
		r.propose(recs, func() {})
	}
}

// absent tells the active controller that a broker has left the bus, and perhaps that its listeners refuse.
func (w *world) absent(b *broker) {
	if w.acting == nil || b.up && w.random.IntN(3) > 0 {
		return
	}
	n, ok := w.acting.image.Node(b.id)
	if !ok {
		return
	}
	refused := !b.up && w.random.IntN(2) == 0
	recs, _ := w.acting.sessions.Absent(w.acting.image, w.acting.env(), clustertest.Absence{
		NodeID: b.id, Epoch: n.Epoch, SinceMs: w.nowMs, Refused: refused,
	})
	w.acting.propose(recs, func() {})
}

// administer has a client ask for something that moves leaders or replicas.
func (w *world) administer() {
	r := w.acting
	if r == nil || w.elr && slices.ContainsFunc(w.brokers, func(b *broker) bool { return b.lost }) {
		return // a client may well have the last replica removed that has all records
	}
	if w.random.IntN(2) == 0 {
		r.propose(clustertest.BalanceLeaders(r.image, r.env()), func() {})
		return
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topicName
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	if w.random.IntN(4) > 0 { // else what is under way is cancelled
		for _, i := range w.random.Perm(brokers)[:2+w.random.IntN(2)] {
			p.Replicas = append(p.Replicas, int32(i+1))
		}
	}
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	r.handle(req)
}

func (r *reign) handle(req kmsg.Request) {
	out := clustertest.Handle(r.image, r.env(), req, security.Anonymous)
	r.propose(out.Records, func() {})
}

// create makes the topic, with replicas on the first three brokers.
func (r *reign) create(elr bool) {
	if elr {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version = 2
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = metadata.FeatureELRVersion, 1, 1
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		r.handle(req)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topicName, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = []int32{1, 2, 3}
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = "min.insync.replicas", kmsg.StringPtr(fmt.Sprint(minISR))
	t.Configs = append(t.Configs, c)
	req.Topics = append(req.Topics, t)
	r.handle(req)
}

// ask has a broker's request decided by whichever controller it reaches, and answered if that comes about. What the broker
// does not hear of it asks again.
func (w *world) ask(b *broker, decide func(r *reign) (recs []*metadatapb.Record, answered func())) {
	run := b.run
	w.send(b.id, controllers, func() {
		r := w.acting
		if w.deposed != nil && (r == nil || w.random.IntN(3) == 0) {
			r = w.deposed
		}
		if r == nil {
			return
		}
		recs, answered := decide(r)
		r.propose(recs, func() {
			w.send(controllers, b.id, func() {
				if b.up && b.run == run {
					answered()
				}
			})
		})
	})
}

func partitionOf(im *metadata.Image) *metadata.Partition {
	t, ok := im.Topic(topicName)
	if !ok {
		return nil
	}
	return t.Partitions[0]
}

func topicID(im *metadata.Image) metadata.TopicID {
	t, _ := im.Topic(topicName)
	return t.ID
}

// everyImage are the images that brokers see or are about to.
func (w *world) everyImage() []*metadata.Image {
	images := []*metadata.Image{w.committed()}
	if w.acting != nil {
		images = append(images, w.acting.image)
	}
	return images
}

// mayLead says whether a broker is in sync or eligible in all images.
func (w *world) mayLead(id int32) bool {
	return !slices.ContainsFunc(w.everyImage(), func(im *metadata.Image) bool {
		p := partitionOf(im)
		return p == nil || !p.InSync(id) && !slices.Contains(p.ELR, id)
	})
}

func newIDs(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// tellChange tells of the partition and the nodes as they have become.
func (w *world) tellChange(old, next *metadata.Image) {
	if w.story == nil {
		return
	}
	if a, b := partitionOf(old), partitionOf(next); b != nil && a != b {
		w.tell("offset %d: leader %d epoch %d/%d replicas %v isr %v elr %v last known %v adding %v removing %v", next.Offset(), b.Leader, b.LeaderEpoch, b.PartitionEpoch,
			b.Replicas, b.ISR, b.ELR, b.LastKnownELR, b.AddingReplicas, b.RemovingReplicas)
	}
	for n := range next.Nodes() {
		if was, ok := old.Node(n.ID); !ok || was != n {
			w.tell("offset %d: node %d epoch %d fenced %v leaving %v", next.Offset(), n.ID, n.Epoch, n.Fenced, n.InControlledShutdown)
		}
	}
}
