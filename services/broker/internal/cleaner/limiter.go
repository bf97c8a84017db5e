package cleaner

import (
	"context"
	"math"
	"sync"
	"time"
)

// limiter spreads bytes over time.
type limiter struct {
	mu   sync.Mutex
	free time.Time // when what was spent so far is paid for
}

// glance is how often one who waits looks whether waiting has become pointless.
const glance = 250 * time.Millisecond

// longest is as long as one has to wait for others at most: a Duration does not hold what the slowest rates come to.
const longest = 365 * 24 * time.Hour

// spend waits until bytes may pass, after those before at the rate. It ends early with the error of ctx or of failed.
func (l *limiter) spend(ctx context.Context, bytes int, bytesPerSecond float64, failed func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if bytesPerSecond <= 0 || bytesPerSecond >= math.MaxInt64 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	turn := l.free
	if turn.Before(now) {
		turn = now
	}
	l.free = turn.Add(time.Duration(min(float64(bytes)/bytesPerSecond*float64(time.Second), float64(longest))))
	l.mu.Unlock()
	for wait := time.Until(turn); wait > 0; wait = time.Until(turn) {
		pause := time.NewTimer(min(wait, glance))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		if err := failed(); err != nil {
			return err
		}
	}
	return nil
}
