package main

const (
	source = "org.apache.kafka.connect.file.FileStreamSourceConnector"
	sink   = "org.apache.kafka.connect.file.FileStreamSinkConnector"
)

// script is a life of some connectors.
func (r *recorder) script() {
	r.until("/connectors", "[]")
	r.reads()
	r.refusals()
	r.lifecycle()
	r.offsets()
	r.loggers()
}

// reads asks for what there is without any connector.
func (r *recorder) reads() {
	for _, path := range []string{"/", "/health", "/connectors", "/connectors?expand=status&expand=info", "/connector-plugins", "/connector-plugins?connectorsOnly=false",
		"/connector-plugins/FileStreamSource/config", "/connector-plugins/nothing/config", "/nowhere", "/connectors/", "/admin/loggers/nothing"} {
		r.do("GET", path, "")
	}
	for _, path := range []string{"", "/config", "/status", "/tasks", "/tasks-config", "/tasks/0/status", "/topics", "/offsets"} {
		r.do("GET", "/connectors/nothing"+path, "")
	}
	for _, path := range []string{"/pause", "/resume", "/stop", "/topics/reset"} {
		r.do("PUT", "/connectors/nothing"+path, "")
	}
	for _, path := range []string{"/restart", "/restart?includeTasks=true", "/tasks/0/restart", "/pause"} {
		r.do("POST", "/connectors/nothing"+path, "")
	}
	r.do("DELETE", "/connectors/nothing", "")
	r.do("DELETE", "/connectors/nothing/offsets", "")
	r.do("PATCH", "/connectors/nothing/offsets", `{"offsets":[{"partition":{"a":1},"offset":null}]}`)
	r.do("PATCH", "/connectors/nothing/config", `{"a":"b"}`)
}

// refusals sends requests that are wrong.
func (r *recorder) refusals() {
	for _, body := range []string{
		"", "{", "[]", "null", "{}", `{"name":"a"}`, `{"name":"a","config":{}}`, `{"config":{"connector.class":"FileStreamSource"}}`,
		`{"name":"a","config":{"connector.class":"NoSuchClass"}}`, `{"name":"a","config":{"connector.class":"FileStreamSource"}}`,
		`{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t","name":"b"}}`, `{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t"},"more":1}`,
		`{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t"},"initial_state":"sleeping"}`, `{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t","tasks.max":"0"}}`,
		`{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t","tasks.max":2,"deep":{"a":1}}}`, `{"name":" ","config":{"connector.class":"FileStreamSource","topic":"t"}}`,
		`{"name":"a/b","config":{"connector.class":"FileStreamSource"}}`, `{"name":"a","config":{"connector.class":"FileStreamSource","topic":"t","n":null}}`,
	} {
		r.do("POST", "/connectors", body)
	}
	for _, body := range []string{"", "{", "[]", "{}", `{"connector.class":"NoSuchClass"}`, `{"connector.class":"FileStreamSource","name":"b","topic":"t"}`, `{"connector.class":"FileStreamSource"}`} {
		r.do("PUT", "/connectors/a/config", body)
		r.do("PUT", "/connector-plugins/FileStreamSource/config/validate", body)
	}
	r.do("PUT", "/connector-plugins/nothing/config/validate", `{"connector.class":"nothing"}`)
	r.do("PUT", "/connector-plugins/FileStreamSource/config/validate", `{"connector.class":"FileStreamSource","name":"a","topic":"t","tasks.max":"x","transforms":"t"}`)
	r.do("PUT", "/connector-plugins/FileStreamSourceConnector/config/validate", `{"connector.class":"`+source+`","name":"a","topic":"t"}`)
	r.do("DELETE", "/connectors", "")
	r.do("PUT", "/connectors", "{}")
}

// lifecycle creates connectors, changes and deletes them. The worker's folder has a file lines.txt.
func (r *recorder) lifecycle() {
	r.do("POST", "/connectors", `{"name":" src ","config":{"connector.class":"`+source+`","topic":"lines","file":"lines.txt"}}`)
	r.until("/connectors/src/status", `"id":0,"state":"RUNNING"`)
	r.do("POST", "/connectors", `{"name":"src","config":{"connector.class":"FileStreamSource","topic":"lines"}}`)
	r.do("PUT", "/connectors/out-1/config", `{"connector.class":"FileStreamSink","tasks.max":"3","topics":"lines","file":"out.txt","name":"out-1"}`)
	r.until("/connectors/out-1/status", `"id":0,"state":"RUNNING"`, `"id":1,"state":"RUNNING"`, `"id":2,"state":"RUNNING"`)
	for _, path := range []string{"/connectors", "/connectors?expand=status&expand=info&expand=other", "/connectors?expand=other"} {
		r.do("GET", path, "")
	}
	for _, path := range []string{"", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/3/status", "/tasks/x/status"} {
		r.do("GET", "/connectors/out-1"+path, "")
	}
	r.until("/connectors/out-1/topics", "lines")
	r.do("GET", "/connectors/out-1/topics", "")
	r.do("PUT", "/connectors/out-1/topics/reset", "")
	r.settled("PUT", "/connectors/out-1/config", `{"connector.class":"`+sink+`","tasks.max":"2","topics":"lines","file":"out.txt"}`)
	r.settled("PATCH", "/connectors/out-1/config", `{"file":null,"extra":"x"}`)
	r.until("/connectors/out-1/status", `"id":1,"state":"RUNNING"`)
	r.do("PATCH", "/connectors/out-1/config", `{"connector.class":null}`)
	r.do("PATCH", "/connectors/out-1/config", `[]`)
	r.do("POST", "/connectors", `{"name":"off","config":{"connector.class":"FileStreamSource","topic":"lines","file":"other.txt"},"initial_state":"stopped"}`)
	r.do("POST", "/connectors", `{"name":"held","config":{"connector.class":"FileStreamSource","topic":"lines","file":"other.txt"},"initial_state":"PAUSED"}`)
	r.until("/connectors/off/status", `STOPPED`)
	r.until("/connectors/held/status", `"connector":{"state":"PAUSED"`)
	r.do("GET", "/connectors/off/status", "")
	r.do("GET", "/connectors/held/status", "")
	r.restarts()
	r.do("PUT", "/connectors/out-1/pause", "")
	r.until("/connectors/out-1/status", `"connector":{"state":"PAUSED"`, `"id":0,"state":"PAUSED"`, `"id":1,"state":"PAUSED"`)
	r.do("GET", "/connectors/out-1/status", "")
	r.do("PUT", "/connectors/out-1/resume", "")
	r.until("/connectors/out-1/status", `"connector":{"state":"RUNNING"`, `"id":0,"state":"RUNNING"`, `"id":1,"state":"RUNNING"`)
	r.settled("DELETE", "/connectors/off", "")
	r.do("POST", "/connectors", `{"name":"broken","config":{"connector.class":"FileStreamSink","topics":"lines","value.converter":"org.apache.kafka.connect.converters.IntegerConverter"}}`)
	r.until("/connectors/broken/status", `"id":0,"state":"FAILED"`)
	r.do("GET", "/connectors/broken/status", "")
}

func (r *recorder) restarts() {
	r.settled("POST", "/connectors/out-1/restart", "")
	r.until("/connectors/out-1/status", `"connector":{"state":"RUNNING"`)
	r.settled("POST", "/connectors/out-1/restart?includeTasks=false&onlyFailed=true", "")
	r.settled("POST", "/connectors/out-1/restart?includeTasks=true", "")
	r.until("/connectors/out-1/status", `"connector":{"state":"RUNNING"`, `"id":0,"state":"RUNNING"`, `"id":1,"state":"RUNNING"`)
	r.settled("POST", "/connectors/out-1/tasks/1/restart", "")
	r.settled("POST", "/connectors/out-1/tasks/7/restart", "")
	r.do("POST", "/connectors/out-1/tasks", "[]")
	r.do("PUT", "/connectors/src/fence", "")
}

// offsets lists and alters offsets of a source and of a sink.
func (r *recorder) offsets() {
	r.until("/connectors/src/offsets", "position")
	r.until("/connectors/out-1/offsets", "kafka_offset")
	r.do("GET", "/connectors/src/offsets", "")
	r.do("DELETE", "/connectors/src/offsets", "")
	for _, c := range []string{"src", "out-1"} {
		r.settled("PUT", "/connectors/"+c+"/stop", "")
		r.until("/connectors/"+c+"/status", `STOPPED`, `"tasks":[]`)
		r.do("GET", "/connectors/"+c+"/status", "")
		r.do("GET", "/connectors/"+c+"/tasks", "")
		r.do("GET", "/connectors/"+c+"/offsets", "")
	}
	for _, body := range []string{"", "{", "{}", "[]", `{"offsets":[]}`, `{"offsets":null}`, `{"offsets":[{"partition":{"filename":"lines.txt"},"offset":{"position":5}},{"partition":{"filename":"lines.txt"},"offset":null}]}`,
		`{"offsets":[{"partition":{"filename":"lines.txt"},"offset":{"position":"x"}}]}`, `{"offsets":[{"partition":{"filename":"lines.txt"},"offset":{"position":3}},{"partition":{"filename":"never.txt"},"offset":null}]}`,
		`{"offsets":[{"offset":{"position":5}}]}`, `{"offsets":[{"partition":{"filename":"lines.txt"}}]}`, `{"more":1,"offsets":[{"partition":{"filename":"lines.txt"},"offset":{"position":3}}]}`} {
		r.settled("PATCH", "/connectors/src/offsets", body)
	}
	r.do("GET", "/connectors/src/offsets", "")
	for _, body := range []string{`{"offsets":[{"partition":{"id":1},"offset":{"seqno":5}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":0},"offset":{"kafka_offset":2}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":"0"},"offset":{"kafka_offset":"1"}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":"x"},"offset":{"kafka_offset":"3"}}]}`,
		`{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":0},"offset":{"kafka_offset":-2}}]}`, `{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":0},"offset":{}}]}`} {
		r.settled("PATCH", "/connectors/out-1/offsets", body)
	}
	r.do("GET", "/connectors/out-1/offsets", "")
	r.settled("DELETE", "/connectors/out-1/offsets", "")
	r.settled("DELETE", "/connectors/src/offsets", "")
	r.do("GET", "/connectors/src/offsets", "")
	r.do("PUT", "/connectors/out-1/resume", "")
	r.do("PUT", "/connectors/src/resume", "")
	r.until("/connectors/out-1/status", `"connector":{"state":"RUNNING"`, `"id":0,"state":"RUNNING"`, `"id":1,"state":"RUNNING"`)
	r.until("/connectors/src/offsets", "position")
}

func (r *recorder) loggers() {
	r.do("PUT", "/admin/loggers/org.apache.kafka.connect.runtime.rest", `{"level":"ERROR"}`)
	r.do("GET", "/admin/loggers/org.apache.kafka.connect.runtime.rest", "")
	r.do("PUT", "/admin/loggers/org.apache.kafka.connect.runtime.rest", `{}`)
	r.do("PUT", "/admin/loggers/org.apache.kafka.connect.runtime.rest", `{"level":"LOUD"}`)
	r.do("PUT", "/admin/loggers/org.apache.kafka.connect.runtime.rest?scope=elsewhere", `{"level":"WARN"}`)
	r.do("PUT", "/admin/loggers/org.apache.kafka.connect.runtime.rest?scope=cluster", `{"level":"WARN"}`)
}
