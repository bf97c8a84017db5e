package worker

import (
	"context"
	"slices"

	"github.com/cauce-stream/cauce/services/connect/internal/member"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// membership decides what the worker runs: its group, or in a worker that stands alone nobody but itself.
type membership interface {
	Run(ctx context.Context) error
	Rejoin()
}

// solo is the membership of a worker that stands alone, and so runs all that there is.
type solo struct {
	w      *Worker
	rejoin chan struct{}
}

func newSolo(w *Worker) *solo { return &solo{w: w, rejoin: make(chan struct{}, 1)} }

// Rejoin has the worker look again at what there is to run.
func (s *solo) Rejoin() {
	select {
	case s.rejoin <- struct{}{}:
	default:
	}
}

// Run gives the worker all that there is to run, whenever that changes, until ctx ends.
func (s *solo) Run(ctx context.Context) error {
	var mine []work.Item
	for generation := int32(1); ; generation++ {
		offset, items := s.w.topics.progress()
		if gone := slices.DeleteFunc(slices.Clone(mine), func(item work.Item) bool { return slices.Contains(items, item) }); len(gone) > 0 {
			s.w.crew.revoke(ctx, gone)
		}
		mine = items
		s.w.crew.settled(member.Settlement{Generation: generation, MemberID: s.w.id, ConfigOffset: offset, Leader: true, LeaderURL: s.w.url, Mine: mine})
		select {
		case <-s.rejoin:
		case <-ctx.Done():
			s.w.crew.revoke(context.WithoutCancel(ctx), mine)
			return nil
		}
	}
}
