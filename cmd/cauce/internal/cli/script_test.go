package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands print into testdata instead of comparing")

// TestScripts runs the command lines in testdata/*.txt, each file against a fake cluster and a fake Connect worker of its
// own, $CLUSTER and $CONNECT, and compares what they print. A step is
//
//	$ cauce ARGS…        single quotes group
//	< a line of stdin
//	a line of stdout
//	! a line of stderr
//	exit CODE            left out for 0
//
// and a blank line. What differs from run to run (ids, ports, times) is printed as a word.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			variables := strings.NewReplacer("$CLUSTER", newCluster(t), "$CONNECT", newConnect(t))
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for block := range strings.SplitSeq(strings.TrimSpace(string(content)), "\n\n") {
				step := parseStep(block)
				got.WriteString(step.run(t, variables))
				got.WriteString("\n")
			}
			text := strings.TrimSpace(got.String()) + "\n"
			if *rewrite {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if text != string(content) {
				t.Errorf("%s differs, see with -rewrite:\n%s", file, difference(string(content), text))
			}
		})
	}
}

func newCluster(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("fake"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

type step struct {
	comments []string
	command  string
	stdin    []string
}

func parseStep(block string) step {
	var s step
	for line := range strings.SplitSeq(block, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
			s.comments = append(s.comments, line)
		case strings.HasPrefix(line, "$ cauce"):
			s.command = strings.TrimSpace(strings.TrimPrefix(line, "$ cauce"))
		case line == "<" || strings.HasPrefix(line, "< "):
			s.stdin = append(s.stdin, strings.TrimPrefix(strings.TrimPrefix(line, "<"), " "))
		}
	}
	return s
}

func (s step) run(t *testing.T, variables *strings.Replacer) string {
	var b strings.Builder
	for _, comment := range s.comments {
		fmt.Fprintln(&b, comment)
	}
	fmt.Fprintln(&b, strings.TrimSpace("$ cauce "+s.command))
	stdin := ""
	for _, line := range s.stdin {
		fmt.Fprintln(&b, strings.TrimSpace("< "+line))
		stdin += line + "\n"
	}
	out, errs, code := execute(t, stdin, split(variables.Replace(s.command))...)
	b.WriteString(settle(out))
	for line := range strings.SplitSeq(strings.TrimSuffix(settle(errs), "\n"), "\n") {
		if line != "" {
			fmt.Fprintln(&b, "! "+line)
		}
	}
	if code != 0 {
		fmt.Fprintln(&b, "exit", code)
	}
	return b.String()
}

func execute(t *testing.T, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(context.WithoutCancel(t.Context()), args, strings.NewReader(stdin), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// split cuts a command line at blanks outside single quotes.
func split(line string) []string {
	var args []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args
}

var volatile = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`(?m)([ "])[A-Za-z0-9_-]{22}("|$)`), "${1}ID${2}"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`), "HOST:PORT"},
	{regexp.MustCompile(`"port": \d+`), `"port": PORT`},
	{regexp.MustCompile(`"timestamp":\d{13}`), `"timestamp":MS`},
	{regexp.MustCompile(`"seconds": [0-9.e-]+`), `"seconds": S`},
	{regexp.MustCompile(`"at": "[^"]+"`), `"at": "TIME"`},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `), `TIME  `},
}

func settle(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.word)
	}
	// A blank line would end the step.
	return strings.ReplaceAll(text, "\n\n", "\n.\n")
}

func difference(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		w, g := "(end)", "(end)"
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if w != g {
			return fmt.Sprintf("line %d\nwant %q\ngot  %q", i+1, w, g)
		}
	}
	return ""
}
