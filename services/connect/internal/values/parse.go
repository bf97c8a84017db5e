package values

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// maxExponent bounds the exponent of numbers, maxDigits their length: what is larger stays a text.
const (
	maxExponent = 10_000
	maxDigits   = 1_000
)

// Parse finds out what a text stands for, as Connect does with headers: null, true and false, the narrowest number that holds
// it, a Date, Time or Timestamp, an array or map of these. Anything else is the text itself. Arrays and maps whose elements are
// not alike have no schema; an array of nulls and others is a text.
func Parse(text string) data.Value {
	p := parser{rest: strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })}
	if p.rest == "null" {
		return data.Value{}
	}
	if p.rest != "" && !strings.HasPrefix(p.rest, `"`) {
		if v, ok := p.value(0); ok && p.skip() == "" {
			return v
		}
	}
	return data.Value{Schema: plain(data.TypeString), V: text}
}

func plain(t data.Type) *data.Schema { return &data.Schema{Type: t} }

// parser holds what is left of a text.
type parser struct{ rest string }

func (p *parser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n\f\v")
	return p.rest
}

func (p *parser) take(token string) bool {
	rest, ok := strings.CutPrefix(p.skip(), token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) value(depth int) (data.Value, bool) {
	switch {
	case depth >= data.MaxDepth:
		return data.Value{}, false
	case p.take("["):
		return p.array(depth)
	case p.take("{"):
		return p.object(depth)
	case p.take(`"`):
		s, ok := p.quoted()
		return data.Value{Schema: plain(data.TypeString), V: s}, ok
	}
	return p.literal()
}

// quoted reads up to the closing quote, which a backslash before it makes part of the text.
func (p *parser) quoted() (string, bool) {
	var b strings.Builder
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case '\\':
			if i+1 < len(p.rest) && (p.rest[i+1] == '"' || p.rest[i+1] == '\\') {
				i++
			}
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

var temporal = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d\.\d{3}Z)`)

func (p *parser) literal() (data.Value, bool) {
	if text := temporal.FindString(p.rest); text != "" {
		if v, ok := parseTime(text); ok {
			p.rest = p.rest[len(text):]
			return v, true
		}
	}
	end := strings.IndexAny(p.rest, ",:[]{}\" \t\r\n\f\v")
	if end < 0 {
		end = len(p.rest)
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	switch text {
	case "null":
		return data.Value{}, true
	case "true", "false":
		return data.Value{Schema: plain(data.TypeBoolean), V: text == "true"}, true
	}
	return parseNumber(text)
}

// parseTime reads a time in one of the three layouts. A month or hour beyond its range runs on into the next, as in Java.
func parseTime(text string) (data.Value, bool) {
	at := func(i, n int) int {
		v, _ := strconv.Atoi(text[i : i+n])
		return v
	}
	clock := func(i int) time.Duration {
		return time.Duration(at(i, 2))*time.Hour + time.Duration(at(i+3, 2))*time.Minute + time.Duration(at(i+6, 2))*time.Second + time.Duration(at(i+9, 3))*time.Millisecond
	}
	var v data.Value
	switch len(text) {
	case len(DateLayout):
		v = data.Value{Schema: data.DateSchema(), V: time.Date(at(0, 4), time.Month(at(5, 2)), at(8, 2), 0, 0, 0, 0, time.UTC)}
	case len(TimeLayout):
		v = data.Value{Schema: data.TimeSchema(), V: time.UnixMilli(0).UTC().Add(clock(0))}
	default:
		day := time.Date(at(0, 4), time.Month(at(5, 2)), at(8, 2), 0, 0, 0, 0, time.UTC)
		v = data.Value{Schema: data.TimestampSchema(), V: day.Add(clock(11))}
	}
	return v, v.Validate() == nil
}

var decimal = regexp.MustCompile(`^[+-]?\d+(\.\d*)?([eE][+-]?\d{1,9})?$`)

// parseNumber returns the narrowest integer that is the number. One that is no 64-bit integer becomes a Decimal if it is written
// without point and exponent, else a FLOAT32, or a FLOAT64 or Decimal if it is beyond the range of that.
func parseNumber(text string) (data.Value, bool) {
	if len(text) > maxDigits || !decimal.MatchString(text) {
		return data.Value{}, false
	}
	d, err := ParseDecimal(text)
	if err != nil {
		return data.Value{}, false
	}
	if n, whole := Whole(d); whole && n.IsInt64() {
		return integer(n.Int64()), true
	}
	// Out of the range of a float, ParseFloat returns an infinity besides its error.
	narrow, _ := strconv.ParseFloat(text, 32)
	f, _ := strconv.ParseFloat(text, 64)
	switch {
	case d.Scale == 0 || math.IsInf(f, 0):
		return data.Value{Schema: data.DecimalSchema(d.Scale), V: d}, true
	case math.IsInf(narrow, 0):
		return data.Value{Schema: plain(data.TypeFloat64), V: f}, true
	}
	return data.Value{Schema: plain(data.TypeFloat32), V: float32(narrow)}, true
}

func integer(n int64) data.Value {
	switch {
	case int64(int8(n)) == n:
		return data.Value{Schema: plain(data.TypeInt8), V: int8(n)}
	case int64(int16(n)) == n:
		return data.Value{Schema: plain(data.TypeInt16), V: int16(n)}
	case int64(int32(n)) == n:
		return data.Value{Schema: plain(data.TypeInt32), V: int32(n)}
	}
	return data.Value{Schema: plain(data.TypeInt64), V: n}
}

// ParseDecimal reads a number with or without point and exponent.
func ParseDecimal(text string) (data.Decimal, error) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return data.Decimal{}, fmt.Errorf("exponent of %.40q is no number from -%d to %d", text, maxExponent, maxExponent)
		}
		mantissa = text[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return data.Decimal{}, fmt.Errorf("%.40q is no number", text)
	}
	return data.Decimal{Unscaled: n, Scale: int32(len(fraction) - exponent)}, nil
}

// Whole returns the integer that a decimal is, and whether it is one.
func Whole(d data.Decimal) (*big.Int, bool) {
	n := d.Unscaled
	if n == nil {
		n = new(big.Int)
	}
	if d.Scale == 0 || n.Sign() == 0 {
		return n, true
	}
	if d.Scale < 0 {
		return new(big.Int).Mul(n, power(-int64(d.Scale))), true
	}
	quotient, rest := new(big.Int).QuoRem(n, power(int64(d.Scale)), new(big.Int))
	return quotient, rest.Sign() == 0
}

func power(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

func (p *parser) array(depth int) (data.Value, bool) {
	var elements []data.Value
	for !p.take("]") {
		v, ok := p.value(depth + 1)
		if !ok {
			return data.Value{}, false
		}
		elements = append(elements, v)
		if !p.take(",") && !strings.HasPrefix(p.skip(), "]") {
			return data.Value{}, false
		}
	}
	nulls := slices.IndexFunc(elements, isNull) >= 0
	if nulls && slices.ContainsFunc(elements, func(v data.Value) bool { return !isNull(v) }) {
		return data.Value{}, false
	}
	list, s := alike(elements)
	if s == nil {
		return data.Value{V: list}, true
	}
	return data.Value{Schema: &data.Schema{Type: data.TypeArray, Value: s}, V: list}, true
}

func isNull(v data.Value) bool { return v.V == nil }

func (p *parser) object(depth int) (data.Value, bool) {
	var keys, elements []data.Value
	for !p.take("}") {
		key, ok := p.value(depth + 1)
		if !ok || data.CheckKey(key.V) != nil || !p.take(":") {
			return data.Value{}, false
		}
		v, ok := p.value(depth + 1)
		if !ok || !p.take(",") && !strings.HasPrefix(p.skip(), "}") {
			return data.Value{}, false
		}
		keys, elements = append(keys, key), append(elements, v)
	}
	keyList, keySchema := alike(keys)
	list, s := alike(elements)
	m := make(map[any]any, len(list))
	for i, key := range keyList {
		m[key] = list[i]
	}
	if keySchema == nil || s == nil {
		return data.Value{V: m}, true
	}
	return data.Value{Schema: &data.Schema{Type: data.TypeMap, Key: keySchema, Value: s}, V: m}, true
}

// alike returns elements with the schema that all of them share: numbers become the widest among them. Where they share none the
// schema is nil.
func alike(elements []data.Value) ([]any, *data.Schema) {
	list := make([]any, len(elements))
	var common *data.Schema
	same := len(elements) > 0
	for i, e := range elements {
		list[i] = e.V
		switch {
		case e.Schema == nil:
			same = false
		case common == nil || numeric(common) && numeric(e.Schema) && common.Type < e.Schema.Type:
			common = e.Schema
		}
	}
	for _, e := range elements {
		same = same && (e.Schema.Equal(common) || numeric(common) && numeric(e.Schema))
	}
	if !same {
		return list, nil
	}
	if numeric(common) {
		for i := range list {
			list[i] = widen(list[i], common.Type)
		}
	}
	return list, common
}

// numeric says whether values of a schema are numbers; their types are in the order of their width.
func numeric(s *data.Schema) bool { return s != nil && s.Type <= data.TypeFloat64 && !s.Logical() }

func widen(v any, t data.Type) any {
	f := number(v)
	switch t {
	case data.TypeInt16:
		return int16(f)
	case data.TypeInt32:
		return int32(f)
	case data.TypeInt64:
		if n, ok := v.(int64); ok {
			return n
		}
		return int64(f)
	case data.TypeFloat32:
		return float32(f)
	case data.TypeFloat64:
		return f
	}
	return v
}
