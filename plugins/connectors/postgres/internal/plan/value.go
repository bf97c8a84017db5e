package plan

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/column"
)

// Values returns the values of the plan's fields in a record, as texts that PostgreSQL reads as whatever type a column has; nil
// for null. Bytes of fields for which raw says so are as they are. keysOnly leaves out those that are not of the key. The error
// is the record's.
func (p *Plan) Values(r *data.Record, keysOnly bool, raw []bool) ([][]byte, error) {
	fields := p.Fields
	if keysOnly {
		fields = fields[:p.Keys]
	}
	values := make([][]byte, len(fields))
	buffer := make([]byte, 0, 16*len(fields))
	for i := range fields {
		f := &fields[i]
		value, err := f.of(r, p.options.KeepNulls)
		if err != nil {
			return nil, err
		}
		if value == nil && f.Key {
			return nil, fmt.Errorf("field %s is null, and part of the primary key", f.Name)
		}
		if value == nil {
			continue
		}
		if b, ok := value.([]byte); ok && raw != nil && raw[i] {
			values[i] = append([]byte{}, b...)
			continue
		}
		from := len(buffer)
		if buffer, err = appendValue(buffer, f.Schema, value, p.options.Zone); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		values[i] = buffer[from:len(buffer):len(buffer)]
	}
	return values, nil
}

var errNoStruct = errors.New("it is no struct")

// of returns the value of a field in a record, or its default where it is null.
func (f *Field) of(r *data.Record, keepNulls bool) (any, error) {
	switch f.origin {
	case fromTopic:
		return r.Topic, nil
	case fromPartition:
		return r.Partition, nil
	case fromOffset:
		return r.Offset, nil
	case fromKey:
		return r.Key.V, nil
	}
	what, v := "value", r.Value.V
	if f.origin == fromKeyField {
		what, v = "key", r.Key.V
	}
	s, ok := v.(*data.Struct)
	if !ok || f.place >= len(s.Values) {
		return nil, fmt.Errorf("the %s: %w", what, errNoStruct)
	}
	if keepNulls {
		return s.Values[f.place], nil
	}
	return s.Defaulted(f.place), nil
}

// appendValue appends a value as PostgreSQL reads it.
func appendValue(dst []byte, s *data.Schema, value any, zone *time.Location) ([]byte, error) {
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int8:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int16:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float32:
		return appendFloat(dst, float64(v), 32), nil
	case float64:
		return appendFloat(dst, v, 64), nil
	case string:
		return append(dst, v...), nil
	case []byte:
		return hex.AppendEncode(append(dst, `\x`...), v), nil
	case data.Decimal:
		return appendDecimal(dst, v), nil
	case time.Time:
		return appendTime(dst, s, v, zone)
	case []any:
		return appendArray(dst, s, v, zone)
	}
	return nil, fmt.Errorf("%s is no value of a column", data.Kind(value))
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits) // NaN is NaN
}

// maxZeros bounds the zeros that a decimal is written with; beyond, it has an exponent.
const maxZeros = 1000

// appendDecimal writes a number with all its digits, zeros at the end included.
func appendDecimal(dst []byte, d data.Decimal) []byte {
	digits := "0"
	if d.Unscaled != nil {
		digits = d.Unscaled.String()
	}
	scale := int(d.Scale)
	switch {
	case scale > maxZeros || scale < -maxZeros:
		return fmt.Appendf(dst, "%se%d", digits, -scale)
	case scale <= 0:
		return append(append(dst, digits...), strings.Repeat("0", -scale)...)
	}
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		dst, digits = append(dst, '-'), rest
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - scale
	return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
}

func appendTime(dst []byte, s *data.Schema, t time.Time, zone *time.Location) ([]byte, error) {
	switch s.Name {
	case data.DateName:
		switch t.Unix() / (24 * 60 * 60) { // what the source makes of infinite dates
		case math.MaxInt32:
			return append(dst, "infinity"...), nil
		case math.MinInt32:
			return append(dst, "-infinity"...), nil
		}
		return append(dst, column.FormatDate(t.UTC(), "")...), nil
	case data.TimeName:
		return t.UTC().AppendFormat(dst, "15:04:05.999"), nil
	case data.TimestampName:
		return append(dst, column.FormatTimestamp(t.In(zone))...), nil
	}
	return nil, fmt.Errorf("a time is no value of %s", s.Name)
}

// appendArray writes an array, its elements quoted.
func appendArray(dst []byte, s *data.Schema, elements []any, zone *time.Location) ([]byte, error) {
	dst = append(dst, '{')
	for i, element := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		if element == nil {
			dst = append(dst, "NULL"...)
			continue
		}
		text, err := appendValue(nil, s.Value, element, zone)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		dst = append(dst, '"')
		dst = append(dst, quoteElement.Replace(string(text))...)
		dst = append(dst, '"')
	}
	return append(dst, '}'), nil
}

var quoteElement = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
