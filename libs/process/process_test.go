package process

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

func values(t *testing.T, pairs map[string]string) config.Values {
	t.Helper()
	v, err := config.FromMap(configkeys.Broker(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFlagsBecomeKeys(t *testing.T) {
	var got config.Values
	args := []string{"--set", "num.partitions=3", "--set", "admin.listener=", "--listen", "127.0.0.1:0", "--data-dir", "/d", "--admin", "127.0.0.1:0"}
	var out, errs bytes.Buffer
	code := Execute("cauce-test", "A test.", args, &out, &errs, func(_ context.Context, env Env) error {
		got = env.Values
		response, err := http.Head("http://" + env.Admin.Addr() + "/healthz")
		if err == nil {
			err = response.Body.Close()
		}
		return err
	})
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for name, want := range map[string]string{"num.partitions": "3", "listeners": "PLAINTEXT://127.0.0.1:0", "data.dir": "/d", "admin.listener": "127.0.0.1:0"} {
		if got.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, got.Get(name), want)
		}
	}
	if got.Source("listeners") != "--listen" {
		t.Errorf("listeners come from %s", got.Source("listeners"))
	}
}

func TestExitCodes(t *testing.T) {
	fails := func(context.Context, Env) error { return errors.New("no disk") }
	works := func(context.Context, Env) error { return nil }
	tests := []struct {
		name   string
		args   []string
		run    RunFunc
		code   int
		output string
	}{
		{"version", []string{"--version"}, fails, ExitOK, "cauce-test dev (commit unknown, go"},
		{"help", []string{"--help"}, fails, ExitOK, "--data-dir DIR"},
		{"unknown flag", []string{"--nope"}, works, ExitUsage, "--nope"},
		{"argument", []string{"start"}, works, ExitUsage, "start"},
		{"arguments", []string{"healthcheck", "now"}, works, ExitUsage, "now"},
		{"healthcheck of nobody", []string{"healthcheck", "--admin", "127.0.0.1:1"}, works, ExitFailure, "refused"},
		{"healthcheck without an address", []string{"healthcheck", "--admin", ""}, works, ExitFailure, "admin.listener"},
		{"bad key", []string{"--set", "num.partition=3", "--admin", "x", "--set", "node.id=x"}, works, ExitUsage, "did you mean num.partitions?"},
		{"failure", []string{"--admin", ""}, fails, ExitFailure, "no disk"},
		{"success", []string{"--admin", ""}, works, ExitOK, ""},
		{"admin address taken", []string{"--admin", "256.0.0.1:1"}, works, ExitFailure, "admin server"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			code := Execute("cauce-test", "A test.", test.args, &out, &out, test.run)
			if code != test.code || !strings.Contains(out.String(), test.output) {
				t.Errorf("exit code %d, want %d, output:\n%s", code, test.code, out.String())
			}
		})
	}
}

func TestABrokenPipeIsAnErrorOnly(t *testing.T) {
	_, stop := SignalContext(t.Context())
	defer stop()
	if !signal.Ignored(syscall.SIGPIPE) {
		t.Error("SIGPIPE still ends the process")
	}
}

func TestSigtermEndsRunCleanly(t *testing.T) {
	ctx, stop := SignalContext(t.Context())
	defer stop()
	drained := false
	err := Serve(ctx, "cauce-test", values(t, map[string]string{"admin.listener": ""}), func(ctx context.Context, _ Env) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		drained = true
		return ctx.Err()
	})
	if err != nil || !drained {
		t.Errorf("Serve = %v, drained %v", err, drained)
	}
}

func TestStuckShutdownIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stuck := make(chan struct{})
	defer close(stuck)
	v := values(t, map[string]string{"admin.listener": "127.0.0.1:0", "shutdown.timeout.ms": "1"})
	err := Serve(ctx, "cauce-test", v, func(context.Context, Env) error {
		cancel()
		<-stuck
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "not stopped 1ms after") {
		t.Errorf("Serve = %v", err)
	}
}

func TestMemoryLimit(t *testing.T) {
	const unlimited = 1<<63 - 1
	tests := []struct{ configured, available, want int64 }{
		{-1, 4 << 30, 3 << 30}, {-1, 0, unlimited}, {0, 4 << 30, unlimited}, {1 << 20, 4 << 30, 1 << 20},
	}
	for _, test := range tests {
		if got := memoryLimit(test.configured, test.available); got != test.want {
			t.Errorf("memoryLimit(%d, %d) = %d, want %d", test.configured, test.available, got, test.want)
		}
	}
}

func TestGroupMemory(t *testing.T) {
	files := map[string]string{
		"/system/cauce/memory.max":           "max\n",
		"/system/memory.max":                 "2000\n",
		"/memory.max":                        "",
		"/memory/v1/memory.limit_in_bytes":   "1500\n",
		"/memory/memory.limit_in_bytes":      "9223372036854771712\n",
		"/memory/unused/memory.limit_in_byt": "1",
	}
	read := func(file string) string { return files[file] }
	tests := []struct {
		name, membership string
		machine, want    int64
	}{
		{"v2, the parent's limit", "0::/system/cauce\n", 5000, 2000},
		{"v2, the machine is smaller", "0::/system/cauce\n", 1000, 1000},
		{"v1", "5:cpu:/v1\n4:memory:/v1\n", 5000, 1500},
		{"none", "", 5000, 5000},
	}
	for _, test := range tests {
		if got := groupMemory(test.membership, test.machine, read); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestVariablesOfOtherProgramsAreNoKeys(t *testing.T) {
	got := settings([]string{"CAUCE_BOOTSTRAP=x", "CAUCE_BINARY=y", "CAUCE_NODE_ID=3", "PATH=/bin", "CLUSTER_ID=c"})
	if strings.Join(got, " ") != "CAUCE_NODE_ID=3 PATH=/bin KAFKA_CLUSTER_ID=c" {
		t.Errorf("settings = %q", got)
	}
}
