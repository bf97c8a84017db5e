package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// Member is a member as a group of another kind takes it over.
type Member struct {
	ID string
	// InstanceID is nil for a dynamic member.
	InstanceID                       *string
	ClientID, ClientHost             string
	RebalanceTimeout, SessionTimeout time.Duration
	// Protocols are in the member's order of preference.
	Protocols []Protocol
	// Assignment is what the member has in the generation; nil while there is nothing.
	Assignment []byte
}

// Generation is the number of the last generation, and Protocol what was chosen for it.
func (g *Group) Generation() int32 { return g.generation }

// Protocol is the protocol of the generation; empty while there is none.
func (g *Group) Protocol() string { return g.protocol }

// Members are the group's members in order of id.
func (g *Group) Members() []Member {
	var members []Member
	for _, m := range g.ordered() {
		members = append(members, Member{
			ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeout: m.rebalanceTimeout, SessionTimeout: m.sessionTimeout, Protocols: m.protocols, Assignment: m.assignment,
		})
	}
	return members
}

// Dissolve has the group deleted although it has members: a group of another kind takes them over. What waits is told to join again.
func (g *Group) Dissolve(o *op.Op) {
	for _, m := range g.ordered() {
		o.ClearTimer(g.session(m.id))
		g.finishJoin(o, m, joinError(m.id, kerr.RebalanceInProgress))
		answerSync(o, m, syncError(kerr.RebalanceInProgress))
	}
	g.Close(o)
}

// Rebalance has every member join again.
func (g *Group) Rebalance(o *op.Op, reason string) { g.rebalance(o, reason) }
