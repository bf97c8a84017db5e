//go:build compose

package compose

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ownAssignor is the plugin that the test writes.
const ownAssignor = "my-assignor"

// needs skips what is not installed, and says so.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// conformance runs what the conformance suite has of the Java client, which it installs.
func conformance(t *testing.T) {
	needs(t, "java", "mvn")
	t.Setenv("CAUCE_BOOTSTRAP", external[0])
	output, err := run(t.Context(), "go", "test", "-count=1", "-timeout", "10m", "-tags", "conformance", root+"/tests/conformance",
		"-run", "^(TestGroupsByDefault|TestClients)$/^(java|write)$/^java$")
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// librdkafka writes a topic, which groups of both protocols read.
func librdkafka(t *testing.T) {
	needs(t, "python3")
	python(t, "produce", external[0], "letters", "100")
	for _, protocol := range []string{"classic", "consumer"} {
		pythonConsumes(t, "letters-"+protocol, "letters", 100, protocol, "-")
	}
}

func python(t *testing.T, args ...string) string {
	t.Helper()
	output, err := run(t.Context(), "./python", append([]string{"testdata/librdkafka.py"}, args...)...)
	if err != nil {
		t.Fatalf("librdkafka: %s: %v", strings.Join(args, " "), err)
	}
	return output
}

// pythonConsumes reads the values from 0 to before count, each once.
func pythonConsumes(t *testing.T, group, topic string, count int, protocol, assignor string) {
	t.Helper()
	var want []string
	for i := range count {
		want = append(want, fmt.Sprint(i))
	}
	got := strings.Fields(python(t, "consume", external[0], topic, fmt.Sprint(count), group, protocol, assignor))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s reads %q", group, got)
	}
}

// pluginOfOnesOwn does what docs/plugins.md and docs/operations.md say: writes an assignor, tests it, puts it into the stack's
// volume and offers it to consumers, of which one asks for it.
func pluginOfOnesOwn(t *testing.T) {
	needs(t, "python3")
	dir := t.TempDir()
	cauce, err := filepath.Abs(root + "/bin/cauce")
	if err != nil {
		t.Fatal(err)
	}
	plugin := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), cauce, append([]string{"plugin"}, args...)...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cauce plugin %s: %v: %s", strings.Join(args, " "), err, output)
		}
	}
	plugin("new", "assignor", ownAssignor)
	plugin("test", ownAssignor)
	plugin("install", ownAssignor, "--plugin-path", "built")
	docker(t, "run", "--rm", "--user", "0", "--volume", project+"_plugins:/plugins", "--volume", dir+"/built:/from:ro", "cauce:dev",
		"plugin", "install", "/from/"+ownAssignor, "--plugin-path", "/plugins")
	t.Setenv("ASSIGNORS", "uniform,range,"+ownAssignor)
	compose(t, "up", "--detach", "--no-build", "--wait", "--wait-timeout", "180")

	python(t, "produce", external[0], "assigned", "100")
	pythonConsumes(t, "assigned-by-my-own", "assigned", 100, "consumer", ownAssignor)
	spanOf(t, "cauce-groupcoord", "cauce.plugin.name", ownAssignor)
}

// spanOf waits for a span of the program with that attribute.
func spanOf(t *testing.T, program, attribute, value string) {
	t.Helper()
	asked := url.Values{"service": {program}, "tags": {fmt.Sprintf(`{%q:%q}`, attribute, value)}, "limit": {"1"}}
	eventually(t, fmt.Sprintf("%s has a span whose %s is %s", program, attribute, value), func(ctx context.Context) error {
		var answer struct{ Data []struct{ TraceID string } }
		if err := getJSON(ctx, jaeger+"/api/traces?"+asked.Encode(), &answer); err != nil {
			return err
		}
		if len(answer.Data) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
}
