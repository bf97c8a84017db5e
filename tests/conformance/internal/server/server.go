// Package server gives the conformance suite the server it talks to: one given by the environment, a Cauce it starts,
// or an Apache Kafka it starts (to check the suite itself and to record what Kafka does).
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// startTimeout bounds how long a server may take until it serves, stopTimeout until it ended on SIGTERM, and dumpTimeout, if it does not
// end, until it has said on SIGQUIT what its threads do.
const (
	startTimeout = 90 * time.Second
	stopTimeout  = 30 * time.Second
	dumpTimeout  = 3 * time.Second
)

// What is shown of what a server wrote: its end, and what holds all of its threads.
const (
	endBytes  = 4000
	dumpBytes = 256 << 10
)

// Server is one running server.
type Server struct {
	// Bootstrap is the HOST:PORT of its Kafka listener.
	Bootstrap string
	// LogDir is the folder with its partition folders, "" when unknown.
	LogDir string
	// Connect is the URL of a Connect worker's REST interface.
	Connect string
	// Kafka tells whether it is Apache Kafka.
	Kafka bool

	cmd     *exec.Cmd
	exited  chan struct{} // closed once the process has ended with exitErr
	exitErr error
	stderr  string // path of the file that holds what it logged
	remove  string // folder to remove once stopped
}

// Options say how to start a server of one's own.
type Options struct {
	// DataDir is kept after the server stopped; "" is a temporary folder that is removed.
	DataDir string
	// Set holds server properties as key=value.
	Set []string
}

// ForTests returns the server that the environment asks for:
//
//	CAUCE_BOOTSTRAP=HOST:PORT           one that runs already; CAUCE_CONFORMANCE_LOG_DIR names its log folder
//	CAUCE_CONFORMANCE_SERVER=kafka      Apache Kafka, started here from the jars of the pom among the clients
//	otherwise                           bin/cauce dev (CAUCE_BIN names another binary), built when it is missing
func ForTests(ctx context.Context, root string) (*Server, error) {
	if bootstrap := os.Getenv("CAUCE_BOOTSTRAP"); bootstrap != "" {
		return &Server{Bootstrap: bootstrap, LogDir: os.Getenv("CAUCE_CONFORMANCE_LOG_DIR")}, nil
	}
	java, err := ClientDir(root, "java")
	if err != nil {
		return nil, err
	}
	return Start(ctx, root, java, os.Getenv("CAUCE_CONFORMANCE_SERVER") == "kafka", Options{})
}

// Start starts Apache Kafka or Cauce.
func Start(ctx context.Context, root, javaDir string, kafka bool, o Options) (*Server, error) {
	if kafka {
		return StartKafka(ctx, javaDir, o)
	}
	return StartCauce(ctx, root, o)
}

// Binary returns the path of bin/cauce below the project's root, building it when it is missing.
func Binary(ctx context.Context, root string) (string, error) {
	if path := os.Getenv("CAUCE_BIN"); path != "" {
		return filepath.Abs(path)
	}
	path, err := filepath.Abs(filepath.Join(root, "bin", "cauce"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	out, err := exec.CommandContext(ctx, "make", "-C", root, "build").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return path, nil
}

// StartCauce starts `cauce dev` and returns once it serves.
func StartCauce(ctx context.Context, root string, o Options) (*Server, error) {
	bin, err := Binary(ctx, root)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	if err := s.prepare(&o); err != nil {
		return nil, err
	}
	args := []string{"dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", o.DataDir}
	for _, kv := range o.Set {
		args = append(args, "--set", kv)
	}
	s.cmd = exec.Command(bin, args...)
	s.cmd.Env = environment()
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		ready <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	select {
	case line := <-ready:
		for field := range strings.FieldsSeq(line) {
			if v, ok := strings.CutPrefix(field, "bootstrap="); ok {
				s.Bootstrap = v
			}
		}
	case <-time.After(startTimeout):
	}
	if s.Bootstrap == "" {
		err := fmt.Errorf("%s did not print its ready line\n%s", strings.Join(s.cmd.Args, " "), s.Logged())
		return nil, errors.Join(err, s.Kill())
	}
	logDir := exec.CommandContext(ctx, bin, "log", "dir", "--data-dir", o.DataDir)
	logDir.Env = environment()
	dir, err := logDir.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cauce log dir: %w", err), s.Kill())
	}
	s.LogDir = strings.TrimSpace(string(dir))
	return s, nil
}

// environment is this process's without the variables that Cauce would take for configuration, the suite's own included.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CAUCE_") })
}

// prepare makes the data folder and the file that takes stderr.
func (s *Server) prepare(o *Options) error {
	if o.DataDir == "" {
		dir, err := os.MkdirTemp("", "cauce-conformance-")
		if err != nil {
			return err
		}
		o.DataDir, s.remove = dir, dir
	}
	if err := os.MkdirAll(o.DataDir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp("", "cauce-conformance-*.log")
	if err != nil {
		return err
	}
	s.stderr = f.Name()
	return f.Close()
}

func (s *Server) start() error {
	f, err := os.OpenFile(s.stderr, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	s.cmd.Stderr = f
	if s.cmd.Stdout == nil {
		s.cmd.Stdout = f // where a JVM says what its threads do
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(s.cmd.Path), err)
	}
	s.exited = make(chan struct{})
	go func() {
		s.exitErr = s.cmd.Wait()
		close(s.exited)
	}()
	return nil
}

// Logged returns the end of what the server wrote to stderr.
func (s *Server) Logged() string { return s.logged(endBytes) }

func (s *Server) logged(maxBytes int) string {
	data, err := os.ReadFile(s.stderr)
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-maxBytes):])
}

// threads is what a JVM wrote without what it says of threads that run no code of Kafka's, most of a dump.
func threads(text string) string {
	before, dump, found := strings.Cut(text, "\nFull thread dump")
	if !found {
		return text
	}
	of := slices.DeleteFunc(strings.Split(dump, "\n\n"), func(thread string) bool { return !strings.Contains(thread, "org.apache.kafka") })
	return before[max(0, len(before)-endBytes):] + "\n" + strings.Join(of, "\n\n")
}

// Stop ends a server that this package started with SIGTERM and waits for it. A Cauce must exit with 0. The data
// folder is removed if it was a temporary one.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends a server that this package started with SIGKILL and waits for it.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	defer func() {
		_ = os.Remove(s.stderr)
		if s.remove != "" {
			_ = os.RemoveAll(s.remove)
		}
	}()
	_ = s.cmd.Process.Signal(sig) // an error says that it has ended already
	select {
	case <-s.exited:
		if s.exitErr != nil && sig == syscall.SIGTERM && !s.Kafka {
			return fmt.Errorf("after SIGTERM: %w\n%s", s.exitErr, s.Logged())
		}
		return nil
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-s.exited:
		case <-time.After(dumpTimeout):
		}
		_ = s.cmd.Process.Kill()
		<-s.exited
		said := threads(s.logged(dumpBytes))
		if s.Kafka && lostHook(said) {
			fmt.Fprintf(os.Stderr, "killed %v after %v: a worker of Kafka's whose shutdown waits for a web server that is gone\n", stopTimeout, sig)
			return nil
		}
		return fmt.Errorf("still running %v after %v\n%s", stopTimeout, sig, said)
	}
}

// lostHook says of Kafka's threads whether they are those of a Connect worker (4.3.1) that never ends: its shutdown hook waits for its web server's threads, and a
// hook of the web server's own, which runs at the same time, has stopped and destroyed them in between. That happens once in some fifty stops on a busy machine.
// Where a thread of the web server's is in code of Kafka's, the hook waits for that request instead, and whoever does not answer it is at fault.
func lostHook(threads string) bool {
	return strings.Contains(threads, "org.eclipse.jetty.server.Server.join(") && !strings.Contains("\n"+threads, "\n\"qtp")
}
