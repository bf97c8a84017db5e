package consumer

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// firstCommitOfMembers is the first version of OffsetCommit whose clients know member epochs (KIP-848).
const firstCommitOfMembers = 9

// AdmitCommit says whether offsets may be committed by whom asks.
func (g *Group) AdmitCommit(_ *op.Op, by offsets.Committer) error {
	if by.Epoch < 0 && len(g.members) == 0 || by.Transactional && by.Epoch == -1 && by.MemberID == "" && by.InstanceID == nil {
		return nil // offsets are stored for someone who is not a member
	}
	m := g.members[by.MemberID]
	switch {
	case m == nil:
		return g.unknown(by.MemberID)
	case !by.Transactional && !m.classic() && by.Version < firstCommitOfMembers:
		return refuse(kerr.UnsupportedVersion, "OffsetCommit version 9 or above must be used by members using the consumer group protocol")
	}
	return m.checkSameEpoch(by.Epoch)
}

// AdmitFetch says whether a member may read offsets at an epoch. Without both anyone may.
func (g *Group) AdmitFetch(memberID string, epoch int32) error {
	if memberID == "" && epoch < 0 {
		return nil
	}
	m := g.members[memberID]
	if m == nil {
		return g.unknown(memberID)
	}
	return m.checkSameEpoch(epoch)
}

// checkSameEpoch refuses a member that names another epoch than its own, in the words of its protocol.
func (m *member) checkSameEpoch(epoch int32) error {
	if epoch == m.current.Epoch {
		return nil
	}
	code := kerr.StaleMemberEpoch
	if m.classic() {
		code = kerr.IllegalGeneration
	}
	return refuse(code, "The received member epoch %d does not match the expected member epoch %d.", epoch, m.current.Epoch)
}

// AdmitDelete lets offsets be deleted, since it is known which topics members subscribe to.
func (g *Group) AdmitDelete() error { return nil }

// Retention is what offsets of topics that nobody subscribes to expire by.
func (g *Group) Retention() offsets.Retention { return offsets.Retention{Expires: true, SinceMs: -1} }
