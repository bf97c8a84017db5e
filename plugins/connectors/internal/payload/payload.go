// Package payload makes of values what is sent to systems that know bytes alone: texts and bytes as they are, JSON of all else.
package payload

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Append appends a value that is not null: strings and bytes as they are, any other as JSON.
func Append(dst []byte, v data.Value) ([]byte, error) {
	switch plain := v.V.(type) {
	case nil:
		return dst, errors.New("null has no bytes")
	case string:
		return append(dst, plain...), nil
	case []byte:
		return append(dst, plain...), nil
	}
	return AppendJSON(dst, v)
}

// AppendJSON appends a value as JSON: as Connect's JsonConverter does without schemas, but for decimals, which are numbers.
// That is, bytes are base64, logical types of time the number that they are stored as, maps whose keys are not all texts arrays of
// pairs, and NaN and infinities texts.
func AppendJSON(dst []byte, v data.Value) ([]byte, error) {
	return appendJSON(dst, v.Schema, v.V, 0)
}

func appendJSON(dst []byte, s *data.Schema, value any, depth int) ([]byte, error) {
	if depth >= data.MaxDepth {
		return dst, fmt.Errorf("value is nested more than %d deep", data.MaxDepth)
	}
	if s != nil && value == nil {
		value = s.Default
	}
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case []any:
		return appendList(dst, s, v, depth)
	case map[any]any:
		return appendMap(dst, s, v, depth)
	case *data.Struct:
		return appendStruct(dst, v, depth)
	case time.Time:
		return appendTime(dst, s, v)
	}
	return appendScalar(dst, value)
}

func appendScalar(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return appendString(dst, v), nil
	case []byte:
		dst = append(dst, '"')
		return append(base64.StdEncoding.AppendEncode(dst, v), '"'), nil
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
	case data.Decimal:
		return appendDecimal(dst, v), nil
	}
	return dst, fmt.Errorf("%s has no form in JSON", data.Kind(value))
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

// maxPointScale is up to which scale decimals have a point, and no exponent: it bounds the zeros that are written.
const maxPointScale = 100

func appendDecimal(dst []byte, d data.Decimal) []byte {
	if d.Unscaled == nil {
		return append(dst, '0')
	}
	scale := int(d.Scale)
	if scale <= 0 || scale > maxPointScale {
		dst = d.Unscaled.Append(dst, 10)
		if scale != 0 {
			dst = strconv.AppendInt(append(dst, 'e'), -int64(scale), 10)
		}
		return dst
	}
	digits := d.Unscaled.String()
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - scale
	return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
}

func appendTime(dst []byte, s *data.Schema, t time.Time) ([]byte, error) {
	if s == nil {
		return strconv.AppendInt(dst, t.UnixMilli(), 10), nil
	}
	stored, err := s.ToStored(t)
	if err != nil {
		return dst, err
	}
	return appendScalar(dst, stored)
}

func appendString(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(fmt.Sprintf("payload: a text has no JSON: %v", err)) // every text has one
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// of is the schema of the values of a schema that may be missing itself.
func of(s *data.Schema) *data.Schema {
	if s == nil {
		return nil
	}
	return s.Value
}

func appendList(dst []byte, s *data.Schema, list []any, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendJSON(dst, of(s), element, depth+1); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

// entry is one of a map, its key in JSON.
type entry struct {
	key   string
	value any
}

// appendMap writes entries in the order of their keys' JSON.
func appendMap(dst []byte, s *data.Schema, m map[any]any, depth int) ([]byte, error) {
	entries := make([]entry, 0, len(m))
	object := s == nil || s.Key == nil || s.Key.Type == data.TypeString
	for key, value := range m {
		_, text := key.(string)
		object = object && text
		quoted, err := appendScalar(nil, key)
		if err != nil {
			return dst, fmt.Errorf("key of a map: %w", err)
		}
		entries = append(entries, entry{string(quoted), value})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.key < b.key {
			return -1
		}
		return 1 // no two are equal
	})
	begin, pair, between, end := "{", ":", ",", "}"
	if !object && len(entries) > 0 {
		begin, pair, between, end = "[[", ",", "],[", "]]"
	} else if !object {
		begin, end = "[", "]"
	}
	dst = append(dst, begin...)
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, between...)
		}
		dst = append(append(dst, e.key...), pair...)
		var err error
		if dst, err = appendJSON(dst, of(s), e.value, depth+1); err != nil {
			return dst, fmt.Errorf("value of key %s: %w", e.key, err)
		}
	}
	return append(dst, end...), nil
}

func appendStruct(dst []byte, s *data.Struct, depth int) ([]byte, error) {
	dst = append(dst, '{')
	for i, f := range s.Schema.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, f.Name), ':')
		var err error
		if dst, err = appendJSON(dst, f.Schema, s.Values[i], depth+1); err != nil {
			return dst, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return append(dst, '}'), nil
}
