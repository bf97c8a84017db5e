package shard

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

var (
	simSeed = flag.Uint64("seed", 0, "run the simulation of this seed alone")
	simRuns = flag.Uint64("runs", 2000, "simulations to run")
)

// TestSimulation runs producers against a shard whose coordinator moves, whose answers and markers get lost, repeated and late, and
// whose log lags behind. Each seed is a run of its own: `make sim SEED=n` repeats one.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		newSim(t, *simSeed).run()
		return
	}
	for seed := range *simRuns {
		newSim(t, seed+1).run()
	}
}

const simSteps = 120

// sim is one run. What the shard does is in two parts: emitted, and committed so far; a move loses what is not committed.
type sim struct {
	t        testing.TB
	seed     uint64
	rng      *rand.Rand
	now      time.Time
	settings *Settings
	m        *Machine
	tickets  coordinator.Ticket
	freshID  int64
	epoch    int32 // of the shard
	story    strings.Builder

	log       []coordinator.Record // committed is a prefix
	committed int
	waiting   []simWait
	clients   []*simClient
	orders    []simOrder // markers on their way
	leaders   map[schema.Partition]*simLeader
	// outcomes are what clients were told of transactions that they ended.
	outcomes map[simTxn]bool
	writes   map[simTxn][]schema.Partition
}

// simTxn names a transaction: its producer's id and epoch while it was open, and its number of those.
type simTxn struct {
	producer producer
	n        int
}

// simWait is what is given away once the log has a position.
type simWait struct {
	position int
	give     func()
}

// simOrder is a WriteTxnMarkers request for one partition, which may be delivered more than once.
type simOrder struct {
	c         *Completion
	partition schema.Partition
	epoch     int32
}

// simLeader is a partition: producers' state and what became of each transaction that wrote.
type simLeader struct {
	state map[int64]*simProducerState
	ended map[simTxn]string
}

type simProducerState struct {
	epoch int16
	open  *simTxn
}

// simClient is a producer with a transactional id, as clients behave.
type simClient struct {
	name, id string
	verified bool
	p        producer
	ready    bool // has a producer id and epoch
	dead     bool // was fenced
	txn      *simTxn
	n        int
	busy     bool // waits for an answer
	asked    time.Time
	// unsure is the end whose answer did not arrive: it is repeated until it is known.
	unsure *bool
}

func newSim(t testing.TB, seed uint64) *sim {
	s := &sim{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 9)), now: simStart, settings: testSettings(), freshID: 100, epoch: 1,
		leaders: map[schema.Partition]*simLeader{}, outcomes: map[simTxn]bool{}, writes: map[simTxn][]schema.Partition{},
	}
	s.settings.ExpireAfter, s.settings.SweepEvery = 5*time.Minute, time.Minute
	s.m = New(s.settings)
	s.take(s.m.Loaded(s.now), nil)
	return s
}

func (s *sim) note(format string, args ...any) {
	fmt.Fprintf(&s.story, "%8v %s\n", s.now.Sub(simStart), fmt.Sprintf(format, args...))
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), s.story.String())
}

// take does what the runtime does with a step: done gets the answer when the log has the step.
func (s *sim) take(step coordinator.Step, done func(any)) {
	s.log = append(s.log, step.Records...)
	at := len(s.log)
	for _, a := range step.Answers {
		s.waiting = append(s.waiting, simWait{at, func() { done(a.Response) }})
	}
	for _, job := range step.Jobs {
		if need, ok := job.(NeedProducerID); ok {
			s.freshID++
			s.take(s.m.TimeOut(s.now, need.ID, s.freshID), nil)
		}
	}
	for _, job := range step.After {
		c := job.(*Completion)
		s.waiting = append(s.waiting, simWait{at, func() { s.send(c) }})
	}
}

// commit has the log take some of what waits.
func (s *sim) commit(n int) {
	s.committed = min(s.committed+n, len(s.log))
	for len(s.waiting) > 0 && s.waiting[0].position <= s.committed {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		w.give()
	}
}

func (s *sim) send(c *Completion) {
	for _, p := range c.Partitions {
		s.orders = append(s.orders, simOrder{c, p, s.epoch})
	}
}

// ask has the shard do what a client wants, again if a producer id is missing.
func (s *sim) ask(op func(t coordinator.Ticket, fresh int64) coordinator.Step, done func(resp any, ticket coordinator.Ticket)) {
	s.tickets++
	ticket := s.tickets
	s.take(op(ticket, schema.NoProducer), func(resp any) {
		if _, needs := resp.(*NeedProducerID); needs {
			s.freshID++
			fresh := s.freshID
			s.take(op(ticket, fresh), func(resp any) { done(resp, ticket) })
			return
		}
		done(resp, ticket)
	})
}

func (s *sim) run() {
	for range simSteps {
		s.disturb()
		s.check()
	}
	s.settle()
}

func (s *sim) disturb() {
	switch n := s.rng.IntN(100); {
	case n < 8 && len(s.clients) < 5:
		s.start()
	case n < 55 && len(s.clients) > 0:
		s.act(s.clients[s.rng.IntN(len(s.clients))])
	case n < 70:
		s.deliver()
	case n < 85:
		s.commit(1 + s.rng.IntN(3))
	case n < 89:
		s.move()
	case n < 90:
		s.exhaust()
	default:
		s.pass(time.Duration(s.rng.IntN(30)) * time.Second)
	}
}

func (s *sim) start() {
	c := &simClient{name: fmt.Sprintf("c%d", len(s.clients)), id: []string{"t", "u"}[s.rng.IntN(2)], verified: s.rng.IntN(3) > 0, p: nobody}
	s.clients = append(s.clients, c)
	s.note("%s starts with id %s, verified %v", c.name, c.id, c.verified)
}

// act has a client do its next step, unless it waits. Answers get lost: a client asks again after a while.
func (s *sim) act(c *simClient) {
	if c.dead || c.busy && s.now.Sub(c.asked) < 20*time.Second {
		return
	}
	c.busy, c.asked = true, s.now
	switch {
	case !c.ready:
		s.init(c)
	case c.unsure != nil:
		s.end(c, *c.unsure)
	case c.txn == nil || s.rng.IntN(2) == 0:
		s.write(c)
	default:
		s.end(c, s.rng.IntN(3) > 0)
	}
}

// told is an answer that arrives, or not.
func (s *sim) told(c *simClient, asked time.Time, then func()) {
	if s.rng.IntN(10) == 0 || c.dead || !c.asked.Equal(asked) {
		s.note("an answer for %s is lost", c.name)
		return
	}
	c.busy = false
	then()
}

func (s *sim) init(c *simClient) {
	q := kmsg.NewPtrInitProducerIDRequest()
	q.TransactionalID, q.TransactionTimeoutMillis, q.ProducerID, q.ProducerEpoch = &c.id, testTimeoutMs, c.p.id, c.p.epoch
	asked := c.asked
	s.ask(func(t coordinator.Ticket, fresh int64) coordinator.Step {
		return s.m.InitProducerID(s.now, t, q, fresh)
	},
		func(resp any, ticket coordinator.Ticket) {
			s.take(s.m.Initialized(c.id, ticket), nil)
			r := resp.(*kmsg.InitProducerIDResponse)
			s.note("%s inits as %v: %v %d/%d", c.name, c.p, known(r.ErrorCode), r.ProducerID, r.ProducerEpoch)
			s.told(c, asked, func() {
				switch known(r.ErrorCode) {
				case nil:
					c.p, c.ready, c.txn, c.unsure = producer{r.ProducerID, r.ProducerEpoch}, true, nil, nil
				case kerr.ProducerFenced:
					c.dead = true
				}
			})
		})
}

// write adds a partition to the client's transaction and writes there, as a leader that verifies does.
func (s *sim) write(c *simClient) {
	p := schema.Partition{Topic: "a", ID: int32(s.rng.IntN(4))}
	q := &Participants{ID: c.id, ProducerID: c.p.id, Epoch: c.p.epoch, Partitions: []schema.Partition{p}, Verified: c.verified}
	asked, as := c.asked, c.p
	s.ask(func(t coordinator.Ticket, _ int64) coordinator.Step { return s.m.Add(s.now, t, q) }, func(resp any, _ coordinator.Ticket) {
		code := resp.([]*kerr.Error)[0]
		s.note("%s adds %v as %v: %v", c.name, p, as, code)
		s.told(c, asked, func() {
			switch code {
			case nil:
				s.append(c, p)
			case kerr.ProducerFenced, kerr.InvalidProducerIDMapping:
				s.recover(c)
			}
		})
	})
}

// recover is what a client does whose transaction is over: one of KIP-360 asks for another epoch.
func (s *sim) recover(c *simClient) { c.ready = false }

// append is a write of a client at a leader that had the coordinator verify it; it may be too late.
func (s *sim) append(c *simClient, p schema.Partition) {
	l := s.leader(p)
	st := l.state[c.p.id]
	if st != nil && st.epoch > c.p.epoch {
		s.recover(c)
		return
	}
	if t := s.m.txns[c.id]; t == nil || t.State != schema.Ongoing || t.ProducerID != c.p.id || t.Epoch != c.p.epoch || !schema.Contains(t.Partitions, p) {
		s.recover(c) // what a leader finds out when it verifies
		return
	}
	if c.txn == nil {
		c.n++
		c.txn = &simTxn{c.p, c.n}
	}
	if st == nil {
		st = &simProducerState{}
		l.state[c.p.id] = st
	}
	if st.open != nil && *st.open != *c.txn {
		s.fail("%s writes %v to %v, where %v is open", c.name, *c.txn, p, *st.open)
	}
	if st.open == nil {
		s.writes[*c.txn] = append(s.writes[*c.txn], p)
	}
	txn := *c.txn
	st.epoch, st.open = c.p.epoch, &txn
	s.note("%s writes %v to %v", c.name, txn, p)
}

func (s *sim) leader(p schema.Partition) *simLeader {
	l := s.leaders[p]
	if l == nil {
		l = &simLeader{map[int64]*simProducerState{}, map[simTxn]string{}}
		s.leaders[p] = l
	}
	return l
}

func (s *sim) end(c *simClient, commit bool) {
	q := kmsg.NewPtrEndTxnRequest()
	q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = c.id, c.p.id, c.p.epoch, commit
	asked, txn := c.asked, c.txn
	c.unsure = &commit
	s.ask(func(t coordinator.Ticket, fresh int64) coordinator.Step {
		return s.m.EndTxn(s.now, t, q, c.verified, fresh)
	},
		func(resp any, _ coordinator.Ticket) {
			r := resp.(*kmsg.EndTxnResponse)
			s.note("%s ends %v as %d/%d, commit %v: %v %d/%d", c.name, txn, q.ProducerID, q.ProducerEpoch, commit, known(r.ErrorCode), r.ProducerID, r.ProducerEpoch)
			s.told(c, asked, func() { s.ended(c, txn, commit, r) })
		})
}

func (s *sim) ended(c *simClient, txn *simTxn, commit bool, r *kmsg.EndTxnResponse) {
	switch code := known(r.ErrorCode); code {
	case nil:
		if txn != nil {
			s.outcomes[*txn] = commit
		}
		c.txn, c.unsure = nil, nil
		if c.verified {
			c.p = producer{r.ProducerID, r.ProducerEpoch}
		}
	case kerr.ConcurrentTransactions:
	case kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState:
		c.unsure = nil
		s.recover(c)
	default:
		s.fail("an end is answered with %v", code)
	}
}

// deliver has one of the markers on their way arrive, and perhaps stay on its way to arrive again.
func (s *sim) deliver() {
	if len(s.orders) == 0 {
		return
	}
	i := s.rng.IntN(len(s.orders))
	o := s.orders[i]
	again := s.rng.IntN(6) == 0 && o.c.ClientVersion >= verified // before KIP-890 nothing tells a late marker from one in time
	if !again {
		s.orders = append(s.orders[:i], s.orders[i+1:]...)
	}
	s.mark(o)
	if o.epoch != s.epoch || s.rng.IntN(10) == 0 {
		s.note("the answer to a marker is lost")
		if o.epoch == s.epoch && !again {
			s.orders = append(s.orders, o) // it is repeated
		}
		return
	}
	s.take(s.m.Written(s.now, o.c, []schema.Partition{o.partition}), nil)
}

// mark is what a leader does with a marker.
func (s *sim) mark(o simOrder) {
	l := s.leader(o.partition)
	st := l.state[o.c.ProducerID]
	if st == nil {
		st = &simProducerState{epoch: o.c.Epoch}
		l.state[o.c.ProducerID] = st
	}
	strict := o.c.ClientVersion >= verified
	if o.c.Epoch < st.epoch || strict && o.c.Epoch == st.epoch && st.open != nil {
		return // INVALID_PRODUCER_EPOCH
	}
	if st.open != nil {
		how := map[bool]string{true: "commit", false: "abort"}[o.c.Commit]
		if was := l.ended[*st.open]; was != "" && was != how {
			s.fail("%v ends by %s and by %s", *st.open, was, how)
		}
		l.ended[*st.open] = how
		s.note("%s of %v at %v", how, *st.open, o.partition)
	}
	st.epoch, st.open = o.c.Epoch, nil
}

// move has another node take the shard over: what is not committed may or may not be in the log.
func (s *sim) move() {
	s.checkReplay()
	s.log = s.log[:s.committed+s.rng.IntN(len(s.log)-s.committed+1)]
	s.committed = len(s.log)
	s.waiting = nil
	s.epoch++
	s.note("the coordinator moves")
	s.m = replayed(s.t, s.settings, s.log)
	s.dropOldOrders()
	s.take(s.m.Loaded(s.now), nil)
	s.commit(len(s.log))
}

// dropOldOrders forgets some of what the owner before had sent; before KIP-890 none of it may come late.
func (s *sim) dropOldOrders() {
	kept := s.orders[:0]
	for _, o := range s.orders {
		if o.c.ClientVersion >= verified && s.rng.IntN(2) == 0 {
			kept = append(kept, o)
		}
	}
	s.orders = kept
}

// exhaust brings the epochs of a transactional id near their end.
func (s *sim) exhaust() {
	t := s.m.txns["t"]
	if t == nil || t.State != schema.Empty || t.Epoch > 1000 || t.initializing != 0 {
		return
	}
	next := *t.Transaction
	next.Epoch, next.LastEpoch = 32765, schema.NoEpoch
	step := s.m.begin()
	step.emit("t", &next)
	s.take(step.out, nil)
	s.note("epochs of t run out")
}

func (s *sim) pass(d time.Duration) {
	until := s.now.Add(d)
	for n := 0; ; n++ {
		next := s.m.NextTick()
		if next.IsZero() || next.After(until) {
			break
		}
		if n > 1000 {
			s.fail("ticks without end, next %v", next)
		}
		if next.After(s.now) {
			s.now = next
		}
		s.take(s.m.Tick(s.now), nil)
	}
	s.now = until
}

// check holds what is true after each step.
func (s *sim) check() {
	for id, t := range s.m.txns {
		switch {
		case t.Epoch == 32767 && !t.State.Decided():
			s.fail("%s has the last epoch in state %v", id, t.State)
		case (t.State == schema.Ongoing) != (t.due != nil):
			s.fail("%s is %v, its deadline is %v", id, t.State, t.due)
		case t.State.Decided() != (len(t.unmarked) > 0):
			s.fail("%s is %v and has %d partitions without a marker", id, t.State, len(t.unmarked))
		case (t.State == schema.Ongoing || t.State.Decided()) != (len(t.Partitions) > 0):
			s.fail("%s is %v with partitions %v", id, t.State, t.Partitions)
		case t.NextProducerID != schema.NoProducer && !t.State.Decided():
			s.fail("%s is %v and has a next producer id", id, t.State)
		}
	}
}

func (s *sim) checkReplay() {
	h := harness{t: s.t, settings: s.settings, m: s.m, log: s.log}
	if err := h.checkReplay(); err != nil {
		s.fail("%v", err)
	}
}

// settle lets everything heal, and checks that each transaction ended everywhere in the same way, and as its client was told.
func (s *sim) settle() {
	s.note("everything heals")
	for range 200 {
		s.commit(len(s.log))
		for len(s.orders) > 0 {
			s.deliver()
		}
		s.pass(time.Second)
	}
	s.checkReplay()
	for id, t := range s.m.txns {
		if t.State == schema.Ongoing || t.State.Decided() {
			s.fail("%s is %v at the end", id, t.State)
		}
	}
	for txn, partitions := range s.writes {
		how := s.leaders[partitions[0]].ended[txn]
		for _, p := range partitions {
			if got := s.leaders[p].ended[txn]; got == "" || got != how {
				s.fail("%v ended by %q at %v and by %q at %v", txn, how, partitions[0], got, p)
			}
		}
		if commit, told := s.outcomes[txn]; told && commit != (how == "commit") {
			s.fail("%v: the client was told commit %v, it ended by %s", txn, commit, how)
		}
	}
}
