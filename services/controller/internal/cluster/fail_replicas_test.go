package cluster

import (
	"github.com/cockroachdb/datadriven"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// fail-replicas node=N [epoch=E], a partition a line: TOPIC PARTITION.
func scriptFailReplicas(h *harness, d *datadriven.TestData) string {
	id := int32(argInt(d, "node", 1))
	epoch := int64(-1)
	if n, ok := h.im.Node(id); ok {
		epoch = n.Epoch
	}
	var failed []PartitionID
	for _, words := range lines(d) {
		topic := metadata.TopicID{42} // of no topic
		if t, ok := h.im.Topic(words[0]); ok {
			topic = t.ID
		}
		failed = append(failed, PartitionID{topic, int32(number(words[1]))})
	}
	recs, err := FailReplicas(h.im, h.env, id, argInt(d, "epoch", epoch), failed)
	if err != nil {
		return errorVerdict(err) + "\n"
	}
	return h.commit(recs)
}

// failDirectory has some of a node's replicas fail.
func (m *mayhem) failDirectory() {
	n, ok := m.im.Node(m.node())
	if !ok {
		return
	}
	var failed []PartitionID
	for t := range m.im.Topics() {
		for _, p := range t.Partitions {
			if p.IsReplica(n.ID) && m.r.IntN(3) == 0 {
				failed = append(failed, PartitionID{t.ID, p.ID})
			}
		}
	}
	recs, err := FailReplicas(m.im, m.env, n.ID, n.Epoch, failed)
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(recs)
	for _, f := range failed {
		if p, _ := m.im.Partition(f.Topic, f.Partition); p.IsReplica(n.ID) && (!p.IsOffline(n.ID) || p.Leader == n.ID) {
			m.t.Fatalf("a replica on a disk that has failed counts: %+v", *p)
		}
	}
}

// hasFailed says whether a node has replicas that wait for its next registration.
func (m *mayhem) hasFailed(id int32) bool {
	return anyPartition(m.im, func(p *metadata.Partition) bool { return p.IsOffline(id) })
}
