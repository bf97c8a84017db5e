package compact

import (
	"cmp"
	"slices"

	"github.com/cauce-stream/cauce/libs/record"
)

// Aborted is a transaction that was aborted, as the transaction index knows it: its first offset, its marker's, and the last
// stable offset when it was decided.
type Aborted struct {
	ProducerID, First, Last, Stable int64
}

// Transactions follows the transactions of a log while its batches come by in order.
type Transactions struct {
	coming  []Aborted            // ascending by first offset
	aborted map[int64]*abortedTx // those begun, by producer
	decided map[int64]struct{}   // producers with records of a committed transaction since their last marker
}

// abortedTx is an aborted transaction; seen says that some of its records are still there.
type abortedTx struct {
	Aborted
	seen bool
}

// NewTransactions begins at the start of a log of which those transactions were aborted. It keeps the slice.
func NewTransactions(aborted []Aborted) *Transactions {
	slices.SortFunc(aborted, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return &Transactions{coming: aborted, aborted: map[int64]*abortedTx{}, decided: map[int64]struct{}{}}
}

func (t *Transactions) reach(offset int64) {
	for len(t.coming) > 0 && t.coming[0].First <= offset {
		a := t.coming[0]
		t.aborted[a.ProducerID] = &abortedTx{Aborted: a}
		t.coming = t.coming[1:]
	}
}

// Data takes a batch of records. It tells whether they were aborted.
func (t *Transactions) Data(b record.Batch) (aborted bool) {
	t.reach(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil && b.LastOffset() < a.Last {
		a.seen = true
		return true
	}
	t.decided[b.ProducerID()] = struct{}{}
	return false
}

// fate is what may become of a control batch.
type fate int8

const (
	stay  fate = iota // it decides what is still there, or nobody knows what it says
	spent             // it decides nothing any more
	empty             // it says nothing to anybody
)

// Marker takes a control batch. aborted is the transaction that it aborts if some of its records are still there. The error
// wraps kerr.InvalidRecord.
func (t *Transactions) Marker(b record.Batch) (f fate, aborted *Aborted, err error) {
	t.reach(b.LastOffset())
	if b.Count() == 0 || b.IsLeaderChange() {
		return empty, nil, nil
	}
	m, ok, err := b.Marker()
	if err != nil || !ok {
		return stay, nil, err
	}
	id := b.ProducerID()
	_, committed := t.decided[id]
	delete(t.decided, id)
	a := t.aborted[id]
	delete(t.aborted, id)
	switch {
	case m.Type == record.Commit && committed:
		return stay, nil, nil
	case m.Type == record.Abort && a != nil && a.seen && a.Last == b.BaseOffset():
		return stay, &a.Aborted, nil
	}
	return spent, nil, nil
}
