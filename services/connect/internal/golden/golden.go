// Package golden reads what Apache Kafka's own converters, transforms and predicates, and Debezium's, made of given data: a line
// of a file is a case, whose outcome recorder/Recorder.java wrote. For the tests that hold ours against them.
//
//	cd recorder && mvn -q dependency:copy-dependencies
//	java -cp 'target/dependency/*' Recorder.java ../../{converter,predicate,transform}/testdata/*.jsonl
package golden

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Case is one line of a file.
type Case struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	// Use is key, value or header; empty is value.
	Use    string            `json:"use"`
	Config map[string]string `json:"config"`
	// The input: bytes for a converter to read, data for it to write, a record for a transform or predicate.
	Bytes  json.RawMessage `json:"bytes"`
	Data   json.RawMessage `json:"data"`
	Record json.RawMessage `json:"record"`
	// Want is what came of it.
	Want json.RawMessage `json:"want"`
	// Ours is what is to come of it here, where that differs; Why says why it does.
	Ours json.RawMessage `json:"ours"`
	Why  string          `json:"why"`
}

// Load reads the cases of a file.
func Load(t testing.TB, file string) []Case {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []Case
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var c Case
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v: %s", file, err, lines.Bytes())
		}
		if (c.Ours == nil) != (c.Why == "") || c.Want == nil {
			t.Fatalf("%s: %s: ours and why go together, and want is always there", file, c.Name)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return cases
}

// Expected is what is to come of the case: an outcome, or the error at "configure" or at "run".
func (c *Case) Expected() (outcome json.RawMessage, failsAt string) {
	outcome = c.Want
	if c.Ours != nil {
		outcome = c.Ours
	}
	var failed struct {
		ConfigError *string `json:"configError"`
		Error       *string `json:"error"`
	}
	if json.Unmarshal(outcome, &failed) == nil {
		switch {
		case failed.ConfigError != nil:
			return nil, "configure"
		case failed.Error != nil:
			return nil, "run"
		}
	}
	return outcome, ""
}

// Bytes reads bytes: a text, or {"b": base64}; nil for null.
func Bytes(t testing.TB, raw json.RawMessage) []byte {
	t.Helper()
	v := parse(t, raw)
	switch v := value(t, v, nil).(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	case []byte:
		return v
	}
	t.Fatalf("no bytes: %s", raw)
	return nil
}

// Value reads a schema and a value.
func Value(t testing.TB, raw json.RawMessage) data.Value {
	t.Helper()
	if len(raw) == 0 {
		return data.Value{}
	}
	return typed(t, parse(t, raw))
}

// Record reads a record; nil for null.
func Record(t testing.TB, raw json.RawMessage) *data.Record {
	t.Helper()
	m, _ := parse(t, raw).(map[string]any)
	if m == nil {
		return nil
	}
	r := data.NewRecord("topic", typed(t, m["key"]), typed(t, m["value"]))
	if topic, ok := m["topic"].(string); ok {
		r.Topic = topic
	}
	r.Partition = int32(integer(t, m["partition"], data.NoPartition))
	r.Offset = integer(t, m["offset"], data.NoOffset)
	r.TimestampMs = integer(t, m["timestamp"], data.NoTimestamp)
	headers, _ := m["headers"].([]any)
	for _, h := range headers {
		pair := h.([]any)
		r.Headers = append(r.Headers, data.Header{Name: pair[0].(string), Value: typed(t, pair[1])})
	}
	return &r
}

// Show writes a value for people.
func Show(v any) string {
	switch v := v.(type) {
	case *data.Struct:
		var b strings.Builder
		for i, f := range v.Schema.Fields {
			fmt.Fprintf(&b, " %s=%s", f.Name, Show(v.Values[i]))
		}
		return "{" + b.String() + " }"
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(" " + Show(e))
		}
		return "[" + b.String() + " ]"
	case data.Decimal:
		return fmt.Sprintf("decimal %v/%d", v.Unscaled, v.Scale)
	case data.Value:
		return ShowSchema(v.Schema) + " " + Show(v.V)
	}
	return fmt.Sprintf("%T(%v)", v, v)
}

// ShowSchema writes a schema for people.
func ShowSchema(s *data.Schema) string {
	if s == nil {
		return "(no schema)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.Type)
	if s.Optional {
		b.WriteByte('?')
	}
	if s.Name != "" || s.Doc != "" || len(s.Parameters) > 0 {
		fmt.Fprintf(&b, " %q %q %v", s.Name, s.Doc, s.Parameters)
	}
	if s.Version != nil {
		fmt.Fprintf(&b, " v%d", *s.Version)
	}
	if s.Default != nil {
		fmt.Fprintf(&b, " default %s", Show(s.Default))
	}
	for _, f := range s.Fields {
		fmt.Fprintf(&b, " %s:(%s)", f.Name, ShowSchema(f.Schema))
	}
	if s.Key != nil {
		fmt.Fprintf(&b, " key:(%s)", ShowSchema(s.Key))
	}
	if s.Value != nil {
		fmt.Fprintf(&b, " value:(%s)", ShowSchema(s.Value))
	}
	return b.String()
}

func parse(t testing.TB, raw json.RawMessage) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

func integer(t testing.TB, v any, absent int64) int64 {
	t.Helper()
	if v == nil {
		return absent
	}
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func typed(t testing.TB, v any) data.Value {
	t.Helper()
	m, _ := v.(map[string]any)
	if m == nil {
		return data.Value{}
	}
	s := schema(t, m["schema"])
	if s != nil && s.Check() != nil { // Kafka has arrays and maps whose elements are of no schema; here they have none themselves.
		s = nil
	}
	return data.Value{Schema: s, V: value(t, m["value"], s)}
}

func schema(t testing.TB, v any) *data.Schema {
	t.Helper()
	name, isName := v.(string)
	m, _ := v.(map[string]any)
	if !isName && m == nil {
		return nil
	}
	if !isName {
		name = m["type"].(string)
	}
	s := &data.Schema{}
	name, s.Optional = strings.CutSuffix(name, "?")
	for s.Type = data.TypeInt8; s.Type.String() != name; s.Type++ {
		if s.Type > data.TypeStruct {
			t.Fatalf("type %q", name)
		}
	}
	s.Name, _ = m["name"].(string)
	s.Doc, _ = m["doc"].(string)
	if m["version"] != nil {
		s.Version = new(int32(integer(t, m["version"], 0)))
	}
	s.Key, s.Value = schema(t, m["key"]), schema(t, m["value"])
	for _, p := range members(m, "parameters") {
		s.Parameters = append(s.Parameters, data.Parameter{Name: p[0].(string), Value: p[1].(string)})
	}
	for _, f := range members(m, "fields") {
		s.Fields = append(s.Fields, data.Field{Name: f[0].(string), Schema: schema(t, f[1])})
	}
	if d, ok := m["default"]; ok {
		plain := *s
		s.Default = value(t, d, &plain)
	}
	return s
}

func members(m map[string]any, name string) [][]any {
	all, _ := m[name].([]any)
	var pairs [][]any
	for _, one := range all {
		pairs = append(pairs, one.([]any))
	}
	return pairs
}

func value(t testing.TB, v any, s *data.Schema) any {
	t.Helper()
	if s == nil {
		s = &data.Schema{}
	}
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = value(t, v[i], s.Value)
		}
		return list
	case map[string]any:
		for kind, content := range v {
			if kind != "of" {
				return object(t, kind, content, v["of"], s)
			}
		}
	}
	t.Fatalf("value %v", v)
	return nil
}

func object(t testing.TB, kind string, content, of any, s *data.Schema) any {
	t.Helper()
	text := func() string { return fmt.Sprint(content) }
	switch kind {
	case "i8":
		return int8(integer(t, content, 0))
	case "i16":
		return int16(integer(t, content, 0))
	case "i32":
		return int32(integer(t, content, 0))
	case "i64":
		return integer(t, content, 0)
	case "f32":
		f, _ := strconv.ParseFloat(text(), 32)
		return float32(f)
	case "f64":
		f, _ := strconv.ParseFloat(text(), 64)
		return f
	case "b":
		b, err := base64.StdEncoding.DecodeString(text())
		if err != nil {
			t.Fatal(err)
		}
		return b
	case "t":
		return time.UnixMilli(integer(t, content, 0)).UTC()
	case "d":
		pair := content.([]any)
		n, _ := new(big.Int).SetString(fmt.Sprint(pair[0]), 10)
		return data.Decimal{Unscaled: n, Scale: int32(integer(t, pair[1], 0))}
	}
	return compound(t, kind, content, of, s)
}

func compound(t testing.TB, kind string, content, of any, s *data.Schema) any {
	t.Helper()
	switch kind {
	case "m":
		m := map[any]any{}
		for _, p := range content.([]any) {
			pair := p.([]any)
			m[value(t, pair[0], s.Key)] = value(t, pair[1], s.Value)
		}
		return m
	case "s":
		if of != nil {
			s = schema(t, of)
		}
		made := data.NewStruct(s)
		for i, e := range content.([]any) {
			made.Values[i] = value(t, e, s.Fields[i].Schema)
		}
		return made
	}
	t.Fatalf("value of kind %q", kind)
	return nil
}
