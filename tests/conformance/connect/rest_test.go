//go:build conformance

package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	source = "org.apache.kafka.connect.file.FileStreamSourceConnector"
	sink   = "org.apache.kafka.connect.file.FileStreamSinkConnector"
)

// TestREST sends a worker of Kafka's and one of ours the same, the life of some connectors and what there is to refuse.
func TestREST(t *testing.T) {
	p := &pair{T: t, used: map[*difference]bool{}}
	p.theirs, p.ours = start(t, jvm, "rest-jvm"), start(t, ours, "rest-cauce")
	dir := t.TempDir()
	lines := filepath.Join(dir, "lines.txt")
	if err := os.WriteFile(lines, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := script{p, strings.NewReplacer("$lines", lines, "$other", filepath.Join(dir, "other.txt"), "$out", filepath.Join(dir, "out@.txt"), "$source", source, "$sink", sink)}
	s.reads()
	s.methods()
	s.refusals()
	s.validations()
	s.lifecycle()
	s.restarts()
	s.offsets()
	s.loggers()
	s.removal()
	for i := range differences {
		if !p.used[&differences[i]] && !differences[i].chance {
			t.Errorf("there is no difference any more: %+v", differences[i])
		}
	}
}

// TestPartsOfREST asks for what workers are told not to serve.
func TestPartsOfREST(t *testing.T) {
	p := &pair{T: t, used: map[*difference]bool{}}
	set := []string{"topic.tracking.enable=false", "admin.listeners="}
	p.theirs, p.ours = start(t, jvm, "parts-jvm", set...), start(t, ours, "parts-cauce", set...)
	for _, request := range [][2]string{
		{"GET", "/connectors/nothing/topics"}, {"PUT", "/connectors/nothing/topics/reset"}, {"GET", "/admin/loggers"}, {"GET", "/admin/loggers/root"}, {"GET", "/connectors"}, {"GET", "/health"},
	} {
		p.do(request[0], request[1], "")
	}
}

// script is what both are sent. $lines, $other and $out are files, $source and $sink classes of connectors.
type script struct {
	*pair
	fill *strings.Replacer
}

func (s script) do(method, path, body string) {
	s.Helper()
	s.pair.do(method, path, s.fill.Replace(body))
}

func (s script) states(connector, state string, tasks int) {
	s.Helper()
	s.both(func(w *worker) error { return w.states(s.T, connector, state, tasks) })
}

func (s script) until(path string, texts ...string) {
	s.Helper()
	s.both(func(w *worker) error { return w.until(s.T, path, texts...) })
}

// reads asks for what there is without any connector.
func (s script) reads() {
	for _, path := range []string{
		"/", "/health", "/connectors", "/connectors?expand=status&expand=info", "/connectors?expand=", "/connectors/", "/connector-plugins", "/connector-plugins?connectorsOnly=true",
		"/connector-plugins?connectorsOnly=false", "/connector-plugins?connectorsOnly=maybe", "/connector-plugins/nothing/config", "/connector-plugins/nothing", "/nowhere", "/admin", "/admin/loggers/nothing",
		"/connector-plugins/FileStreamSource/config", "/connector-plugins/FileStreamSinkConnector/config", "/connector-plugins/" + source + "/config", "/connector-plugins/" + sink + "/config",
		"/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config", "/connector-plugins/org.apache.kafka.connect.transforms.InsertField$Value/config",
		"/connector-plugins/org.apache.kafka.connect.transforms.predicates.HasHeaderKey/config",
	} {
		s.do("GET", path, "")
	}
	for _, path := range []string{"", "/config", "/status", "/tasks", "/tasks-config", "/tasks/0/status", "/tasks/0", "/tasks/x/status", "/topics", "/offsets", "/nowhere"} {
		s.do("GET", "/connectors/nothing"+path, "")
	}
	for _, path := range []string{"/pause", "/resume", "/stop", "/topics/reset"} {
		s.do("PUT", "/connectors/nothing"+path, "")
	}
	for _, path := range []string{"/restart", "/restart?includeTasks=true", "/restart?onlyFailed=true", "/tasks/0/restart", "/tasks/x/restart"} {
		s.do("POST", "/connectors/nothing"+path, "")
	}
	s.do("DELETE", "/connectors/nothing", "")
	s.do("DELETE", "/connectors/nothing/offsets", "")
	s.do("PATCH", "/connectors/nothing/offsets", `{"offsets":[{"partition":{"a":1},"offset":null}]}`)
	s.do("PATCH", "/connectors/nothing/config", `{"a":"b"}`)
}

// methods asks for paths by methods that they have not, and for what methods they have.
func (s script) methods() {
	for _, path := range []string{"/", "/health", "/connectors", "/connectors/nothing", "/connectors/nothing/config", "/connectors/nothing/status", "/connector-plugins", "/admin/loggers/root"} {
		s.do("HEAD", path, "")
		s.do("OPTIONS", path, "")
		s.do("TRACE", path, "")
	}
	for _, one := range [][2]string{
		{"DELETE", "/connectors"}, {"PUT", "/connectors"}, {"POST", "/connectors/nothing"}, {"POST", "/connectors/nothing/pause"}, {"GET", "/connectors/nothing/pause"}, {"GET", "/connectors/nothing/restart"},
		{"PUT", "/connectors/nothing/restart"}, {"DELETE", "/connectors/nothing/config"}, {"POST", "/connector-plugins"}, {"POST", "/connector-plugins/nothing/config/validate"}, {"DELETE", "/admin/loggers/root"},
	} {
		s.do(one[0], one[1], "")
	}
}

// refusals sends bodies that are wrong.
func (s script) refusals() {
	for _, body := range []string{
		"", "{", "[]", "null", "{}", "1", `"a"`, `{"name":"a@"}`, `{"name":"a@","config":{}}`, `{"name":"a@","config":null}`, `{"name":null,"config":{"connector.class":"FileStreamSource","topic":"t","file":"f"}}`,
		`{"config":{"connector.class":"FileStreamSource"}}`, `{"name":"a@","config":{"connector.class":"NoSuchClass"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSource"}}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","name":"b"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"},"more":1}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"},"initial_state":"sleeping"}`, `{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"},"initial_state":3}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","tasks.max":"0"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","deep":{"a":1}}}`,
		`{"name":" ","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"}}`, `{"name":"a b@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"}}`,
		`{"name":"\u0001a@\u0001","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","n":null}}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSink"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSink","topics":"t","file":"f","topics.regex":"t"}}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSink","topics":"t","file":"f","errors.deadletterqueue.topic.name":"t"}}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","transforms":"x"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","key.converter":"nope"}}`,
		`{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f","exactly.once.support":"required"}}`, `{"name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"}} trailing`,
		`{"name":"a@","name":"b","config":{"connector.class":"FileStreamSource"}}`, `{"Name":"a@","config":{"connector.class":"FileStreamSource","topic":"t","file":"f"}}`,
	} {
		s.do("POST", "/connectors", body)
	}
	for _, body := range []string{"", "{", "[]", "{}", "null", `{"connector.class":"NoSuchClass"}`, `{"connector.class":"FileStreamSource","name":"b","topic":"t","file":"f"}`, `{"connector.class":"FileStreamSource"}`, `{"connector.class":""}`} {
		s.do("PUT", "/connectors/a@/config", body)
		s.do("PATCH", "/connectors/a@/config", body)
		s.do("PUT", "/connector-plugins/FileStreamSource/config/validate", body)
	}
	for _, name := range []string{"a@", "a%20b@"} {
		s.states(name, "RUNNING", 1)
		s.do("GET", "/connectors/"+name, "")
		s.do("DELETE", "/connectors/"+name, "")
	}
	s.do("GET", "/connectors", "")
}

func (s script) validations() {
	s.do("PUT", "/connector-plugins/nothing/config/validate", `{"connector.class":"nothing"}`)
	for _, body := range []string{
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f"}`, `{"connector.class":"$source","name":"a","topic":"t","file":"f","batch.size":"0"}`, `{"connector.class":"FileStreamSourceConnector","batch.size":"x"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","tasks.max":"x","transforms":"t"}`, `{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","tasks.max":7,"unknown":true}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","transforms":"h","transforms.h.type":"org.apache.kafka.connect.transforms.HoistField$Value"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","transforms":"h","transforms.h.type":"org.apache.kafka.connect.transforms.HoistField$Value","transforms.h.field":"f","transforms.h.predicate":"p","predicates":"p","predicates.p.type":"org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","transforms":"h","transforms.h.type":"nope"}`, `{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","value.converter":"org.apache.kafka.connect.json.JsonConverter","value.converter.schemas.enable":"maybe"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","config.action.reload":"never"}`, `{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","producer.override.acks":"2"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","errors.tolerance":"some","errors.retry.timeout":"x"}`, `{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","topic.creation.groups":"g"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","topic.creation.default.partitions":"0","topic.creation.default.replication.factor":"1"}`,
		`{"connector.class":"FileStreamSource","name":"a","topic":"t","file":"f","exactly.once.support":"required","transaction.boundary":"connector"}`, `{"connector.class":"$sink","name":"a"}`,
	} {
		s.do("PUT", "/connector-plugins/FileStreamSource/config/validate", body)
	}
	for _, body := range []string{
		`{"connector.class":"FileStreamSink"}`, `{"connector.class":"$sink","name":"a","topics":"t","file":"f"}`, `{"connector.class":"FileStreamSink","name":"a","topics":"t","file":"f","topics.regex":"["}`, `{"connector.class":"FileStreamSink","name":"a","topics.regex":"[","file":"f"}`,
		`{"connector.class":"FileStreamSink","name":"a","topics":"t","file":"f","errors.deadletterqueue.topic.name":"t"}`, `{"connector.class":"FileStreamSink","name":"a","topics":"t","file":"f","consumer.override.auto.offset.reset":"latest"}`,
	} {
		s.do("PUT", "/connector-plugins/FileStreamSinkConnector/config/validate", body)
	}
}

// lifecycle makes connectors and changes them.
func (s script) lifecycle() {
	s.do("POST", "/connectors", `{"name":" src@ ","config":{"connector.class":"$source","topic":"lines@","file":"$lines"}}`)
	s.states("src@", "RUNNING", 1)
	s.do("POST", "/connectors", `{"name":"src@","config":{"connector.class":"FileStreamSource","topic":"lines@","file":"f"}}`)
	s.do("PUT", "/connectors/out@/config", `{"connector.class":"FileStreamSink","tasks.max":"3","topics":"lines@","file":"$out","name":"out@"}`)
	s.states("out@", "RUNNING", 3)
	for _, path := range []string{"/connectors", "/connectors?expand=status", "/connectors?expand=info", "/connectors?expand=status&expand=info&expand=other", "/connectors?expand=other"} {
		s.do("GET", path, "")
	}
	for _, path := range []string{"", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/3/status", "/tasks/x/status", "/tasks/-1/status"} {
		s.do("GET", "/connectors/out@"+path, "")
		s.do("GET", "/connectors/src@"+path, "")
	}
	s.until("/connectors/out@/topics", "lines")
	s.do("GET", "/connectors/out@/topics", "")
	s.do("PUT", "/connectors/out@/topics/reset", "")
	s.do("GET", "/connectors/nothing/topics", "")
	s.do("PUT", "/connectors/out@/config", `{"connector.class":"$sink","tasks.max":2,"topics":"lines@","file":"$out"}`)
	s.states("out@", "RUNNING", 2)
	s.do("PUT", "/connectors/out@/config", `{"connector.class":"$sink","tasks.max":"x","topics":"lines@"}`)
	s.do("PATCH", "/connectors/out@/config", `{"extra":"x"}`)
	s.do("PATCH", "/connectors/out@/config", `{"extra":null,"more":true}`)
	s.states("out@", "RUNNING", 2)
	s.do("GET", "/connectors/out@/config", "")
	s.do("PATCH", "/connectors/out@/config", `{"connector.class":null}`)
	s.do("PATCH", "/connectors/out@/config", `{"name":"other"}`)
	s.do("PATCH", "/connectors/out@/config", `[]`)
	s.do("POST", "/connectors", `{"name":"off@","config":{"connector.class":"FileStreamSource","topic":"lines@","file":"$other"},"initial_state":"stopped"}`)
	s.do("POST", "/connectors", `{"name":"held@","config":{"connector.class":"FileStreamSource","topic":"lines@","file":"$other"},"initial_state":"Paused"}`)
	s.states("off@", "STOPPED", 0)
	s.states("held@", "PAUSED", 0)
	for _, name := range []string{"off@", "held@"} {
		s.do("GET", "/connectors/"+name+"/status", "")
		s.do("GET", "/connectors/"+name, "")
	}
	s.do("PUT", "/connectors/out@/pause", "")
	s.states("out@", "PAUSED", 2)
	s.do("GET", "/connectors/out@/status", "")
	s.do("PUT", "/connectors/out@/pause", "")
	s.do("PUT", "/connectors/out@/resume", "")
	s.states("out@", "RUNNING", 2)
	s.do("PUT", "/connectors/off@/resume", "")
	s.states("off@", "RUNNING", 1)
}

func (s script) restarts() {
	s.do("POST", "/connectors/out@/restart", "")
	s.states("out@", "RUNNING", 2)
	s.do("POST", "/connectors/out@/restart?includeTasks=false&onlyFailed=true", "")
	s.do("POST", "/connectors/out@/restart?includeTasks=true", "")
	s.states("out@", "RUNNING", 2)
	s.do("POST", "/connectors/out@/restart?includeTasks=perhaps", "")
	s.do("POST", "/connectors/out@/tasks/1/restart", "")
	s.states("out@", "RUNNING", 2)
	s.do("POST", "/connectors/out@/tasks/7/restart", "")
	s.do("POST", "/connectors/out@/tasks", "[]")
	s.do("PUT", "/connectors/src@/fence", "")
	s.do("POST", "/connectors", `{"name":"broken@","config":{"connector.class":"FileStreamSink","topics":"lines@","file":"$out","value.converter":"org.apache.kafka.connect.converters.IntegerConverter"}}`)
	s.until("/connectors/broken@/status", `"state":"FAILED"`)
	s.do("GET", "/connectors/broken@/status", "")
	s.do("GET", "/connectors/broken@/tasks/0/status", "")
	s.do("POST", "/connectors/broken@/restart?includeTasks=true&onlyFailed=true", "")
	s.do("DELETE", "/connectors/broken@", "")
}

// offsets lists and alters offsets of a source and of a sink.
func (s script) offsets() {
	s.until("/connectors/src@/offsets", `"position":14`)
	s.until("/connectors/out@/offsets", `"kafka_offset":3`)
	s.do("GET", "/connectors/src@/offsets", "")
	s.do("GET", "/connectors/held@/offsets", "")
	s.do("DELETE", "/connectors/src@/offsets", "")
	s.do("PUT", "/connectors/src@/pause", "")
	s.do("DELETE", "/connectors/src@/offsets", "")
	for _, c := range []string{"src@", "out@"} {
		s.do("PUT", "/connectors/"+c+"/stop", "")
		s.states(c, "STOPPED", 0)
		for _, path := range []string{"", "/status", "/tasks", "/offsets", "/tasks/0/status"} {
			s.do("GET", "/connectors/"+c+path, "")
		}
		s.do("PUT", "/connectors/"+c+"/stop", "")
	}
	for _, body := range []string{
		"", "{", "{}", "[]", `{"offsets":[]}`, `{"offsets":null}`, `{"offsets":{}}`, `{"offsets":[{"partition":{"filename":"$lines"},"offset":{"position":5}},{"partition":{"filename":"$lines"},"offset":null}]}`,
		`{"offsets":[{"partition":{"filename":"$lines"},"offset":{"position":"x"}}]}`, `{"offsets":[{"partition":{"filename":"$lines"},"offset":{"position":-1}}]}`, `{"offsets":[{"partition":{"file":"$lines"},"offset":{"position":1}}]}`,
		`{"offsets":[{"partition":{"filename":"$lines"},"offset":{"place":1}}]}`, `{"offsets":[{"partition":{"filename":"$lines"},"offset":{"position":4}},{"partition":{"filename":"never.txt"},"offset":null}]}`,
		`{"offsets":[{"offset":{"position":5}}]}`, `{"offsets":[{"partition":{"filename":"$lines"}}]}`, `{"more":1,"offsets":[{"partition":{"filename":"$lines"},"offset":{"position":3}}]}`,
		`{"offsets":[{"partition":{"filename":"$lines","deep":{"a":[1]}},"offset":{"position":3}}]}`,
	} {
		s.do("PATCH", "/connectors/src@/offsets", body)
		s.do("GET", "/connectors/src@/offsets", "")
	}
	for _, body := range []string{
		`{"offsets":[{"partition":{"id":1},"offset":{"seqno":5}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":0},"offset":{"kafka_offset":2}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":"0"},"offset":{"kafka_offset":"1"}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":"x"},"offset":{"kafka_offset":"3"}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":0},"offset":{"kafka_offset":-2}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":0},"offset":{}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":0},"offset":{"kafka_offset":1.5}}]}`, `{"offsets":[{"partition":{"kafka_topic":"","kafka_partition":0},"offset":{"kafka_offset":1}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines@"},"offset":{"kafka_offset":1}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":-1},"offset":{"kafka_offset":1}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines@","kafka_partition":0},"offset":null}]}`,
	} {
		s.do("PATCH", "/connectors/out@/offsets", body)
		s.do("GET", "/connectors/out@/offsets", "")
	}
	for _, c := range []string{"src@", "out@"} {
		s.do("DELETE", "/connectors/"+c+"/offsets", "")
		s.do("GET", "/connectors/"+c+"/offsets", "")
		s.do("DELETE", "/connectors/"+c+"/offsets", "")
		s.do("PUT", "/connectors/"+c+"/resume", "")
	}
	s.states("src@", "RUNNING", 1)
	s.states("out@", "RUNNING", 2)
	s.until("/connectors/src@/offsets", `"position":14`)
}

func (s script) loggers() {
	const logger = "/admin/loggers/org.apache.kafka.connect.runtime.rest.RestServer"
	s.do("PUT", "/admin/loggers/root", `{"level":"ERROR"}`)
	s.do("PUT", "/admin/loggers/root", `{"level":"INFO"}`)
	s.do("GET", "/admin/loggers/root", "")
	for _, body := range []string{`{"level":"ERROR"}`, `{"level":"debug"}`, `{}`, `{"level":null}`, `{"level":"LOUD"}`, `{"level":3}`, `[]`, `{`, ``, `{"level":"INFO","more":1}`} {
		s.do("PUT", logger, body)
		s.do("GET", logger, "")
	}
	s.do("PUT", logger+"?scope=elsewhere", `{"level":"WARN"}`)
	s.do("PUT", logger+"?scope=worker", `{"level":"WARN"}`)
	s.do("PUT", logger+"?scope=cluster", `{"level":"LOUD"}`)
	s.do("PUT", logger+"?scope=cluster", `{"level":"TRACE"}`)
	s.until(logger, "TRACE")
	s.do("GET", logger, "")
	s.do("PUT", "/admin/loggers/no.such.logger", `{"level":"INFO"}`)
	s.do("GET", "/admin/loggers/no.such.logger", "")
	s.do("PUT", "/admin/loggers/root", `{"level":"WARN"}`)
	s.do("GET", "/admin/loggers/root", "")
}

func (s script) removal() {
	for _, name := range []string{"src@", "out@", "off@", "held@"} {
		s.do("DELETE", "/connectors/"+name, "")
		s.do("DELETE", "/connectors/"+name, "")
		s.do("GET", "/connectors/"+name, "")
	}
	s.do("GET", "/connectors", "")
	s.do("GET", "/connectors?expand=status", "")
	s.do("GET", "/connectors/src@/topics", "")
}
