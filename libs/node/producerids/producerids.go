// Package producerids hands out a node's producer ids, a block of which it takes from the controller at a time.
package producerids

import (
	"context"
	"time"
)

// Source gives blocks of ids that nobody had, as node.Node does.
type Source interface {
	AllocateProducerIDs(ctx context.Context) (first int64, count int32, err error)
}

// IDs are the ids of one node. Next may be called by any goroutine.
type IDs struct {
	source Source
	turn   chan struct{} // holds one token: whoever has it owns what follows
	// The ids left are from, …, to-1.
	from, to int64
}

// New hands out no id before the first request for one.
func New(s Source) *IDs {
	ids := &IDs{source: s, turn: make(chan struct{}, 1)}
	ids.turn <- struct{}{}
	return ids
}

// patience is how long a request waits for a block.
const patience = 10 * time.Second

// Next is an id that no producer had before.
func (ids *IDs) Next(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ids.turn:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { ids.turn <- struct{}{} }()
	if ids.from == ids.to {
		first, count, err := ids.source.AllocateProducerIDs(ctx)
		if err != nil {
			return 0, err
		}
		ids.from, ids.to = first, first+int64(count)
	}
	id := ids.from
	ids.from++
	return id, nil
}
