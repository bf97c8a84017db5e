// Package program runs clients in other languages: programs that read commands from stdin, one a line, and answer each with
// one line on stdout, "ok" with words behind it or "error" and a message.
package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Program is one running program. It carries out one command at a time.
type Program struct {
	name string

	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr Tail
}

// Refusal is the answer "error" to a command.
type Refusal struct {
	Program, Command, Message string
	// Logged is the end of what the program wrote to stderr.
	Logged string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s, %q: %s\n%s", r.Program, r.Command, r.Message, r.Logged)
}

// Start starts a program; the name is for messages.
func Start(name, program string, args ...string) (*Program, error) {
	p := &Program{name: name, cmd: exec.Command(program, args...)}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Tell sends one command without waiting for its answer: what follows can only be Kill.
func (p *Program) Tell(words ...string) error {
	if _, err := io.WriteString(p.stdin, strings.Join(words, " ")+"\n"); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, err, p.stderr.String())
	}
	return nil
}

// Call sends one command, and returns the words behind "ok" or a *Refusal. When ctx ends first, the program is killed.
func (p *Program) Call(ctx context.Context, words ...string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Tell(words...); err != nil {
		return nil, err
	}
	command := strings.Join(words, " ")
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s, %q: no answer: %w\n%s", p.name, command, errors.Join(err, ctx.Err()), p.stderr.String())
	}
	verdict, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if verdict != "ok" {
		return nil, &Refusal{Program: p.name, Command: command, Message: rest, Logged: p.stderr.String()}
	}
	return strings.Fields(rest), nil
}

// Close ends the program by the end of its stdin, and waits for it.
func (p *Program) Close() error {
	if err := p.stdin.Close(); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s ended: %w\n%s", p.name, err, p.stderr.String())
	}
	return nil
}

// Kill ends the program by SIGKILL, and waits for it. A second call does nothing.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended already
	_ = p.cmd.Wait()
}

// Tail keeps the end of what is written to it.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4000

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-tailBytes):]
	return len(p), nil
}

// String is that end.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.Clone(t.buf))
}
