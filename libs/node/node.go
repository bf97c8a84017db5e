// Package node is what every process with a Kafka listener is to its cluster: a registration that heartbeats keep alive,
// a metadata image that follows the controllers' stream, and a way to have the active controller decide something.
//
// The image only ever moves forward. When no controller can be reached it stays as it is, and whoever acts on it goes on.
//
// Run owns three goroutines: the follower (follower.go), which alone changes the image, the session (session.go), which
// registers and heartbeats, and the presence on the bus (probe.go). None waits for another but for the offsets it has reached.
package node

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
	// Roles among metadata's Role constants, without "controller".
	Roles []string
	// AdvertisedListeners that clients are told of (advertised.listeners).
	AdvertisedListeners []metadata.Listener
	// LogDirIDs are the directory ids of the node's online log directories (KIP-858).
	LogDirIDs [][16]byte
	// PreviousEpoch is the epoch under which the node last ran, if it ended in good order then; 0 when it did not (KIP-966).
	PreviousEpoch int64
	// Static is the node's own configuration, by the keys of configkeys.Broker.
	Static config.Values
}

// Deps are what a node talks through. Metrics, Log and Tracer may be nil.
type Deps struct {
	Bus     *bus.Conn
	Log     *zap.Logger // its lines have the node's id already
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Node is one run of a node. Its methods are safe for concurrent use.
type Node struct {
	cfg         Config
	bus         *bus.Conn
	log         *zap.Logger
	metrics     *metrics
	tracer      trace.Tracer // nil for none
	incarnation [16]byte

	image     atomic.Pointer[metadata.Image]
	epoch     atomic.Int64
	callbacks []func(*metadata.Image, *metadata.Delta)
	moved     broadcast // the image has another offset
	kicked    broadcast // a call to the active controller that failed may succeed now
	follower  *follower

	ready     chan struct{}
	drain     chan struct{} // closed when a controlled shutdown is asked for
	drained   chan struct{} // closed when the controller let the node go
	ended     chan struct{} // closed at the end of Run
	readyOnce func()
	drainOnce func()
}

// New makes a node that does nothing until Run.
func New(cfg Config, deps Deps) *Node {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	n := &Node{
		cfg: cfg, bus: deps.Bus, log: deps.Log, tracer: deps.Tracer,
		ready: make(chan struct{}), drain: make(chan struct{}), drained: make(chan struct{}), ended: make(chan struct{}),
	}
	n.readyOnce = sync.OnceFunc(func() { close(n.ready) })
	n.drainOnce = sync.OnceFunc(func() { close(n.drain) })
	_, _ = crand.Read(n.incarnation[:]) // never fails
	n.image.Store(metadata.Empty())
	n.epoch.Store(-1)
	n.follower = newFollower(n)
	n.metrics = newMetrics(n, deps.Metrics)
	return n
}

// Run registers the node, keeps it registered and follows the metadata stream until ctx ends, and then asks the
// controller for a controlled shutdown unless Drain has asked already or controlled.shutdown.enable is off. It fails only
// for what retrying cannot mend: another cluster, a node id that stays taken, metadata that this release cannot read.
func (n *Node) Run(ctx context.Context) error {
	defer close(n.ended)
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	failed := make(chan error, 3)
	var wg sync.WaitGroup
	for _, part := range []func(context.Context) error{n.attest, n.follower.run, n.keepRegistered} {
		wg.Go(func() {
			if err := part(runCtx); err != nil {
				failed <- err
			}
		})
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = n.leave(runCtx, failed)
	}
	cancel()
	wg.Wait()
	return err
}

// leaveTimeout bounds how long a node waits for the controller on its way out.
const leaveTimeout = 5 * time.Second

func (n *Node) leave(ctx context.Context, failed <-chan error) error {
	if n.epoch.Load() < 0 || n.Draining() || !n.cfg.Static.Bool("controlled.shutdown.enable") {
		return nil
	}
	n.drainOnce()
	timer := time.NewTimer(leaveTimeout)
	defer timer.Stop()
	select {
	case <-n.drained:
	case <-timer.C:
		n.log.Warn("leaving without the controller's consent", zap.Duration("waited", leaveTimeout))
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return nil
}

// Ready is closed once the node is registered, unfenced, and its image contains that.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// InService is an error unless the node's image has its registration, and has it unfenced. A node that loses the
// controllers stays in service, and so does what it serves.
func (n *Node) InService() error {
	self, ok := n.Image().Node(n.cfg.ID)
	switch {
	case !ok || self.Epoch != n.epoch.Load():
		return fmt.Errorf("node %d is not registered", n.cfg.ID)
	case self.Fenced:
		return fmt.Errorf("node %d is fenced", n.cfg.ID)
	}
	return nil
}

// ID is the node's own id.
func (n *Node) ID() int32 { return n.cfg.ID }

// Epoch is the epoch of the node's registration, -1 before the first.
func (n *Node) Epoch() int64 { return n.epoch.Load() }

// Static is the node's own configuration.
func (n *Node) Static() config.Values { return n.cfg.Static }

// Image is the newest metadata image, never nil.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// AwaitOffset returns once the image has reached offset, or with ctx's error.
func (n *Node) AwaitOffset(ctx context.Context, offset int64) error {
	for {
		moved := n.moved.next()
		if n.Image().Offset() >= offset {
			return nil
		}
		n.follower.want(offset)
		select {
		case <-moved:
		case <-n.ended:
			return fmt.Errorf("node %d: metadata offset %d: %w", n.cfg.ID, offset, ErrEnded)
		case <-ctx.Done():
			return fmt.Errorf("node %d: metadata offset %d: %w", n.cfg.ID, offset, ctx.Err())
		}
	}
}

// ErrEnded says that Run has ended.
var ErrEnded = errors.New("node has ended")

// OnUpdate has fn called with each new image and what changed, in order, on the goroutine that follows the stream; the
// image is visible to Image only after all of them returned. To be called before Run.
func (n *Node) OnUpdate(fn func(im *metadata.Image, d *metadata.Delta)) {
	n.callbacks = append(n.callbacks, fn)
}

// publish makes im the node's image. Called by the follower only.
func (n *Node) publish(im *metadata.Image, d *metadata.Delta) {
	for _, fn := range n.callbacks {
		fn(im, d)
	}
	n.image.Store(im)
	n.moved.notify()
	if d.ControllerChanged {
		n.kicked.notify()
	}
	if n.InService() == nil {
		n.readyOnce()
	}
}

// Drain begins a controlled shutdown, and returns once the controller has moved all leadership away or ctx ends. Run must be under way.
func (n *Node) Drain(ctx context.Context) error {
	n.drainOnce()
	select {
	case <-n.drained:
		return nil
	case <-n.ended:
		return fmt.Errorf("node %d: controlled shutdown: %w", n.cfg.ID, ErrEnded)
	case <-ctx.Done():
		return fmt.Errorf("node %d: controlled shutdown: %w", n.cfg.ID, ctx.Err())
	}
}

// Draining says whether a controlled shutdown has begun.
func (n *Node) Draining() bool {
	select {
	case <-n.drain:
		return true
	default:
		return false
	}
}

// broadcast tells any number of waiters that something has happened.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody waits
}

// next is closed at the next notify. Take it before looking at what may have changed.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
