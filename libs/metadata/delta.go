package metadata

import (
	"maps"
	"slices"
)

// Delta is what one batch of records changed.
type Delta struct {
	// Offset is the new image's.
	Offset int64
	// ChangedTopics are the new versions of the topics that were created or
	// changed in any partition, in order of name.
	ChangedTopics []*Topic
	// DeletedTopics are the last versions of the topics that are gone, in order
	// of name. A topic that was deleted and created again is in both lists with
	// different ids.
	DeletedTopics []*Topic
	// ChangedNodes are the new versions of nodes, in order of id.
	ChangedNodes []*Node
	// RemovedNodes are the last versions of the nodes that are gone, in order
	// of id.
	RemovedNodes []*Node
	// ChangedShards are the new versions of the coordinators' shards, in order of
	// topic and partition. The shards of a deleted topic are gone with it.
	ChangedShards []ShardChange
	// ChangedConfigs are the resources with an override set or removed.
	ChangedConfigs []Resource
	// FeaturesChanged says that finalized features differ.
	FeaturesChanged bool
	// ControllerChanged says that there is another active controller, or the
	// same one in another term.
	ControllerChanged bool
}

// Diff is the difference between two images of one log, old first, as a
// follower needs it that loaded a snapshot instead of applying the records in
// between. It takes time proportional to the size of the images.
func Diff(old, next *Image) *Delta {
	d := &Delta{Offset: next.offset}
	for t := range next.Topics() {
		if o, ok := old.TopicByID(t.ID); !ok || !sameTopic(o, t) {
			d.ChangedTopics = append(d.ChangedTopics, t)
		}
	}
	for t := range old.Topics() {
		if _, ok := next.TopicByID(t.ID); !ok {
			d.DeletedTopics = append(d.DeletedTopics, t)
		}
	}
	for n := range next.Nodes() {
		if o, ok := old.Node(n.ID); !ok || !sameNode(o, n) {
			d.ChangedNodes = append(d.ChangedNodes, n)
		}
	}
	for n := range old.Nodes() {
		if _, ok := next.Node(n.ID); !ok {
			d.RemovedNodes = append(d.RemovedNodes, n)
		}
	}
	d.ChangedShards = changedShards(old, next)
	d.ChangedConfigs = diffConfigs(old, next)
	d.FeaturesChanged = !maps.Equal(old.features, next.features)
	d.ControllerChanged = old.controllerID != next.controllerID || old.controllerEpoch != next.controllerEpoch
	return d
}

func diffConfigs(old, next *Image) []Resource {
	var changed []Resource
	next.configs.Scan(func(e configEntry) bool {
		if !maps.Equal(old.Config(e.resource), e.values) {
			changed = append(changed, e.resource)
		}
		return true
	})
	old.configs.Scan(func(e configEntry) bool {
		if next.Config(e.resource) == nil {
			changed = append(changed, e.resource)
		}
		return true
	})
	slices.SortFunc(changed, Resource.compare)
	return changed
}
