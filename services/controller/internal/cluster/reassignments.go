package cluster

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// alterPartitionReassignments decides AlterPartitionReassignments, key 45,
// versions 0 and 1 (KIP-455, KIP-860). Each partition succeeds or fails by
// itself.
//
// A partition that is reassigned has all replicas, those to come (adding) and
// those to go (removing), until the ones that stay are all in sync; whichever
// change brings that about ends the reassignment too (complete).
func alterPartitionReassignments(im *metadata.Image, env Env, req *kmsg.AlterPartitionAssignmentsRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	r := reassigner{
		im: im, rules: rulesOf(im, env), named: map[topicPartition]bool{},
		sameFactor: req.Version >= 1 && !req.AllowReplicationFactorChange,
	}
	for _, t := range req.Topics {
		res := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		res.Topic = t.Topic
		for _, p := range t.Partitions {
			answered := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			answered.Partition = p.Partition
			answered.ErrorCode, answered.ErrorMessage = answer(r.alter(t.Topic, p))
			res.Partitions = append(res.Partitions, answered)
		}
		resp.Topics = append(resp.Topics, res)
	}
	return Outcome{Response: resp, Records: r.records}
}

type topicPartition struct {
	topic     string
	partition int32
}

// reassigner works out the changes of one request.
type reassigner struct {
	im    *metadata.Image
	rules rules
	// sameFactor refuses targets of another size (KIP-860).
	sameFactor bool
	named      map[topicPartition]bool
	records    []*metadatapb.Record
}

func (r *reassigner) alter(topic string, wanted kmsg.AlterPartitionAssignmentsRequestTopicPartition) error {
	t, ok := r.im.Topic(topic)
	if !ok {
		return refuse(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", topic)
	}
	if wanted.Partition < 0 || int(wanted.Partition) >= len(t.Partitions) {
		return refuse(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", topic, wanted.Partition)
	}
	key := topicPartition{topic, wanted.Partition}
	if r.named[key] {
		return refuse(kerr.InvalidRequest, "Partition %s:%d is named more than once.", topic, wanted.Partition)
	}
	r.named[key] = true
	if err := checkRecordLimit(len(r.records) + 1); err != nil {
		return err
	}
	p := t.Partitions[wanted.Partition]
	decide := r.move
	if wanted.Replicas == nil {
		decide = r.cancel
	}
	rec, err := decide(t, p, wanted.Replicas)
	if err == nil && rec != nil {
		r.records = append(r.records, partitionChangeRecord(rec))
	}
	return err
}

// move is the change by which target becomes what p is reassigned to, in place
// of any target before. What p was assigned to before the first of them stays
// known, as what is not adding, for the way back.
func (r *reassigner) move(t *metadata.Topic, p *metadata.Partition, target []int32) (*metadatapb.PartitionChangeRecord, error) {
	if err := checkAssignment(r.im, target, 0); err != nil {
		return nil, err
	}
	if now := len(p.Replicas) - len(p.RemovingReplicas); r.sameFactor && len(target) != now {
		return nil, refuse(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", now, len(target))
	}
	original := without(p.Replicas, p.AddingReplicas)
	c := r.rules.change(t, p)
	c.unclean = false
	c.removing = without(p.Replicas, target)
	slices.Sort(c.removing)
	c.replicas = slices.Concat(target, c.removing)
	c.adding = without(c.replicas, original)
	slices.Sort(c.adding)
	return c.record(t.ID), nil
}

// cancel is the change by which p gets its replicas back.
func (r *reassigner) cancel(t *metadata.Topic, p *metadata.Partition, _ []int32) (*metadatapb.PartitionChangeRecord, error) {
	if !p.Reassigning() {
		return nil, kerr.NoReassignmentInProgress
	}
	c := r.rules.change(t, p)
	c.replicas, c.isr = without(p.Replicas, p.AddingReplicas), without(p.ISR, p.AddingReplicas)
	c.adding, c.removing = nil, nil
	rec := c.record(t.ID)
	next := p.Changed(rec)
	if !next.HasLeader() && (p.HasLeader() || len(next.ISR)+len(next.ELR) == 0) {
		return nil, refuse(kerr.InvalidReplicaAssignment,
			"Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", t.Name, p.ID)
	}
	return rec, nil
}

// listPartitionReassignments answers ListPartitionReassignments, key 46, version
// 0 (KIP-455): the reassignments under way of the partitions asked for, or of
// all. What does not exist is left out.
func listPartitionReassignments(im *metadata.Image, req *kmsg.ListPartitionReassignmentsRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	add := func(t *metadata.Topic, partitions []*metadata.Partition) {
		res := kmsg.NewListPartitionReassignmentsResponseTopic()
		res.Topic = t.Name
		for _, p := range partitions {
			if p.Reassigning() {
				res.Partitions = append(res.Partitions, reassignment(p))
			}
		}
		if len(res.Partitions) > 0 {
			resp.Topics = append(resp.Topics, res)
		}
	}
	if req.Topics == nil {
		for t := range im.Topics() {
			add(t, t.Partitions)
		}
	}
	for _, wanted := range req.Topics {
		t, ok := im.Topic(wanted.Topic)
		if !ok {
			continue
		}
		var partitions []*metadata.Partition
		for _, id := range wanted.Partitions {
			if p, ok := im.Partition(t.ID, id); ok {
				partitions = append(partitions, p)
			}
		}
		add(t, partitions)
	}
	return Outcome{Response: resp}
}

func reassignment(p *metadata.Partition) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	res := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	res.Partition, res.Replicas = p.ID, p.Replicas
	res.AddingReplicas, res.RemovingReplicas = p.AddingReplicas, p.RemovingReplicas
	return res
}
