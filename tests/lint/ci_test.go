package lint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailuresOfAStep wants of a step's output the tests that failed, of very many as of a few, and its end where no test is to blame.
func TestFailuresOfAStep(t *testing.T) {
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "--- FAIL: Test%d (0.00s)\n    x_test.go:1: got this\n", i)
	}
	for _, c := range []struct{ name, output, want string }{
		{"a test within another", "ok  \ta\t1s\n    --- FAIL: TestX/y (0.00s)\n        x_test.go:1: got 1\n", "x_test.go:1: got 1"},
		{"a race", "WARNING: DATA RACE\nRead at 0x1\n", "Read at 0x1"},
		{"a fault of the runtime", "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1\n" + strings.Repeat("x\n", 100), "deadlock!"},
		{"a package that does not build", "# cauce/a\na.go:1:2: undefined: b\nFAIL\tcauce/a [build failed]\n" + strings.Repeat("ok\n", 100), "undefined: b"},
		{"a linter", strings.Repeat("x\n", 100) + "a.go:1:2: never used (U1000)\nFAIL  lint\n", "never used"},
		{"very many", many.String(), "FAIL: Test0 "},
	} {
		path := filepath.Join(t.TempDir(), "output")
		if err := os.WriteFile(path, []byte(c.output), 0o644); err != nil {
			t.Fatal(err)
		}
		said, err := exec.CommandContext(t.Context(), "../../.ci/failures", path).CombinedOutput()
		if err != nil || !strings.Contains(string(said), c.want) || strings.Count(string(said), "\n") > 171 {
			t.Errorf("%s: %v, %d bytes: %.2000s", c.name, err, len(said), said)
		}
	}
}
