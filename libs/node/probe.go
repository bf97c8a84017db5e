package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
)

const (
	// probeTimeout bounds a probe. A port that refuses does so at once.
	probeTimeout = 400 * time.Millisecond
	// maxProbes under way; what exceeds it is answered with no finding.
	maxProbes = 8
)

// attest makes the process present on the bus, so that its absence tells that it ended, and has it look after the
// absent ones for the active controller, until ctx ends.
func (n *Node) attest(ctx context.Context) error {
	present, err := n.bus.Announce(controlpb.ProcessName(n.incarnation))
	if err != nil {
		return fmt.Errorf("node %d: %w", n.cfg.ID, err)
	}
	defer present.Close()
	var probes sync.WaitGroup
	defer probes.Wait()
	under := make(chan struct{}, maxProbes)
	sub, err := controlpb.Probe.At(n.cfg.ID).Serve(n.bus, func(_ context.Context, req *controlpb.ProbeRequest, reply func(*controlpb.ProbeResponse, error)) {
		select {
		case under <- struct{}{}:
		default:
			reply(&controlpb.ProbeResponse{}, nil)
			return
		}
		probes.Go(func() {
			defer func() { <-under }()
			reply(n.probe(ctx, req.GetNodeId(), req.GetNodeEpoch()), nil)
		})
	})
	if err != nil {
		return fmt.Errorf("node %d: %w", n.cfg.ID, err)
	}
	defer sub.Close()
	<-ctx.Done()
	return nil
}

// probe tries all listeners of a registration. One that does not answer at all says nothing: it may be the way there that
// is cut.
func (n *Node) probe(ctx context.Context, id int32, epoch int64) *controlpb.ProbeResponse {
	found := &controlpb.ProbeResponse{}
	other, ok := n.Image().Node(id)
	if !ok || other.Epoch != epoch {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	refusals := 0
	for _, l := range other.Listeners {
		switch err := reach(ctx, l); {
		case err == nil:
			found.Reached = true
		case errors.Is(err, syscall.ECONNREFUSED):
			refusals++
		default:
			n.log.Debug("probed", zap.Int32("other", id), zap.String("listener", l.Name), zap.Error(err))
		}
	}
	found.Refused = refusals > 0 && refusals == len(other.Listeners)
	return found
}

func reach(ctx context.Context, l metadata.Listener) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
	if err != nil {
		return err
	}
	return conn.Close()
}
