package shard

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

func TestATransactionIsCommitted(t *testing.T) {
	for _, verified := range []bool{false, true} {
		h := newHarness(t)
		p := h.mustInit("t")
		is(t, "add", h.add("t", p, "a0", "b1"), nil)
		is(t, "add", h.add("t", p, "a1"), nil)
		h.expect("t", schema.Ongoing)
		next, code := h.end("t", p, true, verified)
		is(t, "end", code, nil)
		want := p
		if verified {
			want.epoch++
		}
		if next != want {
			t.Errorf("verified %v: the next transaction is of %v, want %v", verified, next, want)
		}
		h.expect("t", schema.PrepareCommit)
		if len(h.open) != 1 || len(h.open[0].Partitions) != 3 || !h.open[0].Commit || h.open[0].Epoch != want.epoch {
			t.Fatalf("markers %+v", h.open)
		}
		is(t, "add before the markers", h.add("t", next, "a0"), kerr.ConcurrentTransactions)
		c := h.open[0]
		h.take(h.m.Written(h.now, c, c.Partitions[:2]))
		h.expect("t", schema.PrepareCommit)
		h.take(h.m.Written(h.now, c, c.Partitions[2:]))
		h.expect("t", schema.CompleteCommit)
		is(t, "add after the markers", h.add("t", next, "a0"), nil)
		h.expect("t", schema.Ongoing)
		if err := h.checkReplay(); err != nil {
			t.Error(err)
		}
	}
}

// TestEndOfVerifiedTransactions holds the table of KIP-890: what an end does by state, epoch and outcome.
func TestEndOfVerifiedTransactions(t *testing.T) {
	begin := func(h *harness) producer { return h.mustInit("t") }
	complete := func(commit bool) func(h *harness) producer {
		return func(h *harness) producer {
			p := h.mustInit("t")
			h.add("t", p, "a0")
			next, _ := h.end("t", p, commit, true)
			h.write()
			return next
		}
	}
	decided := func(commit bool) func(h *harness) producer {
		return func(h *harness) producer {
			p := h.mustInit("t")
			h.add("t", p, "a0")
			next, _ := h.end("t", p, commit, true)
			return next
		}
	}
	ongoing := func(h *harness) producer {
		p := complete(true)(h)
		h.add("t", p, "a0")
		return p
	}
	const retry, current, future = -1, 0, 1
	tests := []struct {
		name   string
		start  func(*harness) producer
		epoch  int16
		commit bool
		want   *kerr.Error
		bumps  bool
	}{
		{"Empty", begin, current, false, nil, true},
		{"Empty", begin, current, true, kerr.InvalidTxnState, false},
		{"Empty", begin, retry, false, kerr.ProducerFenced, false},
		{"Ongoing", ongoing, current, true, nil, true},
		{"Ongoing", ongoing, current, false, nil, true},
		{"Ongoing", ongoing, retry, true, kerr.ProducerFenced, false},
		{"Ongoing", ongoing, retry, false, kerr.ProducerFenced, false},
		{"Ongoing", ongoing, future, true, kerr.ProducerFenced, false},
		{"PrepareCommit", decided(true), retry, true, kerr.ConcurrentTransactions, false},
		{"PrepareCommit", decided(true), retry, false, kerr.InvalidTxnState, false},
		{"PrepareCommit", decided(true), current, true, kerr.ConcurrentTransactions, false},
		{"PrepareAbort", decided(false), retry, false, kerr.ConcurrentTransactions, false},
		{"PrepareAbort", decided(false), retry, true, kerr.InvalidTxnState, false},
		{"CompleteCommit", complete(true), retry, true, nil, false},
		{"CompleteCommit", complete(true), retry, false, kerr.InvalidTxnState, false},
		{"CompleteCommit", complete(true), current, true, kerr.InvalidTxnState, false},
		{"CompleteCommit", complete(true), current, false, nil, true},
		{"CompleteAbort", complete(false), retry, false, nil, false},
		{"CompleteAbort", complete(false), retry, true, kerr.InvalidTxnState, false},
		{"CompleteAbort", complete(false), current, true, kerr.InvalidTxnState, false},
		{"CompleteAbort", complete(false), current, false, nil, true},
	}
	for _, test := range tests {
		h := newHarness(t)
		p := test.start(h)
		before := h.state("t")
		if before.String() != test.name {
			t.Fatalf("%s begins as %v", test.name, before)
		}
		next, code := h.end("t", producer{p.id, p.epoch + test.epoch}, test.commit, true)
		if code != test.want {
			t.Errorf("%s, epoch %+d, commit %v: %v, want %v", test.name, test.epoch, test.commit, code, test.want)
		}
		want := producer{-1, -1}
		if code == nil {
			want = p
		}
		if test.bumps {
			want.epoch++
		}
		if next != want {
			t.Errorf("%s, epoch %+d, commit %v: go on as %v, want %v", test.name, test.epoch, test.commit, next, want)
		}
		if !test.bumps && h.state("t") != before {
			t.Errorf("%s, epoch %+d, commit %v: it is %v now", test.name, test.epoch, test.commit, h.state("t"))
		}
	}
}

func TestEndBeforeKIP890(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	end := func(p producer, commit bool) *kerr.Error {
		_, code := h.end("t", p, commit, false)
		return code
	}
	is(t, "end of nothing", end(p, true), kerr.InvalidTxnState)
	h.add("t", p, "a0")
	is(t, "end of another epoch", end(producer{p.id, p.epoch + 1}, true), kerr.ProducerFenced)
	is(t, "end of another producer", end(producer{p.id + 1, p.epoch}, true), kerr.InvalidProducerIDMapping)
	is(t, "commit", end(p, true), nil)
	is(t, "commit again", end(p, true), kerr.ConcurrentTransactions)
	is(t, "abort what is committed", end(p, false), kerr.InvalidTxnState)
	h.write()
	is(t, "commit again, after the markers", end(p, true), nil)
	is(t, "abort what was committed", end(p, false), kerr.InvalidTxnState)
	is(t, "of nobody", func() *kerr.Error { _, code := h.end("u", p, true, false); return code }(), kerr.InvalidProducerIDMapping)
}

// TestAnEndThatComesLateEndsNothing is the report on Bufstream 0.1.0 and Kafka: an end of an earlier try ends a later transaction.
func TestAnEndThatComesLateEndsNothing(t *testing.T) {
	h := newHarness(t)
	first := h.mustInit("t")
	h.add("t", first, "a0")
	second, _ := h.end("t", first, true, true)
	h.write()
	h.add("t", second, "a0")
	for _, commit := range []bool{true, false} {
		_, code := h.end("t", first, commit, true)
		is(t, "the late end", code, kerr.ProducerFenced)
	}
	h.expect("t", schema.Ongoing)
	if len(h.open) != 0 {
		t.Errorf("markers %+v", h.open)
	}
	is(t, "late add", h.add("t", first, "b0"), kerr.ProducerFenced)
}

// TestALateAddBeginsNothingForGood: before KIP-890 an add that comes after the end has the epoch of the next transaction, and begins it.
// The next end takes its partition along, and where none comes, that transaction has its time like any other.
func TestALateAddBeginsNothingForGood(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	commit := func() {
		t.Helper()
		_, code := h.end("t", p, true, false)
		is(t, "commit", code, nil)
	}
	h.add("t", p, "a0")
	commit()
	is(t, "late, while the markers are written", h.add("t", p, "b0"), kerr.ConcurrentTransactions)
	h.write()
	is(t, "late, after them", h.add("t", p, "b0"), nil)
	h.add("t", p, "a0")
	commit()
	if len(h.open) != 1 || len(h.open[0].Partitions) != 2 {
		t.Errorf("markers %+v", h.open)
	}
	h.write()
	is(t, "late, after the last transaction", h.add("t", p, "b0"), nil)
	h.pass(testTimeoutMs * time.Millisecond)
	h.expect("t", schema.PrepareAbort)
	h.write()
	h.expect("t", schema.CompleteAbort)
	is(t, "who had not ended it", h.add("t", p, "a0"), kerr.ProducerFenced)
}

// TestALateMarkerCompletesNothing: what an earlier delivery reports is about the transaction that it was for.
func TestALateMarkerCompletesNothing(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	h.add("t", p, "a0")
	h.end("t", p, true, false)
	late := h.open[0]
	h.write()
	h.pass(time.Millisecond)
	h.add("t", p, "a0")
	h.end("t", p, false, false)
	h.take(h.m.Written(h.now, late, late.Partitions))
	h.expect("t", schema.PrepareAbort)
	h.write()
	h.expect("t", schema.CompleteAbort)
}

func TestASecondProducerFencesTheFirst(t *testing.T) {
	h := newHarness(t)
	old := h.mustInit("t")
	h.add("t", old, "a0")
	_, code := h.init("t", nobody)
	is(t, "the second producer", code, kerr.ConcurrentTransactions)
	h.expect("t", schema.PrepareAbort)
	if len(h.open) != 1 || h.open[0].Commit || h.open[0].Epoch != old.epoch+1 {
		t.Fatalf("markers %+v", h.open)
	}
	is(t, "the first one", h.add("t", old, "a1"), kerr.ProducerFenced)
	_, code = h.init("t", nobody)
	is(t, "the second producer, before the markers", code, kerr.ConcurrentTransactions)
	h.write()
	got := h.mustInit("t")
	if want := (producer{old.id, old.epoch + 2}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	for _, verified := range []bool{false, true} {
		_, code := h.end("t", old, true, verified)
		is(t, "the first one's end", code, kerr.ProducerFenced)
	}
	_, code = h.init("t", old)
	is(t, "the first one asks again", code, kerr.ProducerFenced)
	if len(h.decisions) != 1 || h.decisions[0].Reason != Fenced {
		t.Errorf("%v", h.decisions)
	}
}

// TestAProducerGoesOn is KIP-360: a producer that names its epoch gets the next one, and the same one again.
func TestAProducerGoesOn(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	next, code := h.init("t", p)
	is(t, "go on", code, nil)
	if want := (producer{p.id, p.epoch + 1}); next != want {
		t.Errorf("%v, want %v", next, want)
	}
	for range 2 {
		again, code := h.init("t", p)
		is(t, "again", code, nil)
		if again != next {
			t.Errorf("%v, want %v", again, next)
		}
		h.move() // whoever coordinates
	}
	h.mustInit("t")
	_, code = h.init("t", p)
	is(t, "after another producer", code, kerr.ProducerFenced)
	_, code = h.init("t", producer{p.id + 1, 0})
	is(t, "a stranger", code, kerr.ProducerFenced)
	got, code := h.init("unknown", producer{5, 5})
	is(t, "an id that was forgotten", code, nil)
	if got.epoch != 0 || got.id == 5 {
		t.Errorf("%v", got)
	}
}

// toEpoch has the log say that a producer is at an epoch.
func (h *harness) toEpoch(id string, epoch int16) producer {
	next := *h.m.txns[id].Transaction
	next.Epoch = epoch
	s := h.m.begin()
	s.emit(id, &next)
	h.take(s.out)
	return producer{next.ProducerID, epoch}
}

func TestEpochsRunOut(t *testing.T) {
	const last = math.MaxInt16 - 1
	t.Run("init", func(t *testing.T) {
		h := newHarness(t)
		h.mustInit("t")
		p := h.toEpoch("t", last)
		got, code := h.init("t", p)
		is(t, "init", code, nil)
		if got.id == p.id || got.epoch != 0 {
			t.Errorf("%v", got)
		}
		again, code := h.init("t", p)
		is(t, "again", code, nil)
		if again != got {
			t.Errorf("%v, want %v", again, got)
		}
		h.move()
		if again, _ = h.init("t", p); again != got {
			t.Errorf("elsewhere %v, want %v", again, got)
		}
	})
	t.Run("end", func(t *testing.T) {
		h := newHarness(t)
		h.mustInit("t")
		p := h.toEpoch("t", last)
		h.add("t", p, "a0")
		got, code := h.end("t", p, true, true)
		is(t, "end", code, nil)
		if got.id == p.id || got.epoch != 0 {
			t.Errorf("%v", got)
		}
		if h.open[0].ProducerID != p.id || h.open[0].Epoch != math.MaxInt16 {
			t.Errorf("markers of %+v", h.open[0])
		}
		_, code = h.end("t", p, true, true)
		is(t, "again", code, kerr.ConcurrentTransactions)
		h.move()
		h.write()
		for range 2 {
			again, code := h.end("t", p, true, true)
			is(t, "again", code, nil)
			if again != got {
				t.Errorf("%v, want %v", again, got)
			}
			_, code = h.end("t", p, false, true)
			is(t, "the contrary", code, kerr.InvalidTxnState)
			h.move()
		}
		is(t, "add", h.add("t", got, "a0"), nil)
		_, code = h.end("t", p, true, true)
		is(t, "an end that comes late", code, kerr.ProducerFenced)
		is(t, "an add that comes late", h.add("t", p, "a0"), kerr.InvalidProducerIDMapping)
	})
	t.Run("timeout", func(t *testing.T) {
		h := newHarness(t)
		h.mustInit("t")
		p := h.toEpoch("t", last)
		h.add("t", p, "a0")
		h.pass(testTimeoutMs * time.Millisecond)
		h.expect("t", schema.PrepareAbort)
		h.write()
		if got := h.mustInit("t"); got.id == p.id || got.epoch != 1 {
			t.Errorf("%v", got)
		}
	})
	t.Run("fence", func(t *testing.T) {
		h := newHarness(t)
		h.mustInit("t")
		p := h.toEpoch("t", last)
		h.add("t", p, "a0")
		_, code := h.init("t", nobody)
		is(t, "init", code, kerr.ConcurrentTransactions)
		h.write()
		if got := h.mustInit("t"); got.id == p.id || got.epoch != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestATransactionTimesOut(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	h.pass(2 * testTimeoutMs * time.Millisecond) // nothing is open
	h.add("t", p, "a0")
	h.pass((testTimeoutMs - 1) * time.Millisecond)
	h.add("t", p, "a1") // does not prolong it
	h.expect("t", schema.Ongoing)
	h.move()
	h.pass(time.Millisecond)
	h.expect("t", schema.PrepareAbort)
	_, code := h.end("t", p, true, true)
	is(t, "commit", code, kerr.InvalidTxnState)
	h.write()
	h.expect("t", schema.CompleteAbort)
	is(t, "add", h.add("t", p, "a0"), kerr.ProducerFenced)
	_, code = h.end("t", p, true, false)
	is(t, "commit of an old client", code, kerr.ProducerFenced)
	next, code := h.end("t", p, false, true)
	is(t, "abort", code, nil)
	if next.epoch != p.epoch+1 {
		t.Errorf("go on as %v", next)
	}
	if len(h.decisions) != 1 || h.decisions[0].Reason != TimedOut {
		t.Errorf("%v", h.decisions)
	}
}

func TestTimeoutsOfProducers(t *testing.T) {
	h := newHarness(t)
	for _, ms := range []int32{0, -1, 900_001} {
		q := kmsg.NewPtrInitProducerIDRequest()
		id := "t"
		q.TransactionalID, q.TransactionTimeoutMillis = &id, ms
		resp := h.ask(func(t coordinator.Ticket, fresh int64) coordinator.Step {
			return h.m.InitProducerID(h.now, t, q, fresh)
		})
		is(t, "init", known(resp.(*kmsg.InitProducerIDResponse).ErrorCode), kerr.InvalidTransactionTimeout)
	}
	if len(h.m.txns) != 0 {
		t.Errorf("%d transactional ids", len(h.m.txns))
	}
}

// TestWaitingProducersDoNotUseEpochsUp is KAFKA-9666: while the log does not take writes, each try took an epoch.
func TestWaitingProducersDoNotUseEpochsUp(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	first, code := h.initPending("t", nobody) // its answer does not arrive
	is(t, "init", code, nil)
	asked := h.tickets
	for range 40_000 {
		if _, code := h.initPending("t", nobody); code != kerr.ConcurrentTransactions {
			t.Fatalf("init while one waits: %v", code)
		}
	}
	h.take(h.m.Initialized("t", asked-1)) // of another one
	if _, code := h.initPending("t", nobody); code != kerr.ConcurrentTransactions {
		t.Errorf("init while one waits: %v", code)
	}
	h.take(h.m.Initialized("t", h.tickets)) // the log is back
	got := h.mustInit("t")
	if first.epoch != p.epoch+1 || got.epoch != p.epoch+2 {
		t.Errorf("%v, then %v, then %v", p, first, got)
	}
}

// TestVerification holds what leaders hear (KIP-890), and that partitions that are being added do not disturb others (KAFKA-14904).
func TestVerification(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	is(t, "before", h.verify("t", p, "a0"), kerr.TransactionAbortable)
	h.add("t", p, "a0")
	is(t, "added", h.verify("t", p, "a0"), nil)
	is(t, "not added", h.verify("t", p, "a1"), kerr.TransactionAbortable)
	is(t, "another epoch", h.verify("t", producer{p.id, p.epoch + 1}, "a0"), kerr.ProducerFenced)
	is(t, "another producer", h.verify("t", producer{p.id + 1, p.epoch}, "a0"), kerr.InvalidProducerIDMapping)
	is(t, "nobody", h.verify("u", p, "a0"), kerr.InvalidProducerIDMapping)
	codes := h.addEach(&Participants{ID: "t", ProducerID: p.id, Epoch: p.epoch, Partitions: partitions("a1", "a0"), VerifyOnly: true})
	if codes[0] != kerr.TransactionAbortable || codes[1] != nil {
		t.Errorf("%v", codes)
	}
	before := len(h.log)
	is(t, "add again", h.add("t", p, "a0"), nil)
	if len(h.log) != before {
		t.Error("a partition that takes part is written again")
	}
	next, _ := h.end("t", p, true, true)
	is(t, "decided", h.verify("t", next, "a0"), kerr.ConcurrentTransactions)
	h.write()
	is(t, "complete", h.verify("t", next, "a0"), kerr.TransactionAbortable)
}

// TestDecidedTransactionsAreHandedOutAgain: whoever takes the shard over writes the markers.
func TestDecidedTransactionsAreHandedOutAgain(t *testing.T) {
	h := newHarness(t)
	p := h.mustInit("t")
	h.add("t", p, "a0", "a1")
	h.end("t", p, true, true)
	h.take(h.m.Written(h.now, h.open[0], partitions("a0")))
	h.move()
	if len(h.open) != 1 || len(h.open[0].Partitions) != 2 {
		t.Fatalf("markers %+v", h.open)
	}
	h.write()
	h.expect("t", schema.CompleteCommit)
	_, code := h.end("t", p, true, true)
	is(t, "the end again", code, nil)
}

func TestUnusedIDsAreForgotten(t *testing.T) {
	h := newHarness(t)
	h.settings.ExpireAfter, h.settings.SweepEvery = 20*time.Second, 10*time.Second
	h.take(h.m.Loaded(h.now))
	idle, open := h.mustInit("idle"), h.mustInit("open")
	decided := h.mustInit("decided")
	h.add("open", open, "a0")
	h.add("decided", decided, "a0")
	h.end("decided", decided, true, true)
	h.pass(50 * time.Second) // less than open may take
	if h.m.txns["idle"] != nil || h.m.txns["open"] == nil || h.m.txns["decided"] == nil {
		t.Errorf("%v are left", h.m.txns)
	}
	is(t, "add", h.add("idle", idle, "a0"), kerr.InvalidProducerIDMapping)
	_, code := h.end("idle", idle, true, true)
	is(t, "end", code, kerr.InvalidProducerIDMapping)
	if err := h.checkReplay(); err != nil {
		t.Error(err)
	}
}

func TestASweepFitsIntoBatches(t *testing.T) {
	h := newHarness(t)
	h.settings.MaxBatchBytes = 200
	for i := range 50 {
		h.mustInit(string(rune('A' + i)))
	}
	h.now = h.now.Add(30 * 24 * time.Hour)
	for n := 0; len(h.m.txns) > 0; n++ {
		s := h.m.Tick(h.now)
		if len(s.Records) == 0 || len(s.Records) > 30 {
			t.Fatalf("%d records in a batch, %d ids are left", len(s.Records), len(h.m.txns))
		}
		h.take(s)
	}
	if !h.m.NextTick().After(h.now) {
		t.Errorf("the next sweep is at %v", h.m.NextTick())
	}
}

func TestWhatIsListed(t *testing.T) {
	h := newHarness(t)
	h.mustInit("empty")
	open := h.mustInit("open")
	h.add("open", open, "b1", "a0", "a1")
	h.pass(time.Second)
	decided := h.mustInit("decided")
	h.add("decided", decided, "a0", "a1")
	h.end("decided", decided, true, true)
	h.take(h.m.Written(h.now, h.open[0], partitions("a0")))

	list := func(f *Filter) (ids string) {
		resp := h.ask(func(t coordinator.Ticket, _ int64) coordinator.Step { return h.m.List(h.now, t, f) })
		for _, l := range resp.([]kmsg.ListTransactionsResponseTransactionState) {
			ids += l.TransactionalID + ":" + l.TransactionState + " "
		}
		return ids
	}
	tests := []struct {
		filter Filter
		want   string
	}{
		{Filter{LongerThanMs: -1}, "decided:PrepareCommit empty:Empty open:Ongoing "},
		{Filter{LongerThanMs: -1, States: []schema.State{schema.Ongoing, schema.Dead}}, "open:Ongoing "},
		{Filter{LongerThanMs: -1, ProducerIDs: []int64{decided.id}}, "decided:PrepareCommit "},
		{Filter{LongerThanMs: 999}, "open:Ongoing "},
		{Filter{LongerThanMs: 1000}, ""},
		{Filter{LongerThanMs: -1, ID: func(id string) bool { return id == "empty" }}, "empty:Empty "},
	}
	for _, test := range tests {
		if got := list(&test.filter); got != test.want {
			t.Errorf("%+v: %s, want %s", test.filter, got, test.want)
		}
	}
	describe := func(id string) *kmsg.DescribeTransactionsResponseTransactionState {
		return h.ask(func(t coordinator.Ticket, _ int64) coordinator.Step { return h.m.Describe(t, id) }).(*kmsg.DescribeTransactionsResponseTransactionState)
	}
	if d := describe("open"); d.State != "Ongoing" || d.ProducerID != open.id || len(d.Topics) != 2 || len(d.Topics[0].Partitions) != 2 || d.StartTimestamp != simStart.UnixMilli() {
		t.Errorf("%+v", d)
	}
	if d := describe("decided"); len(d.Topics) != 1 || len(d.Topics[0].Partitions) != 1 || d.Topics[0].Partitions[0] != 1 {
		t.Errorf("%+v", d)
	}
	if d := describe("unknown"); d.ErrorCode != kerr.TransactionalIDNotFound.Code {
		t.Errorf("%+v", d)
	}
	c := h.m.Count()
	if c.ByState[schema.Ongoing] != 1 || c.ByState[schema.PrepareCommit] != 1 || c.ByState[schema.Empty] != 1 || c.OldestMs != simStart.UnixMilli() ||
		c.OldestDecidedMs != h.now.UnixMilli() {
		t.Errorf("%+v", c)
	}
}
