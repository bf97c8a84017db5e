package quorum

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/testport"
)

// trio makes the configurations of three voters on free ports.
func trio(t *testing.T) []Config {
	t.Helper()
	voters := map[int32]string{}
	for id := range int32(3) {
		voters[id] = "http://" + testport.Address(t)
	}
	var cfgs []Config
	for id := range int32(3) {
		cfgs = append(cfgs, Config{
			ID: id, Dir: filepath.Join(t.TempDir(), "quorum"), Voters: voters, GroupID: 7,
			Tick: 20 * time.Millisecond, SnapshotEntries: 200,
		})
	}
	return cfgs
}

// leaderOf waits until one of the voters leads.
func leaderOf(voters ...voter) voter {
	found := make(chan voter, len(voters))
	for _, v := range voters {
		go func() {
			v.await(leads)
			found <- v
		}()
	}
	return <-found
}

func others(voters []voter, not voter) []voter {
	return slices.DeleteFunc(slices.Clone(voters), func(v voter) bool { return v.Quorum == not.Quorum })
}

func (v voter) awaitEntries(want []string) {
	v.await(func(l *ledger) bool { return len(l.entries) >= len(want) })
}

func TestThreeVotersSurviveTheirLeader(t *testing.T) {
	cfgs := trio(t)
	voters := runAll(t, cfgs)
	leader := leaderOf(voters...)
	want := numbered("first", 100)
	if err := leader.propose(want...)(); err != nil {
		t.Fatal(err)
	}
	for _, v := range voters {
		v.awaitEntries(want)
		equal(t, v.snapshot(), want)
	}
	eventually(t, "all are caught up", func() error {
		s, err := leader.Status(t.Context())
		if err != nil || s.Leader != leader.cfg.ID || len(s.Voters) != 3 {
			t.Fatalf("status %+v, %v", s, err)
		}
		for _, v := range s.Voters {
			if v.LogEnd > s.LogEnd || v.CaughtUp.After(v.LastHeard) {
				t.Errorf("voter %+v of %+v", v, s)
			}
			if v.LastHeard.IsZero() || v.CaughtUp.IsZero() {
				return fmt.Errorf("voter %+v", v)
			}
		}
		return nil
	})

	leader.stop()
	stopped := time.Now()
	rest := others(voters, leader)
	second := leaderOf(rest...)
	more := numbered("second "+strings.Repeat(".", 4<<10), 700)
	if err := second.propose(more...)(); err != nil {
		t.Fatal(err)
	}
	want = append(want, more...)

	s, err := second.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Voters {
		// The second may have led before, and heard from the first then.
		if v.ID == leader.cfg.ID && (v.LastHeard.After(stopped) || v.CaughtUp.After(stopped)) {
			t.Errorf("voter %+v is gone since %v", v, stopped)
		}
	}

	// Those who stayed have compacted what the first one lacks: it gets a snapshot.
	back := run(t, leader.cfg)
	back.awaitEntries(want)
	equal(t, back.snapshot(), want)
	back.await(func(l *ledger) bool { return l.leader.Leader == second.cfg.ID })
}

// TestProposalsOfALostLeaderAreNeverAnswered stops the majority under a leader: what it proposes then cannot commit, and
// is failed when the leader finds itself alone.
func TestProposalsOfALostLeaderAreNeverAnswered(t *testing.T) {
	cfgs := trio(t)
	voters := runAll(t, cfgs)
	leader := leaderOf(voters...)
	if err := leader.propose("kept")(); err != nil {
		t.Fatal(err)
	}
	rest := others(voters, leader)
	for _, v := range rest {
		v.stop()
	}
	if err := leader.propose(numbered("lost", 10)...)(); !errors.Is(err, ErrNotLeader) {
		t.Errorf("proposals without a majority: %v", err)
	}
	if got := leader.snapshot(); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("applied without a majority: %q", got)
	}
	// The majority returns without it. Its entries are overwritten, and it learns what was decided instead.
	var back []voter
	leader.stop()
	for _, v := range rest {
		back = append(back, run(t, v.cfg))
	}
	if err := leaderOf(back...).propose("instead")(); err != nil {
		t.Fatal(err)
	}
	again := run(t, leader.cfg)
	again.awaitEntries([]string{"kept", "instead"})
	equal(t, again.snapshot(), []string{"kept", "instead"})
}

func TestVoterOfAnotherGroupIsKeptOut(t *testing.T) {
	cfgs := trio(t)
	voters := runAll(t, cfgs)
	leader := leaderOf(voters...)
	if err := leader.propose("a")(); err != nil {
		t.Fatal(err)
	}
	other := others(voters, leader)[0]
	other.awaitEntries([]string{"a"})
	other.stop()
	changed := other.cfg
	changed.GroupID = 8
	stranger := run(t, changed)
	if err := leaderOf(others(voters, other)...).propose("b")(); err != nil {
		t.Fatal(err)
	}
	if got := stranger.snapshot(); slices.Contains(got, "b") {
		t.Errorf("a voter of another group took part: %s", fmt.Sprint(got))
	}
}

// TestNothingIsLeftRunning starts and stops three voters again and again.
func TestNothingIsLeftRunning(t *testing.T) {
	cfgs := trio(t)
	round := func() {
		voters := runAll(t, cfgs)
		if err := leaderOf(voters...).propose("a")(); err != nil {
			t.Error(err)
		}
		var wg sync.WaitGroup
		for _, v := range voters {
			wg.Go(v.stop)
		}
		wg.Wait()
	}
	round()
	before := runtime.NumGoroutine()
	for range 5 {
		round()
	}
	// A round has hundreds; what is left may be on its way out.
	eventually(t, "goroutines end", func() error {
		if now := runtime.NumGoroutine(); now > before+10 {
			return fmt.Errorf("%d goroutines, %d before", now, before)
		}
		return nil
	})
}
