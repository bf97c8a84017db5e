package classic

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe is the group for DescribeGroups.
func (g *Group) Describe() kmsg.DescribeGroupsResponseGroup {
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
	return out
}
