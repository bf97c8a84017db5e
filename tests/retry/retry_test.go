package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilTellsOfTheLastTryThatCameToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("no leader")
		tries := 0
		err := Until(t.Context(), time.Second, func(ctx context.Context) error {
			if tries++; tries < 3 {
				return reason
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, reason) {
			t.Errorf("error %v, want %v", err, reason)
		}
		if err := Until(t.Context(), time.Second, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
