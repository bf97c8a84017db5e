//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/chaos/internal/isolation"
)

const (
	ledgerTopic       = "ledger" // where amounts come to rest
	pipePartitions    = 2        // of each topic
	payers            = 2        // put amounts in from outside
	moversOfAGroup    = 2
	mostHops          = 3
	payPause          = 40 * time.Millisecond // between two transactions of a payer
	mostMoved         = 20                    // records of a transaction that moves
	txnTimeout        = 8 * time.Second
	endTimeout        = 30 * time.Second // a client that is not through with a transaction after this long is replaced
	leastLife         = 3 * time.Second  // of a client
	mostLife          = 12 * time.Second
	abortsOfAHundred  = 15 // transactions that are aborted on purpose
	slowOfAHundred    = 8  // transactions that stay open for longer
	mostSlow          = 2 * time.Second
	cutsOfAHundred    = 6 // clients that end while they wait for their commit
	mostWait          = 40 * time.Millisecond
	zombiesOfAHundred = 40 // clients that go on when their successor, with the same transactional id, has begun
)

// movers are the groups. Each moves amounts from its topic to the next, and part of them to the ledger; the last one's next is the
// first, so that what follows from a record comes back to where it was.
var movers = []struct {
	topic string
	next  string
	kind  int // of kinds
}{{"till-a", "till-b", 0}, {"till-b", "till-c", 1}, {"till-c", "till-a", 2}}

func groupOf(i int) string { return fmt.Sprint("movers-", kinds[movers[i].kind].name) }

func pipeTopics() []string {
	all := []string{ledgerTopic}
	for _, m := range movers {
		all = append(all, m.topic)
	}
	return all
}

func pipeLists() (all []isolation.List) {
	for _, topic := range pipeTopics() {
		for p := range int32(pipePartitions) {
			all = append(all, isolation.List{Topic: topic, Partition: p})
		}
	}
	return all
}

// pipeline is the clients: payers that put amounts in, movers, and readers of committed records.
type pipeline struct {
	bootstrap []string
	*journal
	reader  map[isolation.List]*isolation.View // of all, as it comes
	reached map[isolation.List]int64           // how far the reader is

	calm                                atomic.Bool // no client is made to end any more
	stopPaying, stopMoving, stopReading context.CancelFunc
	paying, moving, reading             sync.WaitGroup
}

// startPipeline has them begin. They end with the test at the latest.
func startPipeline(t *testing.T, bootstrap []string, random *rand.Rand) *pipeline {
	t.Helper()
	p := &pipeline{bootstrap: bootstrap, journal: newJournal()}
	begin := func(stop *context.CancelFunc, running *sync.WaitGroup) context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		*stop = cancel
		t.Cleanup(func() {
			cancel()
			running.Wait()
		})
		return ctx
	}
	readCtx := begin(&p.stopReading, &p.reading)
	moveCtx := begin(&p.stopMoving, &p.moving)
	payCtx := begin(&p.stopPaying, &p.paying)
	for i := range payers {
		lives := lives{process: fmt.Sprint("payer-", i), random: split(random), running: &p.paying, calm: &p.calm}
		lives.run(payCtx, p.pay)
	}
	for i := range movers {
		for n := range moversOfAGroup {
			lives := lives{process: fmt.Sprintf("%s-%d", groupOf(i), n), random: split(random), running: &p.moving, calm: &p.calm}
			lives.run(moveCtx, func(ctx context.Context, life life) { p.move(ctx, life, i) })
		}
	}
	p.reader = p.newViews("reader")
	p.reached = map[isolation.List]int64{}
	p.reading.Go(func() { p.follow(readCtx, "reader", "", p.reader, p.reached) })
	starts := split(random)
	p.reading.Go(func() {
		for n := 1; readCtx.Err() == nil; n++ {
			name := fmt.Sprint("late reader ", n) // three of four read at followers, too
			ctx, cancel := context.WithTimeout(readCtx, lateAge)
			p.follow(ctx, name, fmt.Sprint("rack-", n%4), p.newViews(name), p.somewhere(starts))
			cancel()
		}
	})
	return p
}

func split(random *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), 0)) }

// lives are clients with one transactional id that follow one another.
type lives struct {
	process string
	random  *rand.Rand
	running *sync.WaitGroup
	calm    *atomic.Bool // from then on they end only where they fail
}

// life is one of them: until it is over, and some go on when another has begun already.
type life struct {
	process string
	random  *rand.Rand
	over    <-chan struct{} // the client is to end, wherever it is
	calm    *atomic.Bool
}

// run begins a client again and again until ctx ends.
func (l lives) run(ctx context.Context, live func(ctx context.Context, l life)) {
	l.running.Go(func() {
		for ctx.Err() == nil {
			length := leastLife + time.Duration(l.random.Int64N(int64(mostLife-leastLife)))
			zombie := l.random.IntN(100) < zombiesOfAHundred
			mine, end := context.WithCancel(ctx)
			ended := make(chan struct{})
			random := split(l.random)
			l.running.Go(func() {
				defer close(ended)
				live(ctx, life{l.process, random, mine.Done(), l.calm})
			})
			timer := time.NewTimer(length)
			select {
			case <-ended: // it was fenced, or has failed: its coordinator may be gone
				pause(refusalPause)
			case <-ctx.Done():
			case <-timer.C:
				if l.calm.Load() {
					select {
					case <-ended:
					case <-ctx.Done():
					}
				}
			}
			timer.Stop()
			if !zombie || ctx.Err() != nil {
				end()
				<-ended
				continue
			}
			l.running.Go(func() { // it ends of its being fenced, or later
				defer end()
				timer := time.NewTimer(mostLife)
				defer timer.Stop()
				select {
				case <-ended:
				case <-timer.C:
				case <-ctx.Done():
				}
			})
		}
	})
}

func (l life) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// linger waits for a while, or until the client is to end.
func (l life) linger(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.over:
	}
}

// patience is how long a client waits for its commit: at times it is gone before it hears of it, and whoever comes after it may be
// there before the markers.
func (l life) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if !l.calm.Load() && l.oneOfAHundred(cutsOfAHundred) {
		return context.WithTimeout(ctx, time.Duration(l.random.Int64N(int64(mostWait))))
	}
	return ctx, func() {}
}

func (l life) oneOfAHundred(n int) bool { return l.random.IntN(100) < n }

func (p *pipeline) transactional(l life, more ...kgo.Opt) []kgo.Opt {
	return impatient(p.bootstrap, append([]kgo.Opt{
		kgo.TransactionalID(l.process), kgo.TransactionTimeout(txnTimeout), kgo.ClientID(l.process),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProduceRequestTimeout(5 * time.Second),
	}, more...)...)
}

// pay puts amounts in, in transactions of which the sum is zero, until its life is over or a transaction fails. Which of both
// comes first does not matter: whoever lives next fences it.
func (p *pipeline) pay(ctx context.Context, l life) {
	cl, err := kgo.NewClient(p.transactional(l)...)
	if err != nil {
		p.fail("%s: %v", l.process, err)
		return
	}
	defer cl.Close()
	for !l.isOver() {
		err := p.payOnce(ctx, cl, l)
		if err != nil {
			p.remark("%s is replaced: %v", l.process, err)
			return
		}
		l.linger(payPause)
	}
}

var errCut = errors.New("its time was over in a transaction")

func (p *pipeline) payOnce(stopped context.Context, cl *kgo.Client, l life) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stopped), endTimeout)
	defer cancel()
	t, err := p.beginTxn(ctx, cl.BeginTransaction, cl, l)
	if err != nil {
		return err
	}
	var records []*kgo.Record
	for range 1 + l.random.IntN(3) {
		amount := 1 + l.random.Int64N(100)
		for _, a := range []int64{amount, -amount} {
			to := isolation.List{Topic: movers[l.random.IntN(len(movers))].topic, Partition: l.random.Int32N(pipePartitions)}
			records = append(records, p.put(t, to, payment{Amount: a, Hops: l.random.IntN(mostHops + 1)}))
		}
	}
	writeErr := p.write(ctx, cl, l, records)
	if writeErr == nil && l.isOver() && stopped.Err() == nil {
		return errCut // without an end: the transaction is left open
	}
	if writeErr != nil || l.oneOfAHundred(abortsOfAHundred) {
		return errors.Join(cl.AbortBufferedRecords(ctx), cl.EndTransaction(ctx, kgo.TryAbort))
	}
	p.askCommit(t)
	ctx, cancelEnd := l.patience(ctx)
	defer cancelEnd()
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit of %v: %w", t.ID, err)
	}
	p.told(t, isolation.Committed)
	return nil
}

// beginTxn begins a transaction. A producer id is certain before the transaction has its number: one that another client with the same
// transactional id begins later then has a higher one, if both are committed.
func (p *pipeline) beginTxn(ctx context.Context, begin func() error, cl *kgo.Client, l life) (*isolation.Txn, error) {
	if err := begin(); err != nil {
		return nil, err
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return nil, err
	}
	return p.begin(l.process), nil
}

// write produces records and waits for them; at times it waits for longer before the last one.
func (p *pipeline) write(ctx context.Context, cl *kgo.Client, l life, records []*kgo.Record) error {
	last := len(records) - 1
	if err := cl.ProduceSync(ctx, records[:last]...).FirstErr(); err != nil {
		return err
	}
	if l.oneOfAHundred(slowOfAHundred) {
		l.linger(time.Duration(l.random.Int64N(int64(mostSlow))))
	}
	return cl.ProduceSync(ctx, records[last:]...).FirstErr()
}

// move consumes as a member of a group, and puts what it is given somewhere else, until its life is over or a transaction fails.
func (p *pipeline) move(ctx context.Context, l life, i int) {
	s, err := kgo.NewGroupTransactSession(p.transactional(l, append([]kgo.Opt{
		kgo.ConsumerGroup(groupOf(i)), kgo.ConsumeTopics(movers[i].topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.FetchMaxWait(300 * time.Millisecond),
	}, kinds[movers[i].kind].opts...)...)...)
	if err != nil {
		p.fail("%s: %v", l.process, err)
		return
	}
	defer s.Close()
	for !l.isOver() {
		poll, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		fetches := s.PollRecords(poll, mostMoved)
		cancel()
		if fetches.NumRecords() == 0 {
			continue
		}
		err := p.moveOnce(ctx, s, l, i, fetches)
		if err != nil {
			p.remark("%s is replaced: %v", l.process, err)
			return
		}
	}
}

func (p *pipeline) moveOnce(stopped context.Context, s *kgo.GroupTransactSession, l life, i int, fetches kgo.Fetches) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stopped), endTimeout)
	defer cancel()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		list := isolation.List{Topic: f.Topic, Partition: f.Partition}
		p.given(p.view(l.process, list), f.Records)
	})
	t, err := p.beginTxn(ctx, s.Begin, s.Client(), l)
	if err != nil {
		return err
	}
	var records []*kgo.Record
	fetches.EachRecord(func(r *kgo.Record) {
		var in payment
		if json.Unmarshal(r.Value, &in) != nil {
			return // given has said so
		}
		p.read(t, in.Element)
		records = append(records, p.moved(t, l, i, in, r)...)
	})
	writeErr := p.write(ctx, s.Client(), l, records)
	if writeErr == nil && l.isOver() && stopped.Err() == nil {
		return errCut
	}
	commit := kgo.TransactionEndTry(writeErr == nil && !l.oneOfAHundred(abortsOfAHundred))
	if commit {
		p.askCommit(t)
		var cancelEnd context.CancelFunc
		ctx, cancelEnd = l.patience(ctx)
		defer cancelEnd()
	}
	committed, err := s.End(ctx, commit)
	switch {
	case err != nil:
		return fmt.Errorf("end of %v: %w", t.ID, err)
	case committed:
		p.told(t, isolation.Committed)
	default: // or the group has others have the partitions
		p.told(t, isolation.Aborted)
	}
	return nil
}

// moved is what is put for a record: part of the amount goes on, if it may, and the rest to the ledger.
func (p *pipeline) moved(t *isolation.Txn, l life, i int, in payment, r *kgo.Record) (out []*kgo.Record) {
	put := payment{Group: groupOf(i), From: isolation.Place{List: isolation.List{Topic: r.Topic, Partition: r.Partition}, Offset: r.Offset}}
	rest := in.Amount
	if in.Hops > 0 {
		on := put
		on.Hops = in.Hops - 1
		on.Amount = l.random.Int64N(200) - 100
		rest -= on.Amount
		out = append(out, p.put(t, isolation.List{Topic: movers[i].next, Partition: l.random.Int32N(pipePartitions)}, on))
	}
	put.Amount = rest
	return append(out, p.put(t, isolation.List{Topic: ledgerTopic, Partition: l.random.Int32N(pipePartitions)}, put))
}
