package watch

import (
	"sync"
	"testing"
)

func watched(t *testing.T, n int) (*Set, []Source, []Watch, *int) {
	t.Helper()
	ends := new(int)
	set := new(Set)
	set.Init(func() { *ends++ })
	sources, watches := make([]Source, n), make([]Watch, n)
	for i := range sources {
		watches[i].Value = i
		watches[i].Start(&sources[i], set)
		set.Mark(&watches[i])
	}
	return set, sources, watches, ends
}

func drain(s *Set) (got []int) {
	for w := s.Next(); w != nil; w = s.Next() {
		got = append(got, w.Value.(int))
	}
	return got
}

func TestWaitEndsWithTheAppendThatCompletesIt(t *testing.T) {
	set, sources, _, ends := watched(t, 3)
	set.Begin()
	if got := drain(set); len(got) != 3 {
		t.Fatalf("marked watches: got %v", got)
	}
	if !set.Wait(100) {
		t.Fatal("Wait did not park with nothing to read")
	}
	var ended Ended
	sources[1].Advance(60, &ended)
	ended.Fire()
	if *ends != 0 {
		t.Fatal("the wait ended 40 bytes early")
	}
	sources[2].Advance(40, &ended)
	sources[2].Advance(40, &ended)
	ended.Fire()
	if *ends != 1 {
		t.Fatalf("the wait ended %d times, want once", *ends)
	}
	if got := drain(set); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Fatalf("changed watches: got %v, want [1 2]", got)
	}
}

func TestAnAppendBetweenLookAndWaitIsNotLost(t *testing.T) {
	set, sources, _, _ := watched(t, 1)
	set.Begin()
	drain(set)
	var ended Ended
	sources[0].Advance(10, &ended)
	if set.Wait(10) {
		t.Fatal("parked although enough had come since Begin")
	}
	if ended.first != nil {
		t.Fatal("a set that does not wait was ended")
	}
}

func TestInterruptEndsTheWaitAtOnce(t *testing.T) {
	set, sources, _, ends := watched(t, 2)
	set.Begin()
	drain(set)
	if !set.Wait(1 << 40) {
		t.Fatal("did not park")
	}
	var ended Ended
	sources[0].Interrupt(&ended)
	ended.Fire()
	if *ends != 1 {
		t.Fatal("an interruption did not end the wait")
	}
	if set.Cancel(1) {
		t.Fatal("Cancel claims a wait that had ended")
	}
}

func TestStoppedWatchHearsNothing(t *testing.T) {
	set, sources, watches, _ := watched(t, 3)
	drain(set)
	watches[1].Stop()
	watches[1].Stop()
	var ended Ended
	for i := range sources {
		sources[i].Advance(1, &ended)
	}
	if got := drain(set); len(got) != 2 || got[0] != 0 || got[1] != 2 {
		t.Fatalf("got %v, want [0 2]", got)
	}
	if sources[1].first != nil {
		t.Fatal("the source still lists the watch")
	}
}

// A wait is ended by exactly one of an append and a timeout, however they race.
func TestEndedOnce(t *testing.T) {
	for range 2000 {
		set, sources, _, ends := watched(t, 1)
		round := set.Begin()
		drain(set)
		set.Wait(1)
		var wg sync.WaitGroup
		cancelled := false
		wg.Go(func() { cancelled = set.Cancel(round) })
		wg.Go(func() {
			var ended Ended
			sources[0].Advance(1, &ended)
			ended.Fire()
		})
		wg.Wait()
		if cancelled == (*ends == 1) {
			t.Fatalf("cancelled=%v, ended %d times", cancelled, *ends)
		}
	}
}

func TestCancelBeforeTheWaitKeepsItFromStarting(t *testing.T) {
	set, _, _, _ := watched(t, 1)
	round := set.Begin()
	drain(set)
	if set.Cancel(round) {
		t.Fatal("Cancel claims a wait that has not begun")
	}
	if set.Wait(1) {
		t.Fatal("parked although the time was over")
	}
	late := round
	set.Begin()
	set.Wait(1)
	if set.Cancel(late) {
		t.Fatal("a timeout of an earlier round ended this one's wait")
	}
}

func BenchmarkAdvance(b *testing.B) {
	set := new(Set)
	set.Init(func() {})
	sources, watches := make([]Source, 10000), make([]Watch, 10000)
	for i := range sources {
		watches[i].Start(&sources[i], set)
	}
	for set.Next() != nil {
	}
	var ended Ended
	for i := 0; b.Loop(); i++ {
		sources[i%10000].Advance(1, &ended)
		set.Begin()
		for w := set.Next(); w != nil; w = set.Next() {
		}
	}
}
