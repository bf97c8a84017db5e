package producerids

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

type source func(ctx context.Context) (int64, int32, error)

func (s source) AllocateProducerIDs(ctx context.Context) (int64, int32, error) { return s(ctx) }

func TestNobodyGetsAnIDTwice(t *testing.T) {
	next := int64(0)
	ids := New(source(func(context.Context) (int64, int32, error) {
		next += 10
		return next, 3, nil
	}))
	var mu sync.Mutex
	seen := map[int64]bool{}
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			id, err := ids.Next(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[id] || id%10 > 2 {
				t.Errorf("%d, %v", id, err)
			}
			seen[id] = true
		})
	}
	group.Wait()
	if next != 100 {
		t.Errorf("%d blocks for 30 ids", next/10)
	}
}

func TestNoIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, stuck := errors.New("broken"), false
		ids := New(source(func(ctx context.Context) (int64, int32, error) {
			if stuck {
				<-ctx.Done()
				return 0, 0, ctx.Err()
			}
			return 0, 0, broken
		}))
		if _, err := ids.Next(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		stuck = true
		var group sync.WaitGroup
		for range 2 { // also for who waits for the other
			group.Go(func() {
				if _, err := ids.Next(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
	})
}
