package classic

import (
	"bytes"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// AdmitCommit says whether offsets may be committed by whom asks, and takes it for a heartbeat. Transactions commit whatever the
// group is doing: their producers do not expect to hear of a rebalance.
func (g *Group) AdmitCommit(o *op.Op, by offsets.Committer) (offsets.Admission, error) {
	if by.Epoch < 0 && g.state == Empty {
		return nil, nil // offsets are stored for someone who is not a member
	}
	if by.Epoch < 0 && by.MemberID == "" && by.InstanceID == nil {
		if by.Transactional {
			return nil, nil
		}
		return nil, kerr.UnknownMemberID
	}
	if err := g.check(by.MemberID, by.InstanceID); err != nil {
		return nil, err
	}
	switch {
	case by.Epoch != g.generation:
		return nil, kerr.IllegalGeneration
	case by.Transactional:
		return nil, nil
	case g.state == CompletingRebalance:
		return nil, kerr.RebalanceInProgress
	}
	g.keepAlive(o, g.members[by.MemberID])
	return nil, nil
}

// AdmitFetch lets anyone read the group's offsets.
func (g *Group) AdmitFetch(string, int32) error { return nil }

// AdmitDelete says whether offsets may be deleted: of a group with members only where it can be told what they subscribe to.
func (g *Group) AdmitDelete() error {
	if g.state != Empty && g.protocolType != consumerType {
		return kerr.NonEmptyGroup
	}
	return nil
}

// Subscribed says whether members subscribe to a topic, or might.
func (g *Group) Subscribed(topic string) bool {
	if g.topics == nil {
		return g.protocolType == consumerType
	}
	return g.topics[topic]
}

// Retention is what offsets of topics that nobody subscribes to expire by.
func (g *Group) Retention() offsets.Retention {
	switch {
	case g.protocolType == "":
		return offsets.Retention{Expires: true, SinceMs: -1}
	case g.state == Empty:
		return offsets.Retention{Expires: true, SinceMs: g.sinceMs}
	case g.state == Stable && g.protocolType == consumerType && g.topics != nil:
		return offsets.Retention{Expires: true, SinceMs: -1}
	}
	// Who knows what members subscribe to once a rebalance is through.
	return offsets.Retention{}
}

// subscriptions are the topics that members subscribe to; nil when that cannot be told.
func (g *Group) subscriptions() map[string]bool {
	if g.protocolType != consumerType {
		return nil
	}
	topics := map[string]bool{}
	for _, m := range g.members {
		names, ok := subscribed(m.metadata(g.protocol))
		if !ok {
			return nil
		}
		for _, t := range names {
			topics[t] = true
		}
	}
	return topics
}

// subscribed are the topics of a consumer's metadata. All versions begin as version 0 does.
func subscribed(metadata []byte) ([]string, bool) {
	if len(metadata) < 2 || int16(binary.BigEndian.Uint16(metadata)) < 0 {
		return nil, false
	}
	metadata = bytes.Clone(metadata)
	metadata[0], metadata[1] = 0, 0
	var s kmsg.ConsumerMemberMetadata
	if err := s.ReadFrom(metadata); err != nil {
		return nil, false
	}
	return s.Topics, true
}
