package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// Driver is a client in another language behind a program that reads commands from stdin, one a line, and answers
// each with one line on stdout: "ok", with "COUNT:SHA256" for every partition after reading, or "error" and a message.
type Driver struct {
	name   string
	writes workload.Shape

	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr tail
}

// NewDriver starts a driver program. The shape is what the client cannot write; every driver reads everything.
func NewDriver(name string, writes workload.Shape, program string, args ...string) (*Driver, error) {
	d := &Driver{name: name, writes: writes, cmd: exec.Command(program, args...)}
	d.cmd.Stderr = &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if d.stdin, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.stdout = bufio.NewReader(stdout)
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s driver: %w", name, err)
	}
	return d, nil
}

func (d *Driver) Name() string           { return d.name }
func (d *Driver) Codecs() []string       { return Codecs }
func (d *Driver) Writes() workload.Shape { return d.writes }
func (d *Driver) Reads() workload.Shape  { return workload.Shape{} }

func (d *Driver) CreateTopic(ctx context.Context, topic string, partitions int) error {
	_, err := d.call(ctx, "create", topic, strconv.Itoa(partitions))
	return err
}

func (d *Driver) Produce(ctx context.Context, j Job) error {
	_, err := d.call(ctx, "produce", j.Topic, strconv.Itoa(j.Partitions), strconv.Itoa(j.Records), j.Codec, j.Acks)
	return err
}

func (d *Driver) Consume(ctx context.Context, j Job) ([]workload.PartitionDigest, error) {
	fields, err := d.call(ctx, "consume", j.Topic, strconv.Itoa(j.Partitions), strconv.Itoa(j.Records))
	if err != nil {
		return nil, err
	}
	out := make([]workload.PartitionDigest, len(fields))
	for i, f := range fields {
		count, sum, _ := strings.Cut(f, ":")
		if out[i].Records, err = strconv.Atoi(count); err != nil {
			return nil, fmt.Errorf("%s driver answered %q", d.name, f)
		}
		out[i].SHA256 = sum
	}
	return out, nil
}

// call sends one command and waits for its answer; when ctx ends first, the driver is killed.
func (d *Driver) call(ctx context.Context, words ...string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	command := strings.Join(words, " ")
	if _, err := io.WriteString(d.stdin, command+"\n"); err != nil {
		return nil, fmt.Errorf("%s driver: %w\n%s", d.name, err, d.stderr.String())
	}
	stop := context.AfterFunc(ctx, func() { _ = d.cmd.Process.Kill() })
	defer stop()
	line, err := d.stdout.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s driver, %q: no answer: %w\n%s", d.name, command, errors.Join(err, ctx.Err()), d.stderr.String())
	}
	verdict, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if verdict != "ok" {
		return nil, fmt.Errorf("%s, %q: %s\n%s", d.name, command, rest, d.stderr.String())
	}
	return strings.Fields(rest), nil
}

func (d *Driver) Close() error {
	if err := d.stdin.Close(); err != nil {
		return err
	}
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("%s driver ended: %w\n%s", d.name, err, d.stderr.String())
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-tailBytes):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.Clone(t.buf))
}
