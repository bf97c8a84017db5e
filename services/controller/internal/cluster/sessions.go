package cluster

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Sessions is what the active controller alone knows: when it last heard of
// each node. It belongs to one term of one controller, and every request of that
// term goes through it in order.
type Sessions struct {
	timeoutMs int64
	nodes     map[int32]session
}

type session struct {
	// heardMs is the time of the last request of the node, or of the start of
	// the term.
	heardMs int64
	// presumed is set until the node has been heard of in this term.
	presumed bool
	// absent is set while the node's process has left the bus, as far as is known,
	// and nobody has confirmed that it ended.
	absent bool
	// offset is that of the node's image, -1 before its first heartbeat.
	offset int64
	// shutdownOffset is the offset that the other nodes must have seen before a
	// node in controlled shutdown may go; -1 for the others.
	shutdownOffset int64
}

// NewSessions begins a term. Nodes that are not fenced have the whole timeout
// (broker.session.timeout.ms) to be heard of.
func NewSessions(im *metadata.Image, env Env) *Sessions {
	s := &Sessions{timeoutMs: max(env.Static.Long("broker.session.timeout.ms"), 0), nodes: map[int32]session{}}
	for n := range im.Nodes() {
		s.nodes[n.ID] = session{heardMs: env.NowMs, presumed: true, offset: -1, shutdownOffset: -1}
	}
	return s
}

// TimeoutMs is broker.session.timeout.ms.
func (s *Sessions) TimeoutMs() int64 { return s.timeoutMs }

// of is the session of a node. A registration that this term has not handled,
// which a correct caller never has, counts as silent for ever.
func (s *Sessions) of(id int32) session {
	if v, ok := s.nodes[id]; ok {
		return v
	}
	return session{heardMs: math.MinInt64 / 2, presumed: true, offset: -1, shutdownOffset: -1}
}

func (s *Sessions) touch(id int32, nowMs int64) {
	v := s.of(id)
	v.heardMs, v.presumed, v.absent = nowMs, false, false
	s.nodes[id] = v
}

// alive says whether the node's process is known to run. A process that was
// only presumed to run, at the start of the term, must not keep its successor
// out: after a restart of everything all nodes come back as new processes. Nor
// must one that has left the bus: its successor's arrival says that it ended.
func (s *Sessions) alive(n *metadata.Node, nowMs int64) bool {
	v := s.of(n.ID)
	return !n.Fenced && !v.presumed && !v.absent && v.heardMs+s.timeoutMs >= nowMs
}

// NextExpiryMs is the time at which the next session ends if nothing more is
// heard; false when there is none.
func (s *Sessions) NextExpiryMs(im *metadata.Image) (int64, bool) {
	next := int64(math.MaxInt64)
	for n := range im.Nodes() {
		if !n.Fenced {
			next = min(next, s.of(n.ID).heardMs+s.timeoutMs+1)
		}
	}
	return next, next != math.MaxInt64
}

// Expire fences the node that has been silent the longest, if it was silent for
// more than the timeout. It is to be called, on the image with the records of
// the call before, until ok is false: what one fencing changes counts for the
// next.
func (s *Sessions) Expire(im *metadata.Image, env Env) (node int32, recs []*metadatapb.Record, ok bool) {
	var stale *metadata.Node
	for n := range im.Nodes() {
		heard := s.of(n.ID).heardMs
		if !n.Fenced && heard+s.timeoutMs < env.NowMs && (stale == nil || heard < s.of(stale.ID).heardMs) {
			stale = n
		}
	}
	if stale == nil {
		return 0, nil, false
	}
	return stale.ID, fence(im, env, stale), true
}

// Absence is what was seen of a node whose process has left the bus.
type Absence struct {
	NodeID int32
	// Epoch of the registration that the process made.
	Epoch int64
	// SinceMs is a time at which it was absent already.
	SinceMs int64
	// Refused says that another node tried to reach it, and that every one of its
	// listeners refused.
	Refused bool
}

// Absent decides about a node that has left the bus. If another node confirms
// that its process ended it is fenced at once. Otherwise it may be about to
// connect again and has the rest of its session to do so, but does not keep a
// successor out. One that was heard of meanwhile, or has registered anew, is not
// absent.
func (s *Sessions) Absent(im *metadata.Image, env Env, a Absence) (recs []*metadatapb.Record, fenced bool) {
	n, err := currentNode(im, a.NodeID, a.Epoch)
	v := s.of(a.NodeID)
	if err != nil || n.Fenced || v.heardMs > a.SinceMs {
		return nil, false
	}
	if !a.Refused {
		v.absent = true
		s.nodes[n.ID] = v
		return nil, false
	}
	return fence(im, env, n), true
}

// fence takes the node out of service: its partitions find other leaders first.
func fence(im *metadata.Image, env Env, n *metadata.Node) []*metadatapb.Record {
	recs := partitionChanges(im, env, turn{removed: n.ID, added: nobody, crashed: nobody})
	return append(recs, fencedRecord(n, true))
}

// unfence puts the node into service: it leads what nobody else can.
func unfence(im *metadata.Image, env Env, n *metadata.Node) []*metadatapb.Record {
	recs := []*metadatapb.Record{fencedRecord(n, false)}
	return append(recs, partitionChanges(im, env, turn{removed: nobody, added: n.ID, crashed: nobody})...)
}

// currentNode finds the registration that a request of a node comes from.
func currentNode(im *metadata.Image, id int32, epoch int64) (*metadata.Node, error) {
	n, ok := im.Node(id)
	if !ok {
		return nil, refuse(kerr.StaleBrokerEpoch, "No broker registration found for broker id %d", id)
	}
	if n.Epoch != epoch {
		return nil, refuse(kerr.StaleBrokerEpoch, "Expected broker epoch %d, but got broker epoch %d", n.Epoch, epoch)
	}
	return n, nil
}
