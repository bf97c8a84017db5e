// Package quorum keeps one machine's log on the voters of a raft group: etcd's raft, its WAL and snapshot files, and its
// peer transport. Run owns the raft state and everything that happens to it; see ready.go for the order of things that
// makes an answered proposal survive.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"go.uber.org/zap"
)

var (
	// ErrNotLeader fails a proposal whose claim is over. The proposal may still be committed by another leader.
	ErrNotLeader = errors.New("quorum: not the leader")
	// ErrStopped fails what comes after the end of Run.
	ErrStopped = errors.New("quorum: stopped")
	// ErrCompacted says that entries are only left as part of a snapshot.
	ErrCompacted = errors.New("quorum: entries compacted")
)

// Config of one voter.
type Config struct {
	// ID is this node's id, at least 0.
	ID int32
	// Dir holds the WAL and the snapshots; it is made when missing.
	Dir string
	// Voters by node id, this one among them, with the http://host:port that each one's peers reach it at. They found the
	// group, all together; who is a member later is up to Add and Remove. The URL of a single voter is not used.
	Voters map[int32]string
	// Listen is the host:port that peers are served at; empty means that of the own URL.
	Listen string
	// GroupID tells this group's peers from those of another cluster; the same at each voter.
	GroupID uint64
	// Tick is raft's unit of time; leaders beat every other one and are given up after ElectionTicks to nearly twice as many, by chance.
	// Not used with a single voter.
	Tick          time.Duration
	ElectionTicks int
	// A snapshot is made after this many entries, or at the latest after this many bytes of them.
	SnapshotEntries int64
	SnapshotBytes   int64
}

const (
	// A follower gives the leader up 0.6 to 1.2 s after its last message.
	defaultTick            = 100 * time.Millisecond
	defaultElectionTicks   = 6
	heartbeatTicks         = 2
	defaultSnapshotEntries = 10_000
	defaultSnapshotBytes   = 8 << 20

	// What is proposed and not answered; Propose waits above.
	maxInFlight      = 4096
	maxInFlightBytes = 64 << 20
)

func (c Config) withDefaults() Config {
	if c.Tick == 0 {
		c.Tick = defaultTick
	}
	if c.ElectionTicks == 0 {
		c.ElectionTicks = defaultElectionTicks
	}
	if c.SnapshotEntries == 0 {
		c.SnapshotEntries = defaultSnapshotEntries
	}
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = defaultSnapshotBytes
	}
	return c
}

// Machine is what committed entries are applied to. Its methods are called one at a time, Restore also before Run; they
// must not wait for the quorum. An error from any of them ends Run.
type Machine interface {
	// Restore replaces the state by what Snapshot encoded at index. Empty data is the state before the first entry.
	Restore(index int64, data []byte) error
	// Apply applies the entry at index. value is what came with the proposal if this node proposed it under the present claim, else nil.
	Apply(index int64, data []byte, value any) error
	// Snapshot returns a function that encodes the present state; it runs while later entries are applied.
	Snapshot() func() ([]byte, error)
	// Leadership tells of each change. When it tells of a claim, all that is in the log is applied.
	Leadership(l Leadership)
}

// Leadership is this node's view of who leads.
type Leadership struct {
	// Leader is the leading node's id, -1 when unknown.
	Leader int32
	Term   uint64
	// Claim is not 0 while this node leads and has applied all earlier leaders' entries. Each claim has another number.
	Claim uint64
	// Next is the index that the claim's first proposal gets; each later one gets the index after.
	Next int64
}

// Proposal is an entry to append.
type Proposal struct {
	// Claim under which it was decided; it is refused under any other.
	Claim uint64
	// Data of the entry. Without any there is no entry: the proposal is done once all those before it are.
	Data []byte
	// Value is handed to Machine.Apply with the entry.
	Value any
	// Done is called once, after Machine.Apply or with an error, from Run's goroutine (or Propose's, once stopped). It must not wait.
	Done func(error)
}

// pendingProposal is appended at index and not applied yet. Without an entry it rides on the one before it.
type pendingProposal struct {
	Proposal
	index uint64
}

// Quorum is one voter.
type Quorum struct {
	cfg     Config
	log     *zap.Logger
	machine Machine
	disk    *disk
	peers   *peers // nil with a single voter
	rn      *raft.RawNode

	self uint64 // raft's id of this member

	// Owned by Run.
	conf        *raftpb.ConfState
	lastIndex   uint64 // of the log, proposals not yet in a Ready included
	leadership  Leadership
	leads       uint64 // the term in which raft leads, 0 when it does not
	claimFrom   uint64 // what has to be applied before a claim begins
	claims      uint64
	contacts    map[uint64]contact // of this term's voters, while it leads
	ticks       *ticks             // nil with a single voter
	pending     []pendingProposal
	snapshotted uint64 // index of the newest snapshot, or of the one being made
	logBytes    int64  // applied since
	snapshots   chan madeSnapshot
	making      bool
	wanted      bool // a snapshot, whatever the length of the log

	members atomic.Pointer[[]uint64] // what conf has
	applied atomic.Uint64
	calls   chan func()
	inbox   chan *raftpb.Message
	stopped chan struct{} // closed at the end of Run

	mu            sync.Mutex
	room          sync.Cond
	queue         []Proposal
	inFlight      int
	inFlightBytes int64
	closed        bool
	candidates    map[int32]candidate // that were not members when they asked, at most one for each of cfg.Voters
	wake          chan struct{}
}

// Open reads the log from disk, or begins one, and restores the machine from its newest snapshot. Entries after that are
// applied by Run. A voter of several that has no log waits until all the others are there to found the group, or until it is
// a member of the group that exists; ctx ends that. Close must be called in the end.
func Open(ctx context.Context, cfg Config, machine Machine, log *zap.Logger) (*Quorum, error) {
	cfg = cfg.withDefaults()
	if _, ok := cfg.Voters[cfg.ID]; !ok {
		return nil, fmt.Errorf("quorum: node %d is not among the voters", cfg.ID)
	}
	q := &Quorum{
		cfg: cfg, log: log, machine: machine,
		contacts:   map[uint64]contact{},
		candidates: map[int32]candidate{},
		snapshots:  make(chan madeSnapshot, 1),
		calls:      make(chan func()),
		inbox:      make(chan *raftpb.Message, 256),
		stopped:    make(chan struct{}),
		wake:       make(chan struct{}, 1),
	}
	q.room.L = &q.mu
	q.members.Store(&[]uint64{})
	if err := q.openDisk(ctx); err != nil {
		return nil, err
	}
	if err := q.start(); err != nil {
		return nil, errors.Join(err, q.disk.close())
	}
	return q, nil
}

// openDisk finds out who this member is, and begins its log if there is none.
func (q *Quorum) openDisk(ctx context.Context) (err error) {
	several, begun := len(q.cfg.Voters) > 1, hasLog(q.cfg.Dir)
	disk, err := uint32(0), error(nil)
	if several && !begun {
		disk, err = drawDisk(q.cfg.Dir)
	} else {
		disk, err = readDisk(q.cfg.Dir)
	}
	if err != nil {
		return err
	}
	q.self = memberID(q.cfg.ID, disk)
	if !begun {
		founders := []uint64{q.self}
		if several {
			if founders, err = found(ctx, q.cfg, q.self, q.log); err != nil {
				return err
			}
		}
		if err := bootstrap(q.cfg, founders, q.log); err != nil {
			return fmt.Errorf("quorum: begin a log in %s: %w", q.cfg.Dir, err)
		}
	}
	q.disk, err = openDisk(ctx, q.cfg, q.log)
	return err
}

func (q *Quorum) start() error {
	snapshot, err := q.disk.store.Snapshot()
	if err != nil {
		return err
	}
	meta := snapshot.GetMetadata()
	if err := q.machine.Restore(int64(meta.GetIndex()), snapshot.GetData()); err != nil {
		return fmt.Errorf("quorum: restore the snapshot at %d: %w", meta.GetIndex(), err)
	}
	q.applyMembers(meta.GetConfState())
	q.snapshotted = meta.GetIndex()
	q.applied.Store(meta.GetIndex())
	if q.lastIndex, err = q.disk.store.LastIndex(); err != nil {
		return err
	}
	q.leadership.Leader = -1
	q.rn, err = raft.NewRawNode(&raft.Config{
		ID:              q.self,
		ElectionTick:    q.cfg.ElectionTicks,
		HeartbeatTick:   heartbeatTicks,
		Storage:         q.disk.store,
		Applied:         meta.GetIndex(),
		MaxSizePerMsg:   1 << 20,
		MaxInflightMsgs: 256,
		CheckQuorum:     true,
		PreVote:         true,
		// What a proposal says was decided on the proposer's own state: nobody else may append it.
		DisableProposalForwarding: true,
		Logger:                    raftLog{q.log.Sugar()},
	})
	if err != nil {
		return err
	}
	if len(q.cfg.Voters) > 1 {
		q.peers, err = startPeers(q)
	}
	return err
}

// Propose hands p to the log. It waits while too much is under way.
func (q *Quorum) Propose(p Proposal) {
	q.mu.Lock()
	for !q.closed && (q.inFlight >= maxInFlight || q.inFlightBytes >= maxInFlightBytes) {
		q.room.Wait()
	}
	if q.closed {
		q.mu.Unlock()
		p.Done(ErrStopped)
		return
	}
	q.inFlight++
	q.inFlightBytes += int64(len(p.Data))
	q.queue = append(q.queue, p)
	q.mu.Unlock()
	q.signal()
}

// signal has Run look at what was left for it.
func (q *Quorum) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// finish answers a proposal.
func (q *Quorum) finish(p Proposal, err error) {
	q.mu.Lock()
	q.inFlight--
	q.inFlightBytes -= int64(len(p.Data))
	q.mu.Unlock()
	q.room.Signal()
	p.Done(err)
}

// handOverTimeout bounds how long a leader that stops waits for another to lead.
const handOverTimeout = time.Second

// Run takes part in the quorum until ctx ends, and has another voter lead then if it did. An error means that the log could not be written or applied: what this
// node knows is in doubt from then on, and only opening it again can tell.
func (q *Quorum) Run(ctx context.Context) error {
	defer q.stop()
	if len(q.cfg.Voters) > 1 {
		q.ticks = newTicks(&q.cfg)
		defer func() { q.ticks.timer.Stop() }()
	} else if err := q.rn.Campaign(); err != nil { // the only vote is our own: no need to wait for a time-out, nor for ticks at all
		return fmt.Errorf("quorum: campaign: %w", err)
	}
	var peersFailed <-chan error
	if q.peers != nil {
		peersFailed = q.peers.failed
	}
	announceCtx, cancel := context.WithCancel(ctx)
	var announced sync.WaitGroup
	announced.Go(func() { q.announce(announceCtx) })
	defer announced.Wait()
	defer cancel()
	ended := ctx.Done()
	var handOver <-chan time.Time // not nil once ctx has ended
	for {
		for q.rn.HasReady() {
			if err := q.handleReady(); err != nil {
				return err
			}
		}
		q.trackLeadership()
		if handOver != nil && q.leads == 0 {
			return nil
		}
		if err := q.maybeSnapshot(); err != nil {
			return err
		}
		select {
		case <-ended:
			if !q.beginHandOver() {
				return nil
			}
			ended, handOver = nil, time.After(handOverTimeout)
		case <-handOver:
			return nil
		case err := <-peersFailed:
			return fmt.Errorf("quorum: transport: %w", err)
		case <-q.wake:
			q.appendQueued()
			if q.peers != nil {
				q.peers.report(q.rn)
			}
		case <-q.ticks.fired():
			q.ticks.fire(q.rn)
			q.promote()
		case m := <-q.inbox:
			q.step(m)
		case call := <-q.calls:
			call()
		case made := <-q.snapshots:
			if err := q.keepSnapshot(made); err != nil {
				return err
			}
		}
	}
}

// beginHandOver asks the voter that is furthest, of those heard from, to lead in place of this one.
func (q *Quorum) beginHandOver() bool {
	if q.leads == 0 {
		return false
	}
	var next, match uint64
	q.rn.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
		if kind == raft.ProgressTypePeer && id != q.self && q.reached(id) && pr.Match >= match {
			next, match = id, pr.Match
		}
	})
	if next == 0 {
		return false
	}
	q.rn.TransferLeader(next)
	return true
}

// step takes m, and what more has come by now, so that one fsync serves them all.
func (q *Quorum) step(m *raftpb.Message) {
	heard := false
	for more := cap(q.inbox); more > 0; more-- {
		if err := q.rn.Step(m); err != nil {
			q.log.Debug("raft message refused", zap.Error(err))
		}
		q.hear(m)
		heard = q.ticks.heard(q.rn, m) || heard
		select {
		case m = <-q.inbox:
		default:
			more = 0
		}
	}
	q.ticks.settle(q.rn, heard)
}

// appendQueued gives raft all that was proposed since the last time: they share one Ready and one fsync.
func (q *Quorum) appendQueued() {
	q.mu.Lock()
	queue := q.queue
	q.queue = nil
	q.mu.Unlock()
	for _, p := range queue {
		switch {
		case q.leadership.Claim == 0 || p.Claim != q.leadership.Claim:
			q.finish(p, ErrNotLeader)
		case p.Data == nil && len(q.pending) == 0:
			q.finish(p, nil)
		case p.Data == nil:
			q.pending = append(q.pending, pendingProposal{p, q.lastIndex})
		default:
			if err := q.rn.Propose(p.Data); err != nil {
				// The claim's later proposals were decided on the assumption that this one is in the log.
				q.log.Warn("proposal dropped", zap.Error(err))
				q.finish(p, ErrNotLeader)
				q.endClaim()
				continue
			}
			q.lastIndex++
			q.pending = append(q.pending, pendingProposal{p, q.lastIndex})
		}
	}
}

// stop fails all that has no answer yet. What was appended may have become durable all the same.
func (q *Quorum) stop() {
	q.mu.Lock()
	q.closed = true
	queue := q.queue
	q.queue = nil
	q.mu.Unlock()
	q.room.Broadcast()
	close(q.stopped)
	for _, p := range q.pending {
		q.finish(p.Proposal, ErrStopped)
	}
	q.pending = nil
	for _, p := range queue {
		q.finish(p, ErrStopped)
	}
}

// Close releases the disk and the transport, after Run has ended or when it was never called.
func (q *Quorum) Close() error {
	if q.peers != nil {
		q.peers.stop()
	}
	var err error
	if q.making {
		err = q.keepSnapshot(<-q.snapshots)
	}
	return errors.Join(err, q.disk.close())
}

// do runs fn on Run's goroutine.
func (q *Quorum) do(ctx context.Context, fn func()) error {
	done := make(chan struct{})
	select {
	case q.calls <- func() { fn(); close(done) }:
		<-done // Run, having taken the call, makes it
		return nil
	case <-q.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
