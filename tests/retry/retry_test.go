package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		failing := errors.New("not yet")
		third := func(context.Context) error {
			if tries++; tries < 3 {
				return failing
			}
			return nil
		}
		if err := Until(t.Context(), time.Second, third); err != nil || tries != 3 {
			t.Errorf("%v after %d tries, want success at the third", err, tries)
		}
		began := time.Now()
		err := Until(t.Context(), time.Second, func(ctx context.Context) error {
			if by, ok := ctx.Deadline(); !ok || by.Sub(began) != time.Second {
				t.Errorf("a try may last until %v", by)
			}
			return failing
		})
		if took := time.Since(began); !errors.Is(err, failing) || took != time.Second {
			t.Errorf("%v after %v, want the last error after a second", err, took)
		}
	})
}
