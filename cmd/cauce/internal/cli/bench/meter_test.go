package bench

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeterCountsAfterTheWarmUpOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(true)
		var lines strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.watch(ctx, &lines, 1500*time.Millisecond)
		}()
		time.Sleep(50 * time.Millisecond)
		for range 34 { // one record of 1,000 bytes every 100 ms: 15 in the warm-up
			m.add(1000, 2*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		<-ended
		r := m.result("load", "due")
		if r.Records != 19 || r.Bytes != 19_000 {
			t.Errorf("%d records of %d bytes in all, want the 19 after the warm-up", r.Records, r.Bytes)
		}
		if r.Seconds < 1.949 || r.Seconds > 1.951 {
			t.Errorf("%v s, want the 1.95 since the warm-up", r.Seconds)
		}
		got := strings.Split(strings.TrimSpace(lines.String()), "\n")
		if len(got) != 3 {
			t.Fatalf("%d lines, want one a second:\n%s", len(got), lines.String())
		}
		if !strings.HasSuffix(got[0], "warming up") || strings.Contains(got[2], "warming up") {
			t.Errorf("the warm-up is not marked:\n%s", lines.String())
		}
		if want := "   3s           10 records/s      0.01 MB/s   p50 2.00  p99 2.00  max 2.00 ms"; got[2] != want {
			t.Errorf("got  %q\nwant %q", got[2], want)
		}
	})
}

func TestStamp(t *testing.T) {
	due := time.Unix(1700000000, 123)
	value := make([]byte, stampSize)
	stamp(value, due)
	if got, ok := stamped(value); !ok || !got.Equal(due) {
		t.Errorf("got %v, %v, want %v", got, ok, due)
	}
	for _, value := range [][]byte{nil, make([]byte, stampSize-1), make([]byte, 100)} {
		stamp(value[:min(len(value), stampSize-1)], due)
		if _, ok := stamped(value); ok {
			t.Errorf("a value of %d bytes without a stamp has one", len(value))
		}
	}
}

func TestPayload(t *testing.T) {
	for _, kind := range []string{"random", "text", "zero"} {
		p, err := newPayload(kind, 100)
		if err != nil {
			t.Fatal(err)
		}
		first := string(p.fill(nil))
		second := string(p.fill(nil))
		if len(first) != 100 || len(second) != 100 {
			t.Errorf("%s: values of %d and %d bytes, want 100", kind, len(first), len(second))
		}
		if (first == second) != (kind == "zero") {
			t.Errorf("%s: two values in a row are equal: %v", kind, first == second)
		}
	}
	if _, err := newPayload("gold", 1); err == nil {
		t.Error("an unknown payload was accepted")
	}
}
