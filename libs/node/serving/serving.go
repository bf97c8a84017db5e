// Package serving puts a node and its Kafka listeners together: what every process that Kafka clients connect to does,
// whatever its roles.
package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/node/anywhere"
	"github.com/cauce-stream/cauce/libs/telemetry"
)

// Config says what the node is.
type Config struct {
	Values config.Values
	// Roles among metadata's Role constants, without "controller".
	Roles []string
	// LogDirIDs of the node's online log directories.
	LogDirIDs [][16]byte
	// OwnGroupAPIs says that the process registers the APIs of consumer groups on Router itself, as one that coordinates
	// groups does.
	OwnGroupAPIs bool
	// OwnTxnAPIs does the same with those of transactions.
	OwnTxnAPIs bool
}

// Deps are what the node needs of its process.
type Deps struct {
	Bus       *bus.Conn
	Telemetry *telemetry.Telemetry
}

// ConnectBus opens a process's connection to the bus as configkeys.BusServers and bus.auth.token say. The name is for the servers'
// own lists of connections.
func ConnectBus(v config.Values, name string, t *telemetry.Telemetry) (*bus.Conn, error) {
	return bus.Connect(bus.Config{URLs: configkeys.BusServers(v), Name: name, AuthToken: v.String("bus.auth.token")},
		bus.Deps{Log: t.Log, Tracer: t.Tracer})
}

// Serving is a node with bound listeners. Roles register their APIs on Router and follow Node before Run.
type Serving struct {
	Node   *node.Node
	Router *server.Router

	values    config.Values
	telemetry *telemetry.Telemetry
	servers   []*server.Server
	limits    *server.Limits
}

// Listen binds the listeners, so that their ports are known, and registers the APIs that every node serves. Connections
// are accepted once Run has the node registered.
func Listen(c Config, d Deps) (*Serving, error) {
	s := &Serving{Router: server.NewRouter(), values: c.Values, telemetry: d.Telemetry,
		limits: server.NewLimits(c.Values.Int("max.connections"), c.Values.Int("max.connections.per.ip"))}
	wanted, err := parseListeners("listeners", configkeys.Listeners(c.Values))
	if err != nil {
		return nil, err
	}
	advertised, err := parseListeners("advertised.listeners", c.Values.List("advertised.listeners"))
	if err != nil {
		return nil, err
	}
	bound, err := s.bind(wanted)
	if err != nil {
		return nil, err
	}
	if advertised, err = advertise(bound, advertised); err != nil {
		return nil, err
	}
	announced := make([]metadata.Listener, 0, len(advertised))
	for _, l := range advertised {
		protocol, err := protocolOf(c.Values, l.name)
		if err != nil {
			return nil, err
		}
		announced = append(announced, metadata.Listener{Name: l.name, Host: l.host, Port: l.port, SecurityProtocol: int16(protocol)})
	}
	s.Node = node.New(node.Config{
		ID: configkeys.NodeID(c.Values), Rack: c.Values.String("broker.rack"), Roles: c.Roles,
		AdvertisedListeners: announced, LogDirIDs: c.LogDirIDs, Static: c.Values,
	}, node.Deps{Bus: d.Bus, Log: d.Telemetry.Log, Metrics: d.Telemetry.Metrics, Tracer: d.Telemetry.Tracer})
	s.Node.OnUpdate(s.followLimits)
	d.Telemetry.Ready("node", s.Node.InService)
	anywhere.Register(s.Router, s.Node, anywhere.Options{
		OwnGroupAPIs: c.OwnGroupAPIs, OwnTxnAPIs: c.OwnTxnAPIs, OwnLogDirs: slices.Contains(c.Roles, metadata.RoleBroker), Log: d.Telemetry.Log,
	})
	return s, nil
}

func (s *Serving) bind(wanted []listener) ([]listener, error) {
	for i := range wanted {
		l := &wanted[i]
		srv := server.New(serverConfig(s.values, *l), server.Deps{
			Router: s.Router, Log: s.telemetry.Log, Metrics: s.telemetry.Metrics, Tracer: s.telemetry.Tracing,
			Limits: s.limits,
		})
		if err := srv.Listen(); err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.name, err)
		}
		s.servers = append(s.servers, srv)
		l.port = uint16(srv.Addr().(*net.TCPAddr).Port)
	}
	return wanted, nil
}

func serverConfig(v config.Values, l listener) server.Config {
	return server.Config{
		ListenerName: l.name, Address: l.address(),
		MaxRequestBytes:                  int32(v.Int("socket.request.max.bytes")),
		MaxInFlightBytes:                 max(v.Long("queued.max.request.bytes"), 0),
		MaxInFlightRequestsPerConnection: v.Int("connection.max.in.flight.requests"),
		MaxConnections:                   maxConnections(v, l),
		IdleTimeout:                      cmp.Or(v.DurationMs("connections.max.idle.ms"), time.Nanosecond), // 0 closes what rests at once
		WriteTimeout:                     v.DurationMs("connection.write.timeout.ms"),
		SocketSendBufferBytes:            v.Int("socket.send.buffer.bytes"),
		SocketReceiveBufferBytes:         v.Int("socket.receive.buffer.bytes"),
	}
}

// maxConnections is the listener's own bound, 0 for none: what the node has in all is bounded over its listeners together.
func maxConnections(v config.Values, l listener) int {
	key := "listener.name." + strings.ToLower(l.name) + ".max.connections"
	if !v.Given(key) {
		return 0
	}
	return cmp.Or(v.Int(key), -1)
}

// followLimits follows the keys of the node's limits, which may change while it runs.
func (s *Serving) followLimits(im *metadata.Image, d *metadata.Delta) {
	own := strconv.Itoa(int(s.Node.ID()))
	if !slices.ContainsFunc(d.ChangedConfigs, func(r metadata.Resource) bool {
		return r.Type == metadata.BrokerConfig && (r.Name == "" || r.Name == own)
	}) {
		return
	}
	v := configkeys.LayersOf(s.values, s.Node.ID(), im).Values()
	s.limits.Set(v.Int("max.connections"), v.Int("max.connections.per.ip"))
}

// Addr is the bound address of the first listener, host:port.
func (s *Serving) Addr() string { return s.servers[0].Addr().String() }

// Run registers the node, then accepts connections and calls onReady, until ctx ends. Stopping goes the other way round:
// connections are told and drained before the node leaves the cluster.
func (s *Serving) Run(ctx context.Context, onReady func()) error {
	nodeCtx, stopNode := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNode()
	nodeDone := make(chan struct{})
	var nodeErr error
	go func() {
		nodeErr = s.Node.Run(nodeCtx)
		close(nodeDone)
	}()

	select {
	case <-s.Node.Ready():
	case <-nodeDone:
		return nodeErr
	case <-ctx.Done():
		stopNode()
		<-nodeDone
		return nodeErr
	}
	serveErr := s.serve(ctx, nodeDone, onReady)
	stopNode()
	<-nodeDone
	return errors.Join(serveErr, nodeErr)
}

// serve accepts connections until ctx or the node ends. A node that leaves hands its leadership over first, and serves
// until it has.
func (s *Serving) serve(ctx context.Context, nodeDone <-chan struct{}, onReady func()) error {
	serverCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, groupCtx := errgroup.WithContext(serverCtx)
	for _, srv := range s.servers {
		group.Go(func() error { return srv.Run(groupCtx) })
	}
	group.Go(func() error {
		defer stop()
		select {
		case <-nodeDone:
			return errors.New("the node ended")
		case <-groupCtx.Done():
			return nil
		case <-ctx.Done():
			s.drain(context.WithoutCancel(ctx))
			return nil
		}
	})
	onReady()
	return group.Wait()
}

func (s *Serving) drain(ctx context.Context) {
	if !s.values.Bool("controlled.shutdown.enable") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := s.Node.Drain(ctx); err != nil {
		s.telemetry.Log.Warn("leaving without a controlled shutdown", zap.Error(err))
	}
}

// drainTimeout bounds how long a leaving node waits for its leadership to be moved away.
const drainTimeout = 5 * time.Second
