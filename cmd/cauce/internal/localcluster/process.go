package localcluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// State of a node's process.
type State string

// The states of a process.
const (
	Running State = "running"
	Paused  State = "paused"  // by SIGSTOP
	Stopped State = "stopped" // there is none
)

// process identifies a process beyond its pid, which the system gives to another one some day.
type process struct {
	pid     int
	started uint64 // what look says, the same for as long as the process lives
}

// Process tells what became of a node's process. The pid is 0 when it is stopped.
func (c *Cluster) Process(n Node) (State, int, error) {
	text, err := os.ReadFile(c.pidFile(n))
	if errors.Is(err, fs.ErrNotExist) {
		return Stopped, 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	p, err := parseProcess(text)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", c.pidFile(n), err)
	}
	if state := p.state(); state != Stopped {
		return state, p.pid, nil
	}
	return Stopped, 0, nil
}

func (c *Cluster) pidFile(n Node) string { return filepath.Join(c.folder(n), "pid") }

func parseProcess(text []byte) (process, error) {
	var p process
	if len(text) == 0 { // a start that got no further
		return p, nil
	}
	if n, err := fmt.Sscan(string(text), &p.pid, &p.started); n != 2 || err != nil || p.pid <= 0 {
		return p, fmt.Errorf("%q names no process", text)
	}
	return p, nil
}

func (p process) state() State {
	if p.pid == 0 {
		return Stopped
	}
	state, started := look(p.pid)
	if started != p.started {
		return Stopped
	}
	return state
}

// launch starts a node's process and leaves it to itself. It is no error that it runs already.
func (c *Cluster) launch(n Node) (err error) {
	file, err := os.OpenFile(c.pidFile(n), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Of two commands that start a node at a time, one finds what the other has started.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("%s: %w", c.pidFile(n), err)
	}
	if state, _, err := c.Process(n); err != nil || state != Stopped {
		return err
	}
	p, err := c.spawn(n)
	if err != nil {
		return fmt.Errorf("node %d: %w", n.ID, err)
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(fmt.Appendf(nil, "%d %d\n", p.pid, p.started), 0)
	return err
}

func (c *Cluster) spawn(n Node) (process, error) {
	log, err := os.OpenFile(c.LogFile(n), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	line := []string{filepath.Join(c.programs, "cauce-"+n.Role), "--config", filepath.Join(c.folder(n), "node.properties")}
	if w := c.plan.Network; w != nil { // ip becomes the program, under the same pid
		line = append([]string{"ip", "netns", "exec", w.namespace(n.ID)}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = c.folder(n)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	p := process{pid: cmd.Process.Pid}
	_, p.started = look(p.pid)
	return p, cmd.Process.Release()
}

// environment is this process's without the keys that would hold for each node alike.
func environment() []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "CAUCE_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

// signal sends sig to a node's process, which must be there.
func (c *Cluster) signal(n Node, sig syscall.Signal) error {
	state, pid, err := c.Process(n)
	if err != nil {
		return err
	}
	if state == Stopped {
		return fmt.Errorf("node %d does not run", n.ID)
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("node %d, process %d: %w", n.ID, pid, err)
	}
	return nil
}

// lastLines is the end of a node's log, for an error to show.
func (c *Cluster) lastLines(n Node) string {
	const lines, bytesAtMost = 5, 4 << 10
	text, err := os.ReadFile(c.LogFile(n))
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text[max(0, len(text)-bytesAtMost):])
	all := bytes.Split(text, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
