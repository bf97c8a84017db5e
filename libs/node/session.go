package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// While a node waits for the controller to let it go, it asks this often at first, and more seldom then.
const firstDrainWait = 10 * time.Millisecond

const (
	// beatTimeout bounds each try to tell the controller that this node is there. Two such and a heartbeat interval are
	// shorter than a session (broker.session.timeout.ms), so a node has time to find a server of the bus that works.
	beatTimeout = 1500 * time.Millisecond
	// leastBeatInterval keeps a node whose broker.heartbeat.interval.ms is 0 from sending heartbeats without end.
	leastBeatInterval = 10 * time.Millisecond
	// moveAfter without contact the node tries another server of the bus. Electing a controller takes about as long.
	moveAfter = time.Second
)

// contact is what a node has to the active controller. When none of its tries comes to an answer, the bus's server that
// it is connected to may be up but cut off from the others.
type contact struct {
	bus   *bus.Conn
	began time.Time // of this try
	lost  time.Time // the first of those that failed in a row since the last move; zero when the last did not
}

func (c *contact) begin() { c.began = time.Now() }

// end tells how the try ended; any answer will do.
func (c *contact) end(err error) {
	switch {
	case err == nil || !retriable(err):
		c.lost = time.Time{}
	case c.lost.IsZero():
		c.lost = c.began
	}
	if !c.lost.IsZero() && time.Since(c.lost) >= moveAfter {
		c.bus.MoveOver()
		c.lost = time.Time{}
	}
}

// keepRegistered registers the node and sends heartbeats until ctx ends or the controller has let the node go. A
// registration that the controller no longer knows is made anew.
func (n *Node) keepRegistered(ctx context.Context) error {
	for {
		err := n.register(ctx)
		if err == nil {
			err = n.beat(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case n.isDrained():
			return nil
		case n.Draining():
			close(n.drained) // what is not registered holds nothing
			return nil
		}
	}
}

func (n *Node) isDrained() bool {
	select {
	case <-n.drained:
		return true
	default:
		return false
	}
}

// register tries until it succeeds. Of refusals only that of a node id that is taken is worth another try: the process
// before this one may have ended without a word, and its session with it (initial.broker.registration.timeout.ms).
func (n *Node) register(ctx context.Context) error {
	takenUntil := time.Now().Add(n.cfg.Static.DurationMs("initial.broker.registration.timeout.ms"))
	req := n.registration()
	var retry backoff
	contact := contact{bus: n.bus}
	for warned := false; ; warned = true {
		kicked := n.kicked.next()
		contact.begin()
		callCtx, cancel := context.WithTimeout(ctx, beatTimeout)
		resp, err := controlpb.Register.Call(callCtx, n.bus, req)
		cancel()
		if err == nil {
			err = responseError(resp)
		}
		contact.end(err)
		if err == nil {
			n.epoch.Store(resp.GetNodeEpoch())
			n.follower.want(resp.GetMetadataOffset())
			n.log.Info("registered", zap.Int64("epoch", resp.GetNodeEpoch()), zap.String("cluster", resp.GetClusterId()))
			return nil
		}
		taken := errors.Is(err, kerr.DuplicateBrokerRegistration) && time.Now().Before(takenUntil)
		if ctx.Err() != nil || !retriable(err) && !taken {
			return fmt.Errorf("node %d: register: %w", n.cfg.ID, err)
		}
		if !warned {
			n.log.Info("not registered yet", zap.Error(err))
		}
		n.pause(ctx, retry.next(), kicked)
	}
}

func (n *Node) registration() *controlpb.RegisterRequest {
	req := &controlpb.RegisterRequest{
		NodeId: n.cfg.ID, ClusterId: n.cfg.ClusterID, Incarnation: n.incarnation[:], Rack: n.cfg.Rack, Roles: n.cfg.Roles,
		PreviousNodeEpoch: n.cfg.PreviousEpoch,
	}
	if req.PreviousNodeEpoch == 0 {
		req.PreviousNodeEpoch = -1
	}
	for _, l := range n.cfg.AdvertisedListeners {
		req.Listeners = append(req.Listeners, &controlpb.Listener{
			Name: l.Name, Host: l.Host, Port: uint32(l.Port), SecurityProtocol: int32(l.SecurityProtocol),
		})
	}
	supported := metadata.SupportedFeatures()
	for _, name := range slices.Sorted(maps.Keys(supported)) {
		f := supported[name]
		req.Features = append(req.Features, &controlpb.FeatureRange{Name: name, MinLevel: int32(f.Min), MaxLevel: int32(f.Max)})
	}
	for _, dir := range n.cfg.LogDirIDs {
		req.LogDirs = append(req.LogDirs, dir[:])
	}
	return req
}

// pause waits d, or until kicked if that comes first.
func (n *Node) pause(ctx context.Context, d time.Duration, kicked <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-kicked:
	case <-ctx.Done():
	}
}

// beat sends heartbeats: at once when the image has the registration, which puts the node into service, then at every
// broker.heartbeat.interval.ms. It returns when the registration is lost or the controller let the node go.
func (n *Node) beat(ctx context.Context) error {
	interval := max(n.cfg.Static.DurationMs("broker.heartbeat.interval.ms"), leastBeatInterval)
	if err := n.AwaitOffset(ctx, n.Epoch()); err != nil {
		return err
	}
	var retry, draining backoff
	contact := contact{bus: n.bus}
	for {
		drain, kicked := n.drain, n.kicked.next()
		leaving := n.Draining()
		wait := interval
		contact.begin()
		resp, err := n.heartbeat(ctx, leaving)
		contact.end(err)
		switch {
		case err == nil:
			retry.reset()
			kicked = nil
			if leaving {
				if resp.GetShouldShutdown() {
					close(n.drained)
					return nil
				}
				wait = min(draining.nextFrom(firstDrainWait), interval)
			}
		case errors.Is(err, kerr.StaleBrokerEpoch), errors.Is(err, kerr.BrokerIDNotRegistered):
			n.log.Warn("the controller does not know this node any more", zap.Error(err))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			n.metrics.missedBeats.Inc()
			wait = min(retry.next(), interval)
		}
		if leaving {
			drain = nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-drain:
		case <-kicked:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

func (n *Node) heartbeat(ctx context.Context, leaving bool) (*controlpb.HeartbeatResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	resp, err := controlpb.Heartbeat.Call(ctx, n.bus, &controlpb.HeartbeatRequest{
		NodeId: n.cfg.ID, NodeEpoch: n.Epoch(), MetadataOffset: n.Image().Offset(), WantShutdown: leaving,
	})
	if err != nil {
		return nil, err
	}
	if err := responseError(resp); err != nil {
		return nil, err
	}
	// A push that was lost shows here at the latest.
	n.follower.want(resp.GetMetadataOffset())
	return resp, nil
}
