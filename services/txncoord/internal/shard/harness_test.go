package shard

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

var simStart = time.UnixMilli(1_700_000_000_000)

const testTimeoutMs = 60_000

func testSettings() *Settings {
	return &Settings{MaxTimeoutMs: 900_000, ExpireAfter: 7 * 24 * time.Hour, SweepEvery: time.Hour, MaxBatchBytes: 1 << 20}
}

// harness drives a shard as the shell does, with a log in which everything is committed at once.
type harness struct {
	t        testing.TB
	now      time.Time
	settings *Settings
	m        *Machine
	log      []coordinator.Record
	tickets  coordinator.Ticket
	nextID   int64
	// open are the markers that were handed out and not written yet, in order.
	open      []*Completion
	decisions []Decision
}

func newHarness(t testing.TB) *harness {
	h := &harness{t: t, now: simStart, settings: testSettings(), nextID: 1000}
	h.m = New(h.settings)
	h.take(h.m.Loaded(h.now))
	return h
}

// take does what the shell does with a step, and returns its only answer.
func (h *harness) take(s coordinator.Step) any {
	h.t.Helper()
	h.log = append(h.log, s.Records...)
	for _, job := range append(s.Jobs, s.After...) {
		switch j := job.(type) {
		case *Completion:
			h.open = append(h.open, j)
		case Decision:
			h.decisions = append(h.decisions, j)
		case NeedProducerID:
			h.nextID++
			h.take(h.m.TimeOut(h.now, j.ID, h.nextID))
		default:
			h.t.Fatalf("unknown job %T", job)
		}
	}
	if len(s.Answers) == 0 {
		return nil
	}
	return s.Answers[0].Response
}

// ask runs an operation, again with a fresh producer id if it needs one.
func (h *harness) ask(op func(ticket coordinator.Ticket, fresh int64) coordinator.Step) any {
	h.t.Helper()
	h.tickets++
	resp := h.take(op(h.tickets, schema.NoProducer))
	if _, needs := resp.(*NeedProducerID); needs {
		h.nextID++
		h.tickets++
		resp = h.take(op(h.tickets, h.nextID))
	}
	return resp
}

// producer is what a client knows of itself.
type producer struct {
	id    int64
	epoch int16
}

var nobody = producer{-1, -1}

func (h *harness) initPending(id string, p producer) (producer, *kerr.Error) {
	h.t.Helper()
	q := kmsg.NewPtrInitProducerIDRequest()
	q.TransactionalID, q.TransactionTimeoutMillis, q.ProducerID, q.ProducerEpoch = &id, testTimeoutMs, p.id, p.epoch
	resp := h.ask(func(t coordinator.Ticket, fresh int64) coordinator.Step {
		return h.m.InitProducerID(h.now, t, q, fresh)
	})
	r := resp.(*kmsg.InitProducerIDResponse)
	return producer{r.ProducerID, r.ProducerEpoch}, known(r.ErrorCode)
}

// init is initPending with an answer that arrives.
func (h *harness) init(id string, p producer) (producer, *kerr.Error) {
	h.t.Helper()
	got, code := h.initPending(id, p)
	h.take(h.m.Initialized(id, h.tickets))
	return got, code
}

func (h *harness) mustInit(id string) producer {
	h.t.Helper()
	p, code := h.init(id, nobody)
	if code != nil {
		h.t.Fatalf("init of %s: %v", id, code)
	}
	return p
}

func partitions(names ...string) []schema.Partition {
	var list []schema.Partition
	for _, n := range names {
		list = append(list, schema.Partition{Topic: n[:1], ID: int32(n[1] - '0')})
	}
	return list
}

func (h *harness) addEach(q *Participants) []*kerr.Error {
	h.t.Helper()
	return h.ask(func(t coordinator.Ticket, _ int64) coordinator.Step { return h.m.Add(h.now, t, q) }).([]*kerr.Error)
}

func (h *harness) add(id string, p producer, names ...string) *kerr.Error {
	h.t.Helper()
	return h.addEach(&Participants{ID: id, ProducerID: p.id, Epoch: p.epoch, Partitions: partitions(names...)})[0]
}

func (h *harness) verify(id string, p producer, name string) *kerr.Error {
	h.t.Helper()
	return h.addEach(&Participants{ID: id, ProducerID: p.id, Epoch: p.epoch, Partitions: partitions(name), VerifyOnly: true})[0]
}

func (h *harness) end(id string, p producer, commit, isVerified bool) (producer, *kerr.Error) {
	h.t.Helper()
	q := kmsg.NewPtrEndTxnRequest()
	q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = id, p.id, p.epoch, commit
	resp := h.ask(func(t coordinator.Ticket, fresh int64) coordinator.Step {
		return h.m.EndTxn(h.now, t, q, isVerified, fresh)
	})
	r := resp.(*kmsg.EndTxnResponse)
	return producer{r.ProducerID, r.ProducerEpoch}, known(r.ErrorCode)
}

// write has all markers that are open written.
func (h *harness) write() {
	h.t.Helper()
	open := h.open
	h.open = nil
	for _, c := range open {
		h.take(h.m.Written(h.now, c, c.Partitions))
	}
}

// pass lets time go by.
func (h *harness) pass(d time.Duration) {
	h.t.Helper()
	until := h.now.Add(d)
	for {
		next := h.m.NextTick()
		if next.IsZero() || next.After(until) {
			break
		}
		if next.After(h.now) {
			h.now = next
		}
		h.take(h.m.Tick(h.now))
	}
	h.now = until
}

// move has another node load the shard.
func (h *harness) move() {
	h.t.Helper()
	h.m, h.open = replayed(h.t, h.settings, h.log), nil
	h.take(h.m.Loaded(h.now))
}

func replayed(t testing.TB, s *Settings, log []coordinator.Record) *Machine {
	t.Helper()
	m := New(s)
	for _, r := range log {
		if err := m.Replay(coordinator.NoProducer, r); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// checkReplay compares the shard with one that has read the log.
func (h *harness) checkReplay() error {
	other := replayed(h.t, h.settings, h.log)
	if len(other.txns) != len(h.m.txns) {
		return fmt.Errorf("%d transactional ids, the log has %d", len(h.m.txns), len(other.txns))
	}
	for id, t := range h.m.txns {
		o := other.txns[id]
		if o == nil || !reflect.DeepEqual(o.Transaction, t.Transaction) {
			return fmt.Errorf("%s is %+v, the log says %+v", id, t.Transaction, o)
		}
	}
	return nil
}

func (h *harness) state(id string) schema.State {
	h.t.Helper()
	t := h.m.txns[id]
	if t == nil {
		h.t.Fatalf("there is no %s", id)
	}
	return t.State
}

func (h *harness) expect(id string, want schema.State) {
	h.t.Helper()
	if got := h.state(id); got != want {
		h.t.Errorf("%s is %v, want %v", id, got, want)
	}
}

func known(code int16) *kerr.Error {
	err, _ := kerr.ErrorForCode(code).(*kerr.Error)
	return err
}

func is(t testing.TB, what string, got, want *kerr.Error) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
