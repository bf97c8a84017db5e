//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/chaos/internal/isolation"
	"github.com/cauce-stream/cauce/tests/chaos/internal/transfers"
)

// payment is the value of a record: an amount that a transaction has put where the record is.
type payment struct {
	isolation.Element
	Amount int64
	Hops   int    // how often it is to be moved on, at the most
	Group  string // that moved it there, and "" from outside
	From   isolation.Place
}

// journal is what clients do in transactions, and are given of them. Safe for concurrent use.
type journal struct {
	began time.Time

	mu       sync.Mutex
	numbers  map[string]int64 // of the last transaction, by transactional id
	txns     []*isolation.Txn
	views    []*isolation.View
	seen     map[isolation.List]int64      // the offset after the highest that a reader was given
	payments map[isolation.Element]payment // as they were put
	failures []string
	remarks  []string
}

func newJournal() *journal {
	return &journal{began: time.Now(), numbers: map[string]int64{}, seen: map[isolation.List]int64{},
		payments: map[isolation.Element]payment{}}
}

func (j *journal) fail(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failures = append(j.failures, fmt.Sprintf(format, args...))
}

// remark notes what clients meet and get over.
func (j *journal) remark(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.remarks = append(j.remarks, fmt.Sprintf("%6.2fs ", time.Since(j.began).Seconds())+fmt.Sprintf(format, args...))
}

// begin notes a transaction that has begun. Nobody has asked for its commit yet, so that it must not be seen.
func (j *journal) begin(process string) *isolation.Txn {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers[process]++
	t := &isolation.Txn{ID: isolation.ID{Process: process, Number: j.numbers[process]}}
	j.txns = append(j.txns, t)
	return t
}

// put notes that a transaction appends to a list, and returns the record.
func (j *journal) put(t *isolation.Txn, to isolation.List, p payment) *kgo.Record {
	j.mu.Lock()
	p.Element = isolation.Element{Txn: t.ID, Index: len(t.Appends)}
	t.Appends = append(t.Appends, to)
	j.payments[p.Element] = p
	j.mu.Unlock()
	value, err := json.Marshal(p)
	if err != nil {
		j.fail("%v: %v", p.Element, err)
	}
	return &kgo.Record{Topic: to.Topic, Partition: to.Partition, Value: value}
}

// read notes that a transaction was given an element.
func (j *journal) read(t *isolation.Txn, e isolation.Element) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.Reads = append(t.Reads, e)
}

// askCommit notes that a transaction is about to be committed. From then on it may be seen.
func (j *journal) askCommit(t *isolation.Txn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.Outcome, t.CommitAsked = isolation.Unknown, time.Since(j.began)
}

// told notes what the client of a transaction was told of its end.
func (j *journal) told(t *isolation.Txn, outcome isolation.Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.Outcome = outcome
}

// view begins one.
func (j *journal) view(reader string, list isolation.List) *isolation.View {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := &isolation.View{Reader: reader, List: list}
	j.views = append(j.views, v)
	return v
}

// given notes the records of a partition that a reader was given; markers tell how far it has come.
func (j *journal) given(v *isolation.View, records []*kgo.Record) {
	now := time.Since(j.began)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range records {
		j.seen[v.List] = max(j.seen[v.List], r.Offset+1)
		if r.Attrs.IsControl() {
			continue
		}
		var p payment
		if err := json.Unmarshal(r.Value, &p); err != nil {
			j.failures = append(j.failures, fmt.Sprintf("%s: %v@%d: %v", v.Reader, v.List, r.Offset, err))
			continue
		}
		if put, known := j.payments[p.Element]; known && p != put {
			j.failures = append(j.failures, fmt.Sprintf("%s: %v@%d: %+v was put, %+v is there", v.Reader, v.List, r.Offset, put, p))
		}
		v.Sights = append(v.Sights, isolation.Sight{Offset: r.Offset, Element: p.Element, At: now})
	}
}

// entries are the amounts that are there.
func (j *journal) entries(lists map[isolation.List][]isolation.Sight) (all []transfers.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for list, sights := range lists {
		for _, s := range sights {
			p := j.payments[s.Element]
			all = append(all, transfers.Entry{Place: isolation.Place{List: list, Offset: s.Offset}, Txn: s.Txn, Amount: p.Amount, Group: p.Group, From: p.From})
		}
	}
	return all
}

// history is all that was noted, when nobody does anything any more.
func (j *journal) history(lists map[isolation.List][]isolation.Sight) isolation.History {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := isolation.History{Lists: lists}
	for _, t := range j.txns {
		h.Txns = append(h.Txns, *t)
	}
	for _, v := range j.views {
		h.Views = append(h.Views, *v)
	}
	return h
}
