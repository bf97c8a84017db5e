package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
)

// eventually tries until it works.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// isVoter wants the leader to count a node, with a disk other than one, among those that vote.
func isVoter(t *testing.T, leader voter, node int32, not uint32) error {
	t.Helper()
	s, err := leader.Status(t.Context())
	if err != nil {
		return err
	}
	for _, v := range s.Voters {
		if v.ID == node && !v.Learns && v.Disk != not && !v.LastHeard.IsZero() {
			return nil
		}
	}
	return fmt.Errorf("voters are %+v", s.Voters)
}

// TestVoterThatLostItsDisk wipes a voter. It must not vote for its group again until it has been removed and added, and
// then has all that was decided.
func TestVoterThatLostItsDisk(t *testing.T) {
	cfgs := trio(t)
	voters := runAll(t, cfgs)
	leader := leaderOf(voters...)
	want := numbered("kept", 50)
	if err := leader.propose(want...)(); err != nil {
		t.Fatal(err)
	}
	lost := others(voters, leader)[0]
	lost.stop()
	before, err := readDisk(lost.cfg.Dir)
	if err != nil || before == 0 {
		t.Fatalf("disk %d, %v", before, err)
	}
	if err := os.RemoveAll(lost.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	opened := make(chan voter, 1)
	go func() { opened <- run(t, lost.cfg) }()

	node := lost.cfg.ID
	eventually(t, "adding it beside its old self is refused", func() error {
		err := leader.Add(t.Context(), node, 0)
		if err == nil {
			return errors.New("not refused yet: nobody knows that it waits")
		}
		if !errors.Is(err, ErrUnsafe) {
			t.Errorf("adding: %v", err)
		}
		return nil
	})
	select {
	case <-opened:
		t.Fatal("it takes part although it lost its disk")
	default:
	}
	if err := leader.Remove(t.Context(), node, 0); err != nil {
		t.Fatal(err)
	}
	leader.await(leads) // again: the change ended the claim
	if err := leader.Add(t.Context(), node, 1); !errors.Is(err, ErrNotCandidate) {
		t.Errorf("adding a disk that does not wait: %v", err)
	}
	eventually(t, "adding it", func() error { return leader.Add(t.Context(), node, 0) })
	back := <-opened
	eventually(t, "it votes", func() error { return isVoter(t, leader, node, before) })
	if err := leader.Remove(t.Context(), node, before); !errors.Is(err, ErrNotMember) {
		t.Errorf("removing it with the disk that it had: %v", err)
	}
	more := numbered("more", 10)
	if err := leader.propose(more...)(); err != nil {
		t.Fatal(err)
	}
	want = append(want, more...)
	back.awaitEntries(want)
	equal(t, back.snapshot(), want)

	// With it, the third one may go.
	third := others(others(voters, leader), lost)[0]
	third.stop()
	if err := leader.propose("two of three")(); err != nil {
		t.Fatal(err)
	}
	// It comes back as the same member after a restart.
	back.stop()
	again := run(t, lost.cfg)
	again.awaitEntries(append(want, "two of three"))
}

// remove takes a node out of the group. A change that was just made has to be applied before.
func remove(t *testing.T, leader voter, node int32) {
	t.Helper()
	eventually(t, "removing it", func() error {
		if err := leader.Remove(t.Context(), node, 0); err != nil && !errors.Is(err, ErrNotMember) {
			return err
		}
		return nil
	})
}

// TestVoterThatLosesItsDiskAgain wipes a voter that has just been added: what it said of the disk that it had then does not count for
// the one that it has now.
func TestVoterThatLosesItsDiskAgain(t *testing.T) {
	voters := runAll(t, trio(t))
	leader := leaderOf(voters...)
	lost := others(voters, leader)[0]
	node := lost.cfg.ID
	replace := func() (stopped func()) {
		t.Helper()
		if err := os.RemoveAll(lost.cfg.Dir); err != nil {
			t.Fatal(err)
		}
		remove(t, leader, node)
		eventually(t, "adding a controller that does not run is refused", func() error {
			err := leader.Add(t.Context(), node, 0)
			if err == nil {
				t.Fatal("a controller that does not run is added")
			}
			if !errors.Is(err, ErrNotCandidate) {
				return err
			}
			return nil
		})
		opened := make(chan voter, 1)
		go func() { opened <- run(t, lost.cfg) }()
		eventually(t, "adding it", func() error { return leader.Add(t.Context(), node, 0) })
		back := <-opened
		eventually(t, "it votes", func() error { return isVoter(t, leader, node, 0) })
		return back.stop
	}
	lost.stop()
	replace()()
	replace()
}

// TestLearnerThatLostItsDisk wipes a controller before it learns, so that who is to learn is not there any more.
func TestLearnerThatLostItsDisk(t *testing.T) {
	voters := runAll(t, trio(t))
	leader := leaderOf(voters...)
	lost := others(voters, leader)[0]
	node := lost.cfg.ID
	lost.stop()
	wipe := func() {
		t.Helper()
		if err := os.RemoveAll(lost.cfg.Dir); err != nil {
			t.Fatal(err)
		}
	}
	wipe()
	remove(t, leader, node)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Open(ctx, lost.cfg, newLedger(), zap.NewNop())
		ended <- err
	}()
	eventually(t, "it waits", func() error {
		leader.Quorum.mu.Lock()
		defer leader.Quorum.mu.Unlock()
		if _, waits := leader.candidates[node]; !waits {
			return errors.New("not yet")
		}
		return nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wipe()
	eventually(t, "adding what waited", func() error { return leader.Add(t.Context(), node, 0) })
	opened := make(chan voter, 1)
	go func() { opened <- run(t, lost.cfg) }()
	eventually(t, "adding it beside its old self is refused", func() error {
		if err := leader.Add(t.Context(), node, 0); !errors.Is(err, ErrUnsafe) {
			return fmt.Errorf("not refused: %v", err)
		}
		return nil
	})
	remove(t, leader, node)
	eventually(t, "adding it", func() error { return leader.Add(t.Context(), node, 0) })
	<-opened
	eventually(t, "it votes", func() error { return isVoter(t, leader, node, 0) })
}

// TestMemberThatLearnedNothingWaitsAgain has a controller that was taken out before it learned anything, and runs without the log of a
// group, ask to be added.
func TestMemberThatLearnedNothingWaitsAgain(t *testing.T) {
	voters := runAll(t, trio(t))
	leader := leaderOf(voters...)
	lost := others(voters, leader)[0]
	node := lost.cfg.ID
	lost.stop()
	if err := os.RemoveAll(lost.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	remove(t, leader, node)
	_, err := drawDisk(lost.cfg.Dir)
	if err := errors.Join(err, bootstrap(lost.cfg, nil, zap.NewNop())); err != nil {
		t.Fatal(err)
	}
	back := run(t, lost.cfg)
	eventually(t, "adding it", func() error { return leader.Add(t.Context(), node, 0) })
	eventually(t, "it votes", func() error { return isVoter(t, leader, node, 0) })
	if err := leader.propose("all three")(); err != nil {
		t.Fatal(err)
	}
	back.awaitEntries([]string{"all three"})
}

// TestGroupIsFoundedByAllOnly has two of three wait for the third, and the third wait for nobody that lost its disk.
func TestGroupIsFoundedByAllOnly(t *testing.T) {
	cfgs := trio(t)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	for _, c := range cfgs[:2] {
		go func() {
			_, err := Open(ctx, c, newLedger(), zap.NewNop())
			errs <- err
		}()
	}
	select {
	case err := <-errs:
		t.Fatalf("founded without the third: %v", err)
	case <-time.After(5 * foundInterval):
	}
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(cfgs[0].Dir, "wal")); err == nil {
		t.Error("a log was begun")
	}
	voters := runAll(t, cfgs)
	if err := leaderOf(voters...).propose("a")(); err != nil {
		t.Fatal(err)
	}
}

// TestGrowAndShrink adds two voters to a group of one, and takes them out again.
func TestGrowAndShrink(t *testing.T) {
	cfgs := trio(t)
	first := cfgs[0]
	first.Voters = map[int32]string{first.ID: first.Voters[first.ID]}
	single := run(t, first)
	want := numbered("alone", 20)
	if err := single.propose(want...)(); err != nil {
		t.Fatal(err)
	}
	single.stop()
	leader := run(t, cfgs[0])
	leader.await(leads)
	joined := []voter{leader}
	for _, c := range cfgs[1:] {
		opened := make(chan voter, 1)
		go func() { opened <- run(t, c) }()
		eventually(t, "adding", func() error { return leader.Add(t.Context(), c.ID, 0) })
		joined = append(joined, <-opened)
		eventually(t, "it votes", func() error { return isVoter(t, leader, c.ID, 0) })
	}
	if err := leader.propose("of three")(); err != nil {
		t.Fatal(err)
	}
	want = append(want, "of three")
	for _, v := range joined {
		v.awaitEntries(want)
		equal(t, v.snapshot(), want)
	}
	if err := leader.Remove(t.Context(), leader.cfg.ID, 0); !errors.Is(err, ErrUnsafe) {
		t.Errorf("removing the leader: %v", err)
	}
	if err := leader.Remove(t.Context(), 77, 0); !errors.Is(err, ErrNotMember) {
		t.Errorf("removing a stranger: %v", err)
	}
	if err := joined[1].Remove(t.Context(), 2, 0); !errors.Is(err, ErrNotLeader) {
		t.Errorf("removing through a follower: %v", err)
	}
	for _, v := range joined[1:] {
		eventually(t, "removing", func() error {
			if err := leader.Remove(t.Context(), v.cfg.ID, 0); err != nil && !errors.Is(err, ErrNotMember) {
				return err
			}
			s, err := leader.Status(t.Context())
			if err == nil && slices.ContainsFunc(s.Voters, func(o Voter) bool { return o.ID == v.cfg.ID }) {
				err = fmt.Errorf("voters are %+v", s.Voters)
			}
			return err
		})
		v.stop()
	}
	if err := leader.propose("alone again")(); err != nil {
		t.Fatal(err)
	}
}

// TestRemovalThatWouldStopTheQuorum has one of three down: the others cannot do without each other.
func TestRemovalThatWouldStopTheQuorum(t *testing.T) {
	voters := runAll(t, trio(t))
	leader := leaderOf(voters...)
	rest := others(voters, leader)
	rest[0].stop()
	eventually(t, "removing the one that is left is refused", func() error {
		s, err := leader.Status(t.Context())
		if err != nil {
			return err
		}
		for _, v := range s.Voters {
			if v.ID == rest[0].cfg.ID && time.Since(v.LastHeard) < 2*time.Second {
				return errors.New("the one that is down still counts as there")
			}
		}
		if err := leader.Remove(t.Context(), rest[1].cfg.ID, 0); !errors.Is(err, ErrUnsafe) {
			t.Errorf("removing: %v", err)
		}
		return nil
	})
	if err := leader.Remove(t.Context(), rest[0].cfg.ID, 0); err != nil {
		t.Errorf("removing the one that is down: %v", err)
	}
}

func TestMemberIDs(t *testing.T) {
	for _, node := range []int32{0, 1, 101, 1<<31 - 1} {
		for _, disk := range []uint32{0, 1, 1<<31 - 1} {
			if m := memberID(node, disk); m == 0 || nodeID(m) != node || diskOf(m) != disk {
				t.Errorf("node %d, disk %d: member %x is node %d, disk %d", node, disk, m, nodeID(m), diskOf(m))
			}
		}
	}
	if nodeID(0) != -1 {
		t.Error("raft's none is a node")
	}
}
