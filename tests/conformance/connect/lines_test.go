//go:build conformance

package connect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lines are numbered lines that connectors take from one file through a topic to another.
type lines struct {
	*testing.T
	name    string
	in, out string
	written int
}

// newLines makes the file with its first lines. Its connectors are called NAME-in and NAME-out.
func newLines(t *testing.T, name string) *lines {
	t.Helper()
	dir := t.TempDir()
	l := &lines{T: t, name: name + "-" + run, in: filepath.Join(dir, "in.txt"), out: filepath.Join(dir, "out.txt")}
	l.write(100)
	return l
}

func (l *lines) source() string { return l.name + "-in" }
func (l *lines) sink() string   { return l.name + "-out" }

// write appends so many lines.
func (l *lines) write(count int) {
	l.Helper()
	f, err := os.OpenFile(l.in, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.Fatal(err)
	}
	defer f.Close()
	for range count {
		l.written++
		if _, err := fmt.Fprintf(f, "line %d\n", l.written); err != nil {
			l.Fatal(err)
		}
	}
}

// create has a worker make the two connectors.
func (l *lines) create(w *worker) {
	l.Helper()
	w.do(l.T, http.StatusCreated, "POST", "/connectors", fmt.Sprintf(`{"name":%q,"config":{"connector.class":%q,"topic":%q,"file":%q,"tasks.max":"1"}}`, l.source(), source, l.name, l.in))
	w.do(l.T, http.StatusCreated, "PUT", "/connectors/"+l.sink()+"/config", fmt.Sprintf(`{"connector.class":%q,"topics":%q,"file":%q,"tasks.max":"2","consumer.override.isolation.level":"read_committed"}`, sink, l.name, l.out))
}

// running waits until both run.
func (l *lines) running(w *worker) {
	l.Helper()
	w.running(l.T, l.source(), 1)
	w.running(l.T, l.sink(), 2)
}

// arrive waits until all lines have arrived, each once and in order.
func (l *lines) arrive(w *worker) {
	l.Helper()
	w.await(l.T, "all lines arrive", func() (bool, string) {
		text, err := os.ReadFile(l.out)
		if err != nil && !os.IsNotExist(err) {
			l.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if strings.HasSuffix(line, "\n") && line != fmt.Sprintf("line %d\n", n) {
				l.Fatalf("%s: line %d is %q", l.name, n, line)
			}
		}
		return n == l.written, fmt.Sprintf("%d of %d", n, l.written)
	})
}

// stored waits until the connectors' offsets are those of all lines.
func (l *lines) stored(w *worker) {
	l.Helper()
	in, err := os.Stat(l.in)
	if err != nil {
		l.Fatal(err)
	}
	for name, want := range map[string]string{l.source(): fmt.Sprintf(`"position":%d}`, in.Size()), l.sink(): `"kafka_offset":`} {
		if err := w.until(l.T, "/connectors/"+name+"/offsets", want); err != nil {
			l.Fatal(err)
		}
	}
}

// where are the workers that run a connector or a task of these, by worker.
func where(t *testing.T, w *worker, all ...*lines) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, l := range all {
		for _, name := range []string{l.source(), l.sink()} {
			type one struct {
				Worker string `json:"worker_id"`
			}
			var s struct {
				Connector one
				Tasks     []one
			}
			a := w.ask(t, "GET", "/connectors/"+name+"/status", "")
			if err := json.Unmarshal([]byte(a.text), &s); err != nil {
				t.Fatalf("%v: %v", a, err)
			}
			for _, one := range append(slices.Clone(s.Tasks), s.Connector) {
				found[one.Worker]++
			}
		}
	}
	return found
}
