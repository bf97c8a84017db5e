package metadata

import (
	"encoding/base64"
	"fmt"
	"slices"
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Leader recovery states (KIP-704).
const (
	LeaderRecovered  int8 = 0 // the leader was elected from the in-sync replicas, or has recovered
	LeaderRecovering int8 = 1 // the leader was elected uncleanly and has not recovered yet
)

// TopicID identifies one life of a topic: a topic that is deleted and created
// again has another (KIP-516).
type TopicID [16]byte

// String is Kafka's form: URL-safe base64 without padding, 22 characters.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseTopicID reads what TopicID.String writes.
func ParseTopicID(s string) (TopicID, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return TopicID{}, fmt.Errorf("topic id %q: %w", s, err)
	}
	return topicIDFromBytes(b)
}

func topicIDFromBytes(b []byte) (TopicID, error) {
	if len(b) != len(TopicID{}) {
		return TopicID{}, fmt.Errorf("topic id of %d bytes instead of %d", len(b), len(TopicID{}))
	}
	return TopicID(b), nil
}

// Topic is one version of a topic. It is immutable.
type Topic struct {
	Name string
	ID   TopicID
	// Partitions is indexed by partition id, without gaps.
	Partitions []*Partition
}

// Partition is one version of a partition. It is immutable. The lists hold node
// ids and must not be changed.
type Partition struct {
	ID int32
	// Leader is NoLeader when no replica can lead.
	Leader int32
	// LeaderEpoch grows with every election, also when the leader stays.
	LeaderEpoch int32
	// PartitionEpoch grows with every change of the partition.
	PartitionEpoch int32
	// LeaderRecoveryState is LeaderRecovered or LeaderRecovering.
	LeaderRecoveryState int8
	// Replicas come in order of preference as leader.
	Replicas []int32
	// ISR are the replicas in sync, the leader among them. Without a leader it
	// holds those that may lead again, or, where eligible leader replicas are in
	// force, nobody.
	ISR []int32
	// AddingReplicas are the replicas that a reassignment has brought, and
	// RemovingReplicas those that go when the others are all in sync. One that is
	// in both was brought by a reassignment that another has replaced.
	AddingReplicas   []int32
	RemovingReplicas []int32
	// ELR are replicas that left the ISR while it was below min.insync.replicas
	// and still have every acknowledged record (KIP-966).
	ELR []int32
	// LastKnownELR is the last leader of a partition that has none.
	LastKnownELR []int32
	// Offline are the replicas whose log directory has failed. Such a replica is
	// not in sync and cannot lead, whatever its node can, until the node registers
	// anew.
	Offline []int32
}

// HasLeader says whether some node leads the partition.
func (p *Partition) HasLeader() bool { return p.Leader != NoLeader }

// IsReplica says whether the node is one of the replicas.
func (p *Partition) IsReplica(node int32) bool { return slices.Contains(p.Replicas, node) }

// IsOffline says whether the node's replica lies in a log directory that has failed.
func (p *Partition) IsOffline(node int32) bool { return slices.Contains(p.Offline, node) }

// InSync says whether the node is in the ISR.
func (p *Partition) InSync(node int32) bool { return slices.Contains(p.ISR, node) }

// Reassigning says whether replicas come or go until the partition is where it
// was reassigned to (KIP-455).
func (p *Partition) Reassigning() bool {
	return len(p.AddingReplicas)+len(p.RemovingReplicas) > 0
}
