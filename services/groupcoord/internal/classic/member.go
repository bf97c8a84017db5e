package classic

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
)

// Protocol is an assignment protocol that a member supports, with what the member says under it: its subscription, where
// the type of protocol is "consumer".
type Protocol struct {
	Name     string
	Metadata []byte
}

// member is a member of one group.
type member struct {
	id string
	// instanceID is nil for a dynamic member (KIP-345).
	instanceID *string

	clientID, clientHost             string
	rebalanceTimeout, sessionTimeout time.Duration

	// protocols are in the member's order of preference.
	protocols  []Protocol
	assignment []byte

	// join and sync are requests that wait for the others; 0 when there is none.
	join, sync coordinator.Ticket
	// fresh until the first rebalance is through. Such a member does not know its id, so it cannot keep its session alive, and
	// its session runs even while its join waits.
	fresh bool
}

// waits says whether a request of the member is parked here, which stands for a heartbeat.
func (m *member) waits() bool { return !m.fresh && (m.join != 0 || m.sync != 0) }

// metadata is what the member says under a protocol; nil when it does not support it.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (m *member) supports(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

// says whether the member would say nothing new with these protocols.
func (m *member) says(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// vote is the member's most preferred candidate.
func (m *member) vote(candidates map[string]bool) string {
	for _, p := range m.protocols {
		if candidates[p.Name] {
			return p.Name
		}
	}
	return ""
}

// protocolsOf are those of a request. Of a name given twice the first counts.
func protocolsOf(req *kmsg.JoinGroupRequest) []Protocol {
	protocols := make([]Protocol, 0, len(req.Protocols))
	for _, p := range req.Protocols {
		if !slices.ContainsFunc(protocols, func(q Protocol) bool { return q.Name == p.Name }) {
			protocols = append(protocols, Protocol{Name: p.Name, Metadata: p.Metadata})
		}
	}
	return protocols
}
