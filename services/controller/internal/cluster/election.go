package cluster

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// nobody stands for no node where a node id is expected.
const nobody = metadata.NoLeader

// change works out what becomes of one partition when its in-sync replicas or
// the nodes that can lead it change. Rules, from KIP-966 and Kafka's elections:
//
//   - A leader is in the ISR, or was eligible (ELR) while the ISR is empty.
//   - A leader that is still good stays, so that nothing moves without need.
//   - Without eligible leader replicas the ISR keeps its last members even when
//     they are gone: they have all that was acknowledged, and lead again when
//     they return. With them the ISR may be empty, and the ELR keeps those that
//     left while it was below min.insync.replicas.
//   - Only unclean.leader.election.enable lets another replica lead, which may
//     lose records and is marked as recovering; and, with ELR, the last leader
//     after all replicas went down uncleanly.
//   - A reassignment is over once all replicas that stay are in sync. Those that
//     are to go take part in everything until then (KIP-455).
type change struct {
	partition *metadata.Partition
	// isr is the wanted in-sync replicas.
	isr []int32
	// replicas, adding and removing are the wanted assignment.
	replicas, adding, removing []int32
	// offline is the replicas whose log directory has failed: they cannot lead.
	offline []int32
	// preferred has the first replica lead when it can, in place of a leader that
	// is still good.
	preferred bool
	// canLead says whether a node may lead at all.
	canLead func(node int32) bool
	// crashed is a node that came back without its last records, or nobody.
	crashed int32
	// unclean allows a leader from outside ISR and ELR.
	unclean bool
	// recovery is the wanted leader recovery state.
	recovery int8
	// elr and minISR are as the cluster and the topic have them.
	elr    bool
	minISR int
}

// record is the difference to the partition as it is; nil when there is none.
func (c change) record(topic metadata.TopicID) *metadatapb.PartitionChangeRecord {
	p := c.partition
	next := *p
	next.Replicas, next.AddingReplicas, next.RemovingReplicas = c.replicas, c.adding, c.removing
	next.ISR, next.LeaderRecoveryState = c.isr, c.recovery
	complete(&next)
	next.Offline = c.offline
	next.ELR = c.eligible(&next)
	c.elect(&next)
	if next.LeaderRecoveryState == metadata.LeaderRecovered && complete(&next) {
		next.ELR = nil // whoever is elected from it may be all that stays
	}
	next.Offline = slices.DeleteFunc(slices.Clone(next.Offline), func(r int32) bool { return !next.IsReplica(r) })
	c.settle(&next)

	rec := &metadatapb.PartitionChangeRecord{TopicId: topic[:], PartitionId: p.ID}
	changed := replicasChange(&rec.Isr, p.ISR, next.ISR)
	changed = replicasChange(&rec.EligibleLeaderReplicas, p.ELR, next.ELR) || changed
	changed = replicasChange(&rec.LastKnownElr, p.LastKnownELR, next.LastKnownELR) || changed
	changed = replicasChange(&rec.Replicas, p.Replicas, next.Replicas) || changed
	changed = replicasChange(&rec.AddingReplicas, p.AddingReplicas, next.AddingReplicas) || changed
	changed = replicasChange(&rec.RemovingReplicas, p.RemovingReplicas, next.RemovingReplicas) || changed
	changed = replicasChange(&rec.OfflineReplicas, p.Offline, next.Offline) || changed
	// The epoch of the leader ends for replicas that leave: their fetches count no more.
	if next.Leader != p.Leader || slices.ContainsFunc(p.Replicas, func(r int32) bool { return !next.IsReplica(r) }) {
		rec.Leader, changed = proto.Int32(next.Leader), true
	}
	if next.LeaderRecoveryState != p.LeaderRecoveryState {
		rec.LeaderRecoveryState, changed = proto.Int32(int32(next.LeaderRecoveryState)), true
	}
	if !changed {
		return nil
	}
	return rec
}

// complete ends a reassignment whose remaining replicas are all in sync, and says
// whether it did.
func complete(next *metadata.Partition) bool {
	if !next.Reassigning() {
		return false
	}
	replicas, isr := without(next.Replicas, next.RemovingReplicas), without(next.ISR, next.RemovingReplicas)
	if len(replicas) == 0 || len(without(replicas, isr)) > 0 {
		return false
	}
	next.Replicas, next.ISR, next.AddingReplicas, next.RemovingReplicas = replicas, isr, nil, nil
	return true
}

// eligible are the eligible leader replicas before an election.
func (c change) eligible(next *metadata.Partition) []int32 {
	// A topic cannot have more replicas in sync than it has replicas.
	if !c.elr || len(next.ISR) >= min(c.minISR, len(next.Replicas)) {
		return nil
	}
	var elr []int32
	for _, r := range next.Replicas {
		had := slices.Contains(c.partition.ISR, r) || slices.Contains(c.partition.ELR, r)
		if had && !next.InSync(r) && r != c.crashed {
			elr = append(elr, r)
		}
	}
	return elr
}

// elect gives next its leader, and what follows from one that was not in sync.
func (c change) elect(next *metadata.Partition) {
	leader, clean := c.leader(next)
	if leader == next.Leader {
		return
	}
	next.Leader = leader
	switch {
	case leader == nobody:
	case !clean:
		next.ISR, next.ELR = []int32{leader}, nil
		next.LeaderRecoveryState = metadata.LeaderRecovering
	case slices.Contains(next.ELR, leader):
		next.ISR = []int32{leader}
		next.ELR = slices.DeleteFunc(slices.Clone(next.ELR), func(r int32) bool { return r == leader })
	}
}

func (c change) leader(next *metadata.Partition) (leader int32, clean bool) {
	canLead := func(r int32) bool { return c.canLead(r) && !next.IsOffline(r) }
	good := func(r int32) bool {
		from := next.ISR
		if len(from) == 0 {
			from = next.ELR
		}
		return slices.Contains(from, r) && canLead(r)
	}
	if c.preferred && good(next.Replicas[0]) {
		return next.Replicas[0], true
	}
	if next.Leader != nobody && good(next.Leader) {
		return next.Leader, true
	}
	if i := slices.IndexFunc(next.Replicas, good); i >= 0 {
		return next.Replicas[i], true
	}
	if c.elr && len(next.ISR) == 0 && len(next.ELR) == 0 && len(next.LastKnownELR) == 1 {
		if last := next.LastKnownELR[0]; next.IsReplica(last) && canLead(last) {
			return last, false
		}
	}
	if c.unclean {
		if i := slices.IndexFunc(next.Replicas, canLead); i >= 0 {
			return next.Replicas[i], false
		}
	}
	return nobody, true
}

// settle applies the rules that need the result of the election.
func (c change) settle(next *metadata.Partition) {
	if !c.elr {
		next.ELR, next.LastKnownELR = nil, nil
		if len(next.ISR) == 0 {
			next.ISR = slices.DeleteFunc(slices.Clone(c.partition.ISR), func(r int32) bool { return !next.IsReplica(r) })
		}
		return
	}
	// In place of last known ELR members Kafka keeps the last leader. One that a reassignment has removed cannot come back.
	switch {
	case next.Leader != nobody:
		next.LastKnownELR = nil
	case len(next.ISR) == 0 && c.partition.Leader != nobody:
		next.LastKnownELR = []int32{c.partition.Leader}
	case len(next.ISR) == 0 && len(c.partition.ISR) > 0:
		// The partition was leaderless when ELR came into force.
		next.LastKnownELR = c.partition.ISR[:1]
	}
	next.LastKnownELR = slices.DeleteFunc(slices.Clone(next.LastKnownELR), func(r int32) bool { return !next.IsReplica(r) })
}

func replicasChange(field **metadatapb.Replicas, from, to []int32) bool {
	if slices.Equal(from, to) {
		return false
	}
	*field = &metadatapb.Replicas{Ids: to}
	return true
}

// turn is the event of one node leaving or returning. Each field is a node or
// nobody.
type turn struct {
	// removed leaves every ISR and leads nothing.
	removed int32
	// added may lead, although the image has it fenced still.
	added int32
	// crashed lost its last records: it leaves ISR and ELR and leads nothing.
	crashed int32
}

// partitionChanges are the records by which all partitions follow the event, in
// order of topic name and partition. It looks at every partition of the image.
func partitionChanges(im *metadata.Image, env Env, e turn) []*metadatapb.Record {
	var recs []*metadatapb.Record
	rules := rulesOf(im, env)
	canLead := func(id int32) bool {
		if id == e.removed || id == e.crashed {
			return false
		}
		return id == e.added || rules.canLead(id)
	}
	for t := range im.Topics() {
		for _, p := range t.Partitions {
			if !e.touches(p) {
				continue
			}
			c := rules.change(t, p)
			c.canLead, c.crashed = canLead, e.crashed
			c.isr = slices.DeleteFunc(slices.Clone(p.ISR), func(r int32) bool {
				return r == e.removed || r == e.crashed
			})
			if rec := c.record(t.ID); rec != nil {
				recs = append(recs, partitionChangeRecord(rec))
			}
		}
	}
	return recs
}

func (e turn) touches(p *metadata.Partition) bool {
	gone := func(id int32) bool { return id != nobody && (p.InSync(id) || slices.Contains(p.ELR, id)) }
	return gone(e.removed) || gone(e.crashed) || e.added != nobody && !p.HasLeader() && p.IsReplica(e.added)
}

// rules are the configs that elections go by.
type rules struct {
	im     *metadata.Image
	lookup func(key string) (string, bool)
	elr    bool
}

func rulesOf(im *metadata.Image, env Env) rules {
	return rules{im: im, lookup: layers(im, env).Lookup, elr: im.Features()[metadata.FeatureELRVersion] > 0}
}

// change is a change of p that changes nothing yet.
func (r rules) change(t *metadata.Topic, p *metadata.Partition) change {
	minISR, err := strconv.Atoi(r.topicConfig(t, "min.insync.replicas"))
	if err != nil {
		minISR = 1
	}
	return change{
		partition: p,
		isr:       p.ISR,
		replicas:  p.Replicas,
		adding:    p.AddingReplicas,
		removing:  p.RemovingReplicas,
		offline:   p.Offline,
		crashed:   nobody,
		canLead:   r.canLead,
		unclean:   r.topicConfig(t, "unclean.leader.election.enable") == "true",
		recovery:  p.LeaderRecoveryState,
		elr:       r.elr,
		minISR:    minISR,
	}
}

// canLead says whether the image has the node as one that may lead.
func (r rules) canLead(node int32) bool {
	n, ok := r.im.Node(node)
	return ok && n.Active()
}

// topicConfig is the effective value of a key that topics and brokers have
// under the same name.
func (r rules) topicConfig(t *metadata.Topic, key string) string {
	if v, ok := r.im.Config(topicResource(t.Name))[key]; ok {
		return v
	}
	v, _ := r.lookup(key)
	return v
}
