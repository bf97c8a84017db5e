package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
)

const (
	// watchInterval is the time between two looks at the nodes, and bounds one look. A process that has ended is fenced after
	// two; one that only lost its connection to the bus has another by then.
	watchInterval = 250 * time.Millisecond
	// confirmTimeout bounds how long other nodes are waited for.
	confirmTimeout = 500 * time.Millisecond
	// maxWitnesses is how many other nodes are asked about one.
	maxWitnesses = 3
)

// watcher finds the nodes whose process has ended, sooner than their sessions do. The bus knows which processes are
// connected to it. That one is not may be the bus's own fault, or that of the way there, so another node has to confirm
// it: where a port refuses connections nothing runs. A process that is stopped, or cut off, is still connected as far as
// the bus knows, and keeps its session timeout.
type watcher struct {
	r *reign
	// missed are the processes that were not on the bus at the last look, by incarnation, with its time in ms. One that ended
	// before the first look was never seen there; it is in service, so it had told of itself.
	missed map[[16]byte]int64
}

// watch looks every watchInterval until the function returned is called, which waits for the end of it.
func watch(ctx context.Context, r *reign) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{r: r}
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.look(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// presence is what a look finds of a node.
type presence int8

const (
	unclear presence = iota // it did not answer
	present
	absent
)

// look asks for all nodes in service, and reports those that are absent for the second time.
func (w *watcher) look(ctx context.Context) {
	var nodes []*metadata.Node
	for n := range w.r.s.Image().Nodes() {
		if !n.Fenced {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < 2 {
		return // nobody could confirm anything
	}
	nowMs := w.r.s.nowMs()
	found := w.ask(ctx, nodes)
	var witnesses []int32
	for i, n := range nodes {
		if found[i] == present {
			witnesses = append(witnesses, n.ID)
		}
	}
	missed := map[[16]byte]int64{}
	var confirming sync.WaitGroup
	for i, n := range nodes {
		missedMs, again := w.missed[n.Incarnation]
		switch {
		case found[i] == absent:
			missed[n.Incarnation] = nowMs
			if again {
				confirming.Go(func() { w.report(ctx, n, missedMs, witnesses) })
			}
		case again && found[i] == unclear:
			missed[n.Incarnation] = missedMs
		}
	}
	w.missed = missed
	confirming.Wait()
}

// ask finds out which nodes are on the bus.
func (w *watcher) ask(ctx context.Context, nodes []*metadata.Node) []presence {
	ctx, cancel := context.WithTimeout(ctx, watchInterval)
	defer cancel()
	found := make([]presence, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() {
			switch there, err := w.r.s.bus.Present(ctx, controlpb.ProcessName(n.Incarnation)); {
			case err != nil:
			case there:
				found[i] = present
			default:
				found[i] = absent
			}
		})
	}
	asking.Wait()
	return found
}

// report has other nodes try to reach an absent one, and the event loop decide.
func (w *watcher) report(ctx context.Context, n *metadata.Node, missedMs int64, witnesses []int32) {
	a := cluster.Absence{NodeID: n.ID, Epoch: n.Epoch, SinceMs: missedMs, Refused: w.refused(ctx, n, witnesses)}
	r := w.r
	r.submit(func() {
		recs, fenced := r.sessions.Absent(r.image, r.env(), a)
		if !fenced {
			return
		}
		r.s.metrics.gone.Inc()
		r.s.log.Warn("fencing a node whose process has ended", zap.Int32("ended", n.ID), zap.Int64("missed_ms", r.s.nowMs()-missedMs))
		r.commit(recs, func(error) {})
	}, func(error) {})
}

// refused says whether a witness found that the node refuses connections, and none that it takes them.
func (w *watcher) refused(ctx context.Context, n *metadata.Node, witnesses []int32) bool {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	witnesses = witnesses[:min(len(witnesses), maxWitnesses)]
	answers := make([]*controlpb.ProbeResponse, len(witnesses))
	var asking sync.WaitGroup
	for i, id := range witnesses {
		asking.Go(func() {
			resp, err := controlpb.Probe.At(id).Call(ctx, w.r.s.bus, &controlpb.ProbeRequest{NodeId: n.ID, NodeEpoch: n.Epoch})
			if err == nil {
				answers[i] = resp
			}
		})
	}
	asking.Wait()
	refused := slices.ContainsFunc(answers, (*controlpb.ProbeResponse).GetRefused)
	return refused && !slices.ContainsFunc(answers, (*controlpb.ProbeResponse).GetReached)
}
