package file

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// TestText has what Java's toString says of each value.
func TestText(t *testing.T) {
	schema := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{
		{Name: "id", Schema: &data.Schema{Type: data.TypeInt64}}, {Name: "note", Schema: &data.Schema{Type: data.TypeString, Optional: true}},
		{Name: "tags", Schema: &data.Schema{Type: data.TypeArray, Value: &data.Schema{Type: data.TypeString}}},
	}}
	decimal := func(unscaled, scale int64) data.Decimal {
		return data.Decimal{Unscaled: big.NewInt(unscaled), Scale: int32(scale)}
	}
	tests := []struct {
		value any
		want  string
	}{
		{nil, "null"}, {"a b", "a b"}, {[]byte("raw"), "raw"}, {true, "true"}, {int8(-1), "-1"}, {int64(1 << 40), "1099511627776"},
		{1.0, "1.0"}, {0.001, "0.001"}, {0.0001, "1.0E-4"}, {1e7, "1.0E7"}, {9999999.0, "9999999.0"}, {1.25e-10, "1.25E-10"}, {1e100, "1.0E100"},
		{math.Copysign(0, -1), "-0.0"}, {math.NaN(), "NaN"}, {math.Inf(-1), "-Infinity"}, {float32(0.1), "0.1"}, {float32(3.4e38), "3.4E38"},
		{decimal(12345, 2), "123.45"}, {decimal(-5, 3), "-0.005"}, {decimal(0, 2), "0.00"}, {decimal(123, -2), "1.23E+4"}, {decimal(5, 10), "5E-10"}, {data.Decimal{}, "0"},
		{time.UnixMilli(0), "Thu Jan 01 00:00:00 UTC 1970"},
		{[]any{int32(1), "x", nil}, "[1, x, null]"}, {map[any]any{"b": int64(2), "a": "x"}, "{a=x, b=2}"},
		{&data.Struct{Schema: schema, Values: []any{int64(7), nil, []any{"a"}}}, "Struct{id=7,tags=[a]}"},
	}
	for _, test := range tests {
		if got := string(appendText([]byte("> "), test.value)); got != "> "+test.want {
			t.Errorf("%v: %s, want %s", test.value, got, test.want)
		}
	}
}
