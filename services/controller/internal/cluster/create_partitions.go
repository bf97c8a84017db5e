package cluster

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// createPartitions decides CreatePartitions, key 37, versions 0 to 3 (KIP-195).
// Each topic succeeds or fails by itself.
func createPartitions(im *metadata.Image, env Env, req *kmsg.CreatePartitionsRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	counts := map[string]int{}
	for _, t := range req.Topics {
		counts[t.Topic]++
	}
	var recs []*metadatapb.Record
	for i := range req.Topics {
		t := &req.Topics[i]
		var err error
		switch n := counts[t.Topic]; {
		case n < 0: // answered as a duplicate
			continue
		case n > 1:
			counts[t.Topic] = -1
			err = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		default:
			recs, err = growTopic(im, env, t, recs)
		}
		res := kmsg.NewCreatePartitionsResponseTopic()
		res.Topic = t.Topic
		res.ErrorCode, res.ErrorMessage = answer(err)
		resp.Topics = append(resp.Topics, res)
	}
	if req.ValidateOnly {
		recs = nil
	}
	return Outcome{Response: resp, Records: recs}
}

// growTopic appends the records of a topic's new partitions to recs.
func growTopic(im *metadata.Image, env Env, t *kmsg.CreatePartitionsRequestTopic, recs []*metadatapb.Record) ([]*metadatapb.Record, error) {
	topic, ok := im.Topic(t.Topic)
	if !ok {
		return recs, kerr.UnknownTopicOrPartition
	}
	have := len(topic.Partitions)
	added := int(t.Count) - have
	switch {
	case added == 0:
		return recs, refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case added < 0:
		return recs, refuse(kerr.InvalidPartitions,
			"The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, have, t.Count)
	case t.Assignment != nil && len(t.Assignment) != added:
		return recs, refuse(kerr.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", added, len(t.Assignment))
	}
	partitions, err := grownPartitions(im, env, topic, t, added, len(recs))
	if err != nil {
		return recs, err
	}
	for i, p := range partitions {
		recs = append(recs, newPartitionRecord(topic.ID, int32(have+i), p.replicas, p.isr))
	}
	return recs, nil
}

func grownPartitions(im *metadata.Image, env Env, topic *metadata.Topic, t *kmsg.CreatePartitionsRequestTopic, added, records int) ([]newPartition, error) {
	factor := len(topic.Partitions[0].Replicas) - len(topic.Partitions[0].RemovingReplicas)
	if t.Assignment == nil {
		return placeNew(im, env, added, factor, records)
	}
	if err := checkRecordLimit(records + added); err != nil {
		return nil, err
	}
	partitions := make([]newPartition, added)
	for i, a := range t.Assignment {
		p, err := assignedPartition(im, int32(len(topic.Partitions)+i), a.Replicas, factor)
		if err != nil {
			return nil, err
		}
		partitions[i] = p
	}
	return partitions, nil
}
