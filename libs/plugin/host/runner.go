package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// outputGrace is how long the output of a process that has ended is still read: something it left behind may hold the
// other end forever.
const outputGrace = time.Second

// runner is one operating system process, as go-plugin wants to have it. go-plugin gets its standard output, on which the
// process says where it listens; standard error is ours; standard input is a pipe that ends with the host.
type runner struct {
	cmd    *exec.Cmd
	stderr io.WriteCloser

	stdin             *os.File      // our end
	stdout, stderrOut *os.File      // our ends
	started           chan struct{} // closed when there is a process
	copied            chan struct{}
	exited            chan struct{} // closed when the process has ended and everything it wrote was taken
	status            error         // how it ended; valid when exited is closed

	mu     sync.Mutex
	killed bool
	reason string // why the host has killed it
}

func newRunner(cmd *exec.Cmd, stderr io.WriteCloser) *runner {
	return &runner{cmd: cmd, stderr: stderr, started: make(chan struct{}), copied: make(chan struct{}), exited: make(chan struct{})}
}

// Start starts the process in a group of its own.
func (r *runner) Start(context.Context) error {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	pipe := func() (read, write *os.File, err error) {
		if read, write, err = os.Pipe(); err != nil {
			err = fmt.Errorf("starting %s: %w", r.Name(), err)
		}
		return read, write, err
	}
	in, stdin, err := pipe()
	if err != nil {
		return err
	}
	theirs, r.stdin = append(theirs, in), stdin
	stdout, out, err := pipe()
	if err != nil {
		return errors.Join(err, r.closePipes())
	}
	theirs, r.stdout = append(theirs, out), stdout
	stderr, errs, err := pipe()
	if err != nil {
		return errors.Join(err, r.closePipes())
	}
	theirs, r.stderrOut = append(theirs, errs), stderr
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = in, out, errs
	r.cmd.SysProcAttr = processAttributes()
	if err := r.cmd.Start(); err != nil {
		return errors.Join(err, r.closePipes())
	}
	go r.copyStderr()
	go r.wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.started)
	if r.killed {
		r.signalGroup()
	}
	return nil
}

func (r *runner) closePipes() error {
	var errs []error
	for _, f := range []*os.File{r.stdin, r.stdout, r.stderrOut} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func (r *runner) copyStderr() {
	defer close(r.copied)
	_, _ = io.Copy(r.stderr, r.stderrOut) // ends at the deadline that wait sets, at the latest
	_ = r.stderr.Close()
}

func (r *runner) wait() {
	r.status = r.cmd.Wait()
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // what it left behind in its group
	end := time.Now().Add(outputGrace)
	_ = r.stdout.SetReadDeadline(end)
	_ = r.stderrOut.SetReadDeadline(end)
	_ = r.stdin.Close()
	<-r.copied
	_ = r.stderrOut.Close()
	close(r.exited)
}

// kill ends the process and its group at once, or as soon as there is one. The first reason that is not empty is the one
// that is told.
func (r *runner) kill(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.reason == "" && !r.ended() {
		r.reason = reason
	}
	select {
	case <-r.started:
		r.signalGroup()
	default:
	}
}

// ended says whether the process has ended.
func (r *runner) ended() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

func (r *runner) signalGroup() {
	if !r.ended() {
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// ending says how the process ended; exited must be closed.
func (r *runner) ending() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.reason != "":
		return "killed: " + r.reason
	case r.status != nil:
		return r.status.Error()
	}
	return "exit status 0"
}

// residentBytes is the memory that the process has now, 0 when it cannot be known.
func (r *runner) residentBytes() int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(r.cmd.Process.Pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Wait waits for the end of the process.
func (r *runner) Wait(context.Context) error {
	<-r.exited
	_ = r.stdout.Close()
	return r.status
}

// Kill is how go-plugin ends a process whose handshake fails, or that does not end when it is asked to.
func (r *runner) Kill(context.Context) error {
	r.kill("")
	return nil
}

// Stdout is where the process says where it listens.
func (r *runner) Stdout() io.ReadCloser { return r.stdout }

// Stderr is empty for go-plugin, whose parsing of log lines trusts them.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the file.
func (r *runner) Name() string { return r.cmd.Path }

// ID is the process id.
func (r *runner) ID() string {
	select {
	case <-r.started:
		return strconv.Itoa(r.cmd.Process.Pid)
	default:
		return ""
	}
}

// Diagnose has nothing to add: what the process wrote is in the log.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost changes nothing: both see the same files.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin changes nothing either.
func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
