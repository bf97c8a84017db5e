package cluster

import (
	"cmp"
	"slices"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// shardTopics are the topics whose partitions are coordinators' shards, and the
// role of the nodes that own them.
var shardTopics = []struct{ topic, role string }{
	{metadata.ConsumerOffsetsTopic, metadata.RoleGroupCoord},
	{metadata.TransactionStateTopic, metadata.RoleTxnCoord},
}

// PlaceShards are the records by which the coordinators' shards follow a
// decision: they belong into the batch that d describes and that gave im. It
// must be asked after every decision; most need nothing.
//
// Each shard belongs to an active node of its topic's role, or to nobody when
// there is none. The numbers of shards of two such nodes differ by one at most,
// and no more shards move than that takes. A change of the owner grows the
// shard's epoch. A node is fenced when a new process of it registers, so that
// its former process's shards have been taken from it by then.
func PlaceShards(im *metadata.Image, d *metadata.Delta) []*metadatapb.Record {
	var recs []*metadatapb.Record
	for _, s := range shardTopics {
		if len(d.ChangedNodes)+len(d.RemovedNodes) == 0 && !changed(d, s.topic) {
			continue
		}
		if t, ok := im.Topic(s.topic); ok {
			recs = append(recs, placeShards(im, t, activeNodes(im, s.role))...)
		}
	}
	return recs
}

func changed(d *metadata.Delta, topic string) bool {
	return slices.ContainsFunc(d.ChangedTopics, func(t *metadata.Topic) bool { return t.Name == topic })
}

func activeNodes(im *metadata.Image, role string) []int32 {
	var ids []int32
	for n := range im.Nodes() {
		if n.Active() && n.HasRole(role) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

func placeShards(im *metadata.Image, t *metadata.Topic, nodes []int32) []*metadatapb.Record {
	var recs []*metadatapb.Record
	give := func(p int32, s metadata.Shard, owner int32) {
		next := metadata.Shard{Owner: owner, Epoch: s.Epoch + 1}
		recs = append(recs, shardRecord(next.Record(t.ID, p)))
	}
	room := shares(im, t, nodes)
	var homeless []int32
	for p, s := range im.Shards(t.Name) {
		switch {
		case room[s.Owner] > 0:
			room[s.Owner]--
		case len(nodes) > 0:
			homeless = append(homeless, p)
		case s.Owner != metadata.NoOwner:
			give(p, s, metadata.NoOwner)
		}
	}
	for _, p := range homeless {
		s, _ := im.Shard(t.Name, p)
		to := slices.MaxFunc(nodes, func(a, b int32) int { return cmp.Or(cmp.Compare(room[a], room[b]), cmp.Compare(b, a)) })
		room[to]--
		give(p, s, to)
	}
	return recs
}

// shares are the numbers of shards of t that each node is to own. The shards that
// do not divide evenly go to those that own the most now, which need not give
// them away then.
func shares(im *metadata.Image, t *metadata.Topic, nodes []int32) map[int32]int {
	owned := make(map[int32]int, len(nodes))
	for _, s := range im.Shards(t.Name) {
		owned[s.Owner]++
	}
	fullestFirst := slices.SortedFunc(slices.Values(nodes), func(a, b int32) int {
		return cmp.Or(cmp.Compare(owned[b], owned[a]), cmp.Compare(a, b))
	})
	share := make(map[int32]int, len(nodes))
	for i, id := range fullestFirst {
		share[id] = len(t.Partitions) / len(nodes)
		if i < len(t.Partitions)%len(nodes) {
			share[id]++
		}
	}
	return share
}

func ownsShards(im *metadata.Image, node int32) bool {
	for _, s := range shardTopics {
		for _, shard := range im.Shards(s.topic) {
			if shard.Owner == node {
				return true
			}
		}
	}
	return false
}
