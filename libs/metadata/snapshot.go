package metadata

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Records is the image as a snapshot: the shortest log that adds up to it, in a
// fixed order, so that equal images give equal records.
func (im *Image) Records() iter.Seq[*metadatapb.Record] {
	return func(yield func(*metadatapb.Record) bool) {
		_ = im.yieldCluster(yield) && im.yieldNodes(yield) && im.yieldTopics(yield) && im.yieldConfigs(yield)
	}
}

func (im *Image) yieldCluster(yield func(*metadatapb.Record) bool) bool {
	if im.clusterID != "" && !yield(&metadatapb.Record{Record: &metadatapb.Record_Cluster{
		Cluster: &metadatapb.ClusterRecord{ClusterId: im.clusterID},
	}}) {
		return false
	}
	if (im.controllerID != -1 || im.controllerEpoch != 0) && !yield(&metadatapb.Record{Record: &metadatapb.Record_LeaderChange{
		LeaderChange: &metadatapb.LeaderChangeRecord{LeaderId: im.controllerID, LeaderEpoch: im.controllerEpoch},
	}}) {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(im.features)) {
		if !yield(&metadatapb.Record{Record: &metadatapb.Record_FeatureLevel{
			FeatureLevel: &metadatapb.FeatureLevelRecord{Name: name, FeatureLevel: int32(im.features[name])},
		}}) {
			return false
		}
	}
	return im.nextProducerID == 0 || yield(&metadatapb.Record{Record: &metadatapb.Record_ProducerIds{
		// Whom the last block went to is history, not state.
		ProducerIds: &metadatapb.ProducerIdsRecord{BrokerId: -1, BrokerEpoch: -1, NextProducerId: im.nextProducerID},
	}})
}

func (im *Image) yieldNodes(yield func(*metadatapb.Record) bool) bool {
	for n := range im.Nodes() {
		if !yield(&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}}) {
			return false
		}
	}
	return true
}

// Record is the registration that gives this version of the node.
func (n *Node) Record() *metadatapb.RegisterBrokerRecord {
	r := &metadatapb.RegisterBrokerRecord{
		BrokerId:             n.ID,
		BrokerEpoch:          n.Epoch,
		IncarnationId:        slices.Clone(n.Incarnation[:]),
		Rack:                 n.Rack,
		Roles:                n.Roles,
		Fenced:               n.Fenced,
		InControlledShutdown: n.InControlledShutdown,
	}
	for _, l := range n.Listeners {
		r.EndPoints = append(r.EndPoints, &metadatapb.BrokerEndpoint{
			Name: l.Name, Host: l.Host, Port: uint32(l.Port), SecurityProtocol: int32(l.SecurityProtocol),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(n.Features)) {
		f := n.Features[name]
		r.Features = append(r.Features, &metadatapb.BrokerFeature{
			Name: name, MinSupportedVersion: int32(f.Min), MaxSupportedVersion: int32(f.Max),
		})
	}
	for _, dir := range n.LogDirs {
		r.LogDirs = append(r.LogDirs, slices.Clone(dir[:]))
	}
	return r
}

func (im *Image) yieldTopics(yield func(*metadatapb.Record) bool) bool {
	for t := range im.Topics() {
		if !yield(&metadatapb.Record{Record: &metadatapb.Record_Topic{
			Topic: &metadatapb.TopicRecord{Name: t.Name, TopicId: t.ID[:]},
		}}) {
			return false
		}
		for _, p := range t.Partitions {
			if !yield(&metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(t.ID)}}) {
				return false
			}
		}
		if !im.yieldShards(t, yield) {
			return false
		}
	}
	return true
}

// Record is the record that gives this version of the partition.
func (p *Partition) Record(topic TopicID) *metadatapb.PartitionRecord {
	return &metadatapb.PartitionRecord{
		PartitionId:            p.ID,
		TopicId:                topic[:],
		Replicas:               p.Replicas,
		Isr:                    p.ISR,
		RemovingReplicas:       p.RemovingReplicas,
		AddingReplicas:         p.AddingReplicas,
		Leader:                 p.Leader,
		LeaderRecoveryState:    int32(p.LeaderRecoveryState),
		LeaderEpoch:            p.LeaderEpoch,
		PartitionEpoch:         p.PartitionEpoch,
		EligibleLeaderReplicas: p.ELR,
		LastKnownElr:           p.LastKnownELR,
		OfflineReplicas:        p.Offline,
	}
}

func (im *Image) yieldConfigs(yield func(*metadatapb.Record) bool) bool {
	more := true
	im.configs.Scan(func(e configEntry) bool {
		for _, key := range slices.Sorted(maps.Keys(e.values)) {
			if more = yield(&metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
				ResourceType: int32(e.resource.Type), ResourceName: e.resource.Name,
				Name: key, Value: proto.String(e.values[key]),
			}}}); !more {
				return false
			}
		}
		return true
	})
	return more
}

// AppendBatch appends recs to dst as one batch: the length of the message as a
// varint, then a metadatapb.RecordBatch. A log entry is one batch, a snapshot
// several.
func AppendBatch(dst []byte, recs []*metadatapb.Record) ([]byte, error) {
	batch := &metadatapb.RecordBatch{Records: recs}
	dst = binary.AppendUvarint(dst, uint64(proto.Size(batch)))
	dst, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, batch)
	if err != nil {
		return nil, fmt.Errorf("metadata: encode a batch of %d records: %w", len(recs), err)
	}
	return dst, nil
}

// NextBatch splits the first batch off b. It never keeps a reference to b.
func NextBatch(b []byte) (recs []*metadatapb.Record, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, fmt.Errorf("metadata: batch cut short at %d bytes", len(b))
	}
	var batch metadatapb.RecordBatch
	if err := proto.Unmarshal(b[n:n+int(size)], &batch); err != nil {
		return nil, nil, fmt.Errorf("metadata: decode a batch of %d bytes: %w", size, err)
	}
	return batch.GetRecords(), b[n+int(size):], nil
}
