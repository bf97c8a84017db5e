package data

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

var (
	str    = &Schema{Type: TypeString}
	optInt = &Schema{Type: TypeInt32, Optional: true}
	point  = &Schema{Type: TypeStruct, Name: "point", Fields: []Field{{"x", &Schema{Type: TypeInt32}}, {"label", &Schema{Type: TypeString, Default: "none"}}}}
)

func list(of *Schema) *Schema    { return &Schema{Type: TypeArray, Value: of} }
func dict(k, v *Schema) *Schema  { return &Schema{Type: TypeMap, Key: k, Value: v} }
func prim(t Type) *Schema        { return &Schema{Type: t} }
func row(values ...any) *Struct  { return &Struct{Schema: point, Values: values} }
func dec(n, scale int64) Decimal { return Decimal{Unscaled: big.NewInt(n), Scale: int32(scale)} }
func deep(n int) any {
	if n == 0 {
		return "bottom"
	}
	return []any{deep(n - 1)}
}

func TestValidate(t *testing.T) {
	noon, midnight := time.UnixMilli(43_200_000), time.UnixMilli(5*dayMs)
	for i, c := range []struct {
		schema *Schema
		value  any
		want   string // part of the error, or empty
	}{
		{prim(TypeInt8), int8(1), ""},
		{prim(TypeInt8), int16(1), "int16 is no value of INT8"},
		{prim(TypeInt64), 1, "int is no value of INT64"},
		{prim(TypeFloat32), float32(1), ""},
		{prim(TypeFloat64), float32(1), "float32 is no value of FLOAT64"},
		{prim(TypeBoolean), true, ""},
		{prim(TypeBytes), []byte{}, ""},
		{prim(TypeBytes), "", "string is no value of BYTES"},
		{str, nil, "null is no value of a STRING that is not optional"},
		{optInt, nil, ""},
		{point.Fields[1].Schema, nil, ""},
		{list(str), []any{"a", 1}, "element 1: int is no value"},
		{list(optInt), []any{nil, int32(2)}, ""},
		{dict(str, optInt), map[any]any{"a": nil}, ""},
		{dict(str, optInt), map[any]any{int8(1): nil}, "key 1: int8 is no value of STRING"},
		{dict(prim(TypeFloat64), str), map[any]any{math.NaN(): "a"}, "NaN is the key"},
		{dict(str, str), map[any]any{"a": nil}, "value of key a: null"},
		{point, row(int32(1), nil), ""},
		{point, row(nil, "a"), `field "x": null`},
		{point, row(int32(1)), "1 values for 2 fields"},
		{point, (*Struct)(nil), "is no value of STRUCT"},
		{point, &Struct{Schema: &Schema{Type: TypeStruct, Name: "other"}}, `struct is of another schema: "other", not "point"`},
		{DecimalSchema(2), dec(100, 2), ""},
		{DecimalSchema(2), dec(100, 3), "decimal of scale 3"},
		{DecimalSchema(2), []byte{1}, "bytes is no value of org.apache.kafka.connect.data.Decimal"},
		{DateSchema(), midnight, ""},
		{DateSchema(), noon, "no whole day"},
		{TimeSchema(), noon, ""},
		{TimeSchema(), midnight, "no time of day"},
		{TimestampSchema(), noon, ""},
		{TimestampSchema(), int64(1), "int64 is no value"},
		{str, noon, "time is no value of STRING"},
		{list(list(str)), deep(2), ""},
		{nil, deep(MaxDepth - 1), ""},
		{nil, deep(MaxDepth), "nested more than"},
		{nil, map[any]any{"a": []any{nil, dec(1, 1), noon, row(int32(1), nil)}}, ""},
		{nil, map[any]any{"a": 1}, "value of key a: int is the type of no value"},
		{nil, map[any]any{noon: 1}, "is the key of a map"},
		{nil, &Struct{}, "struct has no schema"},
		{nil, row(nil, nil), `field "x": null`},
	} {
		err := Value{c.schema, c.value}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("case %d: %v: error %v, not %q", i, c.value, err, c.want)
		}
	}
}

func TestKind(t *testing.T) {
	for want, value := range map[string]any{
		"null": nil, "boolean": true, "int8": int8(1), "int16": int16(1), "int32": int32(1), "int64": int64(1), "float32": float32(1), "float64": 1.0, "string": "",
		"bytes": []byte{}, "array": []any{}, "map": map[any]any{}, "struct": row(int32(1), nil), "decimal": dec(1, 0), "time": time.UnixMilli(0), "int": 1,
	} {
		if got := Kind(value); got != want {
			t.Errorf("%T is %s, want %s", value, got, want)
		}
	}
	if got := Kind((*Struct)(nil)); got != "struct" {
		t.Errorf("a struct that is nil is %s", got)
	}
}

func TestCheckSchema(t *testing.T) {
	defaulted := *point
	defaulted.Default = row(int32(1), "one")
	nested := str
	for range MaxDepth {
		nested = list(nested)
	}
	for i, c := range []struct {
		schema *Schema
		want   string
	}{
		{point, ""},
		{&defaulted, ""},
		{DecimalSchema(-2), ""},
		{TimestampSchema(), ""},
		{dict(str, list(optInt)), ""},
		{nil, "schema is missing"},
		{prim(0), "no known type: type 0"},
		{prim(TypeStruct + 1), "no known type"},
		{prim(TypeArray), "schema of ARRAY: schema of its values: false"},
		{&Schema{Type: TypeMap, Value: str}, "schema of its keys: false"},
		{&Schema{Type: TypeString, Value: str}, "schema of STRING: schema of its values: true"},
		{&Schema{Type: TypeString, Fields: point.Fields}, "has fields"},
		{list(prim(TypeMap)), "in ARRAY: schema of MAP"},
		{&Schema{Type: TypeStruct, Fields: []Field{{"a", str}, {"a", str}}}, `two fields "a"`},
		{&Schema{Type: TypeStruct, Fields: []Field{{"a", nil}}}, `field "a": schema is missing`},
		{&Schema{Type: TypeInt8, Default: "a"}, "default of a schema of INT8: string is no value"},
		{&Schema{Type: TypeInt64, Name: DateName}, "which is of INT32"},
		{&Schema{Type: TypeBytes, Name: DecimalName}, "lacks the parameter scale"},
		{&Schema{Type: TypeBytes, Name: DecimalName, Parameters: []Parameter{{"scale", "two"}}}, "is no 32-bit number"},
		{nested, "nested more than"},
	} {
		err := c.schema.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("case %d: error %v, not %q", i, err, c.want)
		}
	}
}

func TestSchemasDifferByEachOfTheirParts(t *testing.T) {
	one, two := int32(1), int32(2)
	full := func() *Schema {
		version := int32(1)
		return &Schema{
			Type: TypeMap, Optional: true, Name: "n", Version: &version, Doc: "d", Parameters: []Parameter{{"a", "1"}, {"b", "2"}},
			Default: map[any]any{"k": int32(1)}, Key: prim(TypeString), Value: prim(TypeInt32),
		}
	}
	same := full()
	same.Parameters = []Parameter{{"b", "2"}, {"a", "1"}}
	if !full().Equal(same) || !(*Schema)(nil).Equal(nil) {
		t.Error("equal schemas differ")
	}
	for i, change := range []func(s *Schema){
		func(s *Schema) { s.Type = TypeArray }, func(s *Schema) { s.Optional = false }, func(s *Schema) { s.Name = "" },
		func(s *Schema) { s.Version = nil }, func(s *Schema) { s.Version = &two }, func(s *Schema) { s.Doc = "" },
		func(s *Schema) { s.Parameters = s.Parameters[:1] }, func(s *Schema) { s.Parameters[1].Value = "" },
		func(s *Schema) { s.Default = map[any]any{"k": int32(2)} }, func(s *Schema) { s.Key = optInt }, func(s *Schema) { s.Value = nil },
		func(s *Schema) { s.Fields = point.Fields },
	} {
		other := full()
		change(other)
		if full().Equal(other) || other.Equal(full()) {
			t.Errorf("change %d: schemas are equal", i)
		}
	}
	if full().Equal(nil) || *full().Version != one {
		t.Error("a schema equals none")
	}
	renamed := &Schema{Type: TypeStruct, Name: "point", Fields: []Field{{"y", point.Fields[0].Schema}, point.Fields[1]}}
	if point.Equal(renamed) {
		t.Error("fields of other names are equal")
	}
}

func TestEqualValues(t *testing.T) {
	at := time.UnixMilli(1)
	distinct := []any{
		nil, int8(1), int16(1), int32(1), int64(1), float32(1), float64(1), float32(0), float32(math.Copysign(0, -1)), 0.0,
		math.Copysign(0, -1), true, false, "", "1", []byte{}, []byte("1"), []any{}, []any{"1"}, []any{nil}, map[any]any{}, map[any]any{"a": nil},
		map[any]any{"b": nil}, map[any]any{"a": "1"}, row(int32(1), nil), row(int32(1), "none"), dec(1, 0), dec(10, 1), Decimal{}, at,
		at.Add(time.Millisecond), math.NaN(), float32(math.NaN()),
	}
	for i, a := range distinct {
		for j, b := range distinct {
			if Equal(a, b) != (i == j) {
				t.Errorf("%T %v equals %T %v: %t", a, a, b, b, i != j)
			}
		}
	}
	if !Equal(Decimal{}, dec(0, 0)) || !Equal(at, at.Add(time.Microsecond).UTC()) || !Equal(row(int32(1), nil), row(int32(1), nil)) {
		t.Error("equal values differ")
	}
	if Equal(1, 1) || Equal((*Struct)(nil), row()) {
		t.Error("what is no value equals something")
	}
	if !(Value{str, "a"}).Equal(Value{prim(TypeString), "a"}) || (Value{str, "a"}).Equal(Value{nil, "a"}) {
		t.Error("Value.Equal disregards schemas")
	}
}

func TestStruct(t *testing.T) {
	s := NewStruct(point)
	if err := s.Set("x", int32(7)); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{s.Set("x", "7"), s.Set("y", int32(7)), s.Set("x", nil)} {
		if err == nil {
			t.Error("a field took what is no value of it")
		}
	}
	got := fmt.Sprintf("%v %v %v %v", first(s.Get("x")), first(s.Get("label")), first(s.GetDefaulted("label")), first(s.Get("y")))
	if got != "7 <nil> none <nil>" {
		t.Error(got)
	}
	defaulted := *point
	defaulted.Default = row(int32(1), "one")
	for _, of := range []*Schema{point, &defaulted} {
		if err := of.Validate(s); err != nil {
			t.Error(err)
		}
	}
}

func first(v any, _ bool) any { return v }

func TestLogicalValuesAreStored(t *testing.T) {
	for _, c := range []struct {
		schema        *Schema
		value, stored any
	}{
		{DateSchema(), time.UnixMilli(-3 * dayMs).UTC(), int32(-3)},
		{TimeSchema(), time.UnixMilli(dayMs - 1).UTC(), int32(dayMs - 1)},
		{TimestampSchema(), time.UnixMilli(-1).UTC(), int64(-1)},
		{TimestampSchema().WithOptional(true), nil, nil},
		{prim(TypeInt32), int32(5), int32(5)},
		{DecimalSchema(1), dec(0, 1), []byte{0}},
		{DecimalSchema(1), dec(1, 1), []byte{1}},
		{DecimalSchema(1), dec(-1, 1), []byte{0xff}},
		{DecimalSchema(1), dec(127, 1), []byte{0x7f}},
		{DecimalSchema(1), dec(128, 1), []byte{0, 0x80}},
		{DecimalSchema(1), dec(-128, 1), []byte{0x80}},
		{DecimalSchema(1), dec(-129, 1), []byte{0xff, 0x7f}},
		{DecimalSchema(1), dec(math.MinInt64, 1), []byte{0x80, 0, 0, 0, 0, 0, 0, 0}},
	} {
		stored, err := c.schema.ToStored(c.value)
		if err != nil || !Equal(stored, c.stored) {
			t.Errorf("%v is stored as %v, %v", c.value, stored, err)
		}
		back, err := c.schema.FromStored(stored)
		if err != nil || !Equal(back, c.value) {
			t.Errorf("%v comes back as %v, %v", c.value, back, err)
		}
	}
	for _, c := range []struct {
		schema *Schema
		stored any
	}{{DateSchema(), int64(1)}, {TimeSchema(), int32(-1)}, {TimeSchema(), int32(dayMs)}, {TimestampSchema(), int32(1)}, {DecimalSchema(0), "1"}} {
		if v, err := c.schema.FromStored(c.stored); err == nil {
			t.Errorf("%s of %v is %v", c.schema.Name, c.stored, v)
		}
	}
	if v, err := TimeSchema().ToStored(time.UnixMilli(-1)); err == nil {
		t.Errorf("a time before midnight is stored as %v", v)
	}
}

func TestWithOptional(t *testing.T) {
	if str.WithOptional(false) != str || !str.WithOptional(true).Optional || str.Optional {
		t.Error("WithOptional changed what it copies")
	}
}

func TestCheckKeyOfWhatCannotBeCompared(t *testing.T) {
	for _, key := range []any{nil, []byte("a"), []any{}, map[any]any{}, row(), Decimal{}} {
		if CheckKey(key) == nil {
			t.Errorf("%T is the key of a map", key)
		}
	}
}
