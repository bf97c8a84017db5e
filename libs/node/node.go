// Package node is what every process with a Kafka listener is to its cluster: a registration that heartbeats keep alive,
// a metadata image that follows the controllers' stream, and a way to have the active controller decide something.
//
// The image only ever moves forward. When no controller can be reached it stays as it is, and whoever acts on it goes on.
package node

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// Config says what this node announces of itself.
type Config struct {
	// ID of the node, unique in the cluster, at least 0 (node.id).
	ID int32
	// ClusterID that the node's data belongs to; empty joins any cluster.
	ClusterID string
	// Rack of the node; empty for none (broker.rack).
	Rack string
	// Roles among "broker", "groupcoord", "txncoord".
	Roles []string
	// AdvertisedListeners that clients are told of (advertised.listeners).
	AdvertisedListeners []metadata.Listener
	// LogDirIDs are the directory ids of the node's online log directories (KIP-858).
	LogDirIDs [][16]byte
	// Static is the node's own configuration.
	Static config.Values
}

// Deps are what a node talks through. Metrics, Log and Tracer may be nil.
type Deps struct {
	Bus     *bus.Conn
	Log     *zap.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Node is one run of a node. Its methods are safe for concurrent use.
type Node struct {
	cfg   Config
	deps  Deps
	image atomic.Pointer[metadata.Image]
	ready chan struct{}
}

// New makes a node that does nothing until Run.
func New(cfg Config, deps Deps) *Node {
	n := &Node{cfg: cfg, deps: deps, ready: make(chan struct{})}
	n.image.Store(metadata.Empty())
	return n
}

// Run registers the node, keeps it registered and follows the metadata stream until ctx ends, and then asks the
// controller for a controlled shutdown. It fails only for what retrying cannot mend: another cluster, a taken node id.
func (n *Node) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ready is closed once the node is registered, unfenced, and its image contains that.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// ID is the node's own id.
func (n *Node) ID() int32 { return n.cfg.ID }

// Epoch is the epoch of the node's registration, -1 before the first.
func (n *Node) Epoch() int64 { return -1 }

// Static is the node's own configuration.
func (n *Node) Static() config.Values { return n.cfg.Static }

// Image is the newest metadata image, never nil.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// AwaitOffset returns once the image has reached offset, or with ctx's error.
func (n *Node) AwaitOffset(ctx context.Context, offset int64) error { return nil }

// OnUpdate has fn called with each new image and what changed, in order, on the goroutine that follows the stream; the
// image is visible to Image only after all of them returned. To be called before Run.
func (n *Node) OnUpdate(fn func(im *metadata.Image, d *metadata.Delta)) {}

// Forward has the active controller answer a Kafka request. body is the request at that version without its header, and
// so is the answer. It retries while there is no active controller, until ctx ends, and returns once the node's own
// image contains the change. Errors wrap a *kerr.Error.
func (n *Node) Forward(ctx context.Context, apiKey, version int16, body []byte, principal, clientID, clientHost string) ([]byte, error) {
	return nil, nil
}

// AllocateProducerIDs takes count producer ids from first on for this node alone. Errors wrap a *kerr.Error.
func (n *Node) AllocateProducerIDs(ctx context.Context) (first int64, count int32, err error) {
	return 0, 0, nil
}

// Drain begins a controlled shutdown, and returns once the controller has moved all leadership away or ctx ends. Run must be under way.
func (n *Node) Drain(ctx context.Context) error { return nil }

// Draining says whether a controlled shutdown has begun.
func (n *Node) Draining() bool { return false }
