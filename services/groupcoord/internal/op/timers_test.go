package op

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestTimersAgainstAList sets, puts off, brings forward and clears timers at random, and compares with a sorted list.
func TestTimersAgainstAList(t *testing.T) {
	type entry struct {
		key TimerKey
		at  time.Time
		seq int
	}
	random := rand.New(rand.NewPCG(1, 2))
	timers, list, seq := NewTimers(), []entry{}, 0
	now := time.UnixMilli(1_000_000)
	for step := range 20_000 {
		key := TimerKey{Kind: "session", Member: fmt.Sprint(random.IntN(40))}
		switch random.IntN(10) {
		case 0:
			timers.Clear(key)
			list = slices.DeleteFunc(list, func(e entry) bool { return e.key == key })
		case 1, 2:
			now = now.Add(time.Duration(random.IntN(8)) * time.Millisecond)
			for {
				got, ok := timers.Pop(now)
				if due := len(list) > 0 && !list[0].at.After(now); due != ok || ok && got != list[0].key {
					t.Fatalf("step %d: popped %v, %v of %v at %v", step, got, ok, list, now)
				}
				if !ok {
					break
				}
				list = list[1:]
			}
		default:
			seq++
			at := now.Add(time.Duration(random.IntN(20)) * time.Millisecond)
			timers.Set(key, at)
			list = slices.DeleteFunc(list, func(e entry) bool { return e.key == key })
			list = append(list, entry{key, at, seq})
			slices.SortFunc(list, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq)) })
		}
		var want time.Time
		if len(list) > 0 {
			want = list[0].at
		}
		if got := timers.Next(); got.IsZero() != want.IsZero() || got.After(want) {
			t.Fatalf("step %d: next is %v, and a timer goes off at %v", step, got, want)
		}
		if at, ok := timers.At(key); ok != slices.ContainsFunc(list, func(e entry) bool { return e.key == key && e.at == at }) {
			t.Fatalf("step %d: %v at %v, %v", step, key, at, ok)
		}
	}
}
