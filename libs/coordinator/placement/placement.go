// Package placement has a coordinator own the shards that the metadata gives to its node, and no others.
package placement

import "github.com/cauce-stream/cauce/libs/metadata"

// Owner is what runs the shards: coordinator.Runtime.
type Owner interface {
	Own(shard, epoch int32)
	Release(shard, epoch int32)
}

// Placement is that of one topic's shards on one node.
type Placement struct {
	Topic  string
	NodeID int32
	Shards Owner
}

// Release gives up the shards that are another's since the image before, and all when their topic was deleted. It comes before the
// rest of an update, as an image may be shown to an owner only.
func (p Placement) Release(before *metadata.Image, d *metadata.Delta) {
	for _, t := range d.DeletedTopics {
		if t.Name != p.Topic {
			continue
		}
		for id, owned := range before.Shards(t.Name) {
			p.Shards.Release(id, owned.Epoch)
		}
	}
	for _, c := range d.ChangedShards {
		if c.Topic == p.Topic && c.Owner != p.NodeID {
			p.Shards.Release(c.Partition, c.Epoch)
		}
	}
}

// Own takes the shards that belong to the registration of that epoch. Those in an image from before it belong to the process that
// was this node then. They cannot be taken over under their epoch: batches are numbered within it, so that a fence might be
// taken for that process's last batch, which would be lost to who loads up to the fence.
func (p Placement) Own(im *metadata.Image, registration int64) {
	if self, ok := im.Node(p.NodeID); !ok || self.Epoch != registration {
		return
	}
	for id, owned := range im.Shards(p.Topic) {
		if owned.Owner == p.NodeID {
			p.Shards.Own(id, owned.Epoch)
		}
	}
}
