package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

func newTelemetry(t *testing.T, c Config) *Telemetry {
	t.Helper()
	tel, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel
}

func noTracing(t *testing.T) {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
}

func TestLogLinesAreJSONWithTheTrace(t *testing.T) {
	noTracing(t)
	var out bytes.Buffer
	tel := newTelemetry(t, Config{Service: "cauce-test", NodeID: 7, LogOutput: &out})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	tel.Log.Info("appended", TraceField(ctx), zap.Int64("offset", 42))
	tel.Log.Debug("not at this level")
	tel.Log.Info("outside", TraceField(t.Context()))

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{
		"service": "cauce-test", "node": 7.0, "msg": "appended", "level": "info", "offset": 42.0,
		"trace_id": "01000000000000000000000000000000", "span_id": "0200000000000000",
	} {
		if line[field] != want {
			t.Errorf("%s = %v, want %v", field, line[field], want)
		}
	}
	if strings.Contains(lines[1], "trace_id") {
		t.Errorf("a line outside of a trace: %s", lines[1])
	}
}

func TestConsoleFormatAndBadSettings(t *testing.T) {
	noTracing(t)
	var out bytes.Buffer
	newTelemetry(t, Config{Service: "s", LogFormat: "console", LogLevel: "debug", LogOutput: &out}).Log.Debug("hello")
	if got := out.String(); !strings.Contains(got, "  DEBUG  hello") {
		t.Errorf("console line %q", got)
	}
	for _, c := range []Config{{LogLevel: "loud"}, {LogFormat: "xml"}} {
		if _, err := New(t.Context(), c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestTracingIsOffUnlessAskedFor(t *testing.T) {
	tests := []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, false},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, false},
	}
	for _, test := range tests {
		if got := tracingWanted(func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%v: tracing %v, want %v", test.env, got, test.want)
		}
	}
}

func TestTracingOffAllocatesNothing(t *testing.T) {
	noTracing(t)
	tel := newTelemetry(t, Config{Service: "s", LogOutput: io.Discard})
	ctx := t.Context()
	allocations := testing.AllocsPerRun(100, func() {
		_, span := tel.Tracer.Start(ctx, "produce")
		span.End()
	})
	if allocations > 1 { // the context that holds the span
		t.Errorf("%v allocations for a span that nobody sees", allocations)
	}
}

// TestSpansReachTheCollector sends one span over OTLP/HTTP.
func TestSpansReachTheCollector(t *testing.T) {
	noTracing(t)
	received := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tel, err := New(t.Context(), Config{Service: "cauce-test", LogOutput: io.Discard, TraceRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tel.Tracer.Start(t.Context(), "Produce")
	span.End()
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-received
	for _, want := range []string{"/v1/traces ", "Produce", "cauce-test"} {
		if !strings.Contains(got, want) {
			t.Errorf("the export lacks %q", want)
		}
	}
}

func TestAdminServer(t *testing.T) {
	noTracing(t)
	tel := newTelemetry(t, Config{Service: "cauce-test", Version: "1.2.3", LogOutput: io.Discard})
	admin := NewAdmin("127.0.0.1:0", tel)
	if err := admin.Listen(); err != nil {
		t.Fatal(err)
	}
	notYet := errors.New("still recovering")
	admin.Handle("/extra", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "more") }))

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- admin.Run(ctx) }()
	url := "http://" + admin.Addr()

	expect(t, http.MethodGet, url+"/healthz", "", 200, "ok")
	expect(t, http.MethodGet, url+"/readyz", "", 503, "process: starting")
	tel.Ready("log", func() error { return notYet })
	expect(t, http.MethodGet, url+"/readyz", "", 503, "log: still recovering")
	notYet = nil
	expect(t, http.MethodGet, url+"/readyz", "", 200, "ok")
	tel.Health("disk", func() error { return errors.New("all directories failed") })
	expect(t, http.MethodGet, url+"/healthz", "", 503, "disk: all directories failed")
	expect(t, http.MethodGet, url+"/readyz", "", 503, "disk: all directories failed")
	expect(t, http.MethodGet, url+"/metrics", "", 200, `cauce_build_info{commit="",goversion=`)
	expect(t, http.MethodGet, url+"/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile")
	expect(t, http.MethodGet, url+"/loglevel", "", 200, `"info"`)
	expect(t, http.MethodPut, url+"/loglevel", `{"level":"warn"}`, 200, `"warn"`)
	expect(t, http.MethodPut, url+"/loglevel", "level=debug", 200, `"debug"`)
	if !tel.Log.Core().Enabled(zap.DebugLevel) {
		t.Error("PUT /loglevel did not change the level")
	}
	expect(t, http.MethodGet, url+"/extra", "", 200, "more")

	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := admin.Listen(); err != nil {
		t.Errorf("the server cannot be bound again: %v", err)
	} else {
		admin.listener.Close()
	}
}

func expect(t *testing.T, method, url, body string, status int, part string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" && body[0] != '{' {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d sends it
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != status || !strings.Contains(string(text), part) {
		t.Errorf("%s %s: %d %s", method, url, response.StatusCode, text)
	}
}
