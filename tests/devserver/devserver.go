// Package devserver runs the built cauce binary as a child process, for tests that need a real one: to kill it, to
// measure it, to point foreign clients at it.
package devserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startTimeout bounds how long a server may take to say that it is ready.
const startTimeout = 2 * time.Minute

// Options say how to start `cauce dev`.
type Options struct {
	DataDir string
	Listen  string   // HOST:PORT, "" for a free port on loopback
	Args    []string // further arguments
}

// Server is one run of `cauce dev`.
type Server struct {
	Bootstrap, Admin, DataDir string

	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has ended; waitErr is set by then
	err    error
	log    *tail
}

// Binary is the path of the binary under test: CAUCE_BINARY, or bin/cauce of this checkout.
func Binary() (string, error) {
	if path := os.Getenv("CAUCE_BINARY"); path != "" {
		return path, nil
	}
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "..", "bin", "cauce")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the binary under test is missing (make build): %w", err)
	}
	return path, nil
}

// Start runs the server and returns once it says that it is ready. The process ends with ctx at the latest.
func Start(ctx context.Context, o Options) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	args := append([]string{"dev", "--listen", o.Listen, "--admin", "127.0.0.1:0", "--data-dir", o.DataDir}, o.Args...)
	s := &Server{cmd: exec.CommandContext(ctx, binary, args...), exited: make(chan struct{}), log: &tail{}}
	s.cmd.Stderr = s.log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line := make(chan string, 1)
	go func() {
		defer close(s.exited)
		out := bufio.NewScanner(stdout)
		if out.Scan() {
			line <- out.Text()
		}
		for out.Scan() {
			fmt.Fprintln(s.log, "unexpected line on stdout:", out.Text())
		}
		s.err = s.cmd.Wait()
	}()
	select {
	case text := <-line:
		return s, s.parse(text)
	case <-s.exited:
		return nil, fmt.Errorf("cauce dev ended before it was ready: %w\n%s", s.err, s.Log())
	case <-time.After(startTimeout):
		s.Kill()
		return nil, fmt.Errorf("cauce dev was not ready within %v\n%s", startTimeout, s.Log())
	}
}

func (s *Server) parse(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "ready" {
		return fmt.Errorf("cauce dev printed %q, want the ready line", line)
	}
	for _, f := range fields[1:] {
		switch name, value, _ := strings.Cut(f, "="); name {
		case "bootstrap":
			s.Bootstrap = value
		case "admin":
			s.Admin = value
		case "data":
			s.DataDir = value
		}
	}
	if s.Bootstrap == "" || s.Admin == "" || s.DataDir == "" {
		return fmt.Errorf("the ready line %q lacks a field", line)
	}
	return nil
}

// PID is the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the process as a crash does (SIGKILL) and waits for it.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.exited
}

// Stop asks the process to end (SIGTERM) and returns its failure to do so cleanly.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
	case <-time.After(startTimeout):
		s.Kill()
		return fmt.Errorf("cauce dev did not end within %v of SIGTERM\n%s", startTimeout, s.Log())
	}
	if s.err != nil {
		return fmt.Errorf("cauce dev after SIGTERM: %w\n%s", s.err, s.Log())
	}
	return nil
}

// Log is the end of what the process wrote to stderr.
func (s *Server) Log() string { return s.log.String() }

// tail keeps the last tailBytes written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
