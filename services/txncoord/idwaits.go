package txncoord

import (
	"context"
	"sync"
)

// maxIDWaits bounds the timeouts that wait for a producer id at once: one that is not served is asked for again.
const maxIDWaits = 64

// idWaits gets producer ids for timeouts of transactions whose producer has no epoch left.
type idWaits struct {
	next   func(context.Context) (int64, error)
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	slots  chan struct{}
}

func (w *idWaits) begin(next func(context.Context) (int64, error)) {
	w.next = next
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.slots = make(chan struct{}, maxIDWaits)
}

// ask gives an id, later and on another goroutine, or none.
func (w *idWaits) ask(give func(fresh int64)) {
	select {
	case w.slots <- struct{}{}:
	default:
		return
	}
	w.tasks.Go(func() {
		defer func() { <-w.slots }()
		if fresh, err := w.next(w.ctx); err == nil {
			give(fresh)
		}
	})
}

// end ends all waits.
func (w *idWaits) end() {
	if w.cancel != nil {
		w.cancel()
	}
	w.tasks.Wait()
}
