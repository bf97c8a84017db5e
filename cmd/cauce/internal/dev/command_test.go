package dev_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/process"
)

// asProgram makes the test binary behave as cauce.
const asProgram = "DEV_TEST_AS_PROGRAM"

// asPlugin makes it behave as a plugin, with an assignor in it.
const asPlugin = "DEV_TEST_AS_PLUGIN"

// first gives all partitions to the first member.
type first struct{}

func (first) Info() plugin.Info { return plugin.Info{Name: "first", Version: "1"} }

func (first) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	all := make(plugin.Response, len(r.Members))
	for i, t := range r.Topics {
		for p := range t.Partitions {
			all[0] = append(all[0], plugin.TopicPartitions{Topic: i, Partitions: []int32{p}})
		}
	}
	return all, nil
}

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		plugin.Serve(first{})
		return
	}
	if os.Getenv(asProgram) != "" {
		ctx, stop := process.SignalContext(context.Background())
		code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var readyLine = regexp.MustCompile(`^ready bootstrap=(127\.0\.0\.1:\d+) admin=(127\.0\.0\.1:\d+) data=(\S+)\n$`)

func TestProcess(t *testing.T) {
	t.Run("a given folder stays", func(t *testing.T) {
		dir := t.TempDir()
		data := runProcess(t, "--data-dir", dir)
		if data != dir {
			t.Errorf("data=%s, want %s", data, dir)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
			t.Errorf("the folder holds %v, %v", entries, err)
		}
	})
	t.Run("a temporary folder goes", func(t *testing.T) {
		data := runProcess(t)
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", data, err)
		}
	})
}

// runProcess starts cauce dev, has a client look at it, ends it by SIGTERM, and returns its data folder.
func runProcess(t *testing.T, args ...string) (data string) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable, append([]string{"dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var logs bytes.Buffer
	cmd.Stderr = &logs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(pipe)
	line, err := stdout.ReadString('\n')
	match := readyLine.FindStringSubmatch(line)
	if match == nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("the first line is %q (%v), logs:\n%s", line, err, logs.String())
	}
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"cluster", "describe", "-b", match[1]}, nil, &out, &errs); code != exit.OK {
		t.Errorf("cluster describe: exit %d: %s", code, errs.String())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(stdout)
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, logs:\n%s", err, logs.String())
	}
	if len(rest) > 0 {
		t.Errorf("more than one line on stdout: %q", rest)
	}
	return match[3]
}

func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--set", "num.partitons=3"}, "num.partitons"},
		{[]string{"--set", "num.partitions=none"}, "num.partitions"},
		{[]string{"--config", "missing.properties"}, "missing.properties"},
		{[]string{"--set", "log.dirs=/somewhere"}, "metadata.log.dir"},
		{[]string{"extra"}, "extra"},
		{[]string{"--nope"}, "--nope"},
	}
	for _, test := range tests {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"dev"}, test.args...), nil, &out, &errs)
		if code != exit.Usage || !strings.Contains(errs.String(), test.want) || out.Len() > 0 {
			t.Errorf("dev %v: exit %d, %q, %q; want exit %d and %q on stderr", test.args, code, out.String(), errs.String(), exit.Usage, test.want)
		}
	}
}
