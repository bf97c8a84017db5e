package file

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// appendText appends a value as FileStreamSink prints it, that is as Java's toString does, but for two: bytes are written as
// they are instead of an address, and maps in the order of their entries' text.
func appendText(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return append(dst, v...)
	case []byte:
		return append(dst, v...)
	case float32:
		return append(dst, javaFloat(float64(v), 32)...)
	case float64:
		return append(dst, javaFloat(v, 64)...)
	case []any:
		return appendList(dst, v)
	case map[any]any:
		return appendMap(dst, v)
	case *data.Struct:
		return appendStruct(dst, v)
	case data.Decimal:
		return append(dst, javaDecimal(v)...)
	case time.Time:
		return append(dst, v.UTC().Format("Mon Jan 02 15:04:05 UTC 2006")...)
	}
	return fmt.Append(dst, value) // integers and booleans
}

func appendList(dst []byte, list []any) []byte {
	dst = append(dst, '[')
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendText(dst, element)
	}
	return append(dst, ']')
}

func appendMap(dst []byte, m map[any]any) []byte {
	var entries []string
	for key, element := range m {
		entry := append(appendText(nil, key), '=')
		entries = append(entries, string(appendText(entry, element)))
	}
	slices.Sort(entries)
	return append(dst, "{"+strings.Join(entries, ", ")+"}"...)
}

// appendStruct leaves out fields that are null.
func appendStruct(dst []byte, s *data.Struct) []byte {
	dst = append(dst, "Struct{"...)
	first := true
	for i, element := range s.Values {
		if element == nil {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, s.Schema.Fields[i].Name...), '=')
		dst = appendText(dst, element)
	}
	return append(dst, '}')
}

// javaFloat is a number as Double.toString and Float.toString write it.
func javaFloat(f float64, bits int) string {
	switch magnitude := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0 || magnitude >= 1e-3 && magnitude < 1e7:
		return withPoint(strconv.FormatFloat(f, 'f', -1, bits))
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	return withPoint(mantissa) + "E" + strings.Replace(strings.TrimLeft(exponent, "+0"), "-0", "-", 1)
}

func withPoint(digits string) string {
	if strings.Contains(digits, ".") {
		return digits
	}
	return digits + ".0"
}

// javaDecimal is a number as BigDecimal.toString writes it.
func javaDecimal(d data.Decimal) string {
	if d.Unscaled == nil {
		d = data.NewDecimal([]byte{0}, d.Scale)
	}
	sign, digits := "", d.Unscaled.String()
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	scale := int(d.Scale)
	exponent := len(digits) - 1 - scale
	switch {
	case scale == 0:
		return sign + digits
	case scale > 0 && exponent >= -6:
		if missing := scale + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		point := len(digits) - scale
		return sign + digits[:point] + "." + digits[point:]
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%s%sE%+d", sign, digits, exponent)
}
