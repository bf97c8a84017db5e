// Package group runs the members of a consumer group, each a process of its own, and follows who owns which partition and
// who has read what. internal/member says how members speak.
package group

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cauce-stream/cauce/tests/conformance/internal/member"
)

// Group is the members of one group that reads one topic. All of them write into one pipe, so what they tell is seen in
// the order in which it happened, as long as it is told before the coordinator can hear of it. Members whose lines another
// process translates tell late: of a partition that the next owner has already, the one before has to tell later that it gave it up.
type Group struct {
	late  bool
	write *os.File
	ended chan struct{} // closed when the pipe was read to its end

	mu      sync.Mutex
	members map[string]*Member
	owner   map[int32]string
	owed    map[owed]bool           // of members that tell late
	read    map[int32]map[int64]int // how often each offset of each partition was read
	faults  []string
	changed chan struct{} // closed and replaced with every change
}

// owed is a partition that another member has, and of which this one has not told yet that it gave it up.
type owed struct {
	partition int32
	member    string
}

// Member is one process of the group. Its fields that the pipe changes are guarded by the group.
type Member struct {
	group  *Group
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *os.File

	rebalances int             // lines "assigned", "revoked" or "lost" that name partitions
	revoked    []int32         // all partitions it ever gave up
	first      map[int32]int64 // the first offset it read of each partition
	done       int             // commands that were answered
	left       bool
}

// New returns a group without members; late says whether they tell late.
func New(late bool) (*Group, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g := &Group{
		late: late, owed: map[owed]bool{}, write: w, ended: make(chan struct{}), members: map[string]*Member{},
		owner: map[int32]string{}, read: map[int32]map[int64]int{}, changed: make(chan struct{}),
	}
	go g.follow(r)
	return g, nil
}

// Start starts a member's process.
func (g *Group) Start(spec member.Spec, env []string, program string, args ...string) (*Member, error) {
	stderr, err := os.CreateTemp("", "cauce-member-*.log")
	if err != nil {
		return nil, err
	}
	m := &Member{group: g, name: spec.Name, stderr: stderr, first: map[int32]int64{}}
	m.cmd = exec.Command(program, append(args, spec.Args()...)...)
	m.cmd.Env = append(os.Environ(), env...)
	m.cmd.Stdout, m.cmd.Stderr = g.write, stderr
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.members[m.name] = m
	g.mu.Unlock()
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start member %s: %w", m.name, err)
	}
	return m, nil
}

// Close kills the members that are still there and returns what went wrong while the group ran.
func (g *Group) Close() error {
	for _, m := range g.members {
		m.end()
	}
	_ = g.write.Close()
	<-g.ended
	g.mu.Lock()
	defer g.mu.Unlock()
	for o := range g.owed {
		g.faults = append(g.faults, fmt.Sprintf("partition %d was assigned to another, and %s never gave it up", o.partition, o.member))
	}
	if len(g.faults) > 0 {
		return fmt.Errorf("%s", strings.Join(g.faults, "\n"))
	}
	return nil
}

func (g *Group) follow(r *os.File) {
	defer close(g.ended)
	defer r.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		g.mu.Lock()
		if m := g.members[append(words, "")[0]]; m == nil || len(words) < 2 {
			g.faults = append(g.faults, fmt.Sprintf("a member said %q", lines.Text()))
		} else {
			g.take(m, words[1], words[2:])
		}
		close(g.changed)
		g.changed = make(chan struct{})
		g.mu.Unlock()
	}
}

// take follows one line of a member. The caller holds mu.
func (g *Group) take(m *Member, event string, words []string) {
	if event == "error" {
		g.faults = append(g.faults, m.name+": "+strings.Join(words, " "))
		return
	}
	numbers := make([]int64, len(words))
	for i, w := range words {
		var err error
		if numbers[i], err = strconv.ParseInt(w, 10, 64); err != nil {
			g.faults = append(g.faults, fmt.Sprintf("%s said %s %v", m.name, event, words))
			return
		}
	}
	switch event {
	case "assigned":
		g.assign(m, numbers)
	case "revoked", "lost":
		g.release(m, numbers)
	case "record":
		g.record(m, int32(numbers[0]), numbers[1])
	case "committed", "sought":
		m.done++
	case "left", "dead":
		m.left = true
		maps.DeleteFunc(g.owner, func(_ int32, owner string) bool { return owner == m.name })
		maps.DeleteFunc(g.owed, func(o owed, _ bool) bool { return o.member == m.name })
	default:
		g.faults = append(g.faults, fmt.Sprintf("%s said %s", m.name, event))
	}
}

func (g *Group) assign(m *Member, partitions []int64) {
	for _, p := range partitions {
		switch owner := g.owner[int32(p)]; {
		case owner == "" || owner == m.name:
		case g.late:
			g.owed[owed{int32(p), owner}] = true
		default:
			g.faults = append(g.faults, fmt.Sprintf("partition %d was assigned to %s while %s had it", p, m.name, owner))
		}
		g.owner[int32(p)] = m.name
	}
	if len(partitions) > 0 {
		m.rebalances++
	}
}

func (g *Group) release(m *Member, partitions []int64) {
	for _, p := range partitions {
		m.revoked = append(m.revoked, int32(p))
		if o := (owed{int32(p), m.name}); g.owed[o] {
			delete(g.owed, o)
		} else if g.owner[int32(p)] == m.name {
			delete(g.owner, int32(p))
		}
	}
	if len(partitions) > 0 {
		m.rebalances++
	}
}

func (g *Group) record(m *Member, partition int32, offset int64) {
	if g.read[partition] == nil {
		g.read[partition] = map[int64]int{}
	}
	g.read[partition][offset]++
	if _, ok := m.first[partition]; !ok {
		m.first[partition] = offset
	}
}

// await returns once the condition, which is asked with mu held, is true.
func (g *Group) await(ctx context.Context, what string, condition func() bool) error {
	for {
		g.mu.Lock()
		ok, changed, faults := condition(), g.changed, len(g.faults)
		g.mu.Unlock()
		switch {
		case faults > 0:
			return fmt.Errorf("%s did not come: %s\n%s", what, g.state(), g.logs())
		case ok:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s did not come: %s\n%s", what, g.state(), g.logs())
		}
	}
}

// AwaitOwners returns once the named members own all partitions, none fewer than each, and nobody else any.
func (g *Group) AwaitOwners(ctx context.Context, partitions, each int, members ...*Member) error {
	return g.await(ctx, fmt.Sprintf("%d partitions for each of %d members", each, len(members)), func() bool {
		for _, m := range members {
			if len(m.owned()) < each {
				return false
			}
		}
		return len(g.owner) == partitions && len(members)*each == partitions
	})
}

// AwaitRead returns once every record below an offset was read in every partition.
func (g *Group) AwaitRead(ctx context.Context, partitions int, end int64) error {
	return g.await(ctx, fmt.Sprintf("every record below %d", end), func() bool {
		for p := range int32(partitions) {
			if int64(len(g.read[p])) < end {
				return false
			}
		}
		return true
	})
}

// AwaitAgain returns once a record was read that many times.
func (g *Group) AwaitAgain(ctx context.Context, partition int32, offset int64, times int) error {
	return g.await(ctx, fmt.Sprintf("record %d of partition %d for the %dth time", offset, partition, times), func() bool {
		return g.read[partition][offset] >= times
	})
}

// Times says how often a record was read.
func (g *Group) Times(partition int32, offset int64) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.read[partition][offset]
}

func (g *Group) state() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	read := map[int32]int{}
	for p, offsets := range g.read {
		read[p] = len(offsets)
	}
	return fmt.Sprintf("owners %v, offsets read %v, faults %q", g.owner, read, g.faults)
}

// logs is the end of what each member wrote to stderr.
func (g *Group) logs() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		data, _ := os.ReadFile(g.members[name].stderr.Name()) // it may be gone with its member
		fmt.Fprintf(&out, "%s: %s\n", name, data[max(0, len(data)-1500):])
	}
	return out.String()
}
