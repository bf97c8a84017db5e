package cluster

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// PartitionAlteration is a leader's wish for other in-sync replicas (KIP-497,
// KIP-704, KIP-903).
type PartitionAlteration struct {
	Topic          metadata.TopicID
	Partition      int32
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []ReplicaEpoch
	// LeaderRecoveryState is metadata.LeaderRecovered or LeaderRecovering.
	LeaderRecoveryState int8
}

// ReplicaEpoch is a replica as the leader knows it: the node and the epoch of
// its registration, -1 when the leader does not know that.
type ReplicaEpoch struct {
	NodeID int32
	Epoch  int64
}

// AlteredPartition is the answer to one PartitionAlteration: the partition as it
// is now, or a Kafka error code.
type AlteredPartition struct {
	Partition *metadata.Partition
	ErrorCode int16
}

// AlterPartitions decides the wishes of one leader, each by itself, in order; a
// partition may be named once. The error is for a leader that is not the node's
// current registration.
func AlterPartitions(im *metadata.Image, env Env, leader int32, epoch int64, wishes []PartitionAlteration) ([]AlteredPartition, []*metadatapb.Record, error) {
	if _, err := currentNode(im, leader, epoch); err != nil {
		return nil, nil, err
	}
	rules := rulesOf(im, env)
	answers := make([]AlteredPartition, len(wishes))
	var recs []*metadatapb.Record
	for i, w := range wishes {
		p, rec, err := alterPartition(im, rules, leader, w)
		answers[i].Partition = p
		answers[i].ErrorCode, _ = answer(err)
		if rec != nil {
			recs = append(recs, rec)
		}
	}
	return answers, recs, nil
}

func alterPartition(im *metadata.Image, rules rules, leader int32, w PartitionAlteration) (*metadata.Partition, *metadatapb.Record, error) {
	t, ok := im.TopicByID(w.Topic)
	if !ok {
		return nil, nil, kerr.UnknownTopicID
	}
	p, ok := im.Partition(w.Topic, w.Partition)
	if !ok {
		return nil, nil, kerr.UnknownTopicOrPartition
	}
	err := checkAlteration(im, leader, p, w)
	if errors.Is(err, kerr.IneligibleReplica) {
		// The leader takes this refusal for certain and counts the replica no more. A copy of the wish that it sent before, and that is
		// still under way, must not be granted once the replica may be in sync again: the record ends the partition's epoch, and
		// a controller that is none any more cannot give the answer.
		return nil, partitionChangeRecord(&metadatapb.PartitionChangeRecord{TopicId: t.ID[:], PartitionId: p.ID}), err
	}
	if err != nil {
		return nil, nil, err
	}
	c := rules.change(t, p)
	c.isr, c.recovery = nodeIDs(w.ISR), w.LeaderRecoveryState
	rec := c.record(t.ID)
	if rec == nil {
		return p, nil, nil
	}
	next := p.Changed(rec)
	if next.Leader != leader {
		// The wish was granted, but its maker leads no more.
		return nil, partitionChangeRecord(rec), kerr.NewLeaderElected
	}
	return next, partitionChangeRecord(rec), nil
}

func nodeIDs(replicas []ReplicaEpoch) []int32 {
	ids := make([]int32, len(replicas))
	for i, r := range replicas {
		ids[i] = r.NodeID
	}
	return ids
}

func checkAlteration(im *metadata.Image, leader int32, p *metadata.Partition, w PartitionAlteration) error {
	isr := nodeIDs(w.ISR)
	switch {
	case w.LeaderEpoch > p.LeaderEpoch || w.PartitionEpoch > p.PartitionEpoch:
		// The leader knows more than this controller, which must be an old one.
		return kerr.NotController
	case w.LeaderEpoch < p.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case leader != p.Leader:
		return kerr.InvalidRequest
	case w.PartitionEpoch < p.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case !validISR(p, isr) || !slices.Contains(isr, leader):
		return kerr.InvalidRequest
	case w.LeaderRecoveryState == metadata.LeaderRecovering &&
		(len(isr) > 1 || p.LeaderRecoveryState == metadata.LeaderRecovered):
		return kerr.InvalidRequest
	}
	for _, r := range w.ISR {
		n, ok := im.Node(r.NodeID)
		if !ok || !n.Active() || p.IsOffline(r.NodeID) || r.Epoch != -1 && r.Epoch != n.Epoch {
			return kerr.IneligibleReplica
		}
	}
	return nil
}

// validISR says whether isr has replicas of p only, and none twice.
func validISR(p *metadata.Partition, isr []int32) bool {
	sorted := slices.Sorted(slices.Values(isr))
	return len(slices.Compact(sorted)) == len(isr) &&
		!slices.ContainsFunc(isr, func(id int32) bool { return !p.IsReplica(id) })
}
