package classic

import (
	"time"

	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// departuresKept bounds what a group remembers of members that are gone. It is not in the log.
const departuresKept = 16

// departure is the end of a member; how long ago it is is told when somebody asks.
type departure struct {
	at time.Time
	groupapi.Departure
}

// goodbye takes a member out, if there is one with this id, and remembers why: what it said, or why it was removed.
func (g *Group) goodbye(o *op.Op, id, reason string, removed bool) {
	if m := g.members[id]; m != nil {
		if len(g.departures) == departuresKept {
			g.departures = append(g.departures[:0], g.departures[1:]...)
		}
		said := groupapi.Departure{Member: m.id, Client: m.clientID, Host: m.clientHost, Reason: reason, Removed: removed}
		g.departures = append(g.departures, departure{o.Now, said})
	}
	g.remove(o, id)
}

// departed is who has left of late, and why.
func (g *Group) departed(now time.Time) []groupapi.Departure {
	all := make([]groupapi.Departure, 0, len(g.departures))
	for _, d := range g.departures {
		d.Ago = max(0, now.Sub(d.at)) // clocks are set back
		all = append(all, d.Departure)
	}
	return all
}
