package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheWaitDoubles(t *testing.T) {
	now := time.Unix(0, 0)
	b := Backoff{Limit: 6, First: time.Second, Most: 5 * time.Second}
	if b.Left(now) != 0 {
		t.Errorf("before a failure: %v", b.Left(now))
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if !b.Again(now, 0) {
			t.Fatal("no more")
		}
		if got := b.Left(now); got < want*9/10 || got > want*11/10 {
			t.Errorf("failure %d: %v, want %v", i+1, got, want)
		}
	}
	if b.Again(now, time.Minute); b.Left(now) != time.Minute || b.Left(now.Add(time.Hour)) != 0 {
		t.Errorf("least %v", b.Left(now))
	}
	if b.Again(now, 0) || b.Failed() != 6 {
		t.Errorf("more than the limit: %d", b.Failed())
	}
	if b.Succeed(); !b.Again(now, 0) || b.Left(now) > 2*time.Second {
		t.Error("a success does not count")
	}
	b.Limit = -1
	for range 1000 {
		if !b.Again(now, 0) || b.Left(now) > 6*time.Second {
			t.Fatalf("for ever ends, or waits %v", b.Left(now))
		}
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Limit: -1, First: time.Second, Most: time.Second}
		began := time.Now()
		if err := b.Wait(t.Context(), time.Hour); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		b.Again(time.Now(), 10*time.Second)
		if err := b.Wait(t.Context(), 3*time.Second); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := b.Wait(t.Context(), time.Hour); err != nil || time.Since(began) != 10*time.Second || b.Left(time.Now()) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		b.Again(time.Now(), time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Wait(ctx, time.Hour); err != context.Canceled {
			t.Error(err)
		}
	})
}
