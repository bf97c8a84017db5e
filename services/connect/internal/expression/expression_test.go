package expression

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

func record() *data.Record {
	inner := &data.Schema{Type: data.TypeStruct, Optional: true, Fields: []data.Field{{Name: "x", Schema: &data.Schema{Type: data.TypeInt8}}}}
	s := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{
		{Name: "n", Schema: &data.Schema{Type: data.TypeInt32}}, {Name: "f", Schema: &data.Schema{Type: data.TypeFloat64}}, {Name: "f32", Schema: &data.Schema{Type: data.TypeFloat32}},
		{Name: "s", Schema: &data.Schema{Type: data.TypeString}}, {Name: "b", Schema: &data.Schema{Type: data.TypeBoolean}}, {Name: "d", Schema: data.DecimalSchema(2)},
		{Name: "at", Schema: data.TimestampSchema()}, {Name: "null", Schema: inner}, {Name: "in", Schema: inner}, {Name: "a.b", Schema: &data.Schema{Type: data.TypeString}},
		{Name: "nan", Schema: &data.Schema{Type: data.TypeFloat64}}, {Name: "def", Schema: &data.Schema{Type: data.TypeInt32, Default: int32(7)}}, {Name: "raw", Schema: &data.Schema{Type: data.TypeBytes}},
	}}
	v := &data.Struct{Schema: s, Values: []any{
		int32(5), 0.1, float32(0.1), "it's", true, data.Decimal{Unscaled: big.NewInt(1234), Scale: 2}, time.UnixMilli(1_700_000_000_123), nil,
		&data.Struct{Schema: inner, Values: []any{int8(3)}}, "dotted", math.NaN(), nil, []byte{1},
	}}
	return &data.Record{
		Topic: "orders.eu", Partition: 2, Offset: data.NoOffset, TimestampMs: 1000, Key: data.Value{V: map[any]any{"id": int64(9), "m": map[any]any{"k": "v"}}}, Value: data.Value{Schema: s, V: v},
		Headers: []data.Header{{Name: "h", Value: data.Value{V: "first"}}, {Name: "h", Value: data.Value{V: "last"}}, {Name: "x-y", Value: data.Value{V: int8(1)}}},
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		"value.n == 5": true, "value.n == 5.0": true, "value.n != 5": false, "value.n < 5": false, "value.n <= 5": true, "value.n > 4.5": true, "value.n >= 6": false, "5 == value.n": true,
		"value.f == 0.1": true, "value.f32 == 0.1": true, "value.f == value.f32": true, "value.f < 1": true, "value.f > -1e3": true, "value.nan == value.nan": false, "value.nan < 1": false, "value.nan > 1": false,
		"value.d == 12.34": true, "value.d > 12": true, "value.d < 12.341": true, "12 < value.d": true, "value.d == 12.340": true, "value.f < value.d": true, "value.n < 99999999999999999999": true,
		`value.s == "it's"`: true, `value.s == 'it\'s'`: true, "value.s < 'j'": true, "value.s == 5": false, "value.s != 5": true, `value.s matches 'it.s'`: true, `value.s matches 't'`: false,
		"value.b": true, "!value.b": false, "value.b == true": true, "value.b > false": true, "false || value.b && true": true, "!!true": true, "!(value.n == 4) && value.b": true, "true || false && false": true,
		"value.null == null": true, "value.null.x == null": true, "value.null != null": false, "value.null.x > 1": false, "value.in.x == 3": true, "value.`a.b` == 'dotted'": true, "value.def == 7": true,
		"value.at > '2023-11-14T22:13:20.122Z'": true, "'2023-11-15' > value.at": true, "value.at == value.at": true, "value.raw == value.raw": true,
		"key.id in [1, 9]": true, "key.id in []": false, "key.id in ['9', null]": false, "key.none in [null]": true, "key.none == null": true, "key.m.k == 'v'": true, "key.none": false, "key == key": true,
		"topic == 'orders.eu'": true, `topic matches 'orders\\.(eu|us)'`: true, `topic matches 'orders\..*'`: true, "partition == 2": true, "offset == null": true, "offset > 1": false, "timestamp == 1000": true,
		"header.h == 'last'": true, "header.`x-y` == 1": true, "header.no == null": true, " ( true ) ": true, "null": false, "null matches 'x'": false, "-1 < - 0": true,
	} {
		c, err := Compile(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := c.True(record()); err != nil || got != want {
			t.Errorf("%s: %t, %v", text, got, err)
		}
	}
}

func TestConditionsFail(t *testing.T) {
	for text, want := range map[string]string{
		"value.nothing == 1": `no field "nothing"`, "value.n.x == 1": `int32 has no field "x"`, "value.n": "no int32", "value.n && true": "no int32", "!value.s": "no string", "value.s < 5": "cannot be compared",
		"key < 1": "cannot be compared", "value.n matches 'x'": "no text to match", "true && value.nothing": "no field", "value.at < 'yesterday'": "cannot be compared", "value.n in [1] || value.s > 1": "cannot be compared",
	} {
		c, err := Compile(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := c.True(record()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, error %v, not %q", text, got, err, want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "breaks off", "value.": "breaks off", "value.n ==": "breaks off", "value.n = 5": `"=" is not expected`, "values.n": "neither of key, value", "(true": "breaks off", "true)": `")" is not expected`,
		"true true": `"true" is not expected`, "'open": "not closed", "`open": "not closed", "value.n in 5": "not expected", "value.n in [1": "breaks off", "value.n in [1 2]": "not expected", "value.n in [value.s]": "not expected",
		"topic matches 5": "not expected", "topic matches '('": "missing", "header": "needs a name", "-true": "not expected", "1.2.3": "no number", "1e99999": "exponent", "&& true": "not expected",
		"value.5": "not expected", "#": `"#" is not expected`, strings.Repeat("(", 1000): "nested", strings.Repeat("!", 1000) + "true": "nested", "1 < 2 < 3": "not expected",
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, not %q", text, err, want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{"value.n >= 5 && !(key.id in [1, 'x', null])", "topic matches 'a|b' || header.`x-y` == -1.5e3", "value.at < \"2023-11-15\""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Compile(text)
		if err != nil {
			return
		}
		first, err := c.True(record())
		again, errAgain := c.True(record())
		if first != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("%q: %t, %v, then %t, %v", text, first, err, again, errAgain)
		}
	})
}

func BenchmarkTrue(b *testing.B) {
	c, err := Compile("value.n >= 5 && value.s matches 'it.*' && key.id in [1, 9]")
	if err != nil {
		b.Fatal(err)
	}
	r := record()
	b.ReportAllocs()
	for b.Loop() {
		if yes, err := c.True(r); !yes || err != nil {
			b.Fatal(yes, err)
		}
	}
}
