package controller

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// ConfigFrom reads a controller's configuration from the keys of its process.
func ConfigFrom(v config.Values) (Config, error) {
	c := Config{ID: configkeys.NodeID(v), Dir: configkeys.MetadataDir(v), ClusterID: v.String("cluster.id"), Static: v}
	key := "controller.peers"
	if !v.Given(key) {
		key = "controller.quorum.voters"
	}
	for _, entry := range configkeys.ControllerPeers(v) {
		id, address, found := strings.Cut(entry, "@")
		number, err := strconv.ParseInt(id, 10, 32)
		if !found || err != nil || number < 0 {
			return Config{}, fmt.Errorf("%s: %q is not of the form id@host:port", key, entry)
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return Config{}, fmt.Errorf("%s: %q: %w", key, entry, err)
		}
		if c.Peers == nil {
			c.Peers = map[int32]string{}
		}
		c.Peers[int32(number)] = address
	}
	if _, ok := c.Peers[c.ID]; c.Peers != nil && !ok {
		return Config{}, fmt.Errorf("%s does not have this controller, node.id %d", key, c.ID)
	}
	return c, nil
}

// OpenBus starts this controller's part of the bus and connects to it, or connects to the NATS cluster at bus.servers when
// controller.bus.listener is empty. close ends both.
func OpenBus(v config.Values, d bus.Deps) (conn *bus.Conn, closeBus func(), err error) {
	name := fmt.Sprint("controller-", configkeys.NodeID(v))
	listener, token := v.String("controller.bus.listener"), v.String("bus.auth.token")
	if listener == "" {
		servers := configkeys.BusServers(v)
		if servers == nil {
			return nil, nil, errors.New("controller.bus.listener and bus.servers are both empty: there is no bus")
		}
		if conn, err = bus.Connect(bus.Config{URLs: servers, Name: name, AuthToken: token}, d); err != nil {
			return nil, nil, err
		}
		return conn, conn.Close, nil
	}
	c := bus.ServerConfig{Name: name, Routes: configkeys.BusRoutes(v), AuthToken: token}
	if c.Host, c.Port, err = hostPort("controller.bus.listener", listener); err != nil {
		return nil, nil, err
	}
	if routes := v.String("controller.bus.route.listener"); routes != "" {
		if c.ClusterHost, c.ClusterPort, err = hostPort("controller.bus.route.listener", routes); err != nil {
			return nil, nil, err
		}
	}
	server, err := bus.StartServer(c, d)
	if err != nil {
		return nil, nil, err
	}
	if conn, err = server.Connect(name, d); err != nil {
		server.Close()
		return nil, nil, err
	}
	return conn, func() { conn.Close(); server.Close() }, nil
}

// hostPort reads an address; port 0 becomes the bus's -1, any free one.
func hostPort(key, address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", key, err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%s: port %q of %q is not a number from 0 to 65535", key, text, address)
	}
	if number == 0 {
		return host, -1, nil
	}
	return host, int(number), nil
}
