package metadata

import (
	"fmt"
	"slices"
)

// Roles of a node.
const (
	RoleController = "controller"
	RoleBroker     = "broker"
	RoleGroupCoord = "groupcoord"
	RoleTxnCoord   = "txncoord"
	RoleConnect    = "connect"
)

// Listener is one address at which a node serves the Kafka protocol.
type Listener struct {
	Name string
	Host string
	Port uint16
	// SecurityProtocol is Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT,
	// 3 SASL_SSL.
	SecurityProtocol int16
}

// FeatureRange is the range of levels of one feature that a node supports.
type FeatureRange struct{ Min, Max int16 }

// Contains says whether level lies in the range.
func (r FeatureRange) Contains(level int16) bool { return r.Min <= level && level <= r.Max }

// Node is one version of a registered process. It is immutable.
type Node struct {
	ID int32
	// Epoch is the offset of the registration. A request that names an older
	// epoch comes from an earlier registration and is refused.
	Epoch int64
	// Incarnation differs at every start of the process.
	Incarnation [16]byte
	// Rack is empty when the node names none.
	Rack      string
	Roles     []string
	Listeners []Listener
	// Fenced nodes lead nothing and are not offered to clients.
	Fenced               bool
	InControlledShutdown bool
	// LogDirs are the ids of the log directories that are online.
	LogDirs  [][16]byte
	Features map[string]FeatureRange
}

// plaintext is the security protocol without encryption and authentication.
const plaintext = 0

// HasRole says whether the node has one of the Role… constants.
func (n *Node) HasRole(role string) bool { return slices.Contains(n.Roles, role) }

// Listener finds a listener by name.
func (n *Node) Listener(name string) (Listener, bool) {
	for _, l := range n.Listeners {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}

// PeerListener finds the listener at which other nodes reach this one: the one of that name (Kafka config
// inter.broker.listener.name) or, for an empty name, the first without encryption and authentication.
func (n *Node) PeerListener(name string) (Listener, bool) {
	if name != "" {
		return n.Listener(name)
	}
	for _, l := range n.Listeners {
		if l.SecurityProtocol == plaintext {
			return l, true
		}
	}
	return Listener{}, false
}

// Active says whether the node may lead partitions: neither fenced nor leaving.
func (n *Node) Active() bool { return !n.Fenced && !n.InControlledShutdown }

// String is "min-max", as tools print it.
func (r FeatureRange) String() string { return fmt.Sprintf("%d-%d", r.Min, r.Max) }
