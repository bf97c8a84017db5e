package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// serve has a connector to call.
func serve(t testing.TB, c plugin.Connector) kit.Connector {
	t.Helper()
	connector, stop, err := kit.InProcess(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return connector
}

// seen is a request that a server has answered.
type seen struct {
	method, path, body string
	header             http.Header
	status             int
}

// script is a server that answers by what it is told, and keeps what it was asked.
type script struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request, body string)

	mu       sync.Mutex
	requests []seen
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func listen(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, body string)) *script {
	t.Helper()
	s := &script{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // whoever asks has given up
		}
		sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests = append(s.requests, seen{r.Method, r.URL.RequestURI(), string(body), r.Header.Clone(), sw.status})
		}()
		if s.answer != nil {
			s.answer(sw, r, string(body))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *script) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// taken are the bodies of requests that succeeded.
func (s *script) taken() []string {
	var bodies []string
	for _, r := range s.all() {
		if r.status < 300 {
			bodies = append(bodies, r.body)
		}
	}
	return bodies
}

// cutOff ends the connection of a request without an answer.
func cutOff(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func text(s string) data.Value { return data.Value{Schema: &data.Schema{Type: data.TypeString}, V: s} }

// records are texts of a partition, from an offset on, each with itself as key.
func records(partition int32, offset int64, texts ...string) []plugin.SinkRecord {
	var all []plugin.SinkRecord
	for i, one := range texts {
		r := data.NewRecord("orders", text(one), text(one))
		r.Partition, r.Offset = partition, offset+int64(i)
		all = append(all, plugin.SinkRecord{Record: r, Original: plugin.TopicPartition{Topic: r.Topic, Partition: r.Partition}})
	}
	return all
}

func numbered(count int) []string {
	var texts []string
	for i := range count {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

// sink starts a task with quick retries.
func sink(t testing.TB, config map[string]string, reports bool) *remote.SinkTask {
	t.Helper()
	all := map[string]string{"retry.backoff.ms": "1", "retry.backoff.max.ms": "5"}
	for k, v := range config {
		all[k] = v
	}
	task, err := serve(t, Sink{}).StartSink(t.Context(), remote.Task{Config: all, Reports: reports})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return task
}

// put puts records until they are taken or refused for good.
func put(t testing.TB, task *remote.SinkTask, records []plugin.SinkRecord) (errant []remote.Errant, err error) {
	t.Helper()
	for {
		w, err := task.Put(t.Context(), records)
		errant = append(errant, w.Errant...)
		var f *remote.Fault
		if err == nil || !errors.As(err, &f) || !f.Retriable {
			return errant, err
		}
	}
}

func wantTexts(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// faultsOf are the keys in which something is wrong, with what is.
func faultsOf(t testing.TB, c plugin.Connector, config map[string]string) map[string]string {
	t.Helper()
	validation, err := serve(t, c).Validate(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	faults := map[string]string{}
	for _, v := range validation.Values {
		if len(v.Errors) > 0 {
			faults[v.Name] = v.Errors[0]
		}
	}
	return faults
}

func hidden(t testing.TB, c plugin.Connector, config map[string]string, key string) bool {
	t.Helper()
	validation, err := serve(t, c).Validate(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(validation.Values, func(v configdef.Value) bool { return v.Name == key })
	return i >= 0 && !validation.Values[i].Visible
}

// object is a JSON object of what comes in pairs.
func object(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}
