package position

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

func TestOffsetsAreThoseOfJDBC(t *testing.T) {
	at := time.Date(2024, 1, 2, 3, 4, 5, 123_456_000, time.UTC)
	before := time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	for _, test := range []struct {
		offset Offset
		text   string
	}{
		{Offset{}, `{}`},
		{Offset{Incrementing: new(int64(-7))}, `{"incrementing":-7}`},
		{Offset{Timestamp: &at}, `{"timestamp":1704164645123,"timestamp_nanos":123456000}`},
		{Offset{Timestamp: &before}, `{"timestamp":-1,"timestamp_nanos":999999000}`},
		{Offset{Incrementing: new(int64(1 << 62)), Timestamp: &at}, `{"incrementing":4611686018427387904,"timestamp":1704164645123,"timestamp_nanos":123456000}`},
		{Offset{Timestamp: &at, Key: `["1","a\"b"]`}, `{"timestamp":1704164645123,"timestamp_nanos":123456000,"key":"[\"1\",\"a\\\"b\"]"}`},
	} {
		text, err := json.Marshal(test.offset)
		if err != nil || string(text) != test.text {
			t.Errorf("%s, not %s, %v", text, test.text, err)
		}
		var again Offset
		if err := json.Unmarshal(text, &again); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != test.text {
			t.Errorf("%s is read as %s, %v", test.text, second, err)
		}
	}
	var o Offset
	if err := json.Unmarshal([]byte(`{"timestamp":1704164645123}`), &o); err != nil || o.Timestamp.Nanosecond() != 123_000_000 {
		t.Errorf("without nanoseconds: %v, %v", o.Timestamp, err)
	}
	for _, text := range []string{`[]`, `{"incrementing":"1"}`, `{"incrementing":1.5}`, `{"timestamp_nanos":1}`, `{"timestamp":1,"timestamp_nanos":1000000000}`, `{"other":1}`,
		`{"timestamp":1,"timestamp_nanos":-1}`, `{"timestamp":1,"key":"x"}`, `{"timestamp":1,"key":"[]"}`, `{"key":"[\"1\"]"}`, `{"timestamp":1,"key":"[1]"}`} {
		if err := json.Unmarshal([]byte(text), &o); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func FuzzOffset(f *testing.F) {
	f.Add([]byte(`{"timestamp":1704164645123,"timestamp_nanos":123456000,"key":"[\"1\"]"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var o, again Offset
		if o.UnmarshalJSON(text) != nil {
			return
		}
		written, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s is written as %s: %v", text, written, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(written) {
			t.Errorf("%s, then %s, %v", written, second, err)
		}
	})
}

func TestCheck(t *testing.T) {
	at := time.Unix(1, 0)
	n := new(int64(1))
	fits := map[Mode][]Offset{
		Incrementing:          {{Incrementing: n}},
		Timestamp:             {{Timestamp: &at}, {Timestamp: &at, Key: `["1"]`}},
		TimestampIncrementing: {{Timestamp: &at}, {Timestamp: &at, Incrementing: n}},
	}
	all := []Offset{{}, {Incrementing: n}, {Timestamp: &at}, {Timestamp: &at, Incrementing: n}, {Timestamp: &at, Key: `["1"]`}}
	for _, mode := range []Mode{Bulk, Incrementing, Timestamp, TimestampIncrementing} {
		for _, o := range all {
			if err := o.Check(mode); (err == nil) != slices.Contains(fits[mode], o) {
				t.Errorf("%s %+v: %v", mode, o, err)
			}
		}
	}
}

func TestPartitions(t *testing.T) {
	for _, p := range append(TablePartitions("db", "public", "users"), QueryPartition) {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParsePartition(text); err != nil || again != p {
			t.Errorf("%s is %+v, %v", text, again, err)
		}
	}
	for _, text := range []string{`{}`, `{"query":"SELECT"}`, `{"table":""}`, `{"protocol":"2","table":"a"}`, `{"table":1}`, `{"table":"a","query":"query"}`, `x`, `{"table":"a","x":1}`} {
		if _, err := ParsePartition([]byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestStatement(t *testing.T) {
	at := time.Date(2024, 7, 1, 0, 0, 0, 1000, time.UTC)
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	id, changed := Column{"id", "bigint"}, Column{Name: "at"}
	for _, test := range []struct {
		reading Reading
		at      Offset
		sql     string
		params  []string
	}{
		{Reading{Mode: Bulk, Suffix: "LIMIT 1"}, Offset{}, `SELECT * FROM t LIMIT 1`, nil},
		{Reading{Mode: Incrementing, Incrementing: id}, Offset{}, `SELECT * FROM t WHERE "id" IS NOT NULL ORDER BY "id"`, nil},
		{Reading{Mode: Incrementing, Incrementing: id}, Offset{Incrementing: new(int64(5))}, `SELECT * FROM t WHERE "id" > $1::bigint ORDER BY "id"`, []string{"5"}},
		{Reading{Mode: Timestamp, Timestamps: []Column{changed}, Delay: time.Second}, Offset{},
			`SELECT * FROM t WHERE "at" < CURRENT_TIMESTAMP - INTERVAL '1000 milliseconds' ORDER BY "at"`, nil},
		{Reading{Mode: Timestamp, Timestamps: []Column{changed, {Name: "made"}}, Local: true, Zone: madrid}, Offset{Timestamp: &at},
			`SELECT * FROM t WHERE COALESCE("at", "made") < LOCALTIMESTAMP - INTERVAL '0 milliseconds' AND (COALESCE("at", "made")) > ($1::timestamp) ORDER BY COALESCE("at", "made")`,
			[]string{"2024-07-01 02:00:00.000001+02:00:00"}},
		{Reading{Mode: Timestamp, Timestamps: []Column{changed}, Key: []Column{{"a", "text"}, {"b", "uuid"}}}, Offset{Timestamp: &at, Key: `["x","y"]`},
			`SELECT *, "a"::text AS "cauce key 1", "b"::text AS "cauce key 2" FROM t WHERE "at" < CURRENT_TIMESTAMP - INTERVAL '0 milliseconds' ` +
				`AND ("at", "a", "b") > ($1::timestamptz, $2::text, $3::uuid) ORDER BY "at", "a", "b"`, []string{"2024-07-01 00:00:00.000001+00:00:00", "x", "y"}},
		// The key has changed: rows of that time come again.
		{Reading{Mode: Timestamp, Timestamps: []Column{changed}, Key: []Column{{"a", "text"}}}, Offset{Timestamp: &at, Key: `["x","y"]`},
			`SELECT *, "a"::text AS "cauce key 1" FROM t WHERE "at" < CURRENT_TIMESTAMP - INTERVAL '0 milliseconds' AND ("at") >= ($1::timestamptz) ORDER BY "at", "a"`,
			[]string{"2024-07-01 00:00:00.000001+00:00:00"}},
		{Reading{Mode: TimestampIncrementing, Timestamps: []Column{changed}, Incrementing: id}, Offset{Timestamp: &at, Incrementing: new(int64(7))},
			`SELECT * FROM t WHERE "at" < CURRENT_TIMESTAMP - INTERVAL '0 milliseconds' AND ("at", "id") > ($1::timestamptz, $2::bigint) ORDER BY "at", "id"`,
			[]string{"2024-07-01 00:00:00.000001+00:00:00", "7"}},
		{Reading{Mode: TimestampIncrementing, Timestamps: []Column{changed}, Incrementing: id}, Offset{Timestamp: &at},
			`SELECT * FROM t WHERE "at" < CURRENT_TIMESTAMP - INTERVAL '0 milliseconds' AND ("at") >= ($1::timestamptz) ORDER BY "at", "id"`,
			[]string{"2024-07-01 00:00:00.000001+00:00:00"}},
	} {
		test.reading.From = "t"
		if test.reading.Zone == nil {
			test.reading.Zone = time.UTC
		}
		sql, params, err := test.reading.Statement(test.at)
		if err != nil || sql != test.sql || !slices.Equal(params, test.params) {
			t.Errorf("%s\n%s\n%q, %v", sql, test.sql, params, err)
		}
	}
	if exact := (&Reading{Mode: Timestamp}).Exact(); exact {
		t.Error("rows without a key are told apart")
	}
}
