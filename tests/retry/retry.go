// Package retry waits for what comes about by itself.
package retry

import (
	"context"
	"time"
)

const pause = 50 * time.Millisecond

// Until tries again and again until it works, or returns the last error once limit is over or ctx has ended. The context of a try
// ends then too.
func Until(ctx context.Context, limit time.Duration, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}
