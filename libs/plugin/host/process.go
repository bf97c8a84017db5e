package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	pluginrunner "github.com/hashicorp/go-plugin/runner"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/internal/codec"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

const (
	// maxOffers bounds how many plugins one process may offer.
	maxOffers = 64
	// maxAliases bounds the aliases of a connector.
	maxAliases = 16
	// stopTimeout is how long a process may take to end.
	stopTimeout = time.Second
	// maxDocBytes cuts what a plugin says about itself.
	maxDocBytes = 256
)

// process is a running plugin process with its connection.
type process struct {
	runner *runner
	client *goplugin.Client
	conn   *grpc.ClientConn
	offers []offer
	output *output

	// Guarded by the lock of its file.
	calls   int  // under way
	retired bool // gets no further calls
	// crowded says that several calls were under way when it ended by itself: which of them it died of cannot be told.
	crowded bool
}

// offer is one plugin of a file.
type offer struct {
	kind     pluginpb.Kind
	name     string
	version  string
	doc      string
	wantsLag bool
	aliases  []string
}

// startProcess starts a file and asks what it offers. On an error nothing is left of the process. abort ends the attempt.
func startProcess(abort context.Context, file, socketDir string, environment []string, startTimeout time.Duration, log *zap.Logger) (*process, error) {
	cmd := exec.Command(file)
	cmd.Env = environment
	out := newOutput(log)
	p := &process{runner: newRunner(cmd, out), output: out}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: plugin.CookieKey, MagicCookieValue: plugin.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{plugin.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     startTimeout,
		GRPCDialOptions: []grpc.DialOption{grpc.WithInitialWindowSize(codec.WindowBytes), grpc.WithInitialConnWindowSize(codec.WindowBytes),
			grpc.WithReadBufferSize(codec.BufferBytes), grpc.WithWriteBufferSize(codec.BufferBytes), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.New()))},
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: socketDir},
		Logger:           hclog.NewNullLogger(),
		RunnerFunc: func(_ hclog.Logger, filled *exec.Cmd, _ string) (pluginrunner.Runner, error) {
			cmd.Env = append(cmd.Env, filled.Env...)
			return p.runner, nil
		},
	})
	ctx, cancel := context.WithTimeout(abort, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { p.runner.kill("it did not start within " + startTimeout.String()) })
	defer stop()
	if err := p.connect(ctx); err != nil {
		p.stop()
		if p.runner.ended() {
			err = fmt.Errorf("%w (%s)", err, p.epitaph())
		}
		return nil, err
	}
	return p, nil
}

func (p *process) connect(ctx context.Context) error {
	protocol, err := p.client.Client()
	if err != nil {
		return fmt.Errorf("no handshake: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	p.conn = protocol.(*goplugin.GRPCClient).Conn // the only protocol that is allowed
	r, err := pluginpb.NewCatalogClient(p.conn).Describe(ctx, &pluginpb.DescribeRequest{}, grpc.MaxCallRecvMsgSize(1<<20))
	if err != nil {
		return fmt.Errorf("asking what it offers: %w", err)
	}
	if len(r.Offers) == 0 || len(r.Offers) > maxOffers {
		return fmt.Errorf("it offers %d plugins: at least 1 and at most %d are allowed", len(r.Offers), maxOffers)
	}
	for _, o := range r.Offers {
		if !plugin.ValidName(o.Name) {
			return fmt.Errorf("it offers a plugin with the name %q: 1 to 64 letters, digits, '.', '_' and '-' are allowed", o.Name)
		}
		if len(o.Aliases) > maxAliases || slices.ContainsFunc(o.Aliases, func(alias string) bool { return !plugin.ValidAlias(alias) }) {
			return fmt.Errorf("it offers %s with %d aliases: at most %d are allowed, of letters, digits, '.', '_', '$' and '-'", o.Name, len(o.Aliases), maxAliases)
		}
		p.offers = append(p.offers, offer{kind: o.Kind, name: o.Name, version: cut(o.Version), doc: cut(o.Doc), wantsLag: o.WantsLag, aliases: o.Aliases})
	}
	return nil
}

func cut(s string) string { return s[:min(len(s), maxDocBytes)] }

func (p *process) has(kind pluginpb.Kind, name string) bool {
	return slices.ContainsFunc(p.offers, func(o offer) bool { return o.kind == kind && o.name == name })
}

// ping asks for a sign of life.
func (p *process) ping(ctx context.Context) error {
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	return err
}

// stop asks the process to end, kills it when it does not soon or was never connected, and waits for its end.
func (p *process) stop() {
	if p.runner.ID() == "" {
		return
	}
	if p.conn == nil {
		p.runner.kill("")
	}
	_ = p.runner.stdin.Close() // what a plugin in any language understands; closing it again does no harm
	// go-plugin waits without end for a process that neither answers nor ends.
	timer := time.AfterFunc(stopTimeout, func() { p.runner.kill("it did not stop when it was asked to") })
	defer timer.Stop()
	p.client.Kill()
	<-p.runner.exited
}

// environment is the host's, without Cauce's own settings: some are secrets.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "CAUCE_") })
}

// taskEnvironment has a task in Go, which is mostly one goroutine after the other, work on one processor: waking another one for
// each hand-over costs more than what a task does for 50 records. A plugin that wants more calls runtime.GOMAXPROCS.
func taskEnvironment() []string {
	if os.Getenv("GOMAXPROCS") != "" {
		return environment()
	}
	return append(environment(), "GOMAXPROCS=1")
}
