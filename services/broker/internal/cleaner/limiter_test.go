package cleaner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheSlowestRate is that of a limit which lets through as good as nothing: the first bytes are all that pass.
func TestTheSlowestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limiter
		fine := func() error { return nil }
		if err := l.spend(t.Context(), 1, 1e-300, fine); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := l.spend(ctx, 1, 1e-300, fine); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("more passes: %v", err)
		}
	})
}

// TestThreadsAreBounded has more threads asked for than there are to be, and looks how many begin.
func TestThreadsAreBounded(t *testing.T) {
	s := Settings{Threads: 5 * maxThreads}
	c := New(nil, func() Settings { return s }, nil)
	began := 0
	for ; began <= s.Threads && c.begin(c.settings().threads()); began++ {
	}
	if began != maxThreads {
		t.Errorf("%d threads", began)
	}
}
