package cluster

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// placer spreads the replicas of new partitions. Goals, the first the most
// important: no two replicas on one node and no leader on a fenced one (both
// without exception), each rack used once before any is used twice, as many
// leaders and replicas on each node as on any other, unfenced nodes before
// fenced ones.
//
// The unfenced nodes form a ring in which racks alternate. Leaders go round the
// ring one by one from a random start; followers are taken from the ring beyond
// the leader, a step further away after each round, so that the partitions of
// one leader do not all have the same followers.
type placer struct {
	ring   []candidate
	fenced []candidate
	start  int
	step   int
	placed int
	// uses counts the replicas per rack of the partition at hand.
	uses map[string]int
}

type candidate struct {
	id   int32
	rack string
}

// newPlacer looks at the nodes that may hold partitions: those with the role
// broker that are not on their way out.
func newPlacer(im *metadata.Image, r *rand.Rand) *placer {
	p := &placer{uses: map[string]int{}}
	for n := range im.Nodes() {
		if !n.HasRole(metadata.RoleBroker) || n.InControlledShutdown {
			continue
		}
		c := candidate{n.ID, n.Rack}
		if n.Fenced {
			p.fenced = append(p.fenced, c)
		} else {
			p.ring = append(p.ring, c)
		}
	}
	p.ring = alternateRacks(p.ring)
	p.fenced = alternateRacks(p.fenced)
	if len(p.ring) > 0 {
		p.start = r.IntN(len(p.ring))
		p.step = r.IntN(len(p.ring))
	}
	return p
}

// alternateRacks orders by place within the rack first and by rack second.
func alternateRacks(nodes []candidate) []candidate {
	type ranked struct {
		candidate
		rank int
	}
	seen := map[string]int{}
	list := make([]ranked, 0, len(nodes))
	for _, c := range nodes { // by id
		list = append(list, ranked{c, seen[c.rack]})
		seen[c.rack]++
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.rack, b.rack))
	})
	for i, r := range list {
		nodes[i] = r.candidate
	}
	return nodes
}

// check says why no partition can have that many replicas.
func (p *placer) check(replicationFactor int) error {
	total := len(p.ring) + len(p.fenced)
	switch {
	case len(p.ring) == 0:
		return refuse(kerr.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): All brokers are currently fenced.", replicationFactor)
	case replicationFactor > total:
		return refuse(kerr.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.",
			replicationFactor, replicationFactor, total)
	}
	return nil
}

// place is the replicas of the next partition, the leader first. check must
// have allowed the replication factor.
func (p *placer) place(replicationFactor int) []int32 {
	n := len(p.ring)
	leader := (p.start + p.placed) % n
	shift := (p.step + p.placed/n) % n
	p.placed++

	replicas := make([]int32, 0, replicationFactor)
	clear(p.uses)
	take := func(c candidate, sweep int) {
		if len(replicas) < replicationFactor && p.uses[c.rack] <= sweep && !slices.Contains(replicas, c.id) {
			replicas = append(replicas, c.id)
			p.uses[c.rack]++
		}
	}
	take(p.ring[leader], 0)
	for sweep := 0; len(replicas) < replicationFactor; sweep++ {
		for i := range n {
			take(p.ring[(leader+shift+i)%n], sweep)
		}
		for i := range p.fenced {
			take(p.fenced[(p.placed+i)%len(p.fenced)], sweep)
		}
	}
	return replicas
}

// activeReplicas are the replicas that can be in sync from the start.
func activeReplicas(im *metadata.Image, replicas []int32) []int32 {
	isr := make([]int32, 0, len(replicas))
	for _, id := range replicas {
		if n, ok := im.Node(id); ok && n.Active() {
			isr = append(isr, id)
		}
	}
	return isr
}

// checkAssignment refuses replicas that a client may not choose.
// replicationFactor is that of the topic's other partitions, 0 for the first.
func checkAssignment(im *metadata.Image, replicas []int32, replicationFactor int) error {
	if len(replicas) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		n, ok := im.Node(id)
		switch {
		case !ok:
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", id)
		case !n.HasRole(metadata.RoleBroker):
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes node %d, which is not a broker and stores no partitions.", id)
		case i > 0 && sorted[i-1] == id:
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if replicationFactor > 0 && len(replicas) != replicationFactor {
		return refuse(kerr.InvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), replicationFactor)
	}
	return nil
}
