package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

func TestNames(t *testing.T) {
	for _, c := range Classes() {
		if err := c.Definition.Check(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, name := range []string{c.Name, c.Name[strings.LastIndex(c.Name, ".")+1:]} {
			if found, ok := Find(name); !ok || found.Name != c.Name {
				t.Errorf("%s names %q", name, found.Name)
			}
		}
	}
	if _, err := New("Other", nil); err == nil || !strings.Contains(err.Error(), `"Other"`) {
		t.Errorf("New of an unknown class: %v", err)
	}
}

func TestStages(t *testing.T) {
	stages, err := Stages(map[string]string{
		"transforms": "route, drop,mark", "predicates": "dead,tests",
		"transforms.route.type": "RegexRouter", "transforms.route.regex": "a", "transforms.route.replacement": "b",
		"transforms.drop.type": "org.apache.kafka.connect.transforms.Filter", "transforms.drop.predicate": "dead",
		"transforms.mark.type": "InsertHeader", "transforms.mark.header": "h", "transforms.mark.value.literal": "1", "transforms.mark.predicate": "tests", "transforms.mark.negate": "True",
		"predicates.dead.type": "RecordIsTombstone", "predicates.tests.type": "TopicNameMatches", "predicates.tests.pattern": "test-.*",
	})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(topic string, v any) string {
		r := data.NewRecord(topic, data.Value{}, data.Value{V: v})
		for _, s := range stages {
			changed, dropped, err := s.Apply(r)
			if err != nil {
				t.Fatal(err)
			}
			if dropped {
				return "dropped by " + s.Alias
			}
			r = changed
		}
		return fmt.Sprint(r.Topic, len(r.Headers))
	}
	for _, c := range []struct {
		topic string
		v     any
		want  string
	}{{"a", "x", "b1"}, {"test-a", "x", "test-a0"}, {"a", nil, "dropped by drop"}} {
		if got := apply(c.topic, c.v); got != c.want {
			t.Errorf("%s %v: %s, not %s", c.topic, c.v, got, c.want)
		}
	}
	if none, err := Stages(nil); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

func TestStagesTellEveryFault(t *testing.T) {
	_, err := Stages(map[string]string{
		"transforms": "a,b,c,d,e", "transforms.a.type": "Nothing", "transforms.b.type": "Filter", "transforms.b.predicate": "p",
		"transforms.c.type": "Filter", "transforms.c.negate": "perhaps", "transforms.d.type": "HoistField$Value", "predicates": "q", "predicates.q.type": "HasHeaderKey",
	})
	for _, want := range []string{
		`transforms.a: type: there is no transformation "Nothing"`, `transforms.b: predicate: "p" is not in the list`, `transforms.c: negate is "perhaps"`,
		"transforms.d: org.apache.kafka.connect.transforms.HoistField$Value: field is required", `transforms.e: type: there is no transformation ""`,
		"predicates.q: org.apache.kafka.connect.transforms.predicates.HasHeaderKey: name is required",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	for _, names := range []string{"a,a", "a,,b"} {
		if _, err := Stages(map[string]string{"transforms": names}); err == nil || !strings.Contains(err.Error(), "empty or there twice") {
			t.Errorf("%s: %v", names, err)
		}
	}
}

// TestKindsAreConnects has errors name what a value is as Connect does, not as Go does.
func TestKindsAreConnects(t *testing.T) {
	for want, v := range map[string]data.Value{
		"null":                                   {},
		"a STRUCT":                               {Schema: &data.Schema{Type: data.TypeStruct}, V: &data.Struct{}},
		"a value of type array without a schema": {V: []any{}},
	} {
		_, err := mapOf(v, "Flatten")
		if err == nil || err.Error() != "Flatten takes a map or, with a schema, a struct; this is "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFilterByExpression(t *testing.T) {
	for _, c := range []struct {
		mode string
		v    any
		want string
	}{
		{"keep", map[any]any{"n": int64(5)}, "kept"}, {"keep", map[any]any{"n": int64(3)}, "dropped"}, {"keep", nil, "kept"}, {"Drop", nil, "dropped"}, {"evaluate", nil, "dropped"},
		{"keep", "text", "error"},
	} {
		transform, err := New("FilterByExpression", map[string]string{"condition": "value.n > 4", "null.handling.mode": c.mode})
		if err != nil {
			t.Fatal(err)
		}
		_, dropped, err := transform.Apply(data.NewRecord("topic", data.Value{}, data.Value{V: c.v}))
		got := map[bool]string{true: "dropped", false: "kept"}[dropped]
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s of %v: %s (%v), not %s", c.mode, c.v, got, err, c.want)
		}
	}
	if _, err := New("FilterByExpression", map[string]string{"condition": "value.n >"}); err == nil {
		t.Error("a condition that breaks off is taken")
	}
}

func TestDerivedSchemasAreBounded(t *testing.T) {
	var d derived[int]
	for i := range 5 * maxDerived {
		if got, err := d.get(&data.Schema{}, func(*data.Schema) (int, error) { return i, nil }); got != i || err != nil {
			t.Fatal(got, err)
		}
	}
	if len(d.of) > maxDerived {
		t.Errorf("%d schemas are remembered", len(d.of))
	}
}

func BenchmarkInsertField(b *testing.B) {
	transform, err := New("InsertField$Value", map[string]string{"topic.field": "t", "timestamp.field": "at"})
	if err != nil {
		b.Fatal(err)
	}
	s := &data.Schema{Type: data.TypeStruct}
	for i := range 10 {
		s.Fields = append(s.Fields, data.Field{Name: fmt.Sprint("f", i), Schema: &data.Schema{Type: data.TypeInt64}})
	}
	v := data.NewStruct(s)
	for i := range v.Values {
		v.Values[i] = int64(i)
	}
	r := data.Record{Topic: "topic", Value: data.Value{Schema: s, V: v}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := transform.Apply(r); err != nil {
			b.Fatal(err)
		}
	}
}
