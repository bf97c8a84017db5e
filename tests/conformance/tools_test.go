//go:build conformance

package conformance

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/tool"
	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// TestTools runs every script of testdata/tools and compares exit codes and what is printed with what was recorded from
// Apache Kafka. With -rewrite it records anew.
func TestTools(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "tools", "*.golden"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	runner := newRunner(t)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".golden"), func(t *testing.T) {
			site := newSite(t, path)
			if site.LogDir == "" && strings.Contains(path, "dump-log") {
				t.Skip("the server's log folder is not known: set CAUCE_CONFORMANCE_LOG_DIR")
			}
			runScript(t, runner, site, path)
		})
	}
}

func newRunner(t *testing.T) *tool.Runner {
	t.Helper()
	runner, err := tool.NewRunner(t.Context(), absClientDir(t, "java"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	})
	return runner
}

// newSite learns what is particular to the server under test.
func newSite(t *testing.T, path string) tool.Site {
	t.Helper()
	c := dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := run + strings.TrimSuffix(filepath.Base(path), ".golden")
	probe, err := c.CreateTopic(ctx, "tools-probe-"+id, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Site{Bootstrap: under.Bootstrap, LogDir: under.LogDir, NodeID: probe.Leader, Run: id}
}

func dial(t *testing.T) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(under.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func runScript(t *testing.T, runner *tool.Runner, site tool.Site, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	script, err := tool.ParseScript(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for i := range script.Steps {
		step := &script.Steps[i]
		result := runStep(t, runner, site, *step)
		got, err := step.Output(site, result)
		if err != nil {
			t.Fatalf("%s: $ %s: %v", path, step.Command, err)
		}
		if *rewrite {
			step.Want = got
		} else if !slices.Equal(got, step.Want) {
			t.Errorf("$ %s\n%s\nstderr: %s", step.Command, diff(step.Want, got), result.Stderr)
		}
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(script.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func runStep(t *testing.T, runner *tool.Runner, site tool.Site, step tool.Step) tool.Result {
	t.Helper()
	args := step.Args()
	for i := range args {
		args[i] = site.Expand(args[i])
	}
	if builtin, ok := builtins[args[0]]; ok {
		return builtin(t, args[1:])
	}
	result, err := runner.Run(args[0], step.Stdin(), args[1:]...)
	if err != nil {
		t.Fatalf("$ %s: %v", step.Command, err)
	}
	return result
}

// diff lists the lines that were wanted and did not come (-) and those that came unwanted (+), beside common ones.
func diff(want, got []string) string {
	var b strings.Builder
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(want) > 0 && len(got) > 0 && want[0] == got[0]:
			b.WriteString("  " + want[0] + "\n")
			want, got = want[1:], got[1:]
		case len(got) > 0 && (len(want) == 0 || slices.Contains(want, got[0]) == false):
			b.WriteString("+ " + got[0] + "\n")
			got = got[1:]
		default:
			b.WriteString("- " + want[0] + "\n")
			want = want[1:]
		}
	}
	return b.String()
}
