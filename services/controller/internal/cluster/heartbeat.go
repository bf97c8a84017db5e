package cluster

import (
	"math"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Beat is a node's sign of life and its wish (KIP-631 BrokerHeartbeat).
type Beat struct {
	NodeID int32
	Epoch  int64
	// Offset is that of the node's metadata image.
	Offset int64
	// WantFence asks to be, or to stay, out of service.
	WantFence bool
	// WantShutdown asks to leave in good order.
	WantShutdown bool
}

// BeatAnswer tells a node how it stands.
type BeatAnswer struct {
	// CaughtUp says that the node's image contains its registration.
	CaughtUp bool
	Fenced   bool
	// ShouldShutdown says that the node may end: it leads and coordinates nothing,
	// and all others know.
	ShouldShutdown bool
}

// standing is the state of a node in the eyes of the controller.
type standing int8

const (
	standingFenced standing = iota
	standingActive
	standingLeaving // in controlled shutdown
	standingGone    // fenced, and told to end
)

// Heartbeat decides what a node's sign of life changes: it is unfenced once its
// image contains its registration, or fenced at its wish; on its way out its
// partitions are handed over before it may end, and so are its shards, by
// PlaceShards.
func (s *Sessions) Heartbeat(im *metadata.Image, env Env, b Beat) (BeatAnswer, []*metadatapb.Record, error) {
	n, err := currentNode(im, b.NodeID, b.Epoch)
	if err != nil {
		return BeatAnswer{}, nil, err
	}
	now := standingOf(n)
	next := s.next(im, n, now, b)
	var recs []*metadatapb.Record
	v := s.of(n.ID)
	v.heardMs, v.presumed, v.absent, v.offset = env.NowMs, false, false, b.Offset
	switch {
	case next == now:
	case next == standingActive:
		recs = unfence(im, env, n)
	case next == standingLeaving:
		recs = append(recs, controlledShutdownRecord(n))
		recs = append(recs, partitionChanges(im, env, turn{removed: n.ID, added: nobody, crashed: nobody})...)
		v.shutdownOffset = im.Offset() + 1
	case now != standingFenced:
		recs = fence(im, env, n)
	}
	if next == standingFenced || next == standingGone {
		v.shutdownOffset = -1
	}
	s.nodes[n.ID] = v
	return BeatAnswer{
		CaughtUp:       b.Offset >= n.Epoch,
		Fenced:         next == standingFenced || next == standingGone,
		ShouldShutdown: next == standingGone,
	}, recs, nil
}

func standingOf(n *metadata.Node) standing {
	switch {
	case n.Fenced:
		return standingFenced
	case n.InControlledShutdown:
		return standingLeaving
	}
	return standingActive
}

func (s *Sessions) next(im *metadata.Image, n *metadata.Node, now standing, b Beat) standing {
	switch now {
	case standingFenced:
		switch {
		case b.WantShutdown:
			return standingGone
		case !b.WantFence && b.Offset >= n.Epoch:
			return standingActive
		}
		return standingFenced
	case standingActive:
		switch {
		case b.WantShutdown && (b.WantFence || !isNeeded(im, n.ID)):
			return standingGone
		case b.WantFence:
			return standingFenced
		case b.WantShutdown:
			return standingLeaving
		}
		return standingActive
	}
	if isNeeded(im, n.ID) || s.lowestActiveOffset(im) < s.of(n.ID).shutdownOffset {
		return standingLeaving
	}
	return standingGone
}

// lowestActiveOffset is the offset that every active node has seen.
func (s *Sessions) lowestActiveOffset(im *metadata.Image) int64 {
	lowest := int64(math.MaxInt64)
	for n := range im.Nodes() {
		if n.Active() {
			lowest = min(lowest, s.of(n.ID).offset)
		}
	}
	return lowest
}
