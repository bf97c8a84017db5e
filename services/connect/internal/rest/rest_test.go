package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
)

// serve answers one request without a network.
func serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// alone is the herder of a worker that leads a group of its own.
func alone(d herder.Deps) *herder.Herder {
	h := herder.New(herder.Config{}, d)
	h.SetGroup(herder.Group{Leader: true})
	return h
}

func TestPartsOfTheInterface(t *testing.T) {
	deps := Deps{Herder: alone(herder.Deps{}), Levels: func() map[string]Level { return map[string]Level{"root": {Level: "INFO"}} }}
	admin := New(Config{Admin: true}, deps)
	connectors := New(Config{Connectors: true}, deps)
	for path, want := range map[string][2]int{"/": {404, 200}, "/connectors": {404, 200}, "/admin/loggers": {200, 404}, "/admin/loggers/root/": {200, 404}, "/health": {404, 200}} {
		if a, c := serve(admin, "GET", path, "").Code, serve(connectors, "GET", path, "").Code; a != want[0] || c != want[1] {
			t.Errorf("%s: %d of admin, %d of connectors", path, a, c)
		}
	}
	w := serve(connectors, "DELETE", "/connectors", "")
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST, OPTIONS" || !strings.Contains(w.Body.String(), `"error_code":405`) {
		t.Errorf("%d, allowed %q: %s", w.Code, w.Header().Get("Allow"), w.Body)
	}
	if w := serve(connectors, "OPTIONS", "/connectors/c/config", ""); w.Code != 200 || w.Header().Get("Allow") != "GET, HEAD, PATCH, PUT, OPTIONS" || w.Body.String() != w.Header().Get("Allow") {
		t.Errorf("options: %d, allowed %q: %s", w.Code, w.Header().Get("Allow"), w.Body)
	}
}

// TestBeforeTheWorkerIsInItsGroup has nothing be said of connectors and plugins that the worker has not read of yet.
func TestBeforeTheWorkerIsInItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := herder.New(herder.Config{}, herder.Deps{Validate: validate, TypeOf: typeOf})
		h := New(Config{Connectors: true}, Deps{Herder: worker})
		began := time.Now()
		for _, path := range []string{"/", "/health"} {
			if w := serve(h, "GET", path, ""); w.Code != map[string]int{"/": 200, "/health": 503}[path] || time.Since(began) != 0 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		for _, r := range [][3]string{
			{"GET", "/connectors", ""}, {"GET", "/connectors/src", ""}, {"GET", "/connector-plugins", ""}, {"POST", "/connectors", sourceBody}, {"DELETE", "/connectors/src", ""},
		} {
			began := time.Now()
			if w := serve(h, r[0], r[1], r[2]); w.Code != 503 || time.Since(began) != 90*time.Second {
				t.Errorf("%s %s: %d %s", r[0], r[1], w.Code, w.Body)
			}
		}
		listed := make(chan *httptest.ResponseRecorder)
		go func() { listed <- serve(h, "GET", "/connectors", "") }()
		synctest.Wait()
		worker.SetGroup(herder.Group{Leader: true})
		if w := <-listed; w.Code != 200 || strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("once it is in its group: %d %s", w.Code, w.Body)
		}
	})
}

func TestBodiesHaveALimit(t *testing.T) {
	h := New(Config{Connectors: true, MaxBodyBytes: 100}, Deps{Herder: alone(herder.Deps{})})
	for size, want := range map[int]int{100: 400, 101: 413} {
		if w := serve(h, "POST", "/connectors", strings.Repeat("{", size)); w.Code != want {
			t.Errorf("%d bytes: %d %s", size, w.Code, w.Body)
		}
	}
}

// TestRequestsTimeOut has a plugin that does not answer.
func TestRequestsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ configs.Config) (*herder.Validation, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("plugin: %w", ctx.Err())
		}
		h := New(Config{Connectors: true}, Deps{Herder: alone(herder.Deps{Validate: hang})})
		began := time.Now()
		w := serve(h, "POST", "/connectors", sourceBody)
		if took := time.Since(began); w.Code != 500 || took != 90*time.Second || !strings.Contains(w.Body.String(), "1m30s") {
			t.Errorf("after %v: %d %s", took, w.Code, w.Body)
		}
	})
}

func TestFailuresOfTheWorker(t *testing.T) {
	g := newGroup(t, 1, herder.Config{}, Config{})
	deps := g.deps(g.workers[0])
	deps.WriteConfigs = func(context.Context, []configs.Record) error { return errors.New("no broker answers") }
	broken := herder.New(herder.Config{}, deps)
	broken.SetGroup(herder.Group{Leader: true})
	w := serve(New(Config{Connectors: true}, Deps{Herder: broken}), "POST", "/connectors", sourceBody)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "no broker answers") || w.Header().Get("Location") != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTopicTracking(t *testing.T) {
	for _, test := range []struct {
		config      herder.Config
		read, reset int
	}{
		{herder.Config{}, 403, 403}, {herder.Config{TrackTopics: true}, 200, 403}, {herder.Config{TrackTopics: true, ResetTopics: true}, 200, 202},
	} {
		g := newGroup(t, 1, test.config, Config{})
		g.want(g.ask(0, "GET", "/connectors/c/topics", ""), test.read, "")
		g.want(g.ask(0, "PUT", "/connectors/c/topics/reset", ""), test.reset, "")
	}
}

func TestOffsetsNeedAStoppedConnector(t *testing.T) {
	g := newGroup(t, 1, herder.Config{ExactlyOnce: true}, Config{})
	const change = `{"offsets":[{"partition":{"filename":"x"},"offset":{"position":1}}]}`
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 201, "")
	g.settle()
	g.write(configs.FencingRecord("src", 2))
	for _, state := range []string{"resume", "pause"} {
		g.want(g.ask(0, "PUT", "/connectors/src/"+state, ""), 202, "")
		g.settle()
		g.want(g.ask(0, "PATCH", "/connectors/src/offsets", change), 400, "stop")
		g.want(g.ask(0, "DELETE", "/connectors/src/offsets", ""), 400, "stop")
	}
	g.want(g.ask(0, "PUT", "/connectors/src/stop", ""), 204, "")
	g.settle()
	// A task that was left over by someone else's hand counts, too.
	g.write(configs.TaskRecords("src", []configs.Config{{}})...)
	g.want(g.ask(0, "PATCH", "/connectors/src/offsets", change), 400, "stop")
	g.write(configs.TaskRecords("src", nil)...)
	g.want(g.ask(0, "PATCH", "/connectors/src/offsets", change), 200, "altered")
	if len(g.fenced) != 1 || g.fenced[0] != "src 2" {
		t.Errorf("fenced %v before the offsets were changed", g.fenced)
	}
	// Offsets outlive a connector, as in Kafka.
	g.want(g.ask(0, "DELETE", "/connectors/src", ""), 204, "")
	g.settle()
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 201, "")
	g.want(g.ask(0, "GET", "/connectors/src/offsets", ""), 200, `"offsets"`)
}

func TestInitialStateIsWrittenFirst(t *testing.T) {
	g := newGroup(t, 1, herder.Config{}, Config{})
	g.want(g.ask(0, "POST", "/connectors", strings.Replace(sourceBody, "}}", `},"initial_state":"Stopped"}`, 1)), 201, "")
	if len(g.written) != 2 || g.written[0].Key != "target-state-src" || g.written[1].Key != "connector-src" {
		t.Errorf("written: %v", g.written)
	}
}

func TestClassNames(t *testing.T) {
	for _, same := range [][2]string{{fileSource, "FileStreamSource"}, {fileSource, "FileStreamSourceConnector"}, {"FileStreamSource", "FileStreamSourceConnector"}, {fileSource, fileSource}, {"Connector", "Connector"}} {
		if !sameClass(same[0], same[1]) || !sameClass(same[1], same[0]) {
			t.Errorf("%v are not the same", same)
		}
	}
	for _, other := range [][2]string{{fileSource, fileSink}, {fileSource, "StreamSource"}, {fileSource, "Connector"}, {"a.b.X", "c.X"}} {
		if sameClass(other[0], other[1]) {
			t.Errorf("%v are the same", other)
		}
	}
}
