// Package retry waits for what comes about by itself.
package retry

import (
	"context"
	"time"
)

const pause = 50 * time.Millisecond

// Until tries again and again until it works, or returns the last error once limit is over or ctx has ended. The context of a try
// ends then too; the error of the try before tells more than that of one which was cut off.
func Until(ctx context.Context, limit time.Duration, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return last
		}
	}
}

// Pause lets a time go by; the error is that ctx has ended sooner.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
