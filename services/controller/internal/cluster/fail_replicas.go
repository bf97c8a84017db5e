package cluster

import (
	"slices"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// PartitionID names a partition.
type PartitionID struct {
	Topic     metadata.TopicID
	Partition int32
}

// FailReplicas takes replicas of a node out of service whose log directory has
// failed: others lead in their place, and they are not in sync any more. What
// was on the disk counts as lost, so that such a replica is not an eligible
// leader either. It stays so until the node registers anew (KIP-112).
//
// Partitions that are gone, or are no longer the node's, are passed over. The
// error is for a node that is not the current registration.
func FailReplicas(im *metadata.Image, env Env, node int32, epoch int64, failed []PartitionID) ([]*metadatapb.Record, error) {
	if _, err := currentNode(im, node, epoch); err != nil {
		return nil, err
	}
	var recs []*metadatapb.Record
	rules := rulesOf(im, env)
	for _, id := range failed {
		t, ok := im.TopicByID(id.Topic)
		p, exists := im.Partition(id.Topic, id.Partition)
		if !ok || !exists || !p.IsReplica(node) || p.IsOffline(node) {
			continue
		}
		c := rules.change(t, p)
		c.offline = append(slices.Clone(p.Offline), node)
		c.isr, c.crashed = without(p.ISR, []int32{node}), node
		recs = append(recs, partitionChangeRecord(c.record(t.ID)))
	}
	return recs, nil
}

// restoreReplicas are the records by which the replicas of a node count again
// that registers anew: it says itself what it cannot read now.
func restoreReplicas(im *metadata.Image, node int32) []*metadatapb.Record {
	var recs []*metadatapb.Record
	for t := range im.Topics() {
		for _, p := range t.Partitions {
			if p.IsOffline(node) {
				recs = append(recs, partitionChangeRecord(&metadatapb.PartitionChangeRecord{
					TopicId: t.ID[:], PartitionId: p.ID,
					OfflineReplicas: &metadatapb.Replicas{Ids: without(p.Offline, []int32{node})},
				}))
			}
		}
	}
	return recs
}
