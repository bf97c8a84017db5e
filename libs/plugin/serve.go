package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin/internal/codec"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// Serve offers plugins to the Cauce process that started this one, until that process ends or asks to stop. It is the
// last call of main. Started by hand, the program prints what it offers and exits.
//
// Log with log/slog: its default logger reaches Cauce's log with levels and fields. A panic while answering fails that
// call only.
func Serve(plugins ...Plugin) {
	offers, err := check(plugins)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if os.Getenv(CookieKey) != CookieValue {
		describe(offers)
		os.Exit(0)
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	go exitWithParent(os.Stdin)
	slog.SetDefault(newLogger(os.Stderr)) // the real one: go-plugin replaces the variable
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: CookieKey, MagicCookieValue: CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {"cauce": &served{offers: offers, log: os.Stderr}}},
		Logger:           hclog.NewNullLogger(),
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, ServerOptions()...)...)
		},
	})
}

// ballastBytes is memory that is never written to, and so takes none, but that counts when the collector decides when to run: a
// plugin has a few MiB in use, and would be collected fifty times a second. A heap of any size grows by as much at most.
const ballastBytes = 6 << 20

// ServerOptions are those of the gRPC server that plugins are served on.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.MaxRecvMsgSize(MaxRequestBytes), grpc.UnaryInterceptor(guard), grpc.ForceServerCodecV2(codec.New()),
		grpc.InitialWindowSize(codec.WindowBytes), grpc.InitialConnWindowSize(codec.WindowBytes), grpc.ReadBufferSize(codec.BufferBytes), grpc.WriteBufferSize(codec.BufferBytes)}
}

// Register offers plugins on a server of its caller's, with [ServerOptions]: for tests without a process.
func Register(server *grpc.Server, plugins ...Plugin) error {
	offers, err := check(plugins)
	if err != nil {
		return err
	}
	(&served{offers: offers}).register(server)
	return nil
}

// exitWithParent ends the process when its standard input ends: Cauce holds the other end and never writes, so this is
// how a plugin learns that it is an orphan, kill -9 included.
func exitWithParent(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(0)
}

// offer is a plugin by its kind.
type offer struct {
	info        Info
	kind        pluginpb.Kind
	assignor    Assignor
	partitioner Partitioner
	connector   Connector
}

// sameNames says whether two offers must have different names. All connectors must: a configuration does not tell whether it
// wants a source or a sink.
func (o *offer) sameNames(other *offer) bool {
	return o.kind == other.kind || o.connector != nil && other.connector != nil
}

func newOffer(p Plugin) (offer, error) {
	o := offer{info: p.Info()}
	switch p := p.(type) {
	case Assignor:
		o.kind, o.assignor = pluginpb.Kind_KIND_ASSIGNOR, p
	case Partitioner:
		o.kind, o.partitioner = pluginpb.Kind_KIND_PARTITIONER, p
	case SourceConnector:
		o.kind, o.connector = pluginpb.Kind_KIND_SOURCE, p
	case SinkConnector:
		o.kind, o.connector = pluginpb.Kind_KIND_SINK, p
	default:
		return offer{}, fmt.Errorf("plugin.Serve: %T is neither an Assignor nor a Partitioner nor a SourceConnector nor a SinkConnector", p)
	}
	return o, o.check(p)
}

func (o *offer) check(p Plugin) error {
	if !ValidName(o.info.Name) {
		return fmt.Errorf("plugin.Serve: %T has the name %q: 1 to 64 letters, digits, '.', '_' and '-' are allowed", p, o.info.Name)
	}
	for _, alias := range o.info.Aliases {
		if o.connector == nil || !ValidAlias(alias) {
			return fmt.Errorf("plugin.Serve: %T has the alias %q: connectors have some, of 1 to 256 letters, digits, '.', '_', '$' and '-'", p, alias)
		}
	}
	if o.connector == nil {
		return nil
	}
	if err := o.connector.Definition().Check(); err != nil {
		return fmt.Errorf("plugin.Serve: definition of %q: %w", o.info.Name, err)
	}
	return nil
}

func check(plugins []Plugin) ([]offer, error) {
	if len(plugins) == 0 {
		return nil, fmt.Errorf("plugin.Serve: no plugin given")
	}
	var offers []offer
	for _, p := range plugins {
		o, err := newOffer(p)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(offers, func(other offer) bool { return o.sameNames(&other) && other.info.Name == o.info.Name }) {
			return nil, fmt.Errorf("plugin.Serve: two plugins of one kind have the name %q", o.info.Name)
		}
		offers = append(offers, o)
	}
	return offers, nil
}

func describe(offers []offer) {
	fmt.Println("This is a Cauce plugin: put it into a folder of plugin.path, Cauce starts it. It offers")
	for _, o := range offers {
		fmt.Printf("  %s %s: %s\n", o.info.Name, o.info.Version, o.info.Doc)
	}
}

// guard makes a panic the failure of one call, and ties log lines to the caller's trace.
func guard(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	ctx = withTrace(ctx)
	defer func() {
		if fault := recover(); fault != nil {
			slog.ErrorContext(ctx, "panic", "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
			response, err = nil, status.Errorf(codes.Internal, "panic: %v", fault)
		}
	}()
	return handle(ctx, request)
}
