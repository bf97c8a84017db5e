package wire

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

func row() *data.Struct {
	version := int32(3)
	inner := &data.Schema{Type: data.TypeStruct, Optional: true, Fields: []data.Field{{Name: "n", Schema: &data.Schema{Type: data.TypeInt16}}}}
	plain := &data.Schema{Type: data.TypeStruct, Name: "defaulted", Fields: []data.Field{{Name: "a", Schema: &data.Schema{Type: data.TypeString, Default: "x"}}}}
	defaulted := *plain
	defaulted.Default = &data.Struct{Schema: plain, Values: []any{"y"}}
	s := &data.Schema{
		Type: data.TypeStruct, Name: "row", Version: &version, Doc: "A row.", Parameters: []data.Parameter{{Name: "z", Value: "1"}, {Name: "a", Value: "2"}},
		Fields: []data.Field{
			{Name: "i8", Schema: &data.Schema{Type: data.TypeInt8}}, {Name: "i64", Schema: &data.Schema{Type: data.TypeInt64, Default: int64(-9)}},
			{Name: "f", Schema: &data.Schema{Type: data.TypeFloat32}}, {Name: "amount", Schema: data.DecimalSchema(2)},
			{Name: "day", Schema: data.DateSchema().WithOptional(true)}, {Name: "at", Schema: data.TimestampSchema()},
			{Name: "tags", Schema: &data.Schema{Type: data.TypeMap, Key: &data.Schema{Type: data.TypeString}, Value: &data.Schema{Type: data.TypeArray, Value: inner}}},
			{Name: "defaulted", Schema: &defaulted},
		},
	}
	return &data.Struct{Schema: s, Values: []any{
		int8(-8), nil, float32(1.5), data.Decimal{Unscaled: big.NewInt(-12345), Scale: 2}, nil, time.UnixMilli(1_700_000_000_123).UTC(),
		map[any]any{"t": []any{nil, &data.Struct{Schema: inner, Values: []any{int16(16)}}}}, nil,
	}}
}

func sample() []data.Record {
	r := row()
	full := data.Record{
		Topic: "orders", Partition: 3, Offset: 1 << 40, TimestampMs: 1_700_000_000_000,
		Key: data.Value{Schema: &data.Schema{Type: data.TypeInt32}, V: int32(-70000)}, Value: data.Value{Schema: r.Schema, V: r},
		Headers: []data.Header{{Name: "h", Value: data.Value{Schema: &data.Schema{Type: data.TypeString}, V: "ñ"}}, {Name: "h"}, {}},
	}
	plain := data.NewRecord("orders", data.Value{V: []byte{0, 0xff}}, data.Value{V: map[any]any{
		"list": []any{int64(1), 2.5, true, nil, "", []byte{}, []any{}, map[any]any{}}, int8(1): float32(math.Inf(-1)), false: math.NaN(),
	}})
	again := data.NewRecord("", data.Value{}, data.Value{Schema: row().Schema, V: row()})
	again.Value.V.(*data.Struct).Schema = again.Value.Schema
	zero := data.Record{Topic: "other", Value: data.Value{V: strings.Repeat("long", 100)}}
	below := data.Record{Partition: -2, Offset: math.MinInt64, TimestampMs: -2, Value: data.Value{V: int64(math.MinInt64)}}
	return []data.Record{full, plain, again, zero, below}
}

func equal(a, b data.Record) bool {
	if len(a.Headers) != len(b.Headers) {
		return false
	}
	for i, h := range a.Headers {
		if h.Name != b.Headers[i].Name || !h.Value.Equal(b.Headers[i].Value) {
			return false
		}
	}
	return a.Topic == b.Topic && a.Partition == b.Partition && a.Offset == b.Offset && a.TimestampMs == b.TimestampMs && a.Key.Equal(b.Key) && a.Value.Equal(b.Value)
}

func encode(t testing.TB, records []data.Record) []byte {
	t.Helper()
	var e Encoder
	b, err := e.Append(nil, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, b []byte) []data.Record {
	t.Helper()
	var d Decoder
	records, err := d.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func compare(t testing.TB, got, want []data.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, not %d", len(got), len(want))
	}
	for i := range want {
		if !equal(got[i], want[i]) {
			t.Errorf("record %d: %+v, not %+v", i, got[i], want[i])
		}
	}
}

func TestRoundTrip(t *testing.T) {
	var e Encoder
	var d Decoder
	for _, records := range [][]data.Record{sample(), {}, sample()[1:2], sample()} {
		b, err := e.Append([]byte("before"), records)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decode(b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		compare(t, got, records)
		for i, r := range got {
			if err := r.Value.Validate(); err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		}
	}
}

// TestGeneratedMessagesReadAndWriteTheSame holds the codec against the messages that other languages use.
func TestGeneratedMessagesReadAndWriteTheSame(t *testing.T) {
	var message pluginpb.RecordBatch
	if err := proto.Unmarshal(encode(t, sample()), &message); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, message.ProtoReflect())
	if schemas := len(message.GetSchemas().GetSchemas()); schemas != 16 {
		t.Errorf("%d schemas: equal ones are to be sent once", schemas)
	}
	if topics := message.GetTopics(); len(topics) != 2 {
		t.Errorf("topics %q", topics)
	}
	r := message.GetRecords()[0]
	if r.GetPartition() != 3 || r.GetOffset() != 1<<40 || r.GetKey().GetInt32() != -70000 || len(r.GetValue().GetStruct().GetValues()) != 8 {
		t.Errorf("the generated message reads %v", r)
	}
	if r := message.GetRecords()[1]; r.Partition != nil || r.Offset != nil || r.TimestampMs != nil {
		t.Errorf("the generated message reads %v", r)
	}
	b, err := proto.Marshal(&message)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, decode(t, b), sample())
}

func noUnknown(t *testing.T, m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s has unknown fields %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

func TestSchemasStayTheSameObjectsFromBatchToBatch(t *testing.T) {
	var d Decoder
	var last *data.Schema
	for i := range 3 {
		records, err := d.Decode(encode(t, sample()))
		if err != nil {
			t.Fatal(err)
		}
		s := records[0].Value.Schema
		if i > 0 && s != last || s != records[2].Value.Schema {
			t.Fatal("another object")
		}
		last = s
	}
	for i := range 3 * maxKeptTables {
		s := &data.Schema{Type: data.TypeString, Name: fmt.Sprint(i)}
		if _, err := d.Decode(encode(t, []data.Record{{Value: data.Value{Schema: s}}})); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.tables) > maxKeptTables {
		t.Errorf("%d tables are kept", len(d.tables))
	}
}

func TestEncodeRefuses(t *testing.T) {
	nested := any("bottom")
	for range data.MaxDepth {
		nested = []any{nested}
	}
	itself := &data.Schema{Type: data.TypeStruct}
	itself.Default = &data.Struct{Schema: itself}
	loop := &data.Schema{Type: data.TypeArray}
	loop.Value = loop
	for i, c := range []struct {
		value data.Value
		want  string
	}{
		{data.Value{V: 1}, "int is the type of no value"},
		{data.Value{V: "\xff"}, "not UTF-8"},
		{data.Value{V: nested}, "nested more than"},
		{data.Value{V: map[any]any{time.Time{}: 1}}, "is the key of a map"},
		{data.Value{V: map[any]any{"a": 1}}, "value of key a: int"},
		{data.Value{V: &data.Struct{}}, "lacks a schema"},
		{data.Value{V: &data.Struct{Schema: row().Schema}}, "lacks a schema or values"},
		{data.Value{Schema: itself}, "nested more than"},
		{data.Value{Schema: loop}, "nested more than"},
		{data.Value{Schema: &data.Schema{Type: data.TypeInt8, Name: "\xff"}}, "name of a schema"},
	} {
		var e Encoder
		b, err := e.Append([]byte("kept"), []data.Record{{Value: c.value}})
		if err == nil || !strings.Contains(err.Error(), c.want) || string(b) != "kept" {
			t.Errorf("case %d: %q, error %v, not %q", i, b, err, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	one := func(v *pluginpb.Value) *pluginpb.RecordBatch {
		return &pluginpb.RecordBatch{Records: []*pluginpb.Record{{Value: v}}}
	}
	table := func(schemas ...*pluginpb.Schema) *pluginpb.RecordBatch {
		return &pluginpb.RecordBatch{Schemas: &pluginpb.SchemaTable{Schemas: schemas}}
	}
	doubling := []*pluginpb.Schema{{Type: pluginpb.SchemaType_SCHEMA_TYPE_STRING}}
	for i := range uint32(90) {
		doubling = append(doubling, &pluginpb.Schema{Type: pluginpb.SchemaType_SCHEMA_TYPE_MAP, Key: i + 1, Value: i + 1})
	}
	for i, c := range []struct {
		message *pluginpb.RecordBatch
		want    string
	}{
		{&pluginpb.RecordBatch{Records: []*pluginpb.Record{{Topic: 1}}}, "reference 1 to one of 0 topics"},
		{&pluginpb.RecordBatch{Records: []*pluginpb.Record{{ValueSchema: 1}}}, "reference 1 to one of 0 schemas"},
		{one(&pluginpb.Value{Kind: &pluginpb.Value_Struct{Struct: &pluginpb.StructValue{}}}), "lacks a schema"},
		{one(&pluginpb.Value{Kind: &pluginpb.Value_Map{Map: &pluginpb.MapValue{Entries: make([]*pluginpb.Value, 1)}}}), "has no value"},
		{one(&pluginpb.Value{Kind: &pluginpb.Value_Map{Map: &pluginpb.MapValue{Entries: make([]*pluginpb.Value, 2)}}}), "is the key of a map"},
		{table(&pluginpb.Schema{}), "no known type"},
		{table(&pluginpb.Schema{Type: pluginpb.SchemaType_SCHEMA_TYPE_ARRAY, Value: 1}), "reference 1 to one of 0 schemas"},
		{table(doubling...), "schemas of more than"},
	} {
		b, err := proto.Marshal(c.message)
		if err != nil {
			t.Fatal(err)
		}
		var d Decoder
		if records, err := d.Decode(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("case %d: %v, error %v, not %q", i, records, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(encode(f, sample()))
	for i := range sample() {
		f.Add(encode(f, sample()[i:i+1]))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var d Decoder
		records, err := d.Decode(in)
		if err != nil {
			return
		}
		var e Encoder
		b, err := e.Append(nil, records)
		if err != nil {
			if strings.Contains(err.Error(), "nested more than") { // a default's depth counts from its schema's here
				return
			}
			t.Fatal(err)
		}
		compare(t, decode(t, b), records)
	})
}

// rows returns n records of ten fields.
func rows(n int) []data.Record {
	s := &data.Schema{Type: data.TypeStruct, Name: "row"}
	types := []data.Type{data.TypeInt64, data.TypeString, data.TypeString, data.TypeInt32, data.TypeFloat64, data.TypeBoolean, data.TypeString, data.TypeInt64, data.TypeBytes, data.TypeString}
	for i, t := range types {
		s.Fields = append(s.Fields, data.Field{Name: fmt.Sprintf("field%d", i), Schema: &data.Schema{Type: t, Optional: true}})
	}
	key := &data.Schema{Type: data.TypeInt64}
	records := make([]data.Record, n)
	for i := range records {
		v := &data.Struct{Schema: s, Values: []any{int64(i), "a name of somebody", "somebody@example.com", int32(i), 1.5, true, "status", int64(1 << 40), []byte("bytes"), nil}}
		records[i] = data.NewRecord("orders", data.Value{Schema: key, V: int64(i)}, data.Value{Schema: s, V: v})
	}
	return records
}

func BenchmarkAppend(b *testing.B) {
	records := rows(500)
	var e Encoder
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = e.Append(dst[:0], records)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
	b.ReportMetric(float64(len(dst))/float64(len(records)), "bytes/record")
}

func BenchmarkDecode(b *testing.B) {
	in := encode(b, rows(500))
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/record")
}

func BenchmarkGeneratedMessagesDecode(b *testing.B) {
	in := encode(b, rows(500))
	b.ReportAllocs()
	for b.Loop() {
		var message pluginpb.RecordBatch
		if err := proto.Unmarshal(in, &message); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/record")
}

// TestRecordByRecord writes and reads as tasks do, that have more in their records than this package knows of.
func TestRecordByRecord(t *testing.T) {
	want := sample()
	var e Encoder
	e.Begin(nil)
	for i := range want {
		if err := e.Add(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	var d Decoder
	count, err := d.Begin(e.End())
	if err != nil || count != len(want) {
		t.Fatalf("%d records, %v", count, err)
	}
	got := make([]data.Record, count+1)
	for i := range count {
		got[i] = want[0] // what was there before leaves nothing
		if err := d.Next(&got[i]); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, got[:count], want)
	if err := d.Next(&got[count]); err == nil {
		t.Error("there is one record more")
	}
}

// TestDecodeCopiesNothing is the budget of the way in: the records, and what makes values of texts.
func TestDecodeCopiesNothing(t *testing.T) {
	in := encode(t, lines(200))
	var d Decoder
	if allocs := testing.AllocsPerRun(20, func() { _, _ = d.Decode(in) }); allocs > 210 {
		t.Errorf("%.0f allocations for a batch of 200 records", allocs)
	}
}

// lines are records of topics whose values are texts.
func lines(n int) []data.Record {
	optional := &data.Schema{Type: data.TypeString, Optional: true}
	records := make([]data.Record, n)
	for i := range records {
		records[i] = data.Record{Topic: "lines", Offset: int64(1<<20 + i), TimestampMs: 1_700_000_000_000, Key: data.Value{Schema: optional}, Value: data.Value{Schema: optional, V: strings.Repeat("x", 100)}}
	}
	return records
}

func BenchmarkAppendLines(b *testing.B) {
	records := lines(500)
	var e Encoder
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = e.Append(dst[:0], records)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}

func BenchmarkDecodeLines(b *testing.B) {
	in := encode(b, lines(500))
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/record")
}

// TestAppendAllocatesNothingPerRecord is the budget of the way out of a plugin.
func TestAppendAllocatesNothingPerRecord(t *testing.T) {
	records := rows(200)
	var e Encoder
	dst, _ := e.Append(nil, records)
	if allocs := testing.AllocsPerRun(20, func() { dst, _ = e.Append(dst[:0], records) }); allocs > 60 {
		t.Errorf("%.0f allocations for a batch of %d records", allocs, len(records))
	}
}
