package consumer

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// firstCommitOfMembers is the first version of OffsetCommit whose clients know member epochs (KIP-848).
const firstCommitOfMembers = 9

// AdmitCommit says whether offsets may be committed by whom asks. A member may commit at its present epoch, and at one before it for
// the partitions that it has had since then (KIP-1251): nobody else had them in between.
func (g *Group) AdmitCommit(_ *op.Op, by offsets.Committer) (offsets.Admission, error) {
	if by.Epoch < 0 && len(g.members) == 0 || by.Transactional && by.Epoch == -1 && by.MemberID == "" && by.InstanceID == nil {
		return nil, nil // offsets are stored for someone who is not a member
	}
	m := g.members[by.MemberID]
	switch {
	case m == nil:
		return nil, g.unknown(by.MemberID)
	case !by.Transactional && !m.classic() && by.Version < firstCommitOfMembers:
		return nil, refuse(kerr.UnsupportedVersion, "OffsetCommit version 9 or above must be used by members using the consumer group protocol")
	case by.Epoch == m.current.Epoch:
		return nil, nil
	case by.Epoch > m.current.Epoch:
		return nil, m.stale("Received member epoch %d is newer than current member epoch %d.", by.Epoch, m.current.Epoch)
	}
	return func(id metadata.TopicID, partition int32) error { return m.admit(by.Epoch, id, partition) }, nil
}

// admit says whether the member has had a partition since an epoch before its present one.
func (m *member) admit(epoch int32, id metadata.TopicID, partition int32) error {
	since, has := m.current.Assigned[id][partition]
	if !has {
		since, has = m.current.Revoking[id][partition]
	}
	switch {
	case !has:
		return m.stale("Partition %d of topic %s is not assigned to member %s nor pending revocation.", partition, id, m.id)
	case epoch < since:
		return m.stale("Received member epoch %d is older than assignment epoch %d of partition %d of topic %s.", epoch, since, partition, id)
	}
	return nil
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
	if epoch != m.current.Epoch {
		return m.stale("The received member epoch %d does not match the expected member epoch %d.", epoch, m.current.Epoch)
	}
	return nil
}

// stale is what a member is told that names another epoch than its own, each in the words of its protocol.
func (m *member) stale(format string, args ...any) error {
	code := kerr.StaleMemberEpoch
	if m.classic() {
		code = kerr.IllegalGeneration
	}
	return refuse(code, format, args...)
}

// AdmitDelete lets offsets be deleted, since it is known which topics members subscribe to.
func (g *Group) AdmitDelete() error { return nil }

// Retention is what offsets of topics that nobody subscribes to expire by.
func (g *Group) Retention() offsets.Retention { return offsets.Retention{Expires: true, SinceMs: -1} }
