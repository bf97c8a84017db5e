package connector

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

func TestParseCreation(t *testing.T) {
	flat := map[string]string{"name": "a", "connector.class": "c", "tasks.max": "2", "on": "true"}
	for _, test := range []struct{ text, name, initial string }{
		{`{"name":"a","connector.class":"c","tasks.max":2,"on":true}`, "a", ""},
		{"name=a\nconnector.class=c\n\ntasks.max : 2\n! no\non true", "a", ""},
		{`{"name":"b","config":{"name":"a","connector.class":"c","tasks.max":"2","on":true},"initial_state":"PAUSED"}`, "b", "PAUSED"},
		{"\ufeff" + `{"config":{"name":"a","connector.class":"c","tasks.max":2,"on":true}}`, "a", ""},
	} {
		got, err := parseCreation([]byte(test.text))
		if err != nil || got.name != test.name || got.initial != test.initial || !maps.Equal(got.config, flat) {
			t.Errorf("%s: %+v, %v", test.text, got, err)
		}
	}
	for _, test := range []struct{ text, words string }{
		{"", "no configuration"}, {"# nothing", "no configuration"}, {"{", "not JSON"}, {`{"a":null}`, `"a"`}, {`{"a":{}}`, `"a"`}, {`{"config":{"a":[1]}}`, `"config"`},
		{`{"config":{"a":"b"},"x":1}`, `"x"`}, {`{"name":1,"config":{}}`, `"name"`}, {"a=\\u1", "line 1"}, {"a=\x8a", "UTF-8"},
	} {
		if _, err := parseCreation([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%q: %v", test.text, err)
		}
	}
	// A key may be called config.
	if got, err := parseCreation([]byte(`{"name":"a","config":"x"}`)); err != nil || got.config["config"] != "x" {
		t.Error(got, err)
	}
}

// FuzzParseCreation reads what it has read again from JSON.
func FuzzParseCreation(f *testing.F) {
	for _, seed := range []string{`{"name":"a","config":{"b":1}}`, `{"a":"b"}`, "a=b\nc d", `{"a":1.0e3,"b":true}`, "{"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseCreation(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(map[string]any{"name": c.name, "config": c.config, "initial_state": c.initial})
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseCreation(again)
		if err != nil || back.name != c.name || back.initial != c.initial || !maps.Equal(back.config, c.config) {
			t.Errorf("%q is %+v and then %+v, %v", text, c, back, err)
		}
	})
}

func TestParseOffset(t *testing.T) {
	for _, test := range []struct{ text, partition, offset string }{
		{"orders:3=17", `{"kafka_partition":3,"kafka_topic":"orders"}`, `{"kafka_offset":17}`},
		{"a:b:0=null", `{"kafka_partition":0,"kafka_topic":"a:b"}`, `null`},
		{`{"a":"="} = {"b": 1}`, `{"a":"="}`, `{"b":1}`},
		{`{"a":1}=null`, `{"a":1}`, `null`},
	} {
		o, err := parseOffset(test.text)
		if err != nil || compact(o.Partition) != test.partition || compact(o.Offset) != test.offset {
			t.Errorf("%s: %s = %s, %v", test.text, o.Partition, o.Offset, err)
		}
	}
	for _, wrong := range []string{"", "orders", "orders:0", "orders=1", ":0=1", "orders:x=1", "orders:-1=1", "orders:0=-1", "orders:0=x", "{", `{"a":1}`, `{"a":1}{"b":1}`, `{"a":1}={`, `{"a":1}={} x`} {
		if o, err := parseOffset(wrong); err == nil {
			t.Errorf("%q is taken as %s = %s", wrong, o.Partition, o.Offset)
		}
	}
}
