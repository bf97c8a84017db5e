package shard

import "github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"

// Standing is a group as one look at all groups sees it.
type Standing struct {
	Group      string
	Members    int
	Generation int32
	// NoConsumers is so where the protocol of the members is another than that of consumers.
	NoConsumers bool
	Committed   []offsets.Committed
}

// Entries is how much room the group takes: one entry for itself and one for each offset.
func (s *Standing) Entries() int { return 1 + len(s.Committed) }

// Survey lists the groups in order, and how many entries there was no room for. A group is there as a whole or not at all. What is
// not committed to the log yet may be there too.
func (m *Machine) Survey(room int) (groups []Standing, left int) {
	for _, id := range m.ids() {
		entries := 1 + m.offsets.Count(id)
		if entries > room {
			left += entries
			continue
		}
		room -= entries
		g := m.groups[id]
		t := g.ProtocolType() // empty where there are only offsets
		groups = append(groups, Standing{Group: id, Members: g.Size(), Generation: g.Generation(), NoConsumers: t != "" && t != "consumer",
			Committed: m.offsets.Committed(m.image, id)})
	}
	return groups, left
}
