package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2stats"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// peers is the way to the other voters: etcd's transport, over an HTTP listener of its own.
type peers struct {
	transport *rafthttp.Transport
	server    *http.Server
	serving   sync.WaitGroup
	failed    chan error // a fault that no retry mends

	mu          sync.Mutex
	unreachable map[uint64]struct{}
	sent        map[uint64]raft.SnapshotStatus
}

func startPeers(q *Quorum) (*peers, error) {
	own, err := types.NewURLs([]string{q.cfg.Voters[q.cfg.ID]})
	if err != nil {
		return nil, fmt.Errorf("quorum: address of voter %d: %w", q.cfg.ID, err)
	}
	listener, err := net.Listen("tcp", cmp.Or(q.cfg.Listen, own[0].Host))
	if err != nil {
		return nil, fmt.Errorf("quorum: %w", err)
	}
	p := &peers{failed: make(chan error, 1), unreachable: map[uint64]struct{}{}, sent: map[uint64]raft.SnapshotStatus{}}
	name := strconv.Itoa(int(q.cfg.ID))
	p.transport = &rafthttp.Transport{
		Logger:      q.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel)), // it is talkative about each connection
		DialTimeout: time.Second,
		ID:          types.ID(raftID(q.cfg.ID)),
		URLs:        own,
		ClusterID:   types.ID(q.cfg.GroupID),
		Raft:        receiver{q, p},
		Snapshotter: q.disk.files,
		ServerStats: v2stats.NewServerStats(name, name),
		LeaderStats: v2stats.NewLeaderStats(q.log, name),
		ErrorC:      p.failed,
	}
	if err := p.transport.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("quorum: %w", err), listener.Close())
	}
	for id, url := range q.cfg.Voters {
		if id != q.cfg.ID {
			p.transport.AddPeer(types.ID(raftID(id)), []string{url})
		}
	}
	p.server = &http.Server{Handler: p.transport.Handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: zap.NewStdLog(q.log)}
	p.serving.Go(func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			select {
			case p.failed <- err:
			default:
			}
		}
	})
	return p, nil
}

// send never waits: what finds no room is lost, as on any network.
func (p *peers) send(messages []*raftpb.Message) { p.transport.Send(messages) }

func (p *peers) stop() {
	if err := p.server.Close(); err != nil {
		p.transport.Logger.Debug("closing the peer listener", zap.Error(err))
	}
	p.transport.Stop()
	p.serving.Wait()
}

// report tells raft what became of what it sent.
func (p *peers) report(rn *raft.RawNode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.unreachable {
		rn.ReportUnreachable(id)
	}
	for id, status := range p.sent {
		rn.ReportSnapshot(id, status)
	}
	clear(p.unreachable)
	clear(p.sent)
}

// receiver is what the transport calls, from its own goroutines and, when a peer's buffer is full, from Run's inside send.
type receiver struct {
	q *Quorum
	p *peers
}

// Process takes a message from a peer. It waits for Run to take it.
func (r receiver) Process(ctx context.Context, m *raftpb.Message) error {
	select {
	case r.q.inbox <- m:
		return nil
	case <-r.q.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r receiver) IsIDRemoved(uint64) bool { return false }

func (r receiver) ReportUnreachable(id uint64) {
	r.p.mu.Lock()
	r.p.unreachable[id] = struct{}{}
	r.p.mu.Unlock()
	r.q.signal()
}

func (r receiver) ReportSnapshot(id uint64, status raft.SnapshotStatus) {
	r.p.mu.Lock()
	r.p.sent[id] = status
	r.p.mu.Unlock()
	r.q.signal()
}
