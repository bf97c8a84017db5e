package group

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"
)

// owned are the member's partitions. The caller holds the group's mu.
func (m *Member) owned() []int32 {
	var out []int32
	for p, owner := range m.group.owner {
		if owner == m.name {
			out = append(out, p)
		}
	}
	return out
}

// Name is what the member's lines begin with.
func (m *Member) Name() string { return m.name }

// Owned are the partitions that are the member's own, sorted.
func (m *Member) Owned() []int32 {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return slices.Sorted(slices.Values(m.owned()))
}

// Rebalances is how often partitions were assigned to the member or taken from it.
func (m *Member) Rebalances() int {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.rebalances
}

// Revoked are the partitions that the member gave up or lost, in that order.
func (m *Member) Revoked() []int32 {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return slices.Clone(m.revoked)
}

// First is the first offset that the member read of each partition.
func (m *Member) First() map[int32]int64 {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return maps.Clone(m.first)
}

// Commit lets the member commit whatever it has read.
func (m *Member) Commit(ctx context.Context) error { return m.do(ctx, "commit") }

// Seek lets the member read a partition from an offset.
func (m *Member) Seek(ctx context.Context, partition int32, offset int64) error {
	return m.do(ctx, fmt.Sprintf("seek %d %d", partition, offset))
}

func (m *Member) do(ctx context.Context, command string) error {
	m.group.mu.Lock()
	want := m.done + 1
	m.group.mu.Unlock()
	if _, err := io.WriteString(m.stdin, command+"\n"); err != nil {
		return fmt.Errorf("tell %s to %s: %w", m.name, command, err)
	}
	return m.group.await(ctx, m.name+"'s answer to "+command, func() bool { return m.done >= want })
}

// Leave lets the member leave the group and waits for the end of its process.
func (m *Member) Leave(ctx context.Context) error {
	if _, err := io.WriteString(m.stdin, "leave\n"); err != nil {
		return fmt.Errorf("tell %s to leave: %w", m.name, err)
	}
	err := m.group.await(ctx, m.name+"'s leave", func() bool { return m.left })
	if err == nil {
		_ = m.cmd.Wait()
	}
	return err
}

// Kill ends the member's process by SIGKILL. What it owned is nobody's from then on.
func (m *Member) Kill(ctx context.Context) error {
	m.end()
	// By way of the pipe, behind whatever the member itself still said.
	if _, err := m.group.write.WriteString(m.name + " dead\n"); err != nil {
		return err
	}
	return m.group.await(ctx, m.name+"'s end", func() bool { return m.left })
}

// end kills the member's processes, if they are still there, and waits for it.
func (m *Member) end() {
	if m.cmd.Process != nil && m.cmd.ProcessState == nil {
		_ = syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL) // an error says that they have ended already
		_ = m.cmd.Wait()
	}
	_ = m.stderr.Close()
	_ = os.Remove(m.stderr.Name())
}
