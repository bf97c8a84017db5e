package metadata

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Apply is the image after recs, and what they changed. offset is the position
// of the last of recs in the metadata log and must be greater than im's. The
// image keeps parts of recs, which must not be changed afterwards.
//
// On an error, which means that the log is damaged or was written by a newer
// release, there is no new image; im is never touched.
func (im *Image) Apply(offset int64, recs []*metadatapb.Record) (*Image, *Delta, error) {
	if offset <= im.offset {
		return nil, nil, fmt.Errorf("metadata: batch at offset %d applied to an image at offset %d", offset, im.offset)
	}
	a := newApplier(im, offset)
	if err := a.applyAll(recs); err != nil {
		return nil, nil, err
	}
	return a.next, a.finish(), nil
}

// Restore is the image that a snapshot's batches add up to; offset is the
// snapshot's. Only what the image is made of stays in memory, not all records at
// once.
func Restore(offset int64, batches iter.Seq2[[]*metadatapb.Record, error]) (*Image, error) {
	a := newApplier(Empty(), offset)
	for recs, err := range batches {
		if err == nil {
			err = a.applyAll(recs)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.next, nil
}

// applier builds one image. Topics, nodes, configs and shards in its maps are copies of
// this batch's own, which it may still change.
type applier struct {
	old     *Image
	next    *Image
	topics  map[TopicID]*Topic
	deleted map[TopicID]*Topic
	nodes   map[int32]*Node
	removed map[int32]*Node
	configs map[Resource]map[string]string
	shards  map[TopicID][]Shard
	delta   *Delta
}

func newApplier(old *Image, offset int64) *applier {
	a := &applier{
		old:     old,
		next:    old.fork(),
		topics:  map[TopicID]*Topic{},
		deleted: map[TopicID]*Topic{},
		nodes:   map[int32]*Node{},
		removed: map[int32]*Node{},
		configs: map[Resource]map[string]string{},
		shards:  map[TopicID][]Shard{},
		delta:   &Delta{Offset: offset},
	}
	a.next.offset = offset
	return a
}

func (a *applier) applyAll(recs []*metadatapb.Record) error {
	for i, r := range recs {
		if err := a.apply(r); err != nil {
			return fmt.Errorf("metadata: record %d of the batch at offset %d: %w", i, a.next.offset, err)
		}
	}
	return nil
}

func (a *applier) finish() *Delta {
	d := a.delta
	d.ChangedTopics = sortedTopics(a.topics)
	d.DeletedTopics = sortedTopics(a.deleted)
	d.ChangedNodes = sortedNodes(a.nodes)
	d.RemovedNodes = sortedNodes(a.removed)
	if len(a.shards) > 0 {
		d.ChangedShards = changedShards(a.old, a.next)
	}
	if len(a.configs) > 0 {
		d.ChangedConfigs = slices.SortedFunc(maps.Keys(a.configs), Resource.compare)
	}
	return d
}

func (a *applier) apply(rec *metadatapb.Record) error {
	switch r := rec.GetRecord().(type) {
	case *metadatapb.Record_Topic:
		return a.topic(r.Topic)
	case *metadatapb.Record_RemoveTopic:
		return a.removeTopic(r.RemoveTopic)
	case *metadatapb.Record_Partition:
		return a.partition(r.Partition)
	case *metadatapb.Record_PartitionChange:
		return a.partitionChange(r.PartitionChange)
	case *metadatapb.Record_RegisterBroker:
		return a.registerBroker(r.RegisterBroker)
	case *metadatapb.Record_UnregisterBroker:
		return a.unregisterBroker(r.UnregisterBroker)
	case *metadatapb.Record_BrokerRegistrationChange:
		return a.registrationChange(r.BrokerRegistrationChange)
	case *metadatapb.Record_CoordinatorShard:
		return a.coordinatorShard(r.CoordinatorShard)
	case *metadatapb.Record_Config:
		a.config(r.Config)
	case *metadatapb.Record_FeatureLevel:
		a.next.setFeature(r.FeatureLevel.GetName(), int16(r.FeatureLevel.GetFeatureLevel()))
		a.delta.FeaturesChanged = true
	case *metadatapb.Record_ProducerIds:
		a.next.nextProducerID = r.ProducerIds.GetNextProducerId()
	case *metadatapb.Record_Cluster:
		a.next.clusterID = r.Cluster.GetClusterId()
	case *metadatapb.Record_LeaderChange:
		a.next.controllerID = r.LeaderChange.GetLeaderId()
		a.next.controllerEpoch = r.LeaderChange.GetLeaderEpoch()
		a.delta.ControllerChanged = true
	case *metadatapb.Record_NoOp:
	default:
		return fmt.Errorf("of a kind that this release does not know (%T)", r)
	}
	return nil
}

func (a *applier) topic(r *metadatapb.TopicRecord) error {
	id, err := topicIDFromBytes(r.GetTopicId())
	if err != nil {
		return err
	}
	if _, ok := a.next.TopicByID(id); ok {
		return fmt.Errorf("topic id %s exists already", id)
	}
	if _, ok := a.next.Topic(r.GetName()); ok {
		return fmt.Errorf("topic %q exists already", r.GetName())
	}
	t := &Topic{Name: r.GetName(), ID: id}
	a.topics[id] = t
	a.next.putTopic(t)
	return nil
}

func (im *Image) putTopic(t *Topic) {
	im.topics.Set(t.Name, t)
	im.topicIDs.Set(idEntry{id: t.ID, topic: t})
	if mayCollide(t.Name) {
		im.collisions.Set(collisionKey(t.Name, t.Name), t)
	}
}

// ownTopic is the batch's own copy of a topic.
func (a *applier) ownTopic(idBytes []byte) (*Topic, error) {
	id, err := topicIDFromBytes(idBytes)
	if err != nil {
		return nil, err
	}
	if t, ok := a.topics[id]; ok {
		return t, nil
	}
	t, ok := a.next.TopicByID(id)
	if !ok {
		return nil, fmt.Errorf("no topic has id %s", id)
	}
	own := &Topic{Name: t.Name, ID: t.ID, Partitions: slices.Clone(t.Partitions)}
	a.topics[id] = own
	a.next.putTopic(own)
	return own, nil
}

func (a *applier) removeTopic(r *metadatapb.RemoveTopicRecord) error {
	id, err := topicIDFromBytes(r.GetTopicId())
	if err != nil {
		return err
	}
	t, ok := a.next.TopicByID(id)
	if !ok {
		return fmt.Errorf("no topic has id %s", id)
	}
	delete(a.topics, id)
	if _, seen := a.old.TopicByID(id); seen {
		a.deleted[id] = t
	}
	a.next.partitionCount -= len(t.Partitions)
	a.next.topics.Delete(t.Name)
	a.next.topicIDs.Delete(idEntry{id: id})
	if mayCollide(t.Name) {
		a.next.collisions.Delete(collisionKey(t.Name, t.Name))
	}
	a.dropShards(id)
	// A topic's overrides go with it, as in Kafka.
	a.dropConfigs(Resource{Type: TopicConfig, Name: t.Name})
	return nil
}

func (a *applier) partition(r *metadatapb.PartitionRecord) error {
	t, err := a.ownTopic(r.GetTopicId())
	if err != nil {
		return err
	}
	p := &Partition{
		ID:                  r.GetPartitionId(),
		Leader:              r.GetLeader(),
		LeaderEpoch:         r.GetLeaderEpoch(),
		PartitionEpoch:      r.GetPartitionEpoch(),
		LeaderRecoveryState: int8(r.GetLeaderRecoveryState()),
		Replicas:            ids(r.GetReplicas()),
		ISR:                 ids(r.GetIsr()),
		AddingReplicas:      ids(r.GetAddingReplicas()),
		RemovingReplicas:    ids(r.GetRemovingReplicas()),
		ELR:                 ids(r.GetEligibleLeaderReplicas()),
		LastKnownELR:        ids(r.GetLastKnownElr()),
		Offline:             ids(r.GetOfflineReplicas()),
	}
	if int(p.ID) != len(t.Partitions) {
		return fmt.Errorf("partition %s-%d follows partition %d", t.Name, p.ID, len(t.Partitions)-1)
	}
	t.Partitions = append(t.Partitions, p)
	a.next.partitionCount++
	return nil
}

func (a *applier) partitionChange(r *metadatapb.PartitionChangeRecord) error {
	t, err := a.ownTopic(r.GetTopicId())
	if err != nil {
		return err
	}
	id := r.GetPartitionId()
	if id < 0 || int(id) >= len(t.Partitions) {
		return fmt.Errorf("topic %s has no partition %d", t.Name, id)
	}
	t.Partitions[id] = t.Partitions[id].Changed(r)
	return nil
}

// Changed is the partition after a change of it.
func (p *Partition) Changed(r *metadatapb.PartitionChangeRecord) *Partition {
	next := *p
	next.PartitionEpoch++
	if r.Leader != nil {
		next.Leader = r.GetLeader()
		next.LeaderEpoch++
	}
	if r.LeaderRecoveryState != nil {
		next.LeaderRecoveryState = int8(r.GetLeaderRecoveryState())
	}
	change(&next.Replicas, r.GetReplicas())
	change(&next.ISR, r.GetIsr())
	change(&next.AddingReplicas, r.GetAddingReplicas())
	change(&next.RemovingReplicas, r.GetRemovingReplicas())
	change(&next.ELR, r.GetEligibleLeaderReplicas())
	change(&next.LastKnownELR, r.GetLastKnownElr())
	change(&next.Offline, r.GetOfflineReplicas())
	return &next
}

func change(list *[]int32, to *metadatapb.Replicas) {
	if to != nil {
		*list = ids(to.GetIds())
	}
}

// ids is the list of a record as images have it: shared, and nil when empty.
func ids(list []int32) []int32 {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (a *applier) registerBroker(r *metadatapb.RegisterBrokerRecord) error {
	incarnation, err := uuidFromBytes(r.GetIncarnationId())
	if err != nil {
		return fmt.Errorf("incarnation of node %d: %w", r.GetBrokerId(), err)
	}
	n := &Node{
		ID:                   r.GetBrokerId(),
		Epoch:                r.GetBrokerEpoch(),
		Incarnation:          incarnation,
		Rack:                 r.GetRack(),
		Roles:                slices.Clone(r.GetRoles()),
		Fenced:               r.GetFenced(),
		InControlledShutdown: r.GetInControlledShutdown(),
		Features:             map[string]FeatureRange{},
	}
	for _, e := range r.GetEndPoints() {
		n.Listeners = append(n.Listeners, Listener{
			Name: e.GetName(), Host: e.GetHost(),
			Port: uint16(e.GetPort()), SecurityProtocol: int16(e.GetSecurityProtocol()),
		})
	}
	for _, f := range r.GetFeatures() {
		n.Features[f.GetName()] = FeatureRange{
			Min: int16(f.GetMinSupportedVersion()), Max: int16(f.GetMaxSupportedVersion()),
		}
	}
	if n.LogDirs, err = uuidsFromBytes(r.GetLogDirs()); err != nil {
		return fmt.Errorf("log directories of node %d: %w", n.ID, err)
	}
	a.putNode(n)
	return nil
}

func (a *applier) putNode(n *Node) {
	a.next.nodes.Set(n.ID, n)
	a.nodes[n.ID] = n
	delete(a.removed, n.ID)
}

// registeredNode is the node that a record with an epoch means.
func (a *applier) registeredNode(id int32, epoch int64) (*Node, error) {
	n, ok := a.next.Node(id)
	if !ok {
		return nil, fmt.Errorf("no node has id %d", id)
	}
	if n.Epoch != epoch {
		return nil, fmt.Errorf("node %d has epoch %d instead of %d", id, n.Epoch, epoch)
	}
	return n, nil
}

func (a *applier) unregisterBroker(r *metadatapb.UnregisterBrokerRecord) error {
	n, err := a.registeredNode(r.GetBrokerId(), r.GetBrokerEpoch())
	if err != nil {
		return err
	}
	a.next.nodes.Delete(n.ID)
	delete(a.nodes, n.ID)
	if _, seen := a.old.Node(n.ID); seen {
		a.removed[n.ID] = n
	}
	return nil
}

func (a *applier) registrationChange(r *metadatapb.BrokerRegistrationChangeRecord) error {
	old, err := a.registeredNode(r.GetBrokerId(), r.GetBrokerEpoch())
	if err != nil {
		return err
	}
	n := *old
	if r.Fenced != nil {
		n.Fenced = r.GetFenced()
	}
	if r.InControlledShutdown != nil {
		n.InControlledShutdown = r.GetInControlledShutdown()
	}
	if len(r.GetLogDirs()) > 0 {
		if n.LogDirs, err = uuidsFromBytes(r.GetLogDirs()); err != nil {
			return fmt.Errorf("log directories of node %d: %w", n.ID, err)
		}
	}
	a.putNode(&n)
	return nil
}

func (a *applier) config(r *metadatapb.ConfigRecord) {
	resource := Resource{Type: ConfigResourceType(r.GetResourceType()), Name: r.GetResourceName()}
	values := a.ownConfig(resource)
	if r.Value == nil {
		delete(values, r.GetName())
	} else {
		values[r.GetName()] = r.GetValue()
	}
	if len(values) == 0 {
		a.next.configs.Delete(configEntry{resource: resource})
		return
	}
	a.next.configs.Set(configEntry{resource: resource, values: values})
}

// ownConfig is the batch's own copy of a resource's overrides.
func (a *applier) ownConfig(r Resource) map[string]string {
	values, ok := a.configs[r]
	if !ok || values == nil {
		values = maps.Clone(a.next.Config(r))
		if values == nil {
			values = map[string]string{}
		}
		a.configs[r] = values
	}
	return values
}

func (a *applier) dropConfigs(r Resource) {
	if _, ok := a.next.configs.Delete(configEntry{resource: r}); ok {
		a.configs[r] = nil // whatever is set after this starts anew
	}
}
