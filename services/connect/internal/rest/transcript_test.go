package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

// TestTranscript sends what a JVM worker was sent, in the same order, and compares status codes and fields.
func TestTranscript(t *testing.T) {
	g := newGroup(t, 1, herder.Config{TrackTopics: true, ResetTopics: true}, Config{
		Version: "4.3.1", Commit: "26b251a451ce941d", ClusterID: func() string { return "Y2F1Y2UtcGVlcnMtMDAwMQ" }, Signed: true, Algorithms: []string{"HmacSHA256"},
	})
	for i, e := range jvmtest.Exchanges(t) {
		g.settle()
		g.beforeExchange(e)
		a := g.ask(0, e.Method, e.Path, e.Body)
		at := fmt.Sprintf("%d: %s %s %s", i, e.Method, e.Path, e.Body)
		if want := statusHere(e); a.status != want {
			t.Errorf("%s: answered %d %s, a JVM %d", at, a.status, a.body, e.Status)
			continue
		}
		theirs, err := url.Parse(e.Location)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := url.Parse(a.header.Get("Location"))
		if err != nil || ours.Path != theirs.Path || (ours.Path != "" && "http://"+ours.Host != g.workers[0].server.URL) {
			t.Errorf("%s: location %v, a JVM's is %v", at, ours, theirs)
		}
		compareAnswers(t, at, a.body, e)
	}
}

// beforeExchange brings about what the recorder waited for: the connectors have run.
func (g *group) beforeExchange(e jvmtest.Exchange) {
	if e.Method != "GET" || !strings.HasSuffix(e.Path, "/offsets") || len(g.stands) > 0 || len(g.workers[0].herder.Connectors()) == 0 {
		return
	}
	g.stands["src"] = []offsets.Entry{{Partition: offsets.Map{"filename": "lines.txt"}, Offset: offsets.Map{"position": int64(14)}}}
	g.stands["out-1"] = offsets.SinkEntries(map[offsets.TopicPartition]int64{{Topic: "lines"}: 3})
}

// statusHere is 400 for requests that are wrong where a JVM answers 500, but for what a plugin refuses.
func statusHere(e jvmtest.Exchange) int {
	if e.Status != 500 || strings.Contains(e.Body, `"position":"x"`) {
		return e.Status
	}
	return 400
}

func compareAnswers(t *testing.T, at, body string, e jvmtest.Exchange) {
	t.Helper()
	if e.Answer == nil {
		if body != "" {
			t.Errorf("%s: answered %s, a JVM nothing", at, body)
		}
		return
	}
	var ours, theirs any
	if err := json.Unmarshal([]byte(body), &ours); err != nil {
		t.Errorf("%s: %v in %s", at, err, body)
		return
	}
	if err := json.Unmarshal(e.Answer, &theirs); err != nil {
		t.Fatal(err)
	}
	compareValues(t, at, "", ours, theirs)
}

// own are fields in which each worker has its own words or times.
var own = []string{"message", "trace", "documentation", "last_modified", "error_code"}

func compareValues(t *testing.T, at, field string, ours, theirs any) {
	t.Helper()
	if fmt.Sprintf("%T", ours) != fmt.Sprintf("%T", theirs) {
		t.Errorf("%s: %s is %v, a JVM's %v", at, field, ours, theirs)
		return
	}
	switch theirs := theirs.(type) {
	case map[string]any:
		ours := ours.(map[string]any)
		if a, b := slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(theirs)); !slices.Equal(a, b) {
			t.Errorf("%s: %s has fields %v, a JVM's %v", at, field, a, b)
			return
		}
		for key := range theirs {
			compareValues(t, at, key, ours[key], theirs[key])
		}
	case []any:
		compareLists(t, at, field, ours.([]any), theirs)
	default:
		if ours != theirs && !slices.Contains(own, field) && field != "error_count" {
			t.Errorf("%s: %s is %v, a JVM's %v", at, field, ours, theirs)
		}
	}
}

func compareLists(t *testing.T, at, field string, ours, theirs []any) {
	t.Helper()
	byName := func(list []any) map[string]any {
		m := map[string]any{}
		for _, one := range list {
			if o, ok := one.(map[string]any); ok {
				for _, key := range []string{"name", "class", "id"} {
					if o[key] != nil {
						m[fmt.Sprint(o[key])] = one
						break
					}
				}
				if d, ok := o["definition"].(map[string]any); ok {
					m[fmt.Sprint(d["name"])] = one
				}
			}
		}
		return m
	}
	switch {
	case strings.Contains(at, "/connector-plugins"):
		// Each worker has plugins of its own, and keys of its own: those of the same name are alike.
		a, b := byName(ours), byName(theirs)
		for name := range a {
			if b[name] != nil && !(field == "configs" && len(ours) > 0 && differs(a[name])) {
				compareValues(t, at, name, a[name], b[name])
			}
		}
		return
	case strings.Contains(at, "/admin/loggers"):
		return
	case field == "tasks" && strings.Contains(at, "/config"):
		// Whether a JVM answers with the tasks before or after a change is a matter of time.
		return
	case field == "tasks" && len(theirs) > 0:
		a, b := byName(ours), byName(theirs)
		if len(a) > 0 && len(a) == len(ours) {
			compareValues(t, at, "tasks by id", toAny(a), toAny(b))
			return
		}
	}
	if len(ours) != len(theirs) {
		t.Errorf("%s: %s has %d elements, a JVM's %d: %v and %v", at, field, len(ours), len(theirs), ours, theirs)
		return
	}
	for i := range theirs {
		compareValues(t, at, field, ours[i], theirs[i])
	}
}

// differs says whether a key was refused, where a JVM shows no value.
func differs(key any) bool {
	value := key.(map[string]any)["value"].(map[string]any)
	return len(value["errors"].([]any)) > 0
}

func toAny(m map[string]any) any { return m }
