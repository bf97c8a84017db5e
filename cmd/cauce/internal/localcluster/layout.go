package localcluster

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// Shape is what a cluster is made of.
type Shape struct {
	Controllers int `json:"controllers"` // 1, 3 or 5
	Brokers     int `json:"brokers"`     // at least 1
	Groupcoords int `json:"groupcoords"`
	Txncoords   int `json:"txncoords"`
	Connects    int `json:"connects"`
	// Racks are as many as the brokers are spread over, one after the other: rack-1, rack-2…; 0 gives them none.
	Racks int `json:"racks,omitempty"`
	// BasePort is the first of the ports taken, one after the other: Kafka listeners in order of id, brokers first, then
	// admin servers, then what the controllers listen on, and the REST interfaces of Connect workers.
	BasePort int `json:"base_port"`
	// Settings are key=value pairs that each node's configuration gets.
	Settings []string `json:"settings,omitempty"`
}

// Equal says whether both describe the same cluster.
func (s Shape) Equal(other Shape) bool {
	same := slices.Equal(s.Settings, other.Settings)
	s.Settings, other.Settings = nil, nil
	return same && reflect.DeepEqual(s, other)
}

// maxOfARole keeps the ids of roles apart.
const maxOfARole = 99

// roles in the order of ports, with the id before each one's first.
func (s Shape) roles() []struct {
	name   string
	before int32
	count  int
} {
	return []struct {
		name   string
		before int32
		count  int
	}{
		{broker, 0, s.Brokers},
		{"groupcoord", 200, s.Groupcoords},
		{"txncoord", 300, s.Txncoords},
		{connect, 400, s.Connects},
		{controller, 100, s.Controllers},
	}
}

const (
	broker     = "broker"
	connect    = "connect"
	controller = "controller"
)

// Validate names what a cluster cannot be made of.
func (s Shape) Validate() error {
	if s.Controllers != 1 && s.Controllers != 3 && s.Controllers != 5 {
		return fmt.Errorf("%d controllers: a quorum has 1, 3 or 5", s.Controllers)
	}
	if s.Brokers < 1 {
		return fmt.Errorf("%d brokers: a cluster has at least one", s.Brokers)
	}
	for _, role := range s.roles() {
		if role.count < 0 || role.count > maxOfARole {
			return fmt.Errorf("%d nodes of role %s: there may be 0 to %d", role.count, role.name, maxOfARole)
		}
	}
	if s.Racks < 0 || s.Racks > s.Brokers {
		return fmt.Errorf("%d racks: there may be 0 to %d, as many as brokers", s.Racks, s.Brokers)
	}
	if n := len(layout(s, func(int) string { return "" })); n > maxAddresses {
		return fmt.Errorf("%d nodes: there may be %d", n, maxAddresses)
	}
	if _, err := config.Load(configkeys.Broker(), config.Options{Set: s.Settings}); err != nil {
		return err
	}
	if last := s.BasePort + s.ports() - 1; s.BasePort < 1 || last > 65535 {
		return fmt.Errorf("base port %d: the ports %d to %d are not all between 1 and 65535", s.BasePort, s.BasePort, last)
	}
	return nil
}

// ports is how many the cluster takes.
func (s Shape) ports() int {
	return 2*(s.Brokers+s.Groupcoords+s.Txncoords) + 3*s.Connects + 4*s.Controllers
}

// Node is one process of a cluster. Addresses are host:port.
type Node struct {
	ID    int32  `json:"id"`
	Role  string `json:"role"`
	Admin string `json:"admin"`
	// Kafka is where clients connect; empty for a controller, which no client speaks to.
	Kafka string `json:"kafka,omitempty"`
	// What the other nodes reach a controller at.
	Bus    string `json:"bus,omitempty"`
	Routes string `json:"routes,omitempty"`
	Quorum string `json:"quorum,omitempty"`
	// REST is where a Connect worker's REST interface is.
	REST string `json:"rest,omitempty"`
}

// layout gives each node its id and addresses; host is where the node of that place in the list is.
func layout(s Shape, host func(place int) string) []Node {
	var nodes []Node
	next := s.BasePort
	address := func(place int) string {
		next++
		return net.JoinHostPort(host(place), strconv.Itoa(next-1))
	}
	for _, role := range s.roles() {
		for i := range role.count {
			n := Node{ID: role.before + int32(i) + 1, Role: role.name}
			if role.name != controller {
				n.Kafka = address(len(nodes))
			}
			nodes = append(nodes, n)
		}
	}
	for i := range nodes {
		nodes[i].Admin = address(i)
	}
	for i := range nodes {
		if nodes[i].Role == controller {
			nodes[i].Bus, nodes[i].Routes, nodes[i].Quorum = address(i), address(i), address(i)
		}
	}
	for i := range nodes {
		if nodes[i].Role == connect {
			nodes[i].REST = address(i)
		}
	}
	return nodes
}
