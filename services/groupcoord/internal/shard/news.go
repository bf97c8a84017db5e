package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	consumers "github.com/cauce-stream/cauce/services/groupcoord/internal/consumer"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// News is what a newer image has changed of what groups see.
type News struct {
	// Since is the offset of the image before: whoever has seen that one or a later one need not look at what is not named here.
	Since int64
	// Topics are the names of those that were created, changed or deleted; a name may be there twice.
	Topics []string
	// Deleted says that topics were deleted, Racks that a node is in another rack.
	Deleted, Racks bool
}

// NewsOf is what a delta on an image has changed.
func NewsOf(before *metadata.Image, d *metadata.Delta) News {
	n := News{Since: before.Offset(), Deleted: len(d.DeletedTopics) > 0}
	for _, t := range slices.Concat(d.ChangedTopics, d.DeletedTopics) {
		n.Topics = append(n.Topics, t.Name)
	}
	for _, changed := range d.ChangedNodes {
		old, known := before.Node(changed.ID)
		n.Racks = n.Racks || changed.Rack != "" && !known || known && old.Rack != changed.Rack
	}
	for _, removed := range d.RemovedNodes {
		n.Racks = n.Racks || removed.Rack != ""
	}
	return n
}

// Concerns says whether groups may see any of it.
func (n *News) Concerns() bool { return len(n.Topics) > 0 || n.Racks }

// OnImage takes over a newer image and the settings that go with it, which are the same pointer while they are the same. The image must
// not be one in which the shard belongs to another node: what it does not know would be taken for deleted, although whoever owns the
// shard may know better.
func (m *Machine) OnImage(now time.Time, im *metadata.Image, s *op.Settings, n News) coordinator.Step {
	missed := m.image.Offset() < n.Since
	all := missed || n.Racks || m.settings != s
	m.image, m.settings = im, s
	o := m.begin(now)
	if missed || n.Deleted {
		m.deleteTopics(o)
	}
	m.concern(all, n.Topics)
	m.showConsumers(o)
	if s.Broker.DurationMs(expiryInterval) != m.expiryEvery {
		m.armExpiry(o)
	}
	return o.Step()
}

// concern notes which consumer groups have to look at the image: all, or those that the topics are of interest to.
func (m *Machine) concern(all bool, topics []string) {
	if !all {
		for id := range m.subscriptions.To(topics) {
			m.unshown[id] = true
		}
		return
	}
	for id, g := range m.groups {
		if g.Type() == consumers.Type {
			m.unshown[id] = true
		}
	}
}

// showConsumers lets the consumer groups that have to look at the image, in order, so that runs repeat.
func (m *Machine) showConsumers(o *op.Op) {
	for _, id := range slices.Sorted(maps.Keys(m.unshown)) {
		if !hasRoom(o) {
			o.SetTimer(op.TimerKey{Kind: imageTimer}, m.next(o))
			return
		}
		delete(m.unshown, id)
		if g, ok := m.groups[id].(*consumers.Group); ok {
			g.OnImage(o)
		}
	}
}
