package member

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
)

// kcat is a member that runs Debian's kcat, whose lines on stdout and stderr it translates. kcat commits by itself.
func kcat(ctx context.Context, s Spec, program string, commands <-chan command) error {
	args := []string{
		"-b", s.Bootstrap, "-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=200",
		"-X", "session.timeout.ms=" + strconv.Itoa(s.SessionMs), "-X", "heartbeat.interval.ms=" + strconv.Itoa(heartbeatMs),
		"-X", "partition.assignment.strategy=" + s.Strategy, "-u", "-f", "%p %o\\n",
	}
	if s.Instance != "-" {
		args = append(args, "-X", "group.instance.id="+s.Instance)
	}
	cmd := exec.CommandContext(ctx, program, append(args, "-G", s.Group, s.Topic)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read := make(chan error, 2)
	go func() { read <- kcatRecords(s.Name, stdout) }()
	go func() { read <- kcatEvents(s.Name, stderr) }()
	for c := range commands {
		if c.verb == "leave" {
			break
		}
		say(s.Name, "committed") // it does within auto.commit.interval.ms
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	return errors.Join(<-read, <-read, cmd.Wait())
}

func kcatRecords(name string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var partition int32
		var offset int64
		if _, err := fmt.Sscan(lines.Text(), &partition, &offset); err != nil {
			return fmt.Errorf("kcat printed %q: %w", lines.Text(), err)
		}
		sayRecord(name, partition, offset)
	}
	return lines.Err()
}

var (
	kcatRebalance = regexp.MustCompile(`rebalanced.*: (assigned|revoked): (.*)`)
	kcatPartition = regexp.MustCompile(`\[(\d+)\]`)
)

func kcatEvents(name string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		event := kcatRebalance.FindStringSubmatch(lines.Text())
		if event == nil {
			continue
		}
		var partitions []int32
		for _, p := range kcatPartition.FindAllStringSubmatch(event[2], -1) {
			n, err := strconv.ParseInt(p[1], 10, 32)
			if err != nil {
				return err
			}
			partitions = append(partitions, int32(n))
		}
		sayPartitions(name, event[1], partitions)
	}
	return lines.Err()
}
