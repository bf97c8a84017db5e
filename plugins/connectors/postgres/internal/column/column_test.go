package column

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

func be16(n int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
func be32(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func be64(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func modifier(precision, scale int32) int32 { return precision<<16 | scale&0x7ff + 4 }

func TestTypes(t *testing.T) {
	micros := func(at time.Time) []byte { return be64(at.Sub(time.Unix(epochSeconds, 0)).Microseconds()) }
	at := time.Date(2024, 3, 1, 12, 13, 14, 123_456_000, time.UTC)
	for _, test := range []struct {
		oid    uint32
		raw    []byte
		schema data.Schema
		want   any
	}{
		{boolOID, []byte{1}, data.Schema{Type: data.TypeBoolean}, true},
		{int2OID, be16(-2), data.Schema{Type: data.TypeInt16}, int16(-2)},
		{int4OID, be32(-3), data.Schema{Type: data.TypeInt32}, int32(-3)},
		{int8OID, be64(math.MinInt64), data.Schema{Type: data.TypeInt64}, int64(math.MinInt64)},
		{oidOID, be32(-1), data.Schema{Type: data.TypeInt64}, int64(math.MaxUint32)},
		{float4OID, be32(int32(math.Float32bits(1.5))), data.Schema{Type: data.TypeFloat32}, float32(1.5)},
		{float8OID, be64(int64(math.Float64bits(-0.1))), data.Schema{Type: data.TypeFloat64}, -0.1},
		{byteaOID, []byte{}, data.Schema{Type: data.TypeBytes}, []byte{}},
		{dateOID, be32(8826), *data.DateSchema(), time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)},
		{dateOID, be32(math.MaxInt32), *data.DateSchema(), time.Unix(math.MaxInt32*daySeconds, 0).UTC()},
		{timeOID, be64(dayMicros), *data.TimeSchema(), time.Unix(0, 0).UTC()},
		{timeOID, be64(1_500_000), *data.TimeSchema(), time.UnixMilli(1500).UTC()},
		{timetzOID, append(be64(0), be32(-3600)...), *data.TimeSchema(), time.Unix(23*3600, 0).UTC()},
		{timestampOID, micros(at), *data.TimestampSchema(), at.Add(-time.Hour)},
		{timestamptzOID, micros(at), *data.TimestampSchema(), at},
		{timestamptzOID, micros(time.Unix(-1, 0)), *data.TimestampSchema(), time.Unix(-1, 0).UTC()},
		{timestampOID, be64(math.MaxInt64), *data.TimestampSchema(), Infinity},
		{timestamptzOID, be64(math.MinInt64), *data.TimestampSchema(), MinusInfinity},
		{2950, []byte("a8098c1a-f86e-11da-bd1a-00112444be1e"), data.Schema{Type: data.TypeString}, "a8098c1a-f86e-11da-bd1a-00112444be1e"},
		{1007, []byte("{1,2}"), data.Schema{Type: data.TypeString}, "{1,2}"},
		{bitOID, []byte("1"), data.Schema{Type: data.TypeBoolean}, true},
	} {
		madrid := time.FixedZone("CET", 3600)
		field := Field{Name: "c", TypeOID: test.oid, TypeModifier: 1, NotNull: true}
		r, err := NewReader("t", []Field{field}, Options{Zone: madrid, Granularity: ConnectLogical})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Read([][]byte{test.raw})
		if err != nil {
			t.Errorf("type %d: %v", test.oid, err)
			continue
		}
		if !data.Equal(s.Values[0], test.want) || !r.Schema.Fields[0].Schema.Equal(&test.schema) {
			t.Errorf("type %d: %v of %+v", test.oid, s.Values[0], r.Schema.Fields[0].Schema)
		}
		if err := r.Schema.Validate(s); err != nil {
			t.Errorf("type %d: %v", test.oid, err)
		}
		if _, err := r.Read([][]byte{nil}); err == nil {
			t.Errorf("type %d: null in a column that has none", test.oid)
		}
	}
}

func TestRowsThatAreNone(t *testing.T) {
	r, err := NewReader("", []Field{{Name: "a", TypeOID: int4OID}, {Name: "b", TypeOID: numericOID, TypeModifier: modifier(4, 0)}}, Options{Numeric: NumericBestFit})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := r.Read([][]byte{nil, nil}); err != nil || s.Values[0] != nil {
		t.Errorf("nulls: %v, %v", s, err)
	}
	for _, row := range [][][]byte{{be32(1)}, {be16(1), nil}, {nil, []byte("NaN")}, {nil, []byte("40000")}} {
		if _, err := r.Read(row); err == nil {
			t.Errorf("%q is read", row)
		}
	}
	if _, err := NewReader("", []Field{{Name: "a"}, {Name: "a"}}, Options{}); err == nil {
		t.Error("two columns of one name")
	}
}

func TestNumerics(t *testing.T) {
	number := func(text string, scale int32) any {
		n, _ := new(big.Int).SetString(text, 10)
		return data.Decimal{Unscaled: n, Scale: scale}
	}
	for _, test := range []struct {
		precision, scale int32 // 0 and 0 where they are not declared
		how, raw         string
		want             any // nil for an error
	}{
		{10, 2, NumericNone, "-12.30", number("-1230", 2)},
		{10, 0, NumericNone, "12", number("12", 0)},
		{5, -2, NumericNone, "1200", number("12", -2)},
		{5, -2, NumericNone, "0", number("0", -2)},
		{0, 0, NumericNone, "1.5", number("15"+strings.Repeat("0", 126), 127)},
		{0, 0, NumericBestFit, "300", number("300"+strings.Repeat("0", 127), 127)},
		{10, 2, NumericNone, "NaN", nil},
		{0, 0, NumericNone, "0." + strings.Repeat("1", 128), nil},
		{2, 0, NumericPrecision, "-99", int8(-99)},
		{4, 0, NumericPrecision, "999", int16(999)},
		{9, 0, NumericPrecision, "1", int32(1)},
		{18, 0, NumericPrecision, "1", int64(1)},
		{19, 0, NumericPrecision, "1", number("1", 0)},
		{5, 2, NumericPrecision, "1.00", number("100", 2)},
		{5, -5, NumericPrecision, "100000", number("1", -5)},
		{5, 2, NumericBestFit, "1.25", 1.25},
		{5, 2, NumericBestFit, "Infinity", math.Inf(1)},
		{20, 2, NumericBestFit, "1.25", number("125", 2)},
		{5, -5, NumericBestFit, "9999900000", int64(9_999_900_000)},
		{15, -5, NumericBestFit, "100000", number("1", -5)},
		{20, 2, NumericEagerDouble, "1.25", 1.25},
		{20, 0, NumericEagerDouble, "7", number("7", 0)},
	} {
		f := Field{Name: "n", TypeOID: numericOID, TypeModifier: modifier(test.precision, test.scale)}
		if test.precision == 0 {
			f.TypeModifier = -1
		}
		r, err := NewReader("", []Field{f}, Options{Numeric: test.how})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Read([][]byte{[]byte(test.raw)})
		if (err == nil) != (test.want != nil) || err == nil && (!data.Equal(s.Values[0], test.want) || r.Schema.Validate(s) != nil) {
			t.Errorf("%+v: %v, %v", test, s, err)
		}
	}
}

func TestGranularity(t *testing.T) {
	at := time.Date(2024, 7, 1, 2, 3, 4, 5_000, time.UTC)
	zone := time.FixedZone("two hours", 7200)
	for how, want := range map[string]any{
		ConnectLogical: at, MicrosLong: at.UnixMicro(), NanosLong: at.UnixNano(),
		MicrosString: "1719799384000005", NanosString: "1719799384000005000",
		MicrosISO: "2024-07-01T04:03:04.000005", NanosISO: "2024-07-01T04:03:04.000005000",
	} {
		_, give := granularity(Options{Granularity: how, Zone: zone})
		if got, err := give(at); err != nil || !data.Equal(got, want) {
			t.Errorf("%s: %v, %v", how, got, err)
		}
	}
	_, give := granularity(Options{Granularity: NanosLong})
	if _, err := give(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
		t.Error("the year 3000 in nanoseconds")
	}
}

func TestFormatTimestamp(t *testing.T) {
	for want, at := range map[string]time.Time{
		"infinity":                            Infinity,
		"-infinity":                           MinusInfinity,
		"2024-01-02 03:04:05.000006+01:00:00": time.Date(2024, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)),
		"0044-03-15 00:00:00+00:00:00 BC":     time.Date(-43, 3, 15, 0, 0, 0, 0, time.UTC),
		"12024-01-02 00:00:00+00:00:00":       time.Date(12024, 1, 2, 0, 0, 0, 0, time.UTC),
	} {
		if got := FormatTimestamp(at); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, test := range []struct {
		oid  uint32
		raw  string
		want int64
		ok   bool
	}{
		{int2OID, string(be16(-5)), -5, true}, {int4OID, string(be32(7)), 7, true}, {int8OID, string(be64(math.MaxInt64)), math.MaxInt64, true},
		{numericOID, "9223372036854775807", math.MaxInt64, true}, {numericOID, "9223372036854775808", 0, false}, {numericOID, "1.5", 0, false}, {int4OID, "x", 0, false},
	} {
		if got, err := Integer(test.oid, []byte(test.raw)); got != test.want || (err == nil) != test.ok {
			t.Errorf("%+v: %d, %v", test, got, err)
		}
	}
	if _, err := Integer(int4OID, nil); err == nil {
		t.Error("null is an integer")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(uint32(numericOID), int32(-1), []byte("-1.50"))
	f.Add(uint32(timestamptzOID), int32(-1), be64(1))
	f.Add(uint32(dateOID), int32(-1), be32(1))
	f.Fuzz(func(t *testing.T, oid uint32, modifier int32, raw []byte) {
		for _, how := range []string{NumericNone, NumericBestFit} {
			r, err := NewReader("", []Field{{Name: "c", TypeOID: oid, TypeModifier: modifier}}, Options{Zone: time.UTC, Numeric: how})
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Read([][]byte{raw})
			if err != nil {
				continue
			}
			if err := r.Schema.Validate(s); err != nil {
				t.Errorf("%q of type %d: %v", raw, oid, err)
			}
		}
	})
}
