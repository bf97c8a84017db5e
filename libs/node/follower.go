package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
)

const (
	// pushGrace is how long a push may take to arrive after something else told of it, before it is fetched instead.
	pushGrace = 20 * time.Millisecond
	// fetchBytes is how much of the metadata log is asked for at once.
	fetchBytes = 1 << 20
	// maxSnapshotBytes bounds what a controller can make a node hold.
	maxSnapshotBytes = 2 << 30

	queuedUpdates = 64
)

// follower keeps the node's image at the head of the metadata log. Pushed updates are applied as they come; whenever one
// is missing, or might be, what follows the image is fetched. So a lost push costs time, and nothing else.
type follower struct {
	n       *Node
	updates chan bus.Update
	wanted  atomic.Int64  // an offset that is known to exist
	nudged  chan struct{} // holds one signal
	// at is the offset up to which the log is known: the image's, or that of a snapshot whose last records come earlier. Owned by run.
	at int64
}

func newFollower(n *Node) *follower {
	f := &follower{n: n, updates: make(chan bus.Update, queuedUpdates), nudged: make(chan struct{}, 1), at: -1}
	f.wanted.Store(-1)
	return f
}

// want has the follower make sure that it gets to offset.
func (f *follower) want(offset int64) {
	for {
		old := f.wanted.Load()
		if offset <= old {
			break
		}
		if f.wanted.CompareAndSwap(old, offset) {
			break
		}
	}
	select {
	case f.nudged <- struct{}{}:
	default:
	}
}

// run follows the log until ctx ends, or until there is something in it that this release cannot read.
func (f *follower) run(ctx context.Context) error {
	connects, stop := f.n.bus.Connects()
	defer stop()
	// What is pushed from now on waits while the first fetch is under way: there is no gap between the two.
	sub, err := f.n.bus.Follow(controlpb.MetadataStream, func(u bus.Update) {
		select {
		case f.updates <- u:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return fmt.Errorf("node %d: follow the metadata: %w", f.n.cfg.ID, err)
	}
	defer sub.Close()

	var retry backoff
	gap := true               // something may be missing
	timer := time.NewTimer(0) // to the next fetch: the first is due
	armed := true
	arm := func(d time.Duration) { timer.Reset(d); armed = true }
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-f.updates:
			lost, err := f.update(u)
			if err != nil {
				return err
			}
			if lost && !gap {
				gap = true
				arm(0)
			}
		case <-connects:
			gap = true
			arm(0)
			f.n.kicked.notify()
		case <-f.nudged:
			if !armed && f.wanted.Load() > f.at {
				arm(pushGrace)
			}
		case <-timer.C:
			armed = false
			if !gap && f.wanted.Load() <= f.at {
				continue
			}
			err := f.catchUp(ctx)
			if errors.Is(err, errUnreadable) {
				return err
			}
			if gap = err != nil; gap {
				f.n.log.Debug("metadata not fetched", zap.Error(err))
			}
			if gap || f.wanted.Load() > f.at {
				arm(retry.next())
			} else {
				retry.reset()
			}
		}
	}
}

// errUnreadable says that the metadata log holds what this release cannot read, or that it is damaged.
var errUnreadable = errors.New("metadata cannot be read")

// update applies a pushed update, or says that one before it was lost.
func (f *follower) update(u bus.Update) (lost bool, err error) {
	switch u.After(f.at) {
	case bus.Follows:
		began := time.Now()
		err := f.apply(u.Offset, u.Payload)
		f.traced(u, began)
		return false, err
	case bus.Gap:
		return true, nil
	default:
		return false, nil
	}
}

// traced makes the span of an update that was applied from that time on.
func (f *follower) traced(u bus.Update, began time.Time) {
	if f.n.tracer == nil || !u.Trace.IsSampled() {
		return
	}
	_, span := f.n.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), u.Trace), "metadata apply", trace.WithTimestamp(began),
		trace.WithAttributes(attribute.Int("cauce.node.id", int(f.n.cfg.ID)), attribute.Int64("cauce.metadata.offset", u.Offset)))
	span.End()
}

func (f *follower) apply(offset int64, batch []byte) error {
	recs, rest, err := metadata.NextBatch(batch)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the batch", len(rest))
	}
	if err != nil {
		return fmt.Errorf("%w: batch at offset %d: %w", errUnreadable, offset, err)
	}
	im, delta, err := f.n.Image().Apply(offset, recs)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	f.at = offset
	f.n.publish(im, delta)
	return nil
}

// fetchTimeout is when another controller is asked: the one that got the request may stand still.
const fetchTimeout = 1500 * time.Millisecond

func (f *follower) fetch(ctx context.Context, from bus.Endpoint[*controlpb.FetchRequest, *controlpb.FetchResponse], req *controlpb.FetchRequest) (*controlpb.FetchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	return from.Call(ctx, f.n.bus, req)
}

// catchUp fetches what follows until the controller that answers has no more.
func (f *follower) catchUp(ctx context.Context) error {
	for {
		resp, err := f.fetch(ctx, controlpb.Fetch, &controlpb.FetchRequest{FromOffset: f.at, MaxBytes: fetchBytes})
		if err != nil {
			return err
		}
		if err := responseError(resp); err != nil {
			return err
		}
		if resp.GetSnapshot() != nil {
			if err := f.load(ctx, resp); err != nil {
				return err
			}
			continue
		}
		for _, b := range resp.GetBatches() {
			if b.GetOffset() <= f.at {
				return fmt.Errorf("%w: batch at offset %d after offset %d", errUnreadable, b.GetOffset(), f.at)
			}
			if err := f.apply(b.GetOffset(), b.GetRecords()); err != nil {
				return err
			}
		}
		if len(resp.GetBatches()) == 0 || f.at >= resp.GetEndOffset() {
			return nil
		}
	}
}

// load takes over the snapshot of which first has the first chunk, from the controller that sent it.
func (f *follower) load(ctx context.Context, first *controlpb.FetchResponse) error {
	chunk := first.GetSnapshot()
	offset, size := chunk.GetOffset(), chunk.GetSize()
	if size > maxSnapshotBytes || offset <= f.at {
		return fmt.Errorf("%w: snapshot at offset %d of %d bytes, after offset %d", errUnreadable, offset, size, f.at)
	}
	from := controlpb.Fetch.At(first.GetControllerId())
	var data []byte
	for {
		if chunk == nil || chunk.GetOffset() != offset || chunk.GetPosition() != int64(len(data)) {
			return fmt.Errorf("snapshot at offset %d: another chunk than that at byte %d", offset, len(data))
		}
		data = append(data, chunk.GetData()...)
		if int64(len(data)) >= size {
			break
		}
		if len(chunk.GetData()) == 0 {
			return fmt.Errorf("snapshot at offset %d: empty chunk at byte %d", offset, len(data))
		}
		resp, err := f.fetch(ctx, from, &controlpb.FetchRequest{MaxBytes: fetchBytes, SnapshotOffset: offset, SnapshotPosition: int64(len(data))})
		if err != nil {
			return err
		}
		if err := responseError(resp); err != nil {
			return err
		}
		chunk = resp.GetSnapshot()
	}
	im, err := controlpb.DecodeSnapshot(data)
	if err != nil {
		return fmt.Errorf("%w: snapshot at offset %d: %w", errUnreadable, offset, err)
	}
	f.at = offset
	if old := f.n.Image(); im.Offset() > old.Offset() {
		f.n.publish(im, metadata.Diff(old, im))
	}
	return nil
}
