package converter

import (
	"bytes"
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
		simple := c.Name[strings.LastIndex(c.Name, ".")+1:]
		for _, name := range []string{c.Name, simple, strings.TrimSuffix(simple, "Converter")} {
			if found, ok := Find(name); !ok || found.Name != c.Name {
				t.Errorf("%s names %q", name, found.Name)
			}
		}
		if _, err := New(c.Name, Header, nil); err != nil {
			t.Error(err)
		}
		if _, err := New(c.Name, Key, nil); (err != nil) != c.HeaderOnly {
			t.Errorf("%s as a converter of keys: %v", c.Name, err)
		}
	}
	for _, name := range []string{"", "Converter", "json", "org.apache.kafka.connect.json.Json"} {
		if c, ok := Find(name); ok {
			t.Errorf("%q names %s", name, c.Name)
		}
	}
	if _, err := New("Avro", Value, nil); err == nil || !strings.Contains(err.Error(), `"Avro"`) {
		t.Errorf("New of an unknown class: %v", err)
	}
}

func made(t testing.TB, class string, config ...string) Converter {
	t.Helper()
	keys := map[string]string{}
	for i := 0; i < len(config); i += 2 {
		keys[config[i]] = config[i+1]
	}
	c, err := New(class, Value, keys)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestJSONKeepsSchemasWithinBounds(t *testing.T) {
	c := made(t, "Json", schemasCacheSize, "2").(*jsonConverter)
	for i := range 5 {
		v := data.Value{Schema: &data.Schema{Type: data.TypeString, Name: fmt.Sprint("n", i)}, V: "x"}
		b, err := c.Encode("topic", v)
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Decode("topic", b)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := c.Decode("topic", b)
		if !first.Equal(v) || first.Schema != again.Schema {
			t.Errorf("%v comes back as %v and %v", v, first, again)
		}
	}
	if len(c.read) > 2 || len(c.written) > 2 {
		t.Errorf("%d and %d schemas are kept", len(c.read), len(c.written))
	}
}

func TestJSONReadsHalfOfAPairAsReplacement(t *testing.T) {
	c := made(t, "Json", schemasEnable, "false")
	for text, want := range map[string]string{`"\ud83d"`: "\ufffd", `"\ud83d\u0041"`: "\ufffdA", `"\ude00x"`: "\ufffdx", `"\uD83D\uDE00"`: "😀"} {
		if v, err := c.Decode("topic", []byte(text)); err != nil || v.V != want {
			t.Errorf("%s is %q, %v", text, v.V, err)
		}
	}
	for _, text := range []string{`"\u12"`, `"\ud83d\u"`, `"\x"`, `"\`, `"`, `"a\`, "\"\\n\x01\"", "\"\\n\xff\""} {
		if v, err := c.Decode("topic", []byte(text)); err == nil {
			t.Errorf("%s is %q", text, v.V)
		}
	}
}

func TestJSONBoundsDepth(t *testing.T) {
	c := made(t, "Json", schemasEnable, "false")
	deep := strings.Repeat("[", data.MaxDepth-1) + strings.Repeat("]", data.MaxDepth-1)
	v, err := c.Decode("topic", []byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.Encode("topic", v); err != nil || string(b) != deep {
		t.Errorf("%s, %v", b, err)
	}
	for _, text := range []string{"[[" + deep + "]]", strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<20)} {
		if _, err := c.Decode("topic", []byte(text)); err == nil {
			t.Errorf("%.20s… is read", text)
		}
	}
	_, err = made(t, "Json").Decode("topic", []byte(strings.Repeat(`{"schema":{"type":"array","items":`, 1)+strings.Repeat(`{"type":"array","items":`, 1<<16)))
	if err == nil {
		t.Error("a schema without end is read")
	}
	if v, err := made(t, "Json").Decode("topic", []byte(`{"schema":null,"payload":{"a":"x"},"schema":null}`)); err == nil {
		t.Errorf("a text of two schemas is %v", v)
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"schema":{"type":"struct","name":"r","fields":[{"field":"a","type":"int32","default":7},{"field":"b","type":"bytes","optional":true}]},"payload":{"a":1,"b":"AP8="}}`,
		`{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"double"}},"payload":[[1,1.5],[2,"NaN"]]}`,
		`{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":1.5e1}`,
		`{"schema":{"type":"array","items":{"type":"int32","name":"org.apache.kafka.connect.data.Date"}},"payload":[1]}`,
		`{"schema":null,"payload":{"a":[1,null,"\ud83d\ude00"]}}`, `[1.5,true]`,
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, schemas bool) {
		c := made(t, "Json", schemasEnable, fmt.Sprint(schemas), replaceNull, "false")
		v, err := c.Decode("topic", text)
		if err != nil {
			return
		}
		if err := v.Validate(); err != nil {
			t.Fatalf("%q is not valid: %v", text, err)
		}
		b, err := c.Encode("topic", v)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", text, err)
		}
		again, err := c.Decode("topic", b)
		if err != nil || !again.Equal(v) {
			t.Fatalf("%q comes back as %q: %v", text, b, err)
		}
	})
}

func row() data.Value {
	s := &data.Schema{Type: data.TypeStruct, Name: "row"}
	for i, t := range []data.Type{data.TypeInt64, data.TypeString, data.TypeString, data.TypeInt32, data.TypeFloat64, data.TypeBoolean, data.TypeString, data.TypeInt64, data.TypeBytes, data.TypeString} {
		s.Fields = append(s.Fields, data.Field{Name: fmt.Sprintf("field%d", i), Schema: &data.Schema{Type: t, Optional: true}})
	}
	return data.Value{Schema: s, V: &data.Struct{Schema: s, Values: []any{int64(1), "a name of somebody", "somebody@example.com", int32(2), 1.5, true, "status", int64(1 << 40), []byte("bytes"), nil}}}
}

func BenchmarkJSON(b *testing.B) {
	for _, schemas := range []string{"true", "false"} {
		c := made(b, "Json", schemasEnable, schemas)
		v := row()
		text, err := c.Encode("topic", v)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("encode/schemas="+schemas, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Encode("topic", v); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode/schemas="+schemas, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Decode("topic", text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestTextsAreNotCopied is what a record of a text costs: no more than to name it.
func TestTextsAreNotCopied(t *testing.T) {
	c, err := New("String", Value, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := data.Value{V: string(bytes.Repeat([]byte("x"), 1000))}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = c.Encode("t", text) }); allocs > 0 {
		t.Errorf("%.0f allocations to encode a text", allocs)
	}
	read := bytes.Repeat([]byte("x"), 1000)
	if allocs := testing.AllocsPerRun(100, func() { _, _ = c.Decode("t", read) }); allocs > 1 {
		t.Errorf("%.0f allocations to decode a text", allocs)
	}
	if b, err := c.Encode("t", data.Value{V: ""}); err != nil || b == nil || len(b) > 0 {
		t.Errorf("an empty text is %v, %v: null would be a tombstone", b, err)
	}
	if v, err := c.Decode("t", []byte{}); err != nil || v.V != "" {
		t.Errorf("an empty text is %v, %v", v.V, err)
	}
}
