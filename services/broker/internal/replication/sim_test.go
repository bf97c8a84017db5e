package replication

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// A world of one partition on three nodes: messages are lost, late and out of order, nodes crash and lose what they had not
// flushed, and the controller elects from the in-sync replicas. A seed gives one run.
type world struct {
	random     *rand.Rand
	truncates  truncation
	nowMs      int64
	versions   []version // the metadata, as the controller has written it
	nodes      []*node   // 1 to 3, at 0 to 2
	requests   []request
	wishes     []wish
	committed  []rec
	lastValue  int
	lastFetch  int
	violations []string
	lost       bool // a violation is that committed records are gone
}

// truncation is how a follower finds where its log leaves the leader's.
type truncation int

const (
	byEpoch     truncation = iota
	byWatermark            // as before KIP-101: what is not known to be committed goes
)

// rec is one record.
type rec struct {
	epoch int32
	value int
}

// version is the metadata at one offset.
type version struct {
	partition metadata.Partition
	epochs    [4]int64 // of the nodes' registrations
	fenced    [4]bool
}

type node struct {
	id      int32
	up      bool
	log     []rec
	starts  []start // its leader epochs
	flushed int
	hw      int64
	seen    int // versions
	epoch   int64
	leader  *Leader
	wished  *Proposal
	fetch   int // the fetch under way, 0 for none
}

// request is a fetch on its way to a leader.
type request struct {
	id        int
	to        int32
	epoch     int32
	lastEpoch int32
	fetch     Fetch
}

type wish struct {
	from     int32
	proposal *Proposal
}

func newWorld(seed uint64, truncates truncation) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 0)), truncates: truncates}
	v := version{partition: metadata.Partition{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}}}
	for id := int32(1); id <= 3; id++ {
		v.epochs[id] = int64(id)
		w.nodes = append(w.nodes, &node{id: id, up: true, epoch: int64(id)})
	}
	w.versions = []version{v}
	return w
}

func (w *world) violated(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *world) now() version          { return w.versions[len(w.versions)-1] }
func (w *world) node(id int32) *node   { return w.nodes[id-1] }
func (w *world) view(n *node) *version { return &w.versions[n.seen-1] }

// EndOffset is History's.
func (n *node) EndOffset() int64 { return int64(len(n.log)) }

// EndOffsetForEpoch is History's.
func (n *node) EndOffsetForEpoch(epoch int32) (int32, int64) {
	return history{n.starts, n.EndOffset()}.EndOffsetForEpoch(epoch)
}

func (n *node) latestEpoch() int32 {
	if len(n.starts) == 0 {
		return -1
	}
	return n.starts[len(n.starts)-1].epoch
}

func (n *node) append(r rec) {
	if r.epoch > n.latestEpoch() {
		n.starts = append(n.starts, start{r.epoch, n.EndOffset()})
	}
	n.log = append(n.log, r)
}

func (n *node) truncate(to int64) {
	n.log = n.log[:min(to, n.EndOffset())]
	for len(n.starts) > 0 && n.starts[len(n.starts)-1].at >= to {
		n.starts = n.starts[:len(n.starts)-1]
	}
	n.hw = min(n.hw, n.EndOffset())
	n.flushed = min(n.flushed, len(n.log))
}

// publish writes a version of the metadata.
func (w *world) publish(change func(v *version)) {
	v := w.now()
	change(&v)
	v.partition.PartitionEpoch++
	w.versions = append(w.versions, v)
}

// follow has a node see the next version.
func (w *world) follow(n *node) {
	if !n.up || n.seen == len(w.versions) {
		return
	}
	n.seen++
	p := w.view(n).partition
	begins := n.seen == 1 || w.versions[n.seen-2].partition.LeaderEpoch != p.LeaderEpoch
	switch {
	case p.Leader != n.id:
		if begins && w.truncates == byWatermark && n.seen > 1 {
			n.truncate(n.hw)
		}
		n.leader, n.wished = nil, nil
	case begins || n.leader == nil:
		if p.LeaderEpoch > n.latestEpoch() {
			n.starts = append(n.starts, start{p.LeaderEpoch, n.EndOffset()})
		}
		n.leader = NewLeader(n.id, &p, Rules{LagMaxMs: 100, MayJoin: func(node int32, epoch int64) bool {
			v := w.view(n)
			return !v.fenced[node] && epoch == v.epochs[node]
		}}, n.EndOffset(), w.nowMs)
		if n.seen == len(w.versions) {
			w.checkHas(n, "the new leader")
		}
	default:
		n.leader.Update(&p, w.nowMs)
	}
	n.fetch = 0
	w.advance(n)
}

func (w *world) checkHas(n *node, who string) {
	if len(n.log) < len(w.committed) || !slices.Equal(n.log[:len(w.committed)], w.committed) {
		w.lost = true
		w.violated("%s, node %d, lacks committed records: it has %d, %d are committed", who, n.id, len(n.log), len(w.committed))
	}
}

// advance moves a leader's watermark: what lies below is committed.
func (w *world) advance(n *node) {
	if n.leader == nil {
		return
	}
	if hw := n.leader.HighWatermark(n.EndOffset(), 2, w.nowMs); hw > n.hw {
		n.hw = hw
	}
	known := min(int(n.hw), len(w.committed))
	if !slices.Equal(n.log[:known], w.committed[:known]) {
		w.violated("node %d has other records than were committed", n.id)
		return
	}
	if int(n.hw) > len(w.committed) {
		w.committed = append(w.committed, n.log[len(w.committed):n.hw]...)
	}
}

func (w *world) produce(n *node) {
	if !n.up || n.leader == nil || n.leader.CheckBefore(2) != nil {
		return
	}
	w.lastValue++
	n.leader.Appended(n.EndOffset(), w.nowMs)
	n.append(rec{w.view(n).partition.LeaderEpoch, w.lastValue})
	w.advance(n)
}

// send has a follower fetch. An answer to an earlier fetch comes to nothing from then on, but the leader may still see it.
func (w *world) send(n *node) {
	if !n.up || n.seen == 0 {
		return
	}
	p := w.view(n).partition
	if p.Leader == n.id || p.Leader == metadata.NoLeader {
		return
	}
	w.lastFetch++
	n.fetch = w.lastFetch
	last := n.latestEpoch()
	if w.truncates == byWatermark {
		last = -1
	}
	w.requests = append(w.requests, request{w.lastFetch, p.Leader, p.LeaderEpoch, last, Fetch{n.id, n.epoch, n.EndOffset(), 0}})
}

// serve has a leader answer a fetch; the answer arrives only if the follower waits for it.
func (w *world) serve(r request, arrives bool) {
	l, f := w.node(r.to), w.node(r.fetch.Node)
	if !l.up || l.leader == nil || w.view(l).partition.LeaderEpoch != r.epoch {
		return
	}
	diverging, divergingEnd := int32(-1), int64(-1)
	if r.lastEpoch >= 0 {
		epoch, end := l.EndOffsetForEpoch(r.lastEpoch)
		if epoch < r.lastEpoch || end < r.fetch.Offset {
			diverging, divergingEnd = epoch, end
		}
	}
	var records []rec
	if divergingEnd < 0 {
		if r.fetch.Offset > l.EndOffset() {
			if arrives && f.up && f.fetch == r.id {
				f.fetch = 0
				f.truncate(OutOfRange(f.EndOffset(), 0, l.EndOffset()).Offset)
			}
			return
		}
		if l.leader.Fetched(r.fetch, l.EndOffset(), w.nowMs) != nil {
			return
		}
		w.advance(l)
		if p := l.leader.Expand(l.hw); p != nil {
			l.wished = p
		}
		records = l.log[r.fetch.Offset:min(r.fetch.Offset+int64(w.random.IntN(4)), l.EndOffset())]
	}
	if !arrives || !f.up || f.fetch != r.id {
		return
	}
	f.fetch = 0
	if divergingEnd >= 0 {
		f.truncate(TruncateTo(f, diverging, divergingEnd))
		return
	}
	for _, r := range records {
		f.append(r)
	}
	f.hw = max(f.hw, min(l.hw, f.EndOffset()))
}

// decide has the controller answer a wish; the answer may get lost.
func (w *world) decide(x wish, arrives bool) {
	v := w.now()
	p := v.partition
	d := Decision{}
	switch {
	case x.proposal.LeaderEpoch < p.LeaderEpoch:
		d.Err = kerr.FencedLeaderEpoch
	case x.proposal.PartitionEpoch < p.PartitionEpoch:
		d.Err = kerr.InvalidUpdateVersion
	}
	var isr []int32
	for _, m := range x.proposal.ISR {
		isr = append(isr, m.Node)
		if d.Err == nil && (v.fenced[m.Node] || m.Epoch != -1 && m.Epoch != v.epochs[m.Node]) {
			d.Err = kerr.IneligibleReplica
		}
	}
	if d.Err == nil {
		w.publish(func(v *version) { v.partition.ISR = isr })
		d.LeaderEpoch, d.PartitionEpoch, d.ISR = p.LeaderEpoch, p.PartitionEpoch+1, isr
	}
	n := w.node(x.from)
	if arrives && n.up && n.leader != nil {
		if !n.leader.Decided(x.proposal, d, w.nowMs) && !n.leader.Pending(x.proposal) && n.wished == x.proposal {
			n.wished = nil
		}
		w.advance(n)
	}
}

// remove has the controller do without a node: it leaves the in-sync replicas, unless it is the last, and leads no more.
func (w *world) remove(id int32, change func(v *version)) {
	w.publish(func(v *version) {
		change(v)
		p := &v.partition
		if kept := slices.DeleteFunc(slices.Clone(p.ISR), func(n int32) bool { return n == id }); len(kept) > 0 {
			p.ISR = kept
		}
		if p.Leader == id {
			w.elect(v)
		}
	})
}

func (w *world) elect(v *version) {
	p := &v.partition
	p.Leader = metadata.NoLeader
	for _, id := range p.ISR {
		if !v.fenced[id] {
			p.Leader = id
			break
		}
	}
	p.LeaderEpoch++
}

// isSpare says whether another in-sync replica is up that has never lost anything since it became one. Beyond that it is for
// the controller's eligible leader replicas to tell who has all records (KIP-966), which this world does not have.
func (w *world) isSpare(n *node) bool {
	return slices.ContainsFunc(w.now().partition.ISR, func(id int32) bool {
		other := w.node(id)
		return id != n.id && other.up && other.epoch == w.now().epochs[id]
	})
}

// crash ends a node, which loses what it had not flushed.
func (w *world) crash(n *node) {
	if !n.up || !w.isSpare(n) {
		return
	}
	n.truncate(int64(n.flushed))
	n.up, n.leader, n.wished, n.fetch = false, nil, nil, 0
	// A wish to go on alone that is granted after this would leave nobody with the records, but eligible leader replicas.
	w.wishes = slices.DeleteFunc(w.wishes, func(x wish) bool { return x.from == n.id })
}

// restart registers a node anew. It has crashed, so that it leaves the in-sync replicas.
func (w *world) restart(n *node) {
	if n.up {
		return
	}
	epoch := int64(len(w.versions) + 10)
	w.remove(n.id, func(v *version) { v.epochs[n.id], v.fenced[n.id] = epoch, true })
	w.publish(func(v *version) {
		v.fenced[n.id] = false
		if !v.partition.HasLeader() {
			w.elect(v)
		}
	})
	n.up, n.epoch, n.seen, n.hw = true, epoch, 0, min(n.hw, n.EndOffset())
	for n.seen < len(w.versions)-1 { // history is gone through before anything is served
		n.seen++
	}
	w.follow(n)
}

func (w *world) step() {
	w.nowMs += w.random.Int64N(10)
	n := w.nodes[w.random.IntN(3)]
	switch k := w.random.IntN(100); {
	case k < 17:
		w.produce(n)
	case k < 42:
		w.send(n)
	case k < 67:
		w.deliver(w.random.IntN(10) > 0, w.random.IntN(20) == 0)
	case k < 80:
		w.follow(n)
	case k < 85:
		w.wish(n)
	case k < 91:
		if len(w.wishes) > 0 {
			i := w.random.IntN(len(w.wishes))
			x := w.wishes[i]
			w.wishes = slices.Delete(w.wishes, i, i+1)
			w.decide(x, w.random.IntN(4) > 0)
		}
	case k < 94:
		n.flushed = len(n.log)
	case k < 95:
		w.crash(n)
	case k < 97:
		w.restart(n)
	case k < 98: // the controller takes a live node for dead, and back
		if v := w.now(); n.up && !v.fenced[n.id] && w.isSpare(n) {
			w.remove(n.id, func(v *version) { v.fenced[n.id] = true })
		}
	default:
		w.unfence(n)
	}
}

// deliver brings any request under way to its leader, and perhaps leaves another of it on the way.
func (w *world) deliver(arrives, again bool) {
	if len(w.requests) == 0 {
		return
	}
	i := w.random.IntN(len(w.requests))
	r := w.requests[i]
	if !again {
		w.requests = slices.Delete(w.requests, i, i+1)
	}
	w.serve(r, arrives)
}

func (w *world) wish(n *node) {
	if !n.up || n.leader == nil {
		return
	}
	if p := n.leader.Shrink(n.EndOffset(), w.nowMs); p != nil {
		n.wished = p
	}
	if n.wished != nil && n.leader.Pending(n.wished) {
		w.wishes = append(w.wishes, wish{n.id, n.wished})
	}
}

func (w *world) unfence(n *node) {
	if v := w.now(); n.up && v.fenced[n.id] && n.epoch == v.epochs[n.id] {
		w.publish(func(v *version) {
			v.fenced[n.id] = false
			if !v.partition.HasLeader() {
				w.elect(v)
			}
		})
	}
}

// heal has all nodes up and every message arrive, until nothing changes any more.
func (w *world) heal() {
	w.requests, w.wishes = nil, nil
	for range 60 {
		w.nowMs += 50
		for _, n := range w.nodes {
			w.restart(n)
			w.unfence(n)
			for n.seen < len(w.versions) {
				w.follow(n)
			}
		}
		for _, n := range w.nodes {
			w.send(n)
			w.deliver(true, false)
			w.wish(n)
			for _, x := range w.wishes {
				w.decide(x, true)
			}
			w.wishes = nil
		}
	}
	p := w.now().partition
	if !p.HasLeader() || len(p.ISR) != 3 {
		w.violated("after all is well: leader %d, in sync %v", p.Leader, p.ISR)
		return
	}
	l := w.node(p.Leader)
	w.checkHas(l, "the last leader")
	for _, n := range w.nodes {
		if !slices.Equal(n.log, l.log) {
			w.violated("after all is well node %d has %d records and the leader %d, not the same", n.id, len(n.log), len(l.log))
		}
	}
	if int(l.hw) != len(l.log) {
		w.violated("after all is well the watermark is %d of %d", l.hw, len(l.log))
	}
}

// simulate is one run, and what went wrong.
func simulate(seed uint64, truncates truncation, steps int) (w *world) {
	w = newWorld(seed, truncates)
	defer func() {
		if r := recover(); r != nil {
			w.violated("panic: %v", r)
		}
	}()
	for range steps {
		if w.step(); len(w.violations) > 0 {
			return w
		}
	}
	w.heal()
	return w
}

const runSteps = 1000

// Committed records are never lost, and all logs become the same once nothing fails any more.
func TestSimulatedReplication(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 300
	}
	committed, elections := 0, 0
	for seed := range seeds {
		w := simulate(seed, byEpoch, runSteps)
		if len(w.violations) > 0 {
			t.Fatalf("seed %d: %v", seed, w.violations)
		}
		committed += len(w.committed)
		elections += int(w.now().partition.LeaderEpoch)
	}
	t.Logf("%d records committed, %d elections", committed, elections)
	if committed < int(seeds)*10 || elections < int(seeds) {
		t.Errorf("too little happens: %d records committed, %d elections", committed, elections)
	}
}

// The simulation sees what KIP-101 mended: followers that truncate to their own watermark lose committed records.
func TestTruncatingByWatermarkIsCaught(t *testing.T) {
	for seed := range uint64(5000) {
		if w := simulate(seed, byWatermark, runSteps); w.lost {
			t.Logf("seed %d: %s", seed, w.violations[0])
			return
		}
	}
	t.Error("no run shows it")
}
