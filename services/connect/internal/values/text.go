// Package values writes values as text and reads them from text as Kafka Connect does (its class Values, and toString of
// Java's own classes), which is what StringConverter, SimpleHeaderConverter and several transforms are made of.
package values

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// The layouts of Date, Time and Timestamp as text, in UTC.
const (
	DateLayout      = "2006-01-02"
	TimeLayout      = "15:04:05.000Z"
	TimestampLayout = "2006-01-02T15:04:05.000Z"
)

const dayMs = 24 * 60 * 60 * 1000

// Plain returns a value as the toString of its Java class does; bytes, which have none, as they are. Keys of maps are in
// order.
func Plain(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return v
	case []byte:
		return string(v)
	case float32:
		return Float(float64(v), 32)
	case float64:
		return Float(v, 64)
	case data.Decimal:
		return Decimal(v)
	case time.Time:
		return v.UTC().Format("Mon Jan 02 15:04:05 MST 2006")
	case []any:
		return "[" + join(len(v), ", ", func(i int) string { return Plain(v[i]) }) + "]"
	case map[any]any:
		keys := Keys(v)
		return "{" + join(len(keys), ", ", func(i int) string { return Plain(keys[i]) + "=" + Plain(v[keys[i]]) }) + "}"
	case *data.Struct:
		var fields []string
		for i, f := range v.Schema.Fields {
			if v.Values[i] != nil {
				fields = append(fields, f.Name+"="+Plain(v.Values[i]))
			}
		}
		return "Struct{" + strings.Join(fields, ",") + "}"
	}
	return fmt.Sprint(value) // bool and integers
}

// Text returns a value as Connect writes it into a header: texts inside of arrays, maps and structs are quoted, bytes are
// base64, and times have ISO 8601's form: of a time within the first day of 1970 the time of day, of any other midnight the date.
func Text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	}
	return embedded(value)
}

func embedded(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case []byte:
		return quote(base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return Time(v)
	case []any:
		return "[" + join(len(v), ",", func(i int) string { return embedded(v[i]) }) + "]"
	case map[any]any:
		keys := Keys(v)
		return "{" + join(len(keys), ",", func(i int) string { return embedded(keys[i]) + ":" + embedded(v[keys[i]]) }) + "}"
	case *data.Struct:
		fields := v.Schema.Fields
		return "{" + join(len(fields), ",", func(i int) string { return quote(fields[i].Name) + ":" + embedded(v.Values[i]) }) + "}"
	}
	return Plain(value)
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func join(n int, separator string, element func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = element(i)
	}
	return strings.Join(parts, separator)
}

// Time returns a time in the layout that its value suggests.
func Time(t time.Time) string {
	t = t.UTC()
	switch ms := t.UnixMilli(); {
	case ms < dayMs:
		return t.Format(TimeLayout)
	case ms%dayMs == 0:
		return t.Format(DateLayout)
	}
	return t.Format(TimestampLayout)
}

// Keys returns the keys of a map, those of one type in order and the types by their names.
func Keys(m map[any]any) []any {
	keys := make([]any, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b any) int {
		if x, y := fmt.Sprintf("%T", a), fmt.Sprintf("%T", b); x != y {
			return strings.Compare(x, y)
		}
		if s, ok := a.(string); ok {
			return strings.Compare(s, b.(string))
		}
		x, y := number(a), number(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return strings.Compare(Plain(a), Plain(b))
	})
	return keys
}

func number(key any) float64 {
	switch k := key.(type) {
	case int8:
		return float64(k)
	case int16:
		return float64(k)
	case int32:
		return float64(k)
	case int64:
		return float64(k)
	case float32:
		return float64(k)
	case float64:
		return k
	}
	return 0
}

// Float returns a number of 32 or 64 bits as Java writes it: 1.0, 1.0E10, NaN, -Infinity.
func Float(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0 || math.Abs(f) >= 1e-3 && math.Abs(f) < 1e7:
		text := strconv.FormatFloat(f, 'f', -1, bits)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

// Decimal returns a decimal as Java's BigDecimal.toString does: with an exponent where the scale is negative or the number
// has more than six zeros behind the point.
func Decimal(d data.Decimal) string {
	digits, sign := unscaled(d)
	adjusted := int64(len(digits)) - 1 - int64(d.Scale)
	if d.Scale >= 0 && adjusted >= -6 {
		return sign + withPoint(digits, int(d.Scale))
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	if adjusted == 0 {
		return sign + digits
	}
	return sign + digits + fmt.Sprintf("E%+d", adjusted)
}

// maxPlainZeros bounds the zeros that DecimalNumber writes out.
const maxPlainZeros = 10_000

// PlainDecimal returns a decimal without an exponent. It is an error if that takes more than 10,000 zeros.
func PlainDecimal(d data.Decimal) (string, error) {
	if d.Scale > maxPlainZeros || d.Scale < -maxPlainZeros {
		return "", fmt.Errorf("decimal of scale %d is too long to be written out", d.Scale)
	}
	digits, sign := unscaled(d)
	if d.Scale >= 0 {
		return sign + withPoint(digits, int(d.Scale)), nil
	}
	if digits == "0" {
		return digits, nil
	}
	return sign + digits + strings.Repeat("0", -int(d.Scale)), nil
}

func unscaled(d data.Decimal) (digits, sign string) {
	if d.Unscaled == nil {
		return "0", ""
	}
	digits = d.Unscaled.String()
	if digits, negative := strings.CutPrefix(digits, "-"); negative {
		return digits, "-"
	}
	return digits, ""
}

func withPoint(digits string, scale int) string {
	if scale == 0 {
		return digits
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	return digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}
