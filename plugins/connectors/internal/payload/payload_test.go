package payload

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

func decimal(unscaled int64, scale int32) data.Decimal {
	return data.Decimal{Unscaled: big.NewInt(unscaled), Scale: scale}
}

func TestWhatBecomesOfValues(t *testing.T) {
	schema := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{
		{Name: "id", Schema: &data.Schema{Type: data.TypeInt64}},
		{Name: "at", Schema: data.TimestampSchema()},
		{Name: "day", Schema: data.DateSchema()},
		{Name: "price", Schema: data.DecimalSchema(2)},
		{Name: "tag", Schema: &data.Schema{Type: data.TypeString, Default: "none"}},
		{Name: "raw", Schema: &data.Schema{Type: data.TypeBytes, Optional: true}},
	}}
	day := time.UnixMilli(3 * 86_400_000)
	row := &data.Struct{Schema: schema, Values: []any{int64(7), time.UnixMilli(1500), day, decimal(1995, 2), nil, []byte{1, 2}}}
	numbers := &data.Schema{Type: data.TypeMap, Key: &data.Schema{Type: data.TypeInt32}, Value: &data.Schema{Type: data.TypeString}}
	tests := []struct {
		value data.Value
		want  string
	}{
		{data.Value{V: "as it \"is\"\n"}, "as it \"is\"\n"},
		{data.Value{V: []byte{0, 255}}, "\x00\xff"},
		{data.Value{V: true}, "true"},
		{data.Value{V: int8(-3)}, "-3"},
		{data.Value{V: 0.1}, "0.1"},
		{data.Value{V: float32(1e30)}, "1e+30"},
		{data.Value{V: math.NaN()}, `"NaN"`},
		{data.Value{V: []any{"a\"b", nil, int32(1), "é", math.Inf(-1)}}, `["a\"b",null,1,"é","-Infinity"]`},
		{data.Value{V: map[any]any{"b": int64(1), "a": []any{}}}, `{"a":[],"b":1}`},
		{data.Value{V: map[any]any{"b": int64(1), int64(2): "x"}}, `[["b",1],[2,"x"]]`},
		{data.Value{Schema: numbers, V: map[any]any{int32(2): "x"}}, `[[2,"x"]]`},
		{data.Value{Schema: numbers, V: map[any]any{}}, `[]`},
		{data.Value{V: map[any]any{}}, `{}`},
		{data.Value{Schema: schema, V: row}, `{"id":7,"at":1500,"day":3,"price":19.95,"tag":"none","raw":"AQI="}`},
		{data.Value{V: data.Decimal{}}, "0"},
		{data.Value{V: []any{decimal(-5, 3), decimal(12, -2), decimal(7, 0), decimal(1, 1000)}}, "[-0.005,12e2,7,1e-1000]"},
		{data.Value{V: time.UnixMilli(12)}, "12"},
	}
	for _, test := range tests {
		got, err := Append([]byte("> "), test.value)
		if err != nil || string(got) != "> "+test.want {
			t.Errorf("%v: %s, %v, want %s", test.value.V, got, err, test.want)
		}
	}
}

func TestWhatHasNoForm(t *testing.T) {
	deep := any("bottom")
	for range data.MaxDepth + 1 {
		deep = []any{deep}
	}
	for _, test := range []struct {
		value any
		want  string
	}{{nil, "null"}, {deep, "nested"}, {struct{}{}, "struct {}"}, {[]any{[]any{1}}, "element 0: element 0: int"}} {
		if _, err := Append(nil, data.Value{V: test.value}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40v: %v", test.value, err)
		}
	}
}

// FuzzTexts finds that every text becomes JSON that reads as the text, but for bytes that are no UTF-8.
func FuzzTexts(f *testing.F) {
	f.Add("a\x00\"\\\u2028<é\xff")
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := AppendJSON(nil, data.Value{V: text})
		var back string
		if err != nil || json.Unmarshal(quoted, &back) != nil || back != string([]rune(text)) {
			t.Errorf("%q became %s, %v", text, quoted, err)
		}
	})
}
