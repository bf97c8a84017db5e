// Package markers brings the markers of decided transactions to the partitions that take part, until each has its own.
//
// Each node that markers go to is a lane of its own with a few requests in flight, in which the markers of many transactions travel
// together: a node that is dead or slow holds nothing up but what has to go to it. What failed is sent again after a pause, or
// as soon as the metadata names another node.
package markers

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// Config says who sends the markers; a zero bound has the default that its comment names.
type Config struct {
	// Listener of the nodes (Kafka config inter.broker.listener.name).
	Listener string
	// ClientID is sent with every request.
	ClientID string
	// Timeout bounds one request. 5 s.
	Timeout time.Duration
	// RetryMin and RetryMax are the pauses of a transaction after one failure and after many. 50 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// InFlight bounds the requests to one node, and PerRequest the partitions in one. 4 and 2000.
	InFlight, PerRequest int
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.RetryMin = cmp.Or(c.RetryMin, 50*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, time.Second)
	c.InFlight = cmp.Or(c.InFlight, 4)
	c.PerRequest = cmp.Or(c.PerRequest, 2000)
	return c
}

// Deps are what a sender works with.
type Deps struct {
	// Image is the node's newest.
	Image func() *metadata.Image
	// Owned says whether the shard is still this node's under the epoch. It is called with nothing locked.
	Owned func(shard, epoch int32) bool
	// Written is told of partitions that have their marker, or never will: those of topics that are gone. It may block for as long
	// as an operation on the shard takes. origin is that of the delivery.
	Written func(origin trace.SpanContext, shard int32, c *shard.Completion, partitions []schema.Partition)
	Log     *zap.Logger
	Tracer  trace.Tracer // nil: no spans
	// Ask sends a request to an address; nil for connections of the sender's own.
	Ask func(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error)
}

// Sender delivers markers. Its methods are safe for concurrent use.
type Sender struct {
	cfg    Config
	deps   Deps
	pool   *client.Pool
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // takes one: fresh or due is not empty, or the metadata changed
	tasks  sync.WaitGroup

	mu      sync.Mutex
	active  map[key]*delivery
	fresh   []*delivery            // to be dispatched
	delayed map[*delivery]struct{} // to be dispatched again at their time
	lanes   map[int32]*lane
}

// key is a transactional id of a shard: it has one delivery at a time.
type key struct {
	shard int32
	id    string
}

// delivery is the markers of one transaction.
type delivery struct {
	*shard.Completion
	origin       trace.SpanContext // of the request that decided
	shard, epoch int32
	open         map[schema.Partition]bool // without a marker; true when one is on its way
	failures     int
	at           time.Time // of the next try, when delayed
	since        time.Time
}

// New makes a sender that runs until Close.
func New(cfg Config, deps Deps) *Sender {
	s := &Sender{cfg: cfg.withDefaults(), deps: deps, wake: make(chan struct{}, 1), active: map[key]*delivery{}, delayed: map[*delivery]struct{}{}, lanes: map[int32]*lane{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.deps.Tracer == nil {
		s.deps.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if s.deps.Ask == nil {
		s.pool = client.New(client.Config{ClientID: cfg.ClientID})
		s.deps.Ask = s.pool.Do
	}
	s.tasks.Go(s.run)
	return s
}

// Close ends all requests and waits for them.
func (s *Sender) Close() {
	s.cancel()
	if s.pool != nil {
		s.pool.Close()
	}
	s.tasks.Wait()
}

// Deliver takes a transaction over, in place of an earlier one of its transactional id, and does not wait. Its markers are part of the
// trace of origin.
func (s *Sender) Deliver(origin trace.SpanContext, shardID, epoch int32, c *shard.Completion) {
	d := &delivery{Completion: c, origin: origin, shard: shardID, epoch: epoch, open: make(map[schema.Partition]bool, len(c.Partitions)), since: time.Now()}
	for _, p := range c.Partitions {
		d.open[p] = false
	}
	s.mu.Lock()
	s.active[key{shardID, c.ID}] = d
	s.fresh = append(s.fresh, d)
	s.mu.Unlock()
	s.signal()
}

// Refresh has what waits for a node tried at once, as the metadata may name another one now.
func (s *Sender) Refresh() {
	s.mu.Lock()
	s.fresh = slices.AppendSeq(s.fresh, maps.Keys(s.delayed))
	clear(s.delayed)
	im := s.deps.Image()
	for _, l := range s.lanes {
		s.reconsider(l, im)
	}
	s.mu.Unlock()
	s.signal()
}

// Backlog is how many transactions wait for markers, and how many partitions of them.
func (s *Sender) Backlog() (transactions, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.active {
		partitions += len(d.open)
	}
	return len(s.active), partitions
}

// isActive says whether no other delivery of its transactional id has taken its place, and markers are missing. mu is held.
func (s *Sender) isActive(d *delivery) bool { return s.active[key{d.shard, d.ID}] == d }

func (s *Sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run dispatches until Close.
func (s *Sender) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.ctx.Done():
			return
		}
		if next, ok := s.dispatch(); ok {
			timer.Reset(time.Until(next))
		}
	}
}

// finding is a transaction's partitions that need no marker.
type finding struct {
	d          *delivery
	partitions []schema.Partition
}

// dispatch puts what waits into lanes, and says when there is something to do again.
func (s *Sender) dispatch() (next time.Time, ok bool) {
	now := time.Now()
	work := s.due(now)
	owned := make([]bool, len(work)) // asked without mu: whoever has a shard locked may call Deliver
	for i, d := range work {
		owned[i] = s.deps.Owned(d.shard, d.epoch)
	}
	im := s.deps.Image()
	var gone []finding
	s.mu.Lock()
	for i, d := range work {
		switch {
		case !s.isActive(d):
		case !owned[i]:
			delete(s.active, key{d.shard, d.ID}) // whoever owns the shard now delivers
		default:
			if lost := s.place(im, d, now); len(lost) > 0 {
				gone = append(gone, finding{d, lost})
			}
		}
	}
	for _, l := range s.lanes {
		s.start(l)
	}
	for d := range s.delayed {
		if !ok || d.at.Before(next) {
			next, ok = d.at, true
		}
	}
	s.mu.Unlock()
	for _, f := range gone {
		s.deps.Log.Info("partitions of a transaction are gone; they need no marker",
			zap.String("transactionalID", f.d.ID), zap.Any("partitions", f.partitions))
		s.written(f.d, f.partitions)
	}
	return next, ok
}

// due takes the deliveries that are to be dispatched.
func (s *Sender) due(now time.Time) []*delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	work := s.fresh
	s.fresh = nil
	for d := range s.delayed {
		if !d.at.After(now) {
			work = append(work, d)
			delete(s.delayed, d)
		}
	}
	return work
}

// place puts the partitions that have no marker on its way into the lanes of their nodes; those without a node wait. It returns those
// that do not exist. mu is held.
func (s *Sender) place(im *metadata.Image, d *delivery, now time.Time) (gone []schema.Partition) {
	homeless := false
	for p, onItsWay := range d.open {
		if onItsWay {
			continue
		}
		node, exists := destination(im, p)
		switch {
		case !exists:
			gone = append(gone, p)
		case node == nil:
			homeless = true
		default:
			d.open[p] = true
			s.lane(node.ID).add(d, p)
		}
	}
	if homeless {
		s.delay(d, now)
	}
	return gone
}

// delay has a delivery dispatched again after a pause. mu is held.
func (s *Sender) delay(d *delivery, now time.Time) {
	if !d.at.After(now) || d.failures == 0 {
		d.at = now.Add(min(s.cfg.RetryMin<<min(d.failures, 20), s.cfg.RetryMax))
		d.failures++
	}
	s.delayed[d] = struct{}{}
}

// destination is the node that a partition's marker goes to: its leader, or for a coordinators' topic the owner of its shard, so
// that the shard has one writer. It is nil while there is none; false when the partition does not exist.
func destination(im *metadata.Image, p schema.Partition) (node *metadata.Node, exists bool) {
	t, ok := im.Topic(p.Topic)
	if !ok || p.ID < 0 || int(p.ID) >= len(t.Partitions) {
		return nil, false
	}
	id := t.Partitions[p.ID].Leader
	if metadata.InternalTopic(p.Topic) {
		owned, _ := im.Shard(p.Topic, p.ID)
		id = owned.Owner
	}
	n, ok := im.Node(id)
	if !ok {
		return nil, true
	}
	return n, true
}

func (s *Sender) address(id int32) (string, bool) {
	n, ok := s.deps.Image().Node(id)
	if !ok {
		return "", false
	}
	l, ok := n.PeerListener(s.cfg.Listener)
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), ok
}

// written tells the shard, if the delivery is still the one of its transactional id, and forgets it when it is complete.
func (s *Sender) written(d *delivery, partitions []schema.Partition) {
	s.mu.Lock()
	if !s.isActive(d) {
		s.mu.Unlock()
		return
	}
	for _, p := range partitions {
		delete(d.open, p)
	}
	if len(d.open) == 0 {
		delete(s.active, key{d.shard, d.ID})
	}
	s.mu.Unlock()
	s.deps.Written(d.origin, d.shard, d.Completion, partitions)
}
