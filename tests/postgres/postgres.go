//go:build linux

// Package postgres runs a PostgreSQL server of its own for tests: in a folder of its own, on a port of its own, as a process
// that may be killed and started again.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// debianFolder is where Debian has the programs of each version.
const debianFolder = "/usr/lib/postgresql"

// Guarded is the user that needs a password, once there is one of that name.
const Guarded = "guarded"

// readyLimit bounds how long the server takes to answer.
const readyLimit = 30 * time.Second

// Server is a PostgreSQL server. Its methods are for one goroutine.
type Server struct {
	folder   string // of its data
	programs string
	owner    *syscall.Credential // nil for the user of the tests
	port     int
	process  *exec.Cmd // nil while it does not run
	ended    chan error
	log      *os.File
}

// New makes a database in a new folder, and starts a server for it. Where PostgreSQL is missing it is installed by apt-get.
func New(ctx context.Context) (s *Server, err error) {
	s = &Server{}
	if s.programs, err = findPrograms(ctx); err != nil {
		return nil, err
	}
	if s.folder, err = os.MkdirTemp("", "cauce-postgres-"); err != nil {
		return nil, err
	}
	if err = s.prepare(ctx); err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// findPrograms returns the folder of the programs of the newest version.
func findPrograms(ctx context.Context) (string, error) {
	find := func() string {
		if path, err := exec.LookPath("initdb"); err == nil {
			return filepath.Dir(path)
		}
		found, _ := filepath.Glob(debianFolder + "/*/bin/initdb") // the pattern is in order
		slices.SortFunc(found, func(a, b string) int { return versionOf(a) - versionOf(b) })
		if len(found) == 0 {
			return ""
		}
		return filepath.Dir(found[len(found)-1])
	}
	if folder := find(); folder != "" {
		return folder, nil
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "postgresql"}} {
		install := exec.CommandContext(ctx, "apt-get", args...)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := install.CombinedOutput(); err != nil {
			return "", fmt.Errorf("PostgreSQL is missing, and apt-get %v: %w\n%s", args, err, out)
		}
	}
	if folder := find(); folder != "" {
		return folder, nil
	}
	return "", errors.New("there is no initdb after PostgreSQL was installed")
}

func versionOf(initdb string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	if err != nil {
		return 0
	}
	return n
}

// prepare makes the database, as a user that is not root: PostgreSQL refuses that one.
func (s *Server) prepare(ctx context.Context) error {
	if os.Geteuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("root needs a user to run PostgreSQL as: %w", err)
		}
		uid, err := strconv.Atoi(owner.Uid)
		if err != nil {
			return err
		}
		gid, err := strconv.Atoi(owner.Gid)
		if err != nil {
			return err
		}
		s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.folder, uid, gid); err != nil {
			return err
		}
	}
	initdb := s.command(ctx, "initdb", "--pgdata", s.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// The first rule that fits counts.
	rules := filepath.Join(s.data(), "pg_hba.conf")
	text, err := os.ReadFile(rules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(rules, append([]byte("host all "+Guarded+" 127.0.0.1/32 scram-sha-256\n"), text...), 0o600); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	return listener.Close()
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.programs, program), args...)
	c.Dir = s.folder
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return c
}

// URL is where its first database is, for a user that needs no password.
func (s *Server) URL() string { return s.Database("postgres") }

// Database is where one of its databases is.
func (s *Server) Database(name string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, name)
}

// Start starts it and returns when it answers.
func (s *Server) Start(ctx context.Context) error {
	var err error
	if s.log == nil {
		if s.log, err = os.CreateTemp(s.folder, "log-"); err != nil {
			return err
		}
	}
	// It outlives the context that it is started with. A crash must lose nothing, so it syncs as it does by default.
	s.process = s.command(context.Background(), "postgres", "-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.folder, "-c", "listen_addresses=127.0.0.1")
	s.process.Stdout, s.process.Stderr = s.log, s.log
	s.process.SysProcAttr.Pdeathsig = syscall.SIGINT // tests that are killed leave nothing
	process, started, ended := s.process, make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the death of a thread counts as that of the process
		defer runtime.UnlockOSThread()
		err := process.Start()
		started <- err
		if err == nil {
			ended <- process.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.process = nil
		return err
	}
	s.ended = ended
	return s.awaitReady(ctx)
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := pgconn.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case ended := <-s.ended:
			s.process = nil
			return fmt.Errorf("the server has ended: %v\n%s", ended, s.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w\n%s", err, s.lastLines())
		case <-ticker.C:
		}
	}
}

func (s *Server) lastLines() []byte {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(text, []byte("\n"))
	return bytes.Join(lines[max(len(lines)-20, 0):], []byte("\n"))
}

// Stop has it end its connections and write everything down.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends it as a crash of the machine does, but for what the system has not written yet.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Restart stops it and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	return errors.Join(s.Stop(), s.Start(ctx))
}

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	pid := s.process.Process.Pid
	var children []int
	if signal == syscall.SIGKILL {
		var err error
		if children, err = killChildren(pid); err != nil {
			return err
		}
	}
	err := syscall.Kill(pid, signal)
	<-s.ended // that a signal has ended it is no error
	s.process = nil
	awaitEnd(children)
	return err
}

// killChildren kills the processes of connections and the like, which are sessions of their own. The server is stopped before,
// so that none is added.
func killChildren(pid int) (children []int, err error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	for _, field := range bytes.Fields(text) {
		child, err := strconv.Atoi(string(field))
		if err != nil {
			return nil, err
		}
		_ = syscall.Kill(child, syscall.SIGKILL) // one that has ended is none
		children = append(children, child)
	}
	return children, nil
}

// awaitEnd returns when processes that were killed hold nothing any more: the server does not start while they have its memory.
func awaitEnd(pids []int) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for _, pid := range pids {
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			// pid (name) state …, where Z is one that nobody has asked about yet.
			if err != nil || bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z")) {
				break
			}
			<-ticker.C
		}
	}
}

// Close kills it and removes its folder.
func (s *Server) Close() error {
	err := s.Kill()
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}
