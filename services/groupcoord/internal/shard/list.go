package shard

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
)

// ListGroups lists the groups of the shard in the states and of the types that are asked for.
func (m *Machine) ListGroups(now time.Time, t coordinator.Ticket, req *kmsg.ListGroupsRequest) coordinator.Step {
	o := m.begin(now)
	resp := kmsg.NewPtrListGroupsResponse()
	for _, id := range m.ids() {
		g := m.groups[id]
		if !asked(req.StatesFilter, g.State()) || !asked(req.TypesFilter, g.Type()) {
			continue
		}
		r := kmsg.NewListGroupsResponseGroup()
		r.Group, r.ProtocolType, r.GroupState, r.GroupType = id, g.ProtocolType(), g.State(), g.Type()
		resp.Groups = append(resp.Groups, r)
	}
	o.Answer(t, resp)
	return o.Step()
}

// asked says whether a filter lets a word through, whatever the case. An empty filter lets everything through.
func asked(filter []string, word string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(strings.TrimSpace(f), word) })
}
