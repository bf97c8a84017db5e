package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// answer is one that a scripted worker gives; the last one of a request is given for ever.
type answer struct {
	status int
	body   string
}

// scripted is a worker whose answers to each request come one after the other.
type scripted struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	answers map[string][]answer
	asked   map[string]int
	bodies  map[string]string
}

func newScripted(t *testing.T, answers map[string][]answer) *scripted {
	t.Helper()
	s := &scripted{t: t, answers: answers, asked: map[string]int{}, bodies: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := r.Method + " " + r.URL.RequestURI()
	list := s.answers[request]
	if len(list) == 0 {
		s.t.Errorf("it is asked %s", request)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	var body json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err == nil {
		s.bodies[request] = string(body)
	}
	s.asked[request]++
	one := list[min(s.asked[request], len(list))-1]
	w.WriteHeader(one.status)
	fmt.Fprint(w, one.body)
}

// times is how often a request was sent.
func (s *scripted) times(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[request]
}

// run executes a connector command, and expects an exit code and words among what is told of faults.
func (s *scripted) run(code int, words string, args ...string) {
	s.t.Helper()
	out, errs, got := execute(s.t, "", append([]string{"connector"}, append(args, "--connect", s.url)...)...)
	if got != code || !strings.Contains(errs, words) {
		s.t.Errorf("%v: exit %d with\n%s%s\nwanted exit %d with %q", args, got, out, errs, code, words)
	}
}

func message(status int, text string) answer {
	return answer{status, fmt.Sprintf(`{"error_code":%d,"message":%q}`, status, text)}
}

const created = `{"name":"a","config":{"connector.class":"c"},"tasks":[],"type":"source"}`

// info is a connector with tasks, status its state and theirs; what FAILED has a trace behind a blank.
func info(tasks int) answer {
	list := make([]string, tasks)
	for i := range list {
		list[i] = fmt.Sprintf(`{"connector":"a","task":%d}`, i)
	}
	return answer{200, fmt.Sprintf(`{"name":"a","config":{},"tasks":[%s],"type":"source"}`, strings.Join(list, ","))}
}

func status(states ...string) answer {
	one := func(text string) string {
		state, trace, _ := strings.Cut(text, " ")
		return fmt.Sprintf(`"state":%q,"worker_id":"w","trace":%q`, state, trace)
	}
	var tasks []string
	for i, state := range states[1:] {
		tasks = append(tasks, fmt.Sprintf(`{"id":%d,%s}`, i, one(state)))
	}
	return answer{200, fmt.Sprintf(`{"name":"a","connector":{%s},"tasks":[%s],"type":"source"}`, one(states[0]), strings.Join(tasks, ","))}
}

const (
	post, getInfo, getStatus = "POST /connectors", "GET /connectors/a", "GET /connectors/a/status"
)

func TestConnectorWaits(t *testing.T) {
	t.Parallel()
	s := newScripted(t, map[string][]answer{
		post: {{201, created}}, getInfo: {info(0), info(0), info(2)},
		getStatus: {message(404, "no status"), status("RUNNING"), status("RUNNING", "RUNNING"), status("RUNNING", "RUNNING", "UNASSIGNED"), status("RUNNING", "RUNNING", "RUNNING")},
	})
	s.run(exit.OK, "", "create", "a", "--set", "connector.class=c", "--wait")
	if n := s.times(getStatus); n != 5 {
		t.Errorf("the status was asked for %d times", n)
	}
	if got := s.bodies[post]; got != `{"config":{"connector.class":"c","name":"a"},"name":"a"}` {
		t.Error(got)
	}
}

func TestConnectorFailsWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newScripted(t, map[string][]answer{
		post: {{201, created}}, getInfo: {info(2)}, getStatus: {status("RUNNING", "RUNNING", "UNASSIGNED"), status("RUNNING", "RUNNING", "FAILED no such host")},
	})
	s.run(exit.Failed, "task 1 of a FAILED: no such host", "create", "a", "--set", "connector.class=c", "--wait")
}

// TestConnectorRestartWaits is not told by an old failure that the restart has failed, but by a new one.
func TestConnectorRestartWaits(t *testing.T) {
	t.Parallel()
	const restart = "POST /connectors/a/restart?includeTasks=true&onlyFailed=true"
	old := status("RUNNING", "FAILED old")
	s := newScripted(t, map[string][]answer{restart: {status("RUNNING", "RESTARTING")}, getInfo: {info(1)}, getStatus: {old, old, status("RUNNING", "RESTARTING"), status("RUNNING", "RUNNING")}})
	s.run(exit.OK, "", "restart", "a", "--tasks", "--only-failed", "--wait")
	s = newScripted(t, map[string][]answer{restart: {status("RUNNING", "RESTARTING")}, getInfo: {info(1)}, getStatus: {old, old, status("RUNNING", "FAILED new")}})
	s.run(exit.Failed, "FAILED: new", "restart", "a", "--tasks", "--only-failed", "--wait")
	s = newScripted(t, map[string][]answer{restart: {status("RUNNING", "RESTARTING")}, getInfo: {info(1)}, getStatus: {old}})
	s.run(exit.Timeout, "FAILED: old", "restart", "a", "--tasks", "--only-failed", "--wait=300ms")
}

func TestConnectorTargetsWait(t *testing.T) {
	t.Parallel()
	s := newScripted(t, map[string][]answer{
		"PUT /connectors/a/stop": {{204, ""}}, "DELETE /connectors/a": {{204, ""}}, getInfo: {info(1), info(0), info(0), message(404, "gone")},
		getStatus: {status("RUNNING", "FAILED x"), status("STOPPED", "FAILED x"), status("STOPPED")},
	})
	s.run(exit.OK, "", "stop", "a", "--wait")
	s.run(exit.OK, "", "delete", "a", "--wait")
	s = newScripted(t, map[string][]answer{"PUT /connectors/a/pause": {{202, ""}}, getInfo: {info(1)}, getStatus: {status("PAUSED", "RUNNING")}})
	s.run(exit.Timeout, "it is PAUSED, task 0 RUNNING", "pause", "a", "--wait=300ms")
}

// TestConnectorRebalances asks again while the group of workers rebalances, and not for what will not pass.
func TestConnectorRebalances(t *testing.T) {
	t.Parallel()
	rebalance := message(409, "the group is about to rebalance")
	s := newScripted(t, map[string][]answer{post: {rebalance, message(503, "not joined"), message(500, "a rebalance is expected"), {201, created}}})
	s.run(exit.OK, "", "create", "a", "--set", "connector.class=c")
	s = newScripted(t, map[string][]answer{post: {message(409, `connector "a" already exists`)}})
	s.run(exit.Exists, "already exists", "create", "a", "--set", "connector.class=c")
	if n := s.times(post); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	s = newScripted(t, map[string][]answer{post: {rebalance}})
	s.run(exit.Timeout, "about to rebalance", "create", "a", "--set", "connector.class=c", "--timeout", "300ms")
	s = newScripted(t, map[string][]answer{"GET /connectors": {{401, "who are you"}}})
	s.run(exit.Denied, "401 Unauthorized: who are you", "list")
	s = newScripted(t, map[string][]answer{"GET /connectors": {{200, "<html>"}}})
	s.run(exit.Failed, "not as a Connect worker", "list")
}

// TestConnectorRefused names the keys of a configuration that a worker refuses.
func TestConnectorRefused(t *testing.T) {
	t.Parallel()
	const check = "PUT /connector-plugins/c/config/validate"
	found := answer{200, `{"name":"c","error_count":2,"groups":[],"configs":[{"definition":null,"value":{"name":"tasks.max","value":"0","errors":["at least 1 is wanted"]}},
		{"definition":null,"value":{"name":"topic","value":null,"errors":["topic is required"]}},{"definition":null,"value":{"name":"file","value":"x","errors":[]}}]}`}
	s := newScripted(t, map[string][]answer{
		post: {message(400, "two faults")}, check: {found}, getInfo: {{200, created}}, "PATCH /connectors/a/config": {message(400, "two faults")}, "PUT /connectors/a/config": {message(400, "two faults")},
	})
	const words = "tasks.max=0: at least 1 is wanted\ncauce: topic is required"
	s.run(exit.Failed, words, "create", "a", "--set", "connector.class=c", "--set", "tasks.max=0")
	s.run(exit.Failed, words, "config", "a", "--set", "tasks.max=0", "--unset", "topic")
	if got := s.bodies["PATCH /connectors/a/config"]; got != `{"tasks.max":"0","topic":null}` {
		t.Error(got)
	}
	if got := s.bodies[check]; got != `{"connector.class":"c","name":"a","tasks.max":"0"}` {
		t.Error(got)
	}
	s = newScripted(t, map[string][]answer{post: {message(400, "there is no class c")}, check: {message(400, "there is no class c")}})
	s.run(exit.Failed, "there is no class c", "create", "a", "--set", "connector.class=c")
}
