package plan

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
)

var (
	text     = &data.Schema{Type: data.TypeString}
	number   = &data.Schema{Type: data.TypeInt32}
	optional = &data.Schema{Type: data.TypeString, Optional: true}
	keyed    = structOf("id", number, "shop", text)
	valued   = structOf("id", number, "name", optional, "n", &data.Schema{Type: data.TypeInt64, Default: int64(7)})
	table    = ident.Name{"s", "T"}
)

func structOf(fields ...any) *data.Schema {
	s := &data.Schema{Type: data.TypeStruct}
	for i := 0; i < len(fields); i += 2 {
		s.Fields = append(s.Fields, data.Field{Name: fields[i].(string), Schema: fields[i+1].(*data.Schema)})
	}
	return s
}

func TestStatements(t *testing.T) {
	for _, test := range []struct {
		options                     Options
		key                         *data.Schema
		write, remove, create, fail string
	}{
		{options: Options{Mode: Insert, KeyMode: KeyNone},
			write:  `INSERT INTO "s"."T" ("id", "name", "n") VALUES ($1, $2, $3)`,
			create: `CREATE TABLE IF NOT EXISTS "s"."T" ("id" INT NOT NULL, "name" TEXT, "n" BIGINT DEFAULT '7')`},
		{options: Options{Mode: Upsert, KeyMode: KeyRecord, Delete: true}, key: keyed,
			write:  `INSERT INTO "s"."T" ("id", "shop", "name", "n") VALUES ($1, $2, $3, $4) ON CONFLICT ("id", "shop") DO UPDATE SET "name" = EXCLUDED."name", "n" = EXCLUDED."n"`,
			remove: `DELETE FROM "s"."T" WHERE "id" = $1 AND "shop" = $2`,
			create: `CREATE TABLE IF NOT EXISTS "s"."T" ("id" INT NOT NULL, "shop" TEXT NOT NULL, "name" TEXT, "n" BIGINT DEFAULT '7', PRIMARY KEY ("id", "shop"))`},
		{options: Options{Mode: Update, KeyMode: KeyRecord, KeyFields: []string{"key"}, Whitelist: []string{"name"}}, key: text,
			write: `UPDATE "s"."T" SET "name" = $2 WHERE "key" = $1`},
		{options: Options{Mode: Upsert, KeyMode: KeyValue, KeyFields: []string{"id"}, Whitelist: []string{"other"}},
			write: `INSERT INTO "s"."T" ("id") VALUES ($1) ON CONFLICT ("id") DO NOTHING`},
		{options: Options{Mode: Upsert, KeyMode: KeyKafka}, write: `INSERT INTO "s"."T" ("__connect_topic", "__connect_partition", "__connect_offset", "id", "name", "n") VALUES ($1, $2, $3, $4, $5, $6) ` +
			`ON CONFLICT ("__connect_topic", "__connect_partition", "__connect_offset") DO UPDATE SET "id" = EXCLUDED."id", "name" = EXCLUDED."name", "n" = EXCLUDED."n"`},
		{options: Options{Mode: Insert, KeyMode: KeyKafka, KeyFields: []string{"T", "P", "O"}, Lower: true, Whitelist: []string{"id"}}, write: `INSERT INTO "s"."T" ("t", "p", "o", "id") VALUES ($1, $2, $3, $4)`},
		{options: Options{Mode: Upsert, KeyMode: KeyRecord}, fail: "the key has no schema"},
		{options: Options{Mode: Upsert, KeyMode: KeyRecord}, key: text, fail: "pk.fields must name one column"},
		{options: Options{Mode: Upsert, KeyMode: KeyRecord, KeyFields: []string{"x"}}, key: keyed, fail: "no field x"},
		{options: Options{Mode: Upsert, KeyMode: KeyValue, KeyFields: []string{"x"}}, fail: "no field x"},
		{options: Options{Mode: Update, KeyMode: KeyValue}, fail: "no field to update"},
		{options: Options{Mode: Insert, KeyMode: KeyNone, Whitelist: []string{"x"}}, fail: "no field to write"},
	} {
		p, err := New(&test.options, test.key, valued)
		if err != nil || test.fail != "" {
			if err == nil || test.fail == "" || !strings.Contains(err.Error(), test.fail) {
				t.Errorf("%+v: %v", test.options, err)
			}
			continue
		}
		if got := p.Write(table); got != test.write {
			t.Errorf("%s\n%s", got, test.write)
		}
		if got := p.Delete(table); test.remove != "" && got != test.remove {
			t.Errorf("%s\n%s", got, test.remove)
		}
		if got, err := p.CreateTable(table); test.create != "" && got != test.create || err != nil {
			t.Errorf("%s\n%s\n%v", got, test.create, err)
		}
	}
}

func TestValuesThatAreNoRows(t *testing.T) {
	o := &Options{Mode: Insert, KeyMode: KeyNone}
	for fault, value := range map[string]*data.Schema{
		"no schema":           nil,
		"is a STRING":         text,
		"a STRUCT is no":      structOf("a", keyed),
		"a MAP is no":         structOf("a", &data.Schema{Type: data.TypeMap, Key: text, Value: text}),
		"a ARRAY is no":       structOf("a", &data.Schema{Type: data.TypeArray, Value: &data.Schema{Type: data.TypeArray, Value: text}}),
		"no field to write":   structOf(),
		"two fields have the": structOf("a", text, "a", text),
	} {
		if _, err := New(o, nil, value); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", fault, err)
		}
	}
}

func TestAddColumns(t *testing.T) {
	p, err := New(&Options{Mode: Insert, KeyMode: KeyNone}, nil, valued)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.AddColumns(table, p.Fields[1:]); err != nil || got != `ALTER TABLE "s"."T" ADD COLUMN IF NOT EXISTS "name" TEXT, ADD COLUMN IF NOT EXISTS "n" BIGINT DEFAULT '7'` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := p.AddColumns(table, p.Fields[:1]); err == nil || !strings.Contains(err.Error(), "id") {
		t.Errorf("a column that must have a value: %v", err)
	}
}

func TestValues(t *testing.T) {
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	decimal := func(n string, scale int32) data.Decimal {
		unscaled, _ := new(big.Int).SetString(n, 10)
		return data.Decimal{Unscaled: unscaled, Scale: scale}
	}
	at := time.Date(2024, 7, 1, 22, 0, 0, 123e6, time.UTC)
	list := func(s *data.Schema) *data.Schema { return &data.Schema{Type: data.TypeArray, Value: s} }
	for _, test := range []struct {
		schema *data.Schema
		value  any
		want   string
	}{
		{&data.Schema{Type: data.TypeBoolean}, true, "true"},
		{&data.Schema{Type: data.TypeInt8}, int8(-1), "-1"},
		{&data.Schema{Type: data.TypeInt16}, int16(2), "2"},
		{&data.Schema{Type: data.TypeInt64}, int64(math.MinInt64), "-9223372036854775808"},
		{&data.Schema{Type: data.TypeFloat32}, float32(0.1), "0.1"},
		{&data.Schema{Type: data.TypeFloat64}, math.Inf(-1), "-Infinity"},
		{&data.Schema{Type: data.TypeFloat64}, math.NaN(), "NaN"},
		{text, `a "quote" and \`, `a "quote" and \`},
		{&data.Schema{Type: data.TypeBytes}, []byte{0, 255}, `\x00ff`},
		{data.DecimalSchema(2), decimal("-1230", 2), "-12.30"},
		{data.DecimalSchema(3), decimal("-5", 3), "-0.005"},
		{data.DecimalSchema(-2), decimal("12", -2), "1200"},
		{data.DecimalSchema(0), data.Decimal{}, "0"},
		{data.DecimalSchema(2000), decimal("12", 2000), "12e-2000"},
		{data.DateSchema(), time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC), "2024-07-01"},
		{data.DateSchema(), time.Unix(math.MaxInt32*86400, 0), "infinity"},
		{data.TimeSchema(), time.UnixMilli(1500), "00:00:01.5"},
		{data.TimestampSchema(), at, "2024-07-02 00:00:00.123+02:00:00"},
		{list(text), []any{`a"b`, `c\d`, nil, "", "NULL", "x,y"}, `{"a\"b","c\\d",NULL,"","NULL","x,y"}`},
		{list(number), []any{}, `{}`},
		{list(&data.Schema{Type: data.TypeBytes}), []any{[]byte{1}}, `{"\\x01"}`},
		{list(data.TimestampSchema()), []any{at}, `{"2024-07-02 00:00:00.123+02:00:00"}`},
	} {
		s := structOf("before", text, "f", test.schema, "after", text)
		p, err := New(&Options{Mode: Insert, KeyMode: KeyNone, Zone: madrid}, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		r := data.NewRecord("t", data.Value{}, data.Value{Schema: s, V: &data.Struct{Schema: s, Values: []any{"<", test.value, ">"}}})
		values, err := p.Values(&r, false, nil)
		if err != nil || string(values[0]) != "<" || string(values[1]) != test.want || string(values[2]) != ">" {
			t.Errorf("%v: %q, %v", test.value, values, err)
		}
	}
}

func TestRecords(t *testing.T) {
	o := &Options{Mode: Upsert, KeyMode: KeyRecord, Delete: true, Zone: time.UTC}
	p, err := New(o, keyed, valued)
	if err != nil {
		t.Fatal(err)
	}
	key := data.Value{Schema: keyed, V: &data.Struct{Schema: keyed, Values: []any{int32(1), "madrid"}}}
	r := data.NewRecord("t", key, data.Value{Schema: valued, V: &data.Struct{Schema: valued, Values: []any{int32(9), nil, nil}}})
	values, err := p.Values(&r, false, nil)
	// The id is the key's, the name null, and n has its default.
	if err != nil || len(values) != 4 || string(values[0]) != "1" || string(values[1]) != "madrid" || values[2] != nil || string(values[3]) != "7" {
		t.Errorf("%q, %v", values, err)
	}
	o.KeepNulls = true
	if values, err := p.Values(&r, false, nil); err != nil || values[3] != nil {
		t.Errorf("nulls are kept: %q, %v", values, err)
	}
	if deletes, err := p.Deletes(&r); deletes || err != nil {
		t.Errorf("a record with a value: %t, %v", deletes, err)
	}
	tombstone := data.NewRecord("t", key, data.Value{})
	only, err := New(o, keyed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if deletes, err := only.Deletes(&tombstone); !deletes || err != nil || only.Writes() || !p.Writes() {
		t.Errorf("a record without a value: %t, %v", deletes, err)
	}
	if values, err := only.Values(&tombstone, true, nil); err != nil || len(values) != 2 {
		t.Errorf("%q, %v", values, err)
	}
	for _, s := range []*data.Schema{nil, text, valued} {
		if null := data.NewRecord("t", key, data.Value{Schema: s}); ValueSchema(&null) != nil {
			t.Errorf("a null of schema %v is not planned as what deletes", s)
		}
	}
	if ValueSchema(&r) != valued {
		t.Error("a value is not planned by its schema")
	}
	plain := data.NewRecord("t", key, data.Value{V: "text"})
	if _, err := only.Deletes(&plain); err == nil {
		t.Error("a value without a schema deletes")
	}
	if !p.For(keyed, valued) || p.For(text, valued) || p.For(keyed, nil) || !only.For(keyed, nil) {
		t.Error("plans are mistaken")
	}
	key.V.(*data.Struct).Values[1] = nil
	if _, err := p.Values(&r, false, nil); err == nil || !strings.Contains(err.Error(), "shop") {
		t.Errorf("a key that is null: %v", err)
	}
	r.Key.V = nil
	if _, err := p.Values(&r, false, nil); err == nil {
		t.Error("a record without a key")
	}
	keepers, err := New(&Options{Mode: Insert, KeyMode: KeyNone}, nil, valued)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keepers.Deletes(&tombstone); err == nil {
		t.Error("a record without a value, and delete.enabled is false")
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"":               {Mode: Upsert, KeyMode: KeyRecord, Delete: true},
		"pk.mode":        {Mode: Upsert, KeyMode: KeyNone},
		"pk.fields":      {Mode: Insert, KeyMode: KeyKafka, KeyFields: []string{"a"}},
		"delete.enabled": {Mode: Insert, KeyMode: KeyValue, Delete: true},
	} {
		if what, err := o.Check(); what != want || (err == nil) != (want == "") {
			t.Errorf("%+v: %s, %v", o, what, err)
		}
	}
}
