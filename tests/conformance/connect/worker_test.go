//go:build conformance

package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

const (
	// patience is for how long a state is waited for.
	patience = time.Minute
	interval = 100 * time.Millisecond
)

// worker is a Connect worker of either kind. What tells it from another in requests and answers is mark: @ in a request becomes it, and it becomes @ in an
// answer.
type worker struct {
	*server.Server
	mark string
}

// kind says which worker is to be started.
type kind bool

const (
	jvm  kind = true
	ours kind = false
)

func (k kind) String() string {
	if k == jvm {
		return "jvm"
	}
	return "cauce"
}

// start starts a worker, which is stopped with the test unless it has been before.
func start(t *testing.T, k kind, group string, set ...string) *worker {
	t.Helper()
	c := server.Connect{Bootstrap: under.Bootstrap, Group: group + "-" + run, Set: set}
	var s *server.Server
	var err error
	if k == jvm {
		var dir, java string
		if dir, err = server.ClientDir(root, "connect"); err != nil {
			t.Fatal(err)
		}
		if java, err = server.ClientDir(root, "java"); err != nil {
			t.Fatal(err)
		}
		s, err = server.StartKafkaConnect(t.Context(), dir, java+"/log4j2.properties", c)
	} else {
		s, err = server.StartCauceConnect(t.Context(), root, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{Server: s, mark: fmt.Sprintf("-%v-%s", k, run)}
	t.Cleanup(func() {
		if t.Failed() && w.Server != nil {
			t.Logf("%v worker: %s", k, w.Logged())
		}
		w.stop(t)
	})
	return w
}

// stop ends the worker in good order.
func (w *worker) stop(t *testing.T) {
	t.Helper()
	if w.Server == nil {
		return
	}
	if err := w.Stop(); err != nil {
		t.Error(err)
	}
	w.Server = nil
}

// answer is what a worker says to a request.
type answer struct {
	status   int
	kind     string // of content
	allow    string
	location string // path of it
	text     string
	body     any // of text as JSON; nil where it is none
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

func (w *worker) ask(t *testing.T, method, path, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.Connect+strings.ReplaceAll(path, "@", w.mark), strings.NewReader(strings.ReplaceAll(body, "@", w.mark)))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	location, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		t.Fatalf("Location: %v", err)
	}
	text = bytes.ReplaceAll(text, []byte(w.mark), []byte("@"))
	text = bytes.ReplaceAll(text, []byte(strings.TrimPrefix(w.Connect, "http://")), []byte("WORKER"))
	a := answer{status: resp.StatusCode, kind: resp.Header.Get("Content-Type"), allow: resp.Header.Get("Allow"), location: strings.ReplaceAll(location.Path, w.mark, "@"), text: string(text)}
	if json.Unmarshal(text, &a.body) != nil {
		a.body = nil
	}
	return a
}

// do asks, and again while the worker answers that it cannot for the moment; it wants the status.
func (w *worker) do(t *testing.T, status int, method, path, body string) answer {
	t.Helper()
	var a answer
	w.await(t, fmt.Sprintf("%s %s answers %d", method, path, status), func() (bool, string) {
		a = w.ask(t, method, path, body)
		if a.status != status && a.status != http.StatusConflict && a.status < 500 {
			t.Fatalf("%s %s %s: %v", method, path, body, a)
		}
		return a.status == status, a.String()
	})
	return a
}

// await waits until something is done, which otherwise says what there is instead.
func (w *worker) await(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	if err := w.reach(patience, what, done); err != nil {
		t.Fatal(err)
	}
}

// reach is await for whoever has no test to end.
func (w *worker) reach(most time.Duration, what string, done func() (bool, string)) error {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		ok, seen := done()
		if ok {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("%s: not after %v that %s, but %s", w.mark, most, what, seen)
		case <-tick.C:
		}
	}
}

// until waits for an answer that has all texts in it.
func (w *worker) until(t *testing.T, path string, texts ...string) error {
	return w.reach(patience, fmt.Sprintf("%s has %q", path, texts), func() (bool, string) {
		a := w.ask(t, http.MethodGet, path, "")
		for _, text := range texts {
			if !strings.Contains(a.text, text) {
				return false, a.String()
			}
		}
		return true, ""
	})
}

// running waits until a connector and its tasks run, of which there are so many.
func (w *worker) running(t *testing.T, connector string, tasks int) {
	t.Helper()
	if err := w.states(t, connector, "RUNNING", tasks); err != nil {
		t.Fatal(err)
	}
}

// states waits until a connector and its tasks, of which there are so many, are in a state.
func (w *worker) states(t *testing.T, connector, state string, tasks int) error {
	type one struct{ State string }
	return w.reach(patience, fmt.Sprintf("%s with %d tasks is %s", connector, tasks, state), func() (bool, string) {
		a := w.ask(t, http.MethodGet, "/connectors/"+connector+"/status", "")
		var s struct {
			Connector one
			Tasks     []one
		}
		if json.Unmarshal([]byte(a.text), &s) != nil || s.Connector.State != state || len(s.Tasks) != tasks {
			return false, a.String()
		}
		for _, task := range s.Tasks {
			if task.State != state {
				return false, a.String()
			}
		}
		return true, ""
	})
}
