package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/process"
)

// badVariable makes the test program a plugin whose assignor leaves partitions out.
const badVariable = "PLUGINS_TEST_BAD"

func TestMain(m *testing.M) {
	if os.Getenv(badVariable) != "" {
		plugin.Serve(forgetful{})
		return
	}
	os.Exit(m.Run())
}

type forgetful struct{}

func (forgetful) Info() plugin.Info { return plugin.Info{Name: "forgetful", Version: "1"} }

func (forgetful) Assign(context.Context, *plugin.Request) (plugin.Response, error) { return nil, nil }

// run runs `cauce plugin ARGS…` and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := Command(&session.Session{Out: &out, Err: &errs})
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		t.Logf("cauce plugin %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), err
}

// inEmptyFolder makes an empty folder the current one and returns the SDK's.
func inEmptyFolder(t *testing.T) (sdk string) {
	t.Helper()
	sdk, err := filepath.Abs("../../../../../libs/plugin")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	return sdk
}

// TestTheWayOfAnAuthor goes from nothing to a plugin that is installed.
func TestTheWayOfAnAuthor(t *testing.T) {
	tests := []struct {
		kind   string
		checks int
		offers []string
		set    []string
	}{
		{"assignor", 7, []string{"my-own.2"}, nil},
		{"connector", 10, []string{"my-own.2-source", "my-own.2-sink"}, []string{"--set", "topic=ticks,interval.ms=10"}},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			sdk := inEmptyFolder(t)
			if out, err := run(t, "new", test.kind, "my-own.2", "--sdk-path", sdk); err != nil || !strings.Contains(out, "cauce plugin test my-own.2") {
				t.Fatal(out, err)
			}
			tests := exec.Command("go", "test", "./...")
			format := exec.Command("gofmt", "-l", ".")
			for _, cmd := range []*exec.Cmd{tests, format} {
				cmd.Dir = "my-own.2"
				cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=-mod=readonly")
				out, err := cmd.CombinedOutput()
				if err != nil || cmd == format && len(out) > 0 {
					t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
				}
			}
			out, err := run(t, append([]string{"test", "my-own.2", "-o", "json"}, test.set...)...)
			if err != nil {
				t.Fatal(out, err)
			}
			var checks []checked
			if err := json.Unmarshal([]byte(out), &checks); err != nil || len(checks) != test.checks || checks[0].Plugin != test.offers[0] || checks[0].Result != "ok" {
				t.Errorf("%s, %v", out, err)
			}
			if out, err := run(t, "install", "my-own.2", "--plugin-path", "place"); err != nil {
				t.Fatal(out, err)
			}
			out, err = run(t, "list", "--plugin-path", "place", "-o", "json")
			if err != nil {
				t.Fatal(out, err)
			}
			var found []listed
			if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != len(test.offers) {
				t.Fatalf("%s, %v", out, err)
			}
			for i, name := range test.offers {
				if found[i].Name != name || found[i].State != "ok" {
					t.Errorf("%s", out)
				}
			}
			if entries, err := os.ReadDir("place"); err != nil || len(entries) != 1 {
				t.Errorf("the folder has %v, %v", entries, err)
			}
		})
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	sdk := inEmptyFolder(t)
	if err := os.Mkdir("taken", 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		code int
	}{
		{[]string{"new", "codec", "x"}, exit.Usage},
		{[]string{"new", "connector", strings.Repeat("x", 58)}, exit.Usage},
		{[]string{"new", "assignor", "../x"}, exit.Usage},
		{[]string{"new", "assignor", "-x"}, exit.Failed}, // a flag that is none; the root command makes it a usage error
		{[]string{"new", "assignor", "x", "--sdk-path", "."}, exit.Usage},
		{[]string{"new", "assignor", "taken", "--sdk-path", sdk}, exit.Exists},
		{[]string{"test", "missing"}, exit.NotFound},
		{[]string{"test", "taken"}, exit.NotFound},
		{[]string{"test", "taken", "--skip", "nothing"}, exit.Usage},
		{[]string{"install", "missing"}, exit.NotFound},
	}
	for _, test := range tests {
		if _, err := run(t, test.args...); exit.Code(err) != test.code {
			t.Errorf("%v: %v, code %d, want %d", test.args, err, exit.Code(err), test.code)
		}
	}
}

func TestWithoutAnSDKThePublishedOneIsWanted(t *testing.T) {
	inEmptyFolder(t)
	version := process.Version
	t.Cleanup(func() { process.Version = version })
	for _, process.Version = range []string{"dev", "1.2.3-4-gabcdef0"} {
		_, err := run(t, "new", "assignor", "x")
		if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "--sdk-path") || !strings.Contains(err.Error(), process.Version) {
			t.Errorf("version %s: %v", process.Version, err)
		}
		if _, err := os.Stat("x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a module that cannot be built was written: %v", err)
		}
	}
	process.Version = "1.2.3"
	out, err := run(t, "new", "assignor", "x")
	if err != nil || !strings.Contains(out, "go mod tidy") {
		t.Fatal(out, err)
	}
	mod, err := os.ReadFile("x/go.mod")
	if err != nil || !strings.Contains(string(mod), "require "+sdkModule+" v1.2.3\n") || strings.Contains(string(mod), "replace") {
		t.Errorf("%s, %v", mod, err)
	}
	if _, err := os.Stat("x/go.sum"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("go.sum: %v", err)
	}
}

func launcher(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "launcher")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABadAssignorFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "test", launcher(t, badVariable+"=1 exec "+self))
	if exit.Code(err) != exit.Failed || !strings.Contains(out, "forgetful  correct        FAILED") || !strings.Contains(out, "nobody gets partition") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, "test", launcher(t, badVariable+"=1 exec "+self), "--skip", "correct,deterministic,settled,balanced,sticky,concurrent,large")
	if err == nil {
		t.Errorf("nothing was checked, and that passes: %s", out)
	}
}

func TestAProgramThatIsNoPlugin(t *testing.T) {
	path := launcher(t, "echo what do you want >&2; exit 1")
	if _, err := run(t, "test", path); err == nil || !strings.Contains(err.Error(), "what do you want") {
		t.Errorf("test: %v", err)
	}
	out, err := run(t, "list", "--plugin-path", filepath.Dir(path))
	if err != nil || !strings.Contains(out, "failed") || !strings.Contains(out, "what do you want") {
		t.Errorf("list: %v\n%s", err, out)
	}
}
