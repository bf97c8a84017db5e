//go:build conformance

package franz

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

const (
	root = "../../.."
	// timeout bounds building and running the tests; records is how many the longest of them send through groups.
	timeout = 10 * time.Minute
	records = "50000"
)

// TestFranzGo runs the kgo package's tests, at the version that go.mod names, against the server: all must pass but those
// of exceptions.txt. TestGroupETL among them sends records through chains of groups with members that come and go, by every
// balancer and both protocols, and wants each record exactly once and in order.
func TestFranzGo(t *testing.T) {
	exceptions := readExceptions(t)
	s, err := server.ForTests(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	verdicts, output := runKgo(ctx, t, s.Bootstrap, exceptions)
	count := map[string]int{}
	for name, verdict := range verdicts {
		count[verdict]++
		if s.Kafka && exceptions[name] == "skip" && verdict != "FAIL" {
			continue // it serves more
		}
		if want := exceptions[name]; verdict != "PASS" && (verdict != "SKIP" || want != "skip") {
			t.Errorf("%s: %s", name, verdict)
		} else if verdict == "PASS" && want != "" {
			t.Errorf("%s passes now: take it out of exceptions.txt", name)
		}
	}
	t.Logf("tests of kgo by verdict: %v, not run: %d", count, len(exceptions)-count["SKIP"])
	if t.Failed() || count["PASS"] < 100 {
		t.Errorf("%d tests passed\n%s", count["PASS"], failures(output))
	}
}

var verdictLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)

// runKgo returns the verdict on each top-level test, and everything that was printed.
func runKgo(ctx context.Context, t *testing.T, bootstrap string, exceptions map[string]string) (map[string]string, []byte) {
	t.Helper()
	var omitted []string
	for name, verdict := range exceptions {
		if verdict == "omit" {
			omitted = append(omitted, name)
		}
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go").Output()
	if err != nil {
		t.Fatalf("find franz-go: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(module)), "pkg", "kgo")
	binary := filepath.Join(t.TempDir(), "kgo.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of kgo: %v\n%s", err, out)
	}
	tests := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout", timeout.String(),
		"-test.skip", "^("+strings.Join(omitted, "|")+")$")
	tests.Dir = dir
	tests.Env = append(os.Environ(), "KGO_SEEDS="+bootstrap, "KGO_TEST_RF=1", "KGO_TEST_RECORDS="+records, "KGO_LOG_LEVEL=none")
	out, err := tests.Output() // an error says that a test failed, which the output says too, or that they did not end
	if ctx.Err() != nil || !bytes.Contains(out, []byte("\nPASS")) && !bytes.Contains(out, []byte("\nFAIL")) {
		t.Errorf("the tests of kgo did not end: %v, %v\n%s", err, ctx.Err(), out[max(0, len(out)-4000):])
	}
	verdicts := map[string]string{}
	for _, m := range verdictLine.FindAllSubmatch(out, -1) {
		verdicts[string(m[2])] = string(m[1])
	}
	return verdicts, out
}

// failures are the lines that tests printed by themselves, without those about their progress.
func failures(output []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "_test.go:") || strings.Contains(line, "--- FAIL") {
			out.WriteString(line)
		}
	}
	text := out.String()
	return text[max(0, len(text)-8000):]
}

func readExceptions(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var name, verdict string
		if _, err := fmt.Sscan(line, &name, &verdict); err != nil || verdict != "omit" && verdict != "skip" {
			t.Fatalf("exceptions.txt: %q: %v", line, err)
		}
		out[name] = verdict
	}
	return out
}
