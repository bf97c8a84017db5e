// Package txncheck asks the coordinators of transactions whether a partition belongs to a transaction before the first write to
// it (KIP-890), or has them add it.
//
// Questions to one coordinator travel together: while requests to it are under way, what comes meanwhile waits for the next one.
package txncheck

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// Config says who asks; a zero bound has the default that its comment names.
type Config struct {
	// Listener of the coordinators (Kafka config inter.broker.listener.name); empty for the first one without encryption and
	// authentication.
	Listener string
	// ClientID is sent with every request.
	ClientID string
	// Timeout bounds one request. 5 s.
	Timeout time.Duration
	// Backoff is the longest pause before a coordinator that is still busy with the producer's last transaction is asked again to
	// add partitions, of pauses that double, and Patience how long that is done (Kafka configs
	// add.partitions.to.txn.retry.backoff.ms and .max.ms). 20 ms and 100 ms.
	Backoff, Patience time.Duration
	// MaxOpen bounds the questions without an answer. 10 000.
	MaxOpen int
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Backoff = cmp.Or(c.Backoff, 20*time.Millisecond)
	c.Patience = cmp.Or(c.Patience, 100*time.Millisecond)
	c.MaxOpen = cmp.Or(c.MaxOpen, 10_000)
	return c
}

// Transaction is a producer's transaction.
type Transaction struct {
	ID            string // transactional id
	ProducerID    int64
	ProducerEpoch int16
	// Add has the coordinator add the partitions, instead of saying whether they were added.
	Add bool
	// Origin is the span that asks.
	Origin trace.SpanContext
}

// Partition is one that a transaction writes to.
type Partition struct {
	Topic string
	ID    int32
}

// Checker asks coordinators. Its methods are safe for concurrent use.
type Checker struct {
	cfg     Config
	image   func() *metadata.Image
	pool    *client.Pool
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	open  int
	lanes map[string]*lane // by address
}

// question is one transaction's.
type question struct {
	Transaction
	partitions []Partition
	since      time.Time
	pause      time.Duration // before it is asked again
	done       func([]error)
}

// New makes a checker that finds coordinators in the node's image. Close must be called.
func New(cfg Config, image func() *metadata.Image) *Checker {
	c := &Checker{cfg: cfg.withDefaults(), image: image, lanes: map[string]*lane{}}
	c.pool = client.New(client.Config{ClientID: cfg.ClientID})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends the questions that are open and returns when each has its answer.
func (c *Checker) Close() {
	c.cancel()
	c.pool.Close()
	c.running.Wait()
}

// Check has done called exactly once, on another goroutine, with an error for each partition in their order: nil for one that belongs
// to the transaction, or what the coordinator says, as a *kerr.Error. Where it is not heard of that is retriable:
// COORDINATOR_NOT_AVAILABLE, or NETWORK_EXCEPTION. Check must not be called after Close.
func (c *Checker) Check(t Transaction, partitions []Partition, done func([]error)) {
	c.mu.Lock()
	c.open++
	full := c.open > c.cfg.MaxOpen
	c.mu.Unlock()
	c.ask(&question{Transaction: t, partitions: partitions, since: time.Now(), done: done}, full)
}

// nowhere is the lane of questions that cannot be asked.
const nowhere = ""

// ask puts a question into its coordinator's lane.
func (c *Checker) ask(q *question, refused bool) {
	addr, err := c.coordinator(q.ID)
	if err != nil || refused {
		addr = nowhere
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[addr]
	if l == nil {
		l = &lane{addr: addr}
		c.lanes[addr] = l
	}
	l.queue = append(l.queue, q)
	c.start(l)
}

// coordinator is the address of a transactional id's.
func (c *Checker) coordinator(id string) (addr string, err error) {
	im := c.image()
	t, ok := im.Topic(metadata.TransactionStateTopic)
	if !ok {
		return "", kerr.CoordinatorNotAvailable
	}
	shard, _ := im.Shard(t.Name, t.ShardOf(id))
	n, ok := im.Node(shard.Owner)
	if !ok {
		return "", fmt.Errorf("node %d: %w", shard.Owner, kerr.CoordinatorNotAvailable)
	}
	l, ok := n.PeerListener(c.cfg.Listener)
	if !ok {
		return "", fmt.Errorf("node %d: %w", n.ID, kerr.ListenerNotFound)
	}
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), nil
}

// fail answers a question with one error for all its partitions.
func (c *Checker) fail(q *question, err error) {
	errs := make([]error, len(q.partitions))
	for i := range errs {
		errs[i] = err
	}
	c.answer(q, errs)
}

func (c *Checker) answer(q *question, errs []error) {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	q.done(errs)
}
