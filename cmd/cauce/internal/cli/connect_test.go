package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

const (
	// recording is what a JVM worker was asked and has answered, in order.
	recording = "../../../../services/connect/internal/jvmtest/testdata/rest.json"
	// moment is the exchange up to which connectors were made, paused and have failed.
	moment = 104
)

type exchange struct {
	Method, Path string
	Status       int
	Answer       json.RawMessage
}

// newConnect returns the URL of a worker that answers as a JVM worker did last up to a moment, or else as it first did without refusing.
func newConnect(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	var all []exchange
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	answers := map[string]exchange{}
	for i, e := range all {
		// What is not known is left out of the answer.
		request := e.Method + " " + strings.ReplaceAll(e.Path, "&expand=other", "")
		if _, known := answers[request]; i <= moment || !known && e.Status < 300 {
			answers[request] = e
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ok := answers[r.Method+" "+r.URL.RequestURI()]
		if !ok {
			http.Error(w, "nothing like it was recorded", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.Status)
		_, _ = w.Write(e.Answer) // a client that is gone
	}))
	t.Cleanup(s.Close)
	return s.URL
}
