package rest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

const (
	sourceBody = `{"name":"src","config":{"connector.class":"FileStreamSource","topic":"lines"}}`
	sinkConfig = `{"connector.class":"FileStreamSink","tasks.max":3,"topics":"lines"}`
)

// TestOthersForwardToTheLeader has a worker that does not lead asked for what only the leader may write.
func TestOthersForwardToTheLeader(t *testing.T) {
	g := newGroup(t, 3, herder.Config{TrackTopics: true}, Config{})
	created := g.ask(2, "POST", "/connectors", sourceBody, "Authorization", "Basic xyz", "X-Other", "1")
	g.want(created, 201, `"name":"src"`)
	if got := created.header.Get("Location"); got != g.workers[2].server.URL+"/connectors/src" {
		t.Errorf("location %s", got)
	}
	if kind := created.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("content type %s", kind)
	}
	at := g.workers[0].seen[0]
	if at.URL.RawQuery != "forward=true" || at.Header.Get("Authorization") != "Basic xyz" || at.Header.Get("X-Other") != "" {
		t.Errorf("the leader saw %s with %v", at.URL, at.Header)
	}
	g.settle()
	g.want(g.ask(1, "POST", "/connectors", sourceBody), 409, "exists")
	g.want(g.ask(1, "PUT", "/connectors/a%2Fb%20c/config", sinkConfig), 201, `"name":"a/b c"`)
	g.want(g.ask(1, "PUT", "/connectors/src/config", `{"connector.class":"FileStreamSource"}`), 400, "topic")
	g.want(g.ask(1, "PATCH", "/connectors/src/config", `{"file":"x","n":1}`), 200, `"n":"1"`)
	g.want(g.ask(1, "PUT", "/connectors/src/stop", ""), 204, "")
	g.settle()
	g.want(g.ask(1, "PATCH", "/connectors/src/offsets", `{"offsets":[{"partition":{"filename":"x"},"offset":{"position":1}}]}`), 200, "altered")
	g.want(g.ask(1, "DELETE", "/connectors/src/offsets", ""), 200, "reset")
	g.want(g.ask(2, "DELETE", "/connectors/src", ""), 204, "")
	g.want(g.ask(2, "DELETE", "/connectors/src", ""), 404, "src")
	g.settle()
	// Any worker may write these, and reads what the others wrote.
	seen := len(g.workers[0].seen)
	g.want(g.ask(1, "PUT", "/connectors/a%2Fb%20c/pause", ""), 202, "")
	g.settle()
	g.want(g.ask(2, "GET", "/connectors/a%2Fb%20c/status", ""), 200, "PAUSED")
	g.want(g.ask(1, "PUT", "/connectors/a%2Fb%20c/resume", ""), 202, "")
	if len(g.workers[0].seen) != seen {
		t.Errorf("the leader was asked for what is not its own: %v", g.workers[0].seen[seen].URL)
	}
}

// TestRestartsGoToTheirWorker has each worker asked for each task: by way of the leader the one that runs it restarts it, once.
func TestRestartsGoToTheirWorker(t *testing.T) {
	g := newGroup(t, 3, herder.Config{}, Config{})
	g.owner = func(i work.Item) int { return int(i.Task+1) % 3 }
	g.want(g.ask(0, "PUT", "/connectors/c/config", sinkConfig), 201, "")
	g.settle()
	for from := range g.workers {
		g.want(g.ask(from, "POST", "/connectors/c/restart", ""), 204, "")
		for _, n := range []string{"0", "1", "2"} {
			g.want(g.ask(from, "POST", "/connectors/c/tasks/"+n+"/restart", ""), 204, "")
		}
	}
	for i, want := range [][]work.Item{{work.Connector("c"), {Connector: "c", Task: 2}}, {{Connector: "c", Task: 0}}, {{Connector: "c", Task: 1}}} {
		if got := g.workers[i].restarts; !slices.Equal(got, slices.Concat(want, want, want)) {
			t.Errorf("worker %d restarted %v", i, got)
		}
	}
	g.want(g.ask(1, "POST", "/connectors/c/tasks/3/restart", ""), 404, "c-3")
	restarted := g.ask(1, "POST", "/connectors/c/restart?includeTasks=true&onlyFailed=false", "")
	g.want(restarted, 202, `"RESTARTING"`)
	if strings.Contains(restarted.body, "RUNNING") {
		t.Errorf("not all restart: %s", restarted.body)
	}
	if last := g.written[len(g.written)-1]; last.Key != configs.RestartRecord(configs.Restart{Connector: "c"}).Key {
		t.Errorf("the last record is %s", last.Key)
	}
}

// TestWorkersThatDoNotAgree have each think that the other leads.
func TestWorkersThatDoNotAgree(t *testing.T) {
	g := newGroup(t, 2, herder.Config{}, Config{})
	for i, w := range g.workers {
		w.herder.SetGroup(herder.Group{LeaderURL: g.workers[1-i].server.URL})
	}
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 409, "agree")
	if a, b := len(g.workers[0].seen), len(g.workers[1].seen); a != 2 || b != 1 {
		t.Errorf("the workers were asked %d and %d times", a, b)
	}
	g.want(g.ask(0, "POST", "/connectors?forward=false", sourceBody), 409, "agree")
	g.workers[0].herder.SetGroup(herder.Group{})
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 409, "no leader")
	g.workers[0].herder.SetGroup(herder.Group{LeaderURL: g.workers[1].server.URL})
	g.workers[1].server.Close()
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 500, "worker")
}

func TestWhileTheGroupRebalances(t *testing.T) {
	g := newGroup(t, 1, herder.Config{}, Config{})
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 201, "")
	g.settle()
	g.pending = true
	g.assign()
	for _, r := range [][2]string{{"DELETE", "/connectors/src"}, {"PUT", "/connectors/src/stop"}, {"POST", "/connectors/src/restart"}, {"POST", "/connectors/src/restart?onlyFailed=true"}, {"POST", "/connectors/src/tasks/0/restart"}} {
		g.want(g.ask(0, r[0], r[1], ""), 409, "rebalance")
	}
	g.want(g.ask(0, "GET", "/connectors/src/status", ""), 200, "RUNNING")
}

func TestSignatures(t *testing.T) {
	g := newGroup(t, 2, herder.Config{ExactlyOnce: true}, Config{Signed: true, Algorithms: []string{"HmacSHA256", "HmacSHA512"}})
	g.want(g.ask(0, "POST", "/connectors", sourceBody), 201, "")
	g.settle()
	const body = `[{"file":"a"},{"file":"b"}]`
	key := &configs.SessionKey{Key: []byte("secret"), Algorithm: "HmacSHA256", CreatedMs: 1}
	signed := func(k *configs.SessionKey, algorithm, body string) []string {
		req, err := http.NewRequest("POST", "http://worker/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := Sign(req, []byte(body), k, algorithm); err != nil {
			t.Fatal(err)
		}
		return []string{signatureHeader, req.Header.Get(signatureHeader), algorithmHeader, req.Header.Get(algorithmHeader)}
	}
	g.want(g.ask(1, "POST", "/connectors/src/tasks", body, signed(key, "HmacSHA256", body)...), 503, "session key")
	g.write(configs.SessionKeyRecord(*key))
	g.want(g.ask(1, "POST", "/connectors/src/tasks", body), 400, "signature")
	g.want(g.ask(1, "POST", "/connectors/src/tasks", body, signed(key, "HmacSHA1", body)...), 400, "HmacSHA1")
	g.want(g.ask(1, "POST", "/connectors/src/tasks", body, signatureHeader, "!", algorithmHeader, "HmacSHA256"), 400, "base64")
	g.want(g.ask(1, "POST", "/connectors/src/tasks", body, signed(key, "HmacSHA256", body+" ")...), 403, "session key")
	other := &configs.SessionKey{Key: []byte("other")}
	g.want(g.ask(1, "PUT", "/connectors/src/fence", "", signed(other, "HmacSHA256", "")...), 403, "session key")
	g.want(g.ask(1, "POST", "/connectors/src/tasks", body, signed(key, "HmacSHA512", body)...), 204, "")
	if got := g.workers[0].herder.Configs().TaskConfigs("src"); len(got) != 2 || got[1]["file"] != "b" {
		t.Errorf("tasks: %v", got)
	}
	g.want(g.ask(1, "PUT", "/connectors/src/fence", "", signed(key, "HmacSHA256", "")...), 204, "")
	g.want(g.ask(1, "POST", "/connectors/src/tasks", "[{}]", signed(key, "HmacSHA256", "[{}]")...), 204, "")
	g.want(g.ask(1, "PUT", "/connectors/src/fence", "", signed(key, "HmacSHA256", "")...), 204, "")
	g.want(g.ask(1, "PUT", "/connectors/src/fence", "", signed(key, "HmacSHA256", "")...), 204, "")
	if !slices.Equal(g.fenced, []string{"src 2"}) {
		t.Errorf("fenced: %v", g.fenced)
	}
	if err := Sign(&http.Request{}, nil, key, "MD5"); err == nil {
		t.Error("signed by MD5")
	}
}
