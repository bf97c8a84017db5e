package member

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/assignment"
	"github.com/cauce-stream/cauce/services/connect/internal/protocol"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// share is what the leader tells a member.
type share struct {
	id         string
	assignment protocol.Assignment
}

// lead decides what each member is told. It does so by the newest configuration that any of them has read: if this worker cannot read as far in time, all are
// told to do so and to come again.
func (m *Member) lead(ctx context.Context, joined []kmsg.JoinGroupResponseMember) []share {
	members := map[string]protocol.Metadata{}
	newest := int64(0)
	for _, one := range joined {
		metadata, err := protocol.DecodeMetadata(one.ProtocolMetadata)
		if err != nil {
			m.deps.Log.Warn("a member of the group makes no sense", zap.String("member", one.MemberID), zap.Error(err))
			continue
		}
		members[one.MemberID] = metadata
		newest = max(newest, metadata.ConfigOffset)
	}
	offset, items := m.deps.Configs()
	if m.protocol == protocol.Eager && m.agreed != protocol.Eager {
		// Someone came who knows the eager protocol alone, in which members do not say what they run. They give it up when they join again.
		return m.shares(joined, max(offset, newest), protocol.ConfigMismatch, assignment.Output{})
	}
	if offset < newest {
		if err := m.catchUp(ctx, newest); err != nil {
			m.deps.Log.Warn("cannot assign what others have read", zap.Error(err))
		}
		offset, items = m.deps.Configs()
	}
	if offset < newest {
		return m.shares(joined, newest, protocol.ConfigMismatch, assignment.Output{})
	}
	shares := m.shares(joined, offset, protocol.NoError, m.decide(members, items))
	m.owners = owners(members, shares, m.protocol)
	m.revoking = slices.ContainsFunc(shares, func(s share) bool { return len(s.assignment.Revoked) > 0 })
	return shares
}

// owners are the URLs of those who run things once they have followed their shares.
func owners(members map[string]protocol.Metadata, shares []share, v protocol.Version) map[work.Item]string {
	all := map[work.Item]string{}
	for _, s := range shares {
		kept := map[work.Item]bool{}
		if current := members[s.id].Current; v != protocol.Eager && current != nil {
			for _, item := range current.Assigned {
				kept[item] = true
			}
		}
		for _, item := range s.assignment.Revoked {
			delete(kept, item)
		}
		for _, item := range s.assignment.Assigned {
			kept[item] = true
		}
		for item := range kept {
			all[item] = members[s.id].URL
		}
	}
	return all
}

// decide makes the assignment of a round, of members who make sense.
func (m *Member) decide(members map[string]protocol.Metadata, items []work.Item) assignment.Output {
	if m.protocol == protocol.Eager {
		return assignment.Output{Assigned: assignment.Eager(slices.Collect(maps.Keys(members)), items)}
	}
	in := assignment.Input{NowMs: time.Now().UnixMilli(), Generation: m.generation, Completed: m.completed, Work: items, Members: map[string][]work.Item{}}
	for id, metadata := range members {
		in.Members[id] = nil
		if metadata.Current != nil {
			in.Members[id] = metadata.Current.Assigned
		}
	}
	return m.leader.Assign(in)
}

// shares are what all members are told, in the order in which they joined.
func (m *Member) shares(joined []kmsg.JoinGroupResponseMember, offset int64, code protocol.Code, out assignment.Output) []share {
	shares := make([]share, len(joined))
	for i, one := range joined {
		shares[i] = share{one.MemberID, protocol.Assignment{
			Version: m.protocol, Code: code, Leader: m.id, LeaderURL: m.config.URL, ConfigOffset: offset,
			Assigned: out.Assigned[one.MemberID], Revoked: out.Revoked[one.MemberID], DelayMs: out.DelayMs,
		}}
	}
	return shares
}
