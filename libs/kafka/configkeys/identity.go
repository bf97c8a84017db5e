package configkeys

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// NodeID returns the node's number: node.id, or broker.id when only that is configured.
func NodeID(v Values) int32 {
	if !v.Given("node.id") && v.Int("broker.id") >= 0 {
		return int32(v.Int("broker.id"))
	}
	return int32(v.Int("node.id"))
}

// LogDirs returns the node's log directories: log.dirs, else log.dir, else the
// folder log in data.dir; none when nothing is configured.
func LogDirs(v Values) []string {
	for _, name := range []string{"log.dirs", "log.dir"} {
		if dirs := v.List(name); dirs != nil {
			return dirs
		}
	}
	if dir, ok := v.Lookup("data.dir"); ok {
		return []string{filepath.Join(dir, "log")}
	}
	return nil
}

// MetadataDir returns the folder of the controller's metadata log:
// metadata.log.dir, else the folder metadata in data.dir; "" when nothing is configured.
func MetadataDir(v Values) string {
	if dir, ok := v.Lookup("metadata.log.dir"); ok {
		return dir
	}
	if dir, ok := v.Lookup("data.dir"); ok {
		return filepath.Join(dir, "metadata")
	}
	return ""
}

// Listeners returns the addresses that the node serves Kafka clients at: listeners without those named by
// controller.listener.names, which are the quorum's and served by controllers.
func Listeners(v Values) []string {
	names := v.List("controller.listener.names")
	return slices.DeleteFunc(v.List("listeners"), func(listener string) bool {
		name, _, _ := strings.Cut(listener, "://")
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	})
}

// ControllerPeers returns the quorum's controllers as id@host:port: controller.peers, or controller.quorum.voters when
// only that is configured.
func ControllerPeers(v Values) []string {
	if v.Given("controller.peers") {
		return v.List("controller.peers")
	}
	return v.List("controller.quorum.voters")
}

// BusServers returns the addresses of the bus: bus.servers or, when only controller.quorum.voters is configured, those of
// its controllers, at the port of controller.bus.listener.
func BusServers(v Values) []string {
	if voters := voterHosts(v); voters != nil && !v.Given("bus.servers") {
		return natsAddresses(voters, v.String("controller.bus.listener"))
	}
	return v.List("bus.servers")
}

// BusRoutes returns the addresses of the bus's other parts that a controller's own connects to: controller.bus.routes or,
// when only controller.quorum.voters is configured, those of the other controllers, at the port of
// controller.bus.route.listener.
func BusRoutes(v Values) []string {
	if v.Given("controller.bus.routes") {
		return v.List("controller.bus.routes")
	}
	others := voterHosts(v)
	delete(others, strconv.Itoa(int(NodeID(v))))
	return natsAddresses(others, v.String("controller.bus.route.listener"))
}

// voterHosts are the hosts of controller.quorum.voters by id, none when controller.peers takes its place. Entries without
// an id and a host are left to whoever reads ControllerPeers to refuse.
func voterHosts(v Values) map[string]string {
	if v.Given("controller.peers") {
		return nil
	}
	var hosts map[string]string
	for _, voter := range v.List("controller.quorum.voters") {
		id, address, _ := strings.Cut(voter, "@")
		if colon := strings.LastIndex(address, ":"); colon >= 0 {
			if hosts == nil {
				hosts = map[string]string{}
			}
			hosts[id] = address[:colon]
		}
	}
	return hosts
}

// natsAddresses are the addresses of hosts at the port of listener, none when there is no listener.
func natsAddresses(hosts map[string]string, listener string) []string {
	colon := strings.LastIndex(listener, ":")
	if colon < 0 {
		return nil
	}
	var addresses []string
	for _, id := range slices.Sorted(maps.Keys(hosts)) {
		addresses = append(addresses, "nats://"+hosts[id]+listener[colon:])
	}
	return addresses
}
