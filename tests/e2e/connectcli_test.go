//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/devserver"
)

// pipes are connectors on the command line: from the file in by a topic to the file out.
type pipes struct {
	t       *testing.T
	connect string
	in, out string
}

// TestConnectorsOnTheCommandLine takes lines from a file to another one as an operator does, and looks at what goes wrong.
func TestConnectorsOnTheCommandLine(t *testing.T) {
	folder := t.TempDir()
	p := &pipes{t: t, connect: "http://" + testport.Address(t), in: filepath.Join(folder, "in"), out: filepath.Join(folder, "out")}
	s, err := devserver.Start(t.Context(), devserver.Options{DataDir: filepath.Join(folder, "data"), Args: []string{"--set", "connect.listeners=" + p.connect, "--set", "connect.offset.flush.interval.ms=200"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	cauce(t, s, "topic", "create", "lines")
	p.write("one\ntwo\n")
	p.refused()
	p.run("create", "lines-in", "--wait", "--set", "connector.class=FileStreamSource", "--set", "file="+p.in, "--set", "topic=lines", "--set", "value.converter=String")
	p.run("create", "lines-out", "--wait", "--set", "connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector", "--set", "file="+p.out, "--set", "topics=lines", "--set", "value.converter=String")
	p.arrive("one\ntwo\n")

	p.run("pause", "lines-out", "--wait")
	p.write("three\n")
	p.run("resume", "lines-out", "--wait")
	p.arrive("one\ntwo\nthree\n")
	p.run("restart", "lines-in", "lines-out", "--tasks", "--wait")
	p.write("four\n")
	p.arrive("one\ntwo\nthree\nfour\n")

	p.offsets()
	p.failed()
	p.measured("http://" + s.Admin + "/metrics")
	p.run("delete", "lines-in", "lines-out", "--wait")
	if out := p.run("list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("left are %s", out)
	}
}

// execute runs a connector command.
func (p *pipes) execute(args ...string) (out, errs string, code int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), filepath.Join("..", "..", "bin", "cauce"), append([]string{"connector", "--connect", p.connect}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	} else if err != nil {
		p.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), 0
}

func (p *pipes) run(args ...string) string {
	p.t.Helper()
	out, errs, code := p.execute(args...)
	if code != 0 {
		p.t.Fatalf("cauce connector %v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

// fails runs a command that is to fail with words.
func (p *pipes) fails(words string, args ...string) {
	p.t.Helper()
	out, errs, code := p.execute(args...)
	if code == 0 || !strings.Contains(out+errs, words) {
		p.t.Errorf("cauce connector %v: exit %d without %q\n%s%s", args, code, words, out, errs)
	}
}

// write appends to the file that the source follows.
func (p *pipes) write(text string) {
	p.t.Helper()
	f, err := os.OpenFile(p.in, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// arrive waits until the sink's file has a text.
func (p *pipes) arrive(text string) {
	p.t.Helper()
	eventually(p.t, "the sink has written", func(context.Context) error {
		got, err := os.ReadFile(p.out)
		if err != nil {
			return err
		}
		if string(got) != text {
			return fmt.Errorf("it has written %q, not %q", got, text)
		}
		return nil
	})
}

// refused tries configurations that are wrong.
func (p *pipes) refused() {
	p.t.Helper()
	p.fails("tasks.max is \"0\"", "create", "wrong", "--set", "connector.class=FileStreamSource", "--set", "tasks.max=0", "--set", "file=x", "--set", "topic=t")
	p.fails("transforms.a.type is required", "validate", "wrong", "--set", "connector.class=FileStreamSource", "--set", "transforms=a", "--set", "file=x", "--set", "topic=t")
	p.fails("NoSuchClass", "create", "wrong", "--set", "connector.class=NoSuchClass")
	p.fails("\"wrong\"", "status", "wrong")
}

// offsets has the sink write everything once more.
func (p *pipes) offsets() {
	p.t.Helper()
	eventually(p.t, "the source has stored where it stands", func(context.Context) error {
		if got := p.run("offsets", "get", "lines-in", "-o", "json"); !strings.Contains(got, `"position": 19`) {
			return fmt.Errorf("it stands at %s", got)
		}
		return nil
	})
	p.fails("stopped", "offsets", "reset", "lines-out")
	p.run("stop", "lines-out", "--wait")
	p.run("offsets", "set", "lines-out", "lines:0=2")
	if got := p.run("offsets", "get", "lines-out"); !strings.Contains(got, `{"kafka_offset":2}`) {
		p.t.Errorf("the sink stands at %s", got)
	}
	if err := os.Remove(p.out); err != nil {
		p.t.Fatal(err)
	}
	p.run("resume", "lines-out", "--wait")
	p.arrive("three\nfour\n")
}

// failed looks at a task that cannot work, and mends it.
func (p *pipes) failed() {
	p.t.Helper()
	p.fails("IntegerConverter", "create", "broken", "--wait", "--set", "connector.class=FileStreamSink", "--set", "file="+p.out+".broken", "--set", "topics=lines", "--set", "value.converter=IntegerConverter")
	if got := p.run("list"); !strings.Contains(got, "broken") {
		p.t.Errorf("listed are\n%s", got)
	}
	p.run("config", "broken", "--set", "value.converter=String", "--wait")
	p.run("delete", "broken", "--wait")
}

// measured looks for every metric of Connect's that a dashboard or an alert asks for.
func (p *pipes) measured(url string) {
	p.t.Helper()
	response, err := http.Get(url)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, file := range []string{"grafana/dashboards/connect.json", "prometheus/rules/cauce.yaml"} {
		source, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, match := range metricName.FindAllStringSubmatch(string(source), -1) {
			asked[match[1]] = true
		}
	}
	for name := range asked {
		if !bytes.Contains(text, []byte("\n"+name+"{")) && !bytes.Contains(text, []byte("\n"+name+" ")) {
			p.t.Errorf("%s is asked for and not measured", name)
		}
	}
	if len(asked) < 20 {
		p.t.Errorf("only %d metrics are asked for", len(asked))
	}
}

// metricName is a whole name: patterns of names are left out.
var metricName = regexp.MustCompile(`(kafka_connect_[a-z_]+)[{ \[)]`)
