package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
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
	self      uint64
	urls      map[int32]string // by node id
	log       *zap.Logger
	following []uint64
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
	listener, err := net.Listen("tcp", q.cfg.listenAddress())
	if err != nil {
		return nil, fmt.Errorf("quorum: %w", err)
	}
	p := &peers{self: q.self, urls: q.cfg.Voters, log: q.log, failed: make(chan error, 1), unreachable: map[uint64]struct{}{}, sent: map[uint64]raft.SnapshotStatus{}}
	name := strconv.Itoa(int(q.cfg.ID))
	p.transport = &rafthttp.Transport{
		Logger:      q.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel)), // it is talkative about each connection
		DialTimeout: time.Second,
		ID:          types.ID(q.self),
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
	p.follow(*q.members.Load())
	mux := http.NewServeMux()
	mux.Handle("/", p.transport.Handler())
	mux.HandleFunc("GET "+diskPath, q.tellDisk)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: zap.NewStdLog(q.log)}
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

// follow speaks with these members from now on, and with no others.
func (p *peers) follow(members []uint64) {
	for _, m := range p.following {
		if !slices.Contains(members, m) {
			p.transport.RemovePeer(types.ID(m))
		}
	}
	p.following = nil
	for _, m := range members {
		url, ok := p.urls[nodeID(m)]
		switch {
		case m == p.self:
		case !ok:
			p.log.Error("a controller of the quorum is not among controller.peers, and cannot be reached", zap.Int32("node", nodeID(m)))
		default:
			p.transport.AddPeer(types.ID(m), []string{url})
			p.following = append(p.following, m)
		}
	}
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
