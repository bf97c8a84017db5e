package localcluster

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// properties is a node's configuration file.
func (c *Cluster) properties(n Node) string {
	values := map[string]string{
		"node.id":        fmt.Sprint(n.ID),
		"data.dir":       filepath.Join(c.folder(n), "data"),
		"admin.listener": n.Admin,
		"cluster.id":     c.plan.ClusterID,
	}
	// Coordinators' topics survive a broker where there are several.
	replicas := strconv.Itoa(min(3, c.plan.Shape.Brokers))
	values["offsets.topic.replication.factor"] = replicas
	values["transaction.state.log.replication.factor"] = replicas
	values["transaction.state.log.min.isr"] = strconv.Itoa(min(2, c.plan.Shape.Brokers))
	if racks := int32(c.plan.Shape.Racks); racks > 0 && n.Role == broker {
		values["broker.rack"] = fmt.Sprint("rack-", (n.ID-1)%racks+1)
	}
	if n.Role == controller {
		c.controllerProperties(n, values)
	} else {
		values["listeners"] = "PLAINTEXT://" + n.Kafka
		var servers []string
		for _, other := range c.controllers() {
			servers = append(servers, "nats://"+other.Bus)
		}
		values["bus.servers"] = strings.Join(servers, ",")
	}
	if n.Role == connect {
		values["connect.listeners"] = "http://" + n.REST
		for _, topic := range []string{"config", "offset", "status"} {
			values["connect."+topic+".storage.replication.factor"] = replicas
		}
	}
	for _, setting := range c.plan.Shape.Settings {
		key, value, _ := strings.Cut(setting, "=")
		values[strings.TrimSpace(key)] = value
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&text, "%s=%s\n", key, strings.ReplaceAll(values[key], `\`, `\\`))
	}
	return text.String()
}

func (c *Cluster) controllerProperties(n Node, values map[string]string) {
	values["controller.bus.listener"] = n.Bus
	values["controller.listener"] = n.Quorum
	if len(c.controllers()) == 1 {
		return
	}
	var peers, routes []string
	for _, other := range c.controllers() {
		peers = append(peers, fmt.Sprintf("%d@%s", other.ID, other.Quorum))
		if other.ID != n.ID {
			routes = append(routes, "nats://"+other.Routes)
		}
	}
	values["controller.peers"] = strings.Join(peers, ",")
	values["controller.bus.route.listener"] = n.Routes
	values["controller.bus.routes"] = strings.Join(routes, ",")
}

func (c *Cluster) controllers() []Node {
	return slices.DeleteFunc(slices.Clone(c.plan.Nodes), func(n Node) bool { return n.Role != controller })
}
