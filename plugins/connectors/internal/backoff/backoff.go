// Package backoff says when to try again what has failed: after a wait that doubles from failure to failure.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff counts failures in a row. It is for one goroutine at a time.
type Backoff struct {
	// Limit is how often in a row to try again; negative for ever.
	Limit int64
	// First is the wait after the first failure, Most the longest one.
	First, Most time.Duration

	failed int64
	due    time.Time
}

// Failed is how many failures there were in a row.
func (b *Backoff) Failed() int64 { return b.failed }

// Again counts a failure, and says whether to try once more: after the wait that is due, or after least if that is longer.
func (b *Backoff) Again(now time.Time, least time.Duration) bool {
	if b.Limit >= 0 && b.failed >= b.Limit {
		return false
	}
	wait := b.First
	for i := int64(0); i < b.failed && wait < b.Most; i++ {
		wait *= 2
	}
	wait = min(wait, max(b.Most, b.First))
	wait = wait*9/10 + time.Duration(rand.Int64N(int64(wait/5)+1)) // so that those that failed together do not come back together
	b.failed++
	b.due = now.Add(max(wait, least))
	return true
}

// Succeed has the next failure be the first.
func (b *Backoff) Succeed() { b.failed, b.due = 0, time.Time{} }

// Left is how long it is until the next try; 0 when it is due.
func (b *Backoff) Left(now time.Time) time.Duration {
	if b.failed == 0 {
		return 0
	}
	return max(b.due.Sub(now), 0)
}

// Wait waits until the next try is due, but no longer than most. The error is that of ctx, when it ends first.
func (b *Backoff) Wait(ctx context.Context, most time.Duration) error {
	return Rest(ctx, min(b.Left(time.Now()), most))
}

// Rest waits for d, which may be negative. The error is that of ctx, when it has ended.
func Rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
