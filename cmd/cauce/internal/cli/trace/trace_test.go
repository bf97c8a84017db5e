package trace

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

var rewrite = flag.Bool("rewrite", false, "write what the command prints into testdata instead of comparing")

const id = "4bf92f3577b34da6a3ce929d0e0e4736"

// jaegerServer knows one trace, as Jaeger 1.76 answers for it, and of the service shop a newer one of a single span.
func jaegerServer(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/answer.json")
	if err != nil {
		t.Fatal(err)
	}
	const newer = `{"data":[{"traceID":"5c","spans":[{"traceID":"5c","spanID":"1","operationName":"Fetch","references":[],"startTime":1700000009000000,"duration":7,"processID":"p1"}],"processes":{"p1":{"serviceName":"shop"}}}],"errors":null}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /base/api/traces/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("id") {
		case id:
			_, _ = w.Write(text)
		case "bad":
			fmt.Fprint(w, "<html>")
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":404,"msg":"trace not found"}]}`)
		}
	})
	mux.HandleFunc("GET /base/api/services", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":["shop","broker-1","quiet"],"errors":null}`)
	})
	mux.HandleFunc("GET /base/api/traces", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Get("start") >= q.Get("end") || q.Get("limit") != "1":
			t.Errorf("asked for %s", r.URL.RawQuery)
		case q.Get("service") == "broker-1" && q.Get("operation") != "Fetch":
			_, _ = w.Write(text)
		case q.Get("service") == "shop":
			fmt.Fprint(w, newer)
		default:
			fmt.Fprint(w, `{"data":[],"errors":null}`)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/base/"
}

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command(&session.Session{Out: &out, Err: &out})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestWaterfall(t *testing.T) {
	url := jaegerServer(t)
	for file, args := range map[string][]string{
		"columns-120.txt": {id, "--width", "120"},
		"columns-60.txt":  {id, "--width", "60"},
		"trace.json":      {id, "-o", "json"},
		"last.txt":        {"--last", "--width", "80"},
		"service.txt":     {"--last", "--service", "broker-1", "--width", "80"},
	} {
		got, err := execute(t, append(args, "--jaeger", url)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if *rewrite {
			if err := os.WriteFile("testdata/"+file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile("testdata/" + file); err != nil || got != string(want) {
			t.Errorf("%v printed (%v)\n%s", args, err, got)
		}
	}
}

func TestFaults(t *testing.T) {
	url := jaegerServer(t)
	tests := []struct {
		args string
		code int
		want string
	}{
		{"0123 --jaeger " + url, exit.NotFound, "trace not found"},
		{"bad --jaeger " + url, exit.Failed, "no JSON of Jaeger's query API"},
		{"--last --service quiet --jaeger " + url, exit.NotFound, "there is no trace of the last 1h0m0s"},
		{"--last --operation Fetch --service broker-1 --jaeger " + url, exit.NotFound, "there is no trace"},
		{"--last " + id, exit.Usage, "either"},
		{"", exit.Usage, "either"},
		{"no-id", exit.Usage, "is not the id of a trace"},
		{id + " --width 20", exit.Usage, "must be 60 or more"},
		{id + " --jaeger http://127.0.0.1:1", exit.Unreachable, "nothing answers at --jaeger http://127.0.0.1:1"},
	}
	for _, test := range tests {
		if _, err := execute(t, strings.Fields(test.args)...); exit.Code(err) != test.code || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, exit %d, want %q, %d", test.args, err, exit.Code(err), test.want, test.code)
		}
	}
}
