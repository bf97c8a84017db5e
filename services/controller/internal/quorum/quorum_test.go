package quorum

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
)

// ledger is a machine that remembers every entry.
type ledger struct {
	mu      sync.Mutex
	changed sync.Cond
	index   int64
	entries []string
	values  int // entries that came with their proposal's value
	leader  Leadership
}

func newLedger() *ledger {
	l := &ledger{}
	l.changed.L = &l.mu
	return l
}

func (l *ledger) Restore(index int64, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index, l.entries = index, nil
	for len(data) > 0 {
		n := int(binary.BigEndian.Uint32(data))
		l.entries = append(l.entries, string(data[4:4+n]))
		data = data[4+n:]
	}
	l.changed.Broadcast()
	return nil
}

func (l *ledger) Apply(index int64, data []byte, value any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index <= l.index {
		return fmt.Errorf("entry %d after %d", index, l.index)
	}
	if value != nil {
		if value != string(data) {
			return fmt.Errorf("entry %q came with the value of %q", data, value)
		}
		l.values++
	}
	l.index = index
	l.entries = append(l.entries, string(data))
	l.changed.Broadcast()
	return nil
}

func (l *ledger) Snapshot() func() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := slices.Clone(l.entries)
	return func() ([]byte, error) {
		var b []byte
		for _, e := range entries {
			b = binary.BigEndian.AppendUint32(b, uint32(len(e)))
			b = append(b, e...)
		}
		return b, nil
	}
}

func (l *ledger) Leadership(now Leadership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = now
	l.changed.Broadcast()
}

func (l *ledger) snapshot() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// await returns once ok says so of the ledger.
func (l *ledger) await(ok func(*ledger) bool) Leadership {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !ok(l) {
		l.changed.Wait()
	}
	return l.leader
}

func leads(l *ledger) bool { return l.leader.Claim != 0 }

// voter is a quorum that runs.
type voter struct {
	*Quorum
	*ledger
	stop func()
}

func run(t *testing.T, cfg Config) voter {
	t.Helper()
	l := newLedger()
	q, err := Open(context.Background(), cfg, l, zap.NewNop())
	if err != nil {
		t.Error(err) // maybe not on the test's goroutine
		return voter{ledger: l, stop: func() {}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	v := voter{Quorum: q, ledger: l}
	v.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, q.Close()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Cleanup(v.stop)
	return v
}

// runAll runs voters that may have to wait for each other.
func runAll(t *testing.T, cfgs []Config) []voter {
	t.Helper()
	voters := make([]voter, len(cfgs))
	var wg sync.WaitGroup
	for i, c := range cfgs {
		wg.Go(func() { voters[i] = run(t, c) })
	}
	wg.Wait()
	return voters
}

func alone(dir string) Config { return Config{ID: 3, Dir: dir, Voters: map[int32]string{3: ""}} }

// propose proposes entries under the present claim and returns a function that waits for their answers.
func (v voter) propose(entries ...string) func() error {
	claim := v.await(leads).Claim
	answers := make(chan error, len(entries))
	for _, e := range entries {
		v.Propose(Proposal{Claim: claim, Data: []byte(e), Value: e, Done: func(err error) { answers <- err }})
	}
	return func() error {
		var all error
		for range entries {
			all = errors.Join(all, <-answers)
		}
		return all
	}
}

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %d entries, want %d: %.200q against %.200q", len(got), len(want), got, want)
	}
}

func TestAnsweredProposalsSurviveRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "quorum")
	var want []string
	for round := range 3 {
		v := run(t, alone(dir))
		entries := numbered(fmt.Sprint("round ", round), 500)
		if err := v.propose(entries...)(); err != nil {
			t.Fatal(err)
		}
		want = append(want, entries...)
		equal(t, v.snapshot(), want)
		if v.values != len(entries) {
			t.Errorf("%d entries came with their value, want %d", v.values, len(entries))
		}
		v.stop()
	}
}

func TestClaimForetellsIndexes(t *testing.T) {
	v := run(t, alone(t.TempDir()))
	next := v.await(leads).Next
	if err := v.propose("a", "b")(); err != nil {
		t.Fatal(err)
	}
	if v.index != next+1 {
		t.Errorf("second proposal has index %d, want %d", v.index, next+1)
	}
	v.stop()
	v = run(t, alone(v.cfg.Dir))
	if again := v.await(leads).Next; again != next+3 { // raft's own entry between
		t.Errorf("next index %d after a restart, want %d", again, next+3)
	}
}

func TestProposalWithoutEntryWaitsForThoseBefore(t *testing.T) {
	v := run(t, alone(t.TempDir()))
	claim := v.await(leads).Claim
	var order []string
	var mu sync.Mutex
	done := make(chan struct{})
	note := func(what string) func(error) {
		return func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if order = append(order, what); len(order) == 5 {
				close(done)
			}
		}
	}
	for _, what := range []string{"", "one", "two", "", "three"} {
		p := Proposal{Claim: claim, Done: note(what)}
		if what != "" {
			p.Data = []byte(what)
		}
		v.Propose(p)
	}
	<-done
	equal(t, order, []string{"", "one", "two", "", "three"})
	equal(t, v.snapshot(), []string{"one", "two", "three"})
}

func TestAnotherClaimIsRefused(t *testing.T) {
	v := run(t, alone(t.TempDir()))
	claim := v.await(leads).Claim
	answer := make(chan error, 1)
	v.Propose(Proposal{Claim: claim + 1, Data: []byte("x"), Done: func(err error) { answer <- err }})
	if err := <-answer; !errors.Is(err, ErrNotLeader) {
		t.Errorf("got %v, want ErrNotLeader", err)
	}
	v.stop()
	v.Propose(Proposal{Claim: claim, Data: []byte("x"), Done: func(err error) { answer <- err }})
	if err := <-answer; !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

func TestSnapshotsBoundTheLog(t *testing.T) {
	for name, limit := range map[string]func(*Config){
		"by entries": func(c *Config) { c.SnapshotEntries = 100 },
		"by bytes":   func(c *Config) { c.SnapshotBytes = 256 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := alone(t.TempDir())
			limit(&cfg)
			v := run(t, cfg)
			var want []string
			filler := strings.Repeat(".", 8<<10)
			for i := range 30 {
				entries := numbered(fmt.Sprint(i, filler), 60)
				if err := v.propose(entries...)(); err != nil {
					t.Fatal(err)
				}
				want = append(want, entries...)
			}
			v.stop()
			v = run(t, cfg)
			v.await(leads)
			if err := v.propose("last")(); err != nil {
				t.Fatal(err)
			}
			equal(t, v.snapshot(), append(want, "last"))
			if index, data := v.Quorum.Snapshot(); index <= int64(firstIndex) || len(data) == 0 {
				t.Errorf("no snapshot was made: index %d", index)
			}
			if _, err := v.EntriesAfter(-1, 1<<20); !errors.Is(err, ErrCompacted) {
				t.Errorf("entries from the start: got %v, want ErrCompacted", err)
			}
			v.stop()
			if n := len(glob(t, cfg.Dir, "snap/*.snap")); n > keptSnapshots {
				t.Errorf("%d snapshots left", n)
			}
			if n := len(glob(t, cfg.Dir, "wal/*.wal")); n > 4 {
				t.Errorf("%d WAL files left", n)
			}
		})
	}
}

func TestUnreadableNewestSnapshotIsPassedOver(t *testing.T) {
	cfg := alone(t.TempDir())
	cfg.SnapshotEntries = 50
	v := run(t, cfg)
	want := numbered("e", 400)
	for part := range slices.Chunk(want, 40) {
		if err := v.propose(part...)(); err != nil {
			t.Fatal(err)
		}
	}
	v.stop()
	snaps := glob(t, cfg.Dir, "snap/*.snap")
	if len(snaps) != keptSnapshots {
		t.Fatalf("%d snapshots, want %d", len(snaps), keptSnapshots)
	}
	if err := os.Truncate(snaps[len(snaps)-1], 20); err != nil {
		t.Fatal(err)
	}
	v = run(t, cfg)
	if err := v.propose("last")(); err != nil {
		t.Fatal(err)
	}
	equal(t, v.snapshot(), append(want, "last"))
}

func TestEntriesAfter(t *testing.T) {
	v := run(t, alone(t.TempDir()))
	want := numbered("entry", 20)
	first := v.await(leads).Next
	if err := v.propose(want...)(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for at := int64(-1); ; {
		entries, err := v.EntriesAfter(at, 40)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			got, at = append(got, string(e.Data)), e.Index
		}
	}
	equal(t, got, want)
	entries, err := v.EntriesAfter(first+17, 1<<20)
	if err != nil || len(entries) != 2 || string(entries[0].Data) != "entry-18" {
		t.Errorf("after the third from last: %v, %v", entries, err)
	}
	if entries, err := v.EntriesAfter(first+1000, 1<<20); err != nil || len(entries) != 0 {
		t.Errorf("beyond the end: %v, %v", entries, err)
	}
}

func TestStatusAlone(t *testing.T) {
	v := run(t, alone(t.TempDir()))
	if err := v.propose("a", "b")(); err != nil {
		t.Fatal(err)
	}
	s, err := v.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := v.index + 1
	if s.Leader != 3 || s.HighWatermark != end || s.LogEnd != end || len(s.Voters) != 1 || s.Voters[0].ID != 3 || s.Voters[0].LogEnd != end || s.Voters[0].CaughtUp.IsZero() {
		t.Errorf("got %+v, want everything at %d", s, end)
	}
}

func TestOpenRefuses(t *testing.T) {
	cfg := alone(t.TempDir())
	v := run(t, cfg)
	if _, err := Open(t.Context(), cfg, newLedger(), zap.NewNop()); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a directory in use: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Open(ended, cfg, newLedger(), zap.NewNop()); !errors.Is(err, context.Canceled) {
		t.Errorf("a directory in use, told to stop: %v", err)
	}
	v.stop()
	other := cfg
	other.ID, other.Voters = 4, map[int32]string{4: ""}
	if _, err := Open(t.Context(), other, newLedger(), zap.NewNop()); err == nil || !strings.Contains(err.Error(), "node.id=3") {
		t.Errorf("another node's directory: %v", err)
	}
	other.Voters = map[int32]string{1: ""}
	if _, err := Open(t.Context(), other, newLedger(), zap.NewNop()); err == nil {
		t.Error("a node that is no voter was opened")
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestTornTail reopens the disk as a crash might leave it in the middle of a write: everything answered before is
// there, and what was being written is there whole or not at all.
func TestTornTail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "quorum")
	v := run(t, alone(dir))
	answered := numbered("answered", 40)
	if err := v.propose(answered...)(); err != nil {
		t.Fatal(err)
	}
	before := walEnd(t, dir)
	torn := strings.Repeat("being written ", 300)
	if err := v.propose(torn)(); err != nil {
		t.Fatal(err)
	}
	after := walEnd(t, dir)
	if after < before+4000 {
		t.Fatalf("the WAL grew from %d to %d", before, after)
	}
	image := t.TempDir() // the process image is killed: nothing is closed
	if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	v.stop()

	step := int64(211)
	if testing.Short() {
		step = 1013
	}
	for cut := before; cut <= after; cut += step {
		for name, tear := range map[string]func([]byte) []byte{
			"cut off": func(b []byte) []byte { return b[:cut] },
			// A disk writes sectors whole, and those of one write in any order.
			"sectors from here on missing": func(b []byte) []byte { clear(b[(cut+511)/512*512:]); return b },
			"a sector missing": func(b []byte) []byte {
				if from := (cut + 511) / 512 * 512; from < after {
					clear(b[from : from+512])
				}
				return b
			},
		} {
			crashed := filepath.Join(t.TempDir(), "quorum")
			if err := os.CopyFS(crashed, os.DirFS(image)); err != nil {
				t.Fatal(err)
			}
			last := glob(t, crashed, "wal/*.wal")[0]
			b, err := os.ReadFile(last)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(last, tear(b), 0o600); err != nil {
				t.Fatal(err)
			}
			v := run(t, alone(crashed))
			if err := v.propose("after")(); err != nil {
				t.Fatalf("%s at %d: %v", name, cut, err)
			}
			got := v.snapshot()
			v.stop()
			if len(got) == len(answered)+2 && got[len(answered)] == torn {
				got = slices.Delete(got, len(answered), len(answered)+1)
			}
			equal(t, got, append(slices.Clone(answered), "after"))
			v = run(t, alone(crashed)) // and the repaired log is a log
			v.await(func(l *ledger) bool { return len(l.entries) > 0 && l.entries[len(l.entries)-1] == "after" })
			v.stop()
		}
	}
}

// walEnd is the position after the last record in the only WAL file; records are padded to 8 bytes.
func walEnd(t *testing.T, dir string) int64 {
	t.Helper()
	files := glob(t, dir, "wal/*.wal")
	if len(files) != 1 {
		t.Fatalf("%d WAL files", len(files))
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(bytes.TrimRight(b, "\x00"))+7) / 8 * 8
}

func TestBootstrapIsWholeOrNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "quorum")
	for _, leftover := range []string{"quorum.new/wal.tmp/0.tmp", "quorum.new/snap/x.snap", "quorum/snap/0000000000000001-0000000000000001.snap"} {
		path := filepath.Join(filepath.Dir(dir), leftover)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v := run(t, alone(dir))
	if err := v.propose("a")(); err != nil {
		t.Fatal(err)
	}
	equal(t, v.snapshot(), []string{"a"})
}

func BenchmarkPropose(b *testing.B) {
	l := newLedger()
	q, err := Open(b.Context(), alone(b.TempDir()), l, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	claim := l.await(leads).Claim
	data := make([]byte, 100)
	for _, window := range []int{1, 256} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			slots := make(chan struct{}, window)
			for b.Loop() {
				slots <- struct{}{}
				q.Propose(Proposal{Claim: claim, Data: data, Done: func(error) { <-slots }})
			}
			for range window {
				slots <- struct{}{}
			}
		})
	}
	cancel()
	if err := errors.Join(<-ended, q.Close()); err != nil {
		b.Fatal(err)
	}
}
