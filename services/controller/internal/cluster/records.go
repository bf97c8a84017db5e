package cluster

import (
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

func nodeName(id int32) string { return strconv.Itoa(int(id)) }

func topicResource(name string) metadata.Resource {
	return metadata.Resource{Type: metadata.TopicConfig, Name: name}
}

func clusterRecord(id string) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Cluster{
		Cluster: &metadatapb.ClusterRecord{ClusterId: id},
	}}
}

func leaderChangeRecord(id int32, term int64) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_LeaderChange{
		LeaderChange: &metadatapb.LeaderChangeRecord{LeaderId: id, LeaderEpoch: term},
	}}
}

func featureRecord(name string, level int16) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_FeatureLevel{
		FeatureLevel: &metadatapb.FeatureLevelRecord{Name: name, FeatureLevel: int32(level)},
	}}
}

func featureRecords(levels map[string]int16) []*metadatapb.Record {
	var recs []*metadatapb.Record
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		recs = append(recs, featureRecord(name, levels[name]))
	}
	return recs
}

func topicRecord(name string, id metadata.TopicID) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Topic{
		Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]},
	}}
}

func removeTopicRecord(id metadata.TopicID) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{
		RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: id[:]},
	}}
}

// newPartitionRecord is a partition at its birth: the first replica in sync leads.
func newPartitionRecord(topic metadata.TopicID, id int32, replicas, isr []int32) *metadatapb.Record {
	p := metadata.Partition{ID: id, Leader: isr[0], Replicas: replicas, ISR: isr}
	return &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(topic)}}
}

func partitionChangeRecord(c *metadatapb.PartitionChangeRecord) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: c}}
}

// configRecord sets an override, or removes it when value is nil.
func configRecord(r metadata.Resource, key string, value *string) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
		ResourceType: int32(r.Type), ResourceName: r.Name, Name: key, Value: value,
	}}}
}

func registerRecord(n *metadata.Node) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}}
}

func unregisterRecord(n *metadata.Node) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_UnregisterBroker{
		UnregisterBroker: &metadatapb.UnregisterBrokerRecord{BrokerId: n.ID, BrokerEpoch: n.Epoch},
	}}
}

func fencedRecord(n *metadata.Node, fenced bool) *metadatapb.Record {
	change := &metadatapb.BrokerRegistrationChangeRecord{
		BrokerId: n.ID, BrokerEpoch: n.Epoch, Fenced: proto.Bool(fenced),
	}
	if fenced && n.InControlledShutdown {
		// A fenced node has left; the shutdown is over with it.
		change.InControlledShutdown = proto.Bool(false)
	}
	return &metadatapb.Record{Record: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: change}}
}

func controlledShutdownRecord(n *metadata.Node) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_BrokerRegistrationChange{
		BrokerRegistrationChange: &metadatapb.BrokerRegistrationChangeRecord{
			BrokerId: n.ID, BrokerEpoch: n.Epoch, InControlledShutdown: proto.Bool(true),
		},
	}}
}

func producerIDsRecord(n *metadata.Node, next int64) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_ProducerIds{
		ProducerIds: &metadatapb.ProducerIdsRecord{BrokerId: n.ID, BrokerEpoch: n.Epoch, NextProducerId: next},
	}}
}

func shardRecord(s *metadatapb.CoordinatorShardRecord) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: s}}
}
