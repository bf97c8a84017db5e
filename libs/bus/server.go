package bus

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// ServerConfig shapes an embedded server.
type ServerConfig struct {
	// Name of this server, unique among its peers.
	Name string
	// Host and Port to listen on for other processes; port -1 picks a free one, and 0 means in-process only.
	Host string
	Port int
	// ClusterHost and ClusterPort to listen on for the other controllers' servers; port -1 picks a free one, 0 means no cluster.
	ClusterHost string
	ClusterPort int
	// Routes to the other controllers' servers, nats://host:port each.
	Routes []string
	// AuthToken that clients, and the servers of a cluster among themselves, must present; empty for none.
	AuthToken string
}

// Server is a NATS server inside this process. It keeps nothing on disk and handles no signals.
type Server struct {
	srv   *server.Server
	token string
}

const serverStartTimeout = 10 * time.Second

// A server that stands still or is cut off is out of the cluster after this many pings without an answer; until then
// requests that only it could pass on wait for it.
const (
	routePingInterval = 500 * time.Millisecond
	routePingsOut     = 2
)

// StartServer starts an embedded server and returns once it takes connections.
func StartServer(c ServerConfig, d Deps) (*Server, error) {
	d = d.withDefaults()
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("bus: embedded server: %w", err)
	}
	log := serverLog{d.Log.Named("nats").Sugar(), make(chan string, 1)}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	if listens := srv.Addr() != nil || opts.DontListen; !listens || !srv.ReadyForConnections(serverStartTimeout) {
		srv.Shutdown()
		srv.WaitForShutdown()
		select {
		case reason := <-log.fatal:
			return nil, fmt.Errorf("bus: embedded server: %s", reason)
		default:
			return nil, errors.New("bus: embedded server did not start in time")
		}
	}
	return &Server{srv: srv, token: c.AuthToken}, nil
}

func (c ServerConfig) options() (*server.Options, error) {
	o := &server.Options{
		ServerName:            c.Name,
		Host:                  c.Host,
		Port:                  c.Port,
		DontListen:            c.Port == 0,
		NoSigs:                true,
		NoSystemAccount:       true,
		DisableShortFirstPing: true,
		MaxPayload:            MaxPayloadBytes,
		MaxPending:            MaxMessageBytes + maxPendingBytes,
		MaxControlLine:        4 << 10,
		MaxClosedClients:      16,
		WriteDeadline:         10 * time.Second,
		Authorization:         c.AuthToken,
	}
	if c.ClusterPort != 0 {
		if o.DontListen {
			return nil, errors.New("bus: a server with a cluster must listen for clients, too")
		}
		o.Cluster = server.ClusterOpts{
			Name: "cauce", Host: c.ClusterHost, Port: c.ClusterPort, NoAdvertise: true,
			PingInterval: routePingInterval, MaxPingsOut: routePingsOut,
			// One connection between two servers instead of four: what goes over the bus is little, and each is pinged.
			PoolSize: -1,
		}
		if c.AuthToken != "" {
			o.Cluster.Username, o.Cluster.Password = "cauce", c.AuthToken
		}
	}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return nil, fmt.Errorf("bus: route %q: %w", r, err)
		}
		if c.AuthToken != "" {
			u.User = url.UserPassword("cauce", c.AuthToken)
		}
		o.Routes = append(o.Routes, u)
	}
	return o, nil
}

// Connect opens a connection to this server without a socket.
func (s *Server) Connect(name string, d Deps) (*Conn, error) {
	conn, err := dial("", Config{Name: name, AuthToken: s.token}, d, nats.InProcessServer(s.srv))
	if err != nil {
		return nil, err
	}
	conn.wanted = s.srv.GlobalAccount().SubscriptionInterest
	return conn, nil
}

// URL is where other processes connect; empty when the server is in-process only.
func (s *Server) URL() string {
	if s.srv.Addr() == nil {
		return ""
	}
	return s.srv.ClientURL()
}

// ClusterURL is where other servers' routes lead; empty without a cluster.
func (s *Server) ClusterURL() string {
	addr := s.srv.ClusterAddr()
	if addr == nil {
		return ""
	}
	return "nats://" + addr.String()
}

// Close stops the server and waits for its end.
func (s *Server) Close() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// serverLog carries the server's own log lines at one level less than it gives them: a client that leaves is no fault of ours.
type serverLog struct {
	log   *zap.SugaredLogger
	fatal chan string // what kept the server from starting
}

func (l serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l serverLog) Warnf(format string, v ...any)   { l.log.Infof(format, v...) }
func (l serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
func (l serverLog) Errorf(format string, v ...any) { l.log.Warnf(format, v...) }
func (l serverLog) Debugf(format string, v ...any) { l.log.Debugf(format, v...) }
func (l serverLog) Tracef(format string, v ...any) { l.log.Debugf(format, v...) }
