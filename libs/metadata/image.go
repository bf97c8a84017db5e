// Package metadata is the cluster's metadata as every node sees it: the records
// of the metadata log, the immutable image that they add up to, and the
// difference between two images.
//
// The package is pure: an image is a function of the records.
package metadata

import (
	"cmp"
	"iter"
	"maps"
	"strings"

	"github.com/tidwall/btree"
)

// ConfigResourceType is Kafka's number for a kind of configured resource.
type ConfigResourceType int8

// The resource types that have stored configs.
const (
	TopicConfig         ConfigResourceType = 2
	BrokerConfig        ConfigResourceType = 4
	BrokerLoggerConfig  ConfigResourceType = 8
	ClientMetricsConfig ConfigResourceType = 16
	GroupConfig         ConfigResourceType = 32
)

// Resource names what a config belongs to. The broker resource with an empty
// name is the default of all brokers.
type Resource struct {
	Type ConfigResourceType
	Name string
}

func (r Resource) compare(o Resource) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), cmp.Compare(r.Name, o.Name))
}

type idEntry struct {
	id    TopicID
	topic *Topic
}

type configEntry struct {
	resource Resource
	values   map[string]string
}

// Image is the metadata at one offset of the log. It never changes and may be
// read from any goroutine; versions share what did not differ. What its methods
// return must not be changed.
type Image struct {
	offset          int64
	clusterID       string
	controllerID    int32
	controllerEpoch int64
	nextProducerID  int64
	partitionCount  int
	features        map[string]int16
	// shards has the topics with a shard that ever had an owner. Neither the map
	// nor a list in it changes once the image is published.
	shards map[TopicID][]Shard

	// No tree in a published image is written, nor copied in place (that would
	// write its owner mark): see fork.
	topics   btree.Map[string, *Topic]
	topicIDs btree.BTreeG[idEntry]
	// collisions has the topics whose name contains '.' or '_', by
	// collisionKey.
	collisions btree.Map[string, *Topic]
	nodes      btree.Map[int32, *Node]
	configs    btree.BTreeG[configEntry]
}

// Empty is the image before the first record. Its offset is -1.
func Empty() *Image {
	return &Image{
		offset:       -1,
		controllerID: -1,
		features:     map[string]int16{},
		topicIDs: *btree.NewBTreeGOptions(func(a, b idEntry) bool {
			return string(a.id[:]) < string(b.id[:])
		}, btree.Options{NoLocks: true}),
		configs: *btree.NewBTreeGOptions(func(a, b configEntry) bool {
			return a.resource.compare(b.resource) < 0
		}, btree.Options{NoLocks: true}),
	}
}

// fork is a copy of im whose trees may be written. Copying a tree by value first
// leaves im's own owner mark alone, so that im may be forked by many at once;
// the copy's new mark makes it clone each shared node before writing to it.
func (im *Image) fork() *Image {
	next := *im
	next.topics = *next.topics.Copy()
	next.topicIDs = *next.topicIDs.Copy()
	next.collisions = *next.collisions.Copy()
	next.nodes = *next.nodes.Copy()
	next.configs = *next.configs.Copy()
	return &next
}

// Offset is the position in the metadata log of the last record applied; -1
// before the first.
func (im *Image) Offset() int64 { return im.offset }

// ClusterID is the cluster's id; empty before the first record.
func (im *Image) ClusterID() string { return im.clusterID }

// ControllerID is the node id of the active controller; -1 when none was ever.
func (im *Image) ControllerID() int32 { return im.controllerID }

// ControllerEpoch is the raft term in which the active controller was elected.
func (im *Image) ControllerEpoch() int64 { return im.controllerEpoch }

// NextProducerID is the first producer id that was not handed out.
func (im *Image) NextProducerID() int64 { return im.nextProducerID }

// Features are the finalized levels of the cluster's features by name. A
// feature that is not finalized is absent.
func (im *Image) Features() map[string]int16 { return im.features }

// FeaturesEpoch is what ApiVersions reports as finalized_features_epoch. As in
// Kafka with KRaft it is the offset of the image.
func (im *Image) FeaturesEpoch() int64 { return im.offset }

// Topic finds a topic by name.
func (im *Image) Topic(name string) (*Topic, bool) { return im.topics.Get(name) }

// TopicByID finds a topic by id. It does not allocate.
func (im *Image) TopicByID(id TopicID) (*Topic, bool) {
	e, ok := im.topicIDs.Get(idEntry{id: id})
	return e.topic, ok
}

// Topics are all topics in order of name.
func (im *Image) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		im.topics.Scan(func(_ string, t *Topic) bool { return yield(t) })
	}
}

// TopicsFrom are the topics whose name is not less than name, in order of name.
func (im *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		im.topics.Ascend(name, func(_ string, t *Topic) bool { return yield(t) })
	}
}

// TopicCount is the number of topics.
func (im *Image) TopicCount() int { return im.topics.Len() }

// PartitionCount is the number of partitions of all topics.
func (im *Image) PartitionCount() int { return im.partitionCount }

// Partition finds a partition by topic id and index.
func (im *Image) Partition(id TopicID, partition int32) (*Partition, bool) {
	t, ok := im.TopicByID(id)
	if !ok || partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, false
	}
	return t.Partitions[partition], true
}

// CollidingTopic finds a topic whose name differs from name only by '.' in
// place of '_'. Such names would share their metrics' names.
func (im *Image) CollidingTopic(name string) (*Topic, bool) {
	if !mayCollide(name) {
		return nil, false
	}
	prefix := collisionKey(name, "")
	var found *Topic
	im.collisions.Ascend(prefix, func(key string, t *Topic) bool {
		if strings.HasPrefix(key, prefix) && t.Name == name {
			return true
		}
		if strings.HasPrefix(key, prefix) {
			found = t
		}
		return false
	})
	return found, found != nil
}

// mayCollide says whether name contains a character that metrics replace.
func mayCollide(name string) bool { return strings.ContainsAny(name, "._") }

// collisionKey sorts names that collide next to each other. NUL is in no topic
// name.
func collisionKey(name, full string) string {
	return strings.ReplaceAll(name, ".", "_") + "\x00" + full
}

// Node finds a registered node, fenced or not.
func (im *Image) Node(id int32) (*Node, bool) { return im.nodes.Get(id) }

// Nodes are the registered nodes, fenced ones too, in order of id.
func (im *Image) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		im.nodes.Scan(func(_ int32, n *Node) bool { return yield(n) })
	}
}

// Config are the stored overrides of a resource; nil when there are none.
func (im *Image) Config(r Resource) map[string]string {
	e, _ := im.configs.Get(configEntry{resource: r})
	return e.values
}

// ConfigResources are the names of the resources of one type that have
// overrides, in order.
func (im *Image) ConfigResources(t ConfigResourceType) iter.Seq[string] {
	return func(yield func(string) bool) {
		im.configs.Ascend(configEntry{resource: Resource{Type: t}}, func(e configEntry) bool {
			return e.resource.Type == t && yield(e.resource.Name)
		})
	}
}

// setFeature replaces the map, which older images share.
func (im *Image) setFeature(name string, level int16) {
	im.features = maps.Clone(im.features)
	if level == 0 {
		delete(im.features, name)
		return
	}
	im.features[name] = level
}
