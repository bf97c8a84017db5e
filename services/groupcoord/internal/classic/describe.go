package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
)

// Describe is the group for DescribeGroups, with who has left it of late.
func (g *Group) Describe(now time.Time) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.State, out.ProtocolType = g.id, string(g.state), g.protocolType
	if g.state == Stable {
		out.Protocol = g.protocol
	}
	for _, m := range g.ordered() {
		r := kmsg.NewDescribeGroupsResponseGroupMember()
		r.MemberID, r.InstanceID, r.ClientID, r.ClientHost, r.MemberAssignment = m.id, m.instanceID, m.clientID, m.clientHost, m.assignment
		if g.state == Stable {
			r.ProtocolMetadata = m.metadata(g.protocol)
		}
		out.Members = append(out.Members, r)
	}
	groupapi.PutDepartures(&out.UnknownTags, g.departed(now))
	return out
}
