package converter

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

// write appends a value of a schema, or one without if that is nil.
func (c *jsonConverter) write(dst []byte, s *data.Schema, value any, depth int) ([]byte, error) {
	if depth >= data.MaxDepth {
		return dst, errDeep
	}
	if s != nil && value == nil && s.Default != nil && c.replaceNull {
		value = s.Default
	}
	if value == nil {
		if s != nil && !s.Optional {
			return dst, fmt.Errorf("null is no value of a %s that is not optional", s.Type)
		}
		return append(dst, "null"...), nil
	}
	if s != nil && s.Logical() {
		return c.writeLogical(dst, s, value)
	}
	switch v := value.(type) {
	case []any:
		return c.writeArray(dst, s, v, depth)
	case map[any]any:
		return c.writeMap(dst, s, v, depth)
	case *data.Struct:
		return c.writeStruct(dst, s, v, depth)
	}
	if s != nil {
		if err := s.Validate(value); err != nil {
			return dst, err
		}
	}
	return writeScalar(dst, value)
}

func writeScalar(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return writeString(dst, v)
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
		return writeFloat(dst, float64(v), 32), nil
	case float64:
		return writeFloat(dst, v, 64), nil
	case []byte:
		dst = append(dst, '"')
		return append(base64.StdEncoding.AppendEncode(dst, v), '"'), nil
	}
	return dst, fmt.Errorf("%s without a schema has no form in JSON", data.Kind(value))
}

func writeFloat(dst []byte, f float64, bits int) []byte {
	text := values.Float(f, bits)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		text = `"` + text + `"`
	}
	return append(dst, text...)
}

func (c *jsonConverter) writeLogical(dst []byte, s *data.Schema, value any) ([]byte, error) {
	stored, err := s.ToStored(value)
	if err != nil {
		return dst, err
	}
	if d, ok := value.(data.Decimal); ok && c.numeric {
		return append(dst, values.Decimal(d)...), nil
	}
	return writeScalar(dst, stored)
}

func (c *jsonConverter) writeArray(dst []byte, s *data.Schema, list []any, depth int) ([]byte, error) {
	var of *data.Schema
	if s != nil {
		if of = s.Value; s.Type != data.TypeArray {
			return dst, fmt.Errorf("an array is no value of %s", s.Type)
		}
	}
	dst = append(dst, '[')
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = c.write(dst, of, element, depth+1); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

// writeMap writes an object if keys are strings, else an array of pairs, in the order of the keys.
func (c *jsonConverter) writeMap(dst []byte, s *data.Schema, m map[any]any, depth int) ([]byte, error) {
	keySchema, of, object := (*data.Schema)(nil), (*data.Schema)(nil), true
	if s != nil {
		if s.Type != data.TypeMap {
			return dst, fmt.Errorf("a map is no value of %s", s.Type)
		}
		keySchema, of, object = s.Key, s.Value, s.Key.Type == data.TypeString
	}
	keys := values.Keys(m)
	for _, key := range keys {
		if _, isString := key.(string); s == nil && !isString {
			object = false
		}
	}
	begin, between, end := "[", "],[", "]]"
	if len(keys) == 0 {
		end = "]"
	} else {
		begin = "[["
	}
	if object {
		begin, between, end = "{", ",", "}"
	}
	dst = append(dst, begin...)
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, between...)
		}
		var err error
		if dst, err = c.write(dst, keySchema, key, depth+1); err != nil {
			return dst, fmt.Errorf("key of a map: %w", err)
		}
		if object {
			dst = append(dst, ':')
		} else {
			dst = append(dst, ',')
		}
		if dst, err = c.write(dst, of, m[key], depth+1); err != nil {
			return dst, fmt.Errorf("value of key %v: %w", key, err)
		}
	}
	return append(dst, end...), nil
}

func (c *jsonConverter) writeStruct(dst []byte, s *data.Schema, v *data.Struct, depth int) ([]byte, error) {
	if s == nil || v == nil || v.Schema == nil {
		return dst, fmt.Errorf("a struct without a schema has no form in JSON")
	}
	if err := v.Of(s); err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	for i, f := range s.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = writeString(dst, f.Name); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = c.write(dst, f.Schema, v.Values[i], depth+1); err != nil {
			return dst, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return append(dst, '}'), nil
}

// firstOfFour is the least byte that begins a character of four bytes in UTF-8.
const firstOfFour = 0xf0

// writeString escapes what JSON demands and, as Kafka's texts have it, the characters that UTF-16 has no single unit for: the
// text of a key decides on its partition.
func writeString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fmt.Errorf("%.40q is not UTF-8", s)
	}
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < firstOfFour {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			if c >= firstOfFour {
				r, size := utf8.DecodeRuneInString(s[i:])
				high, low := utf16.EncodeRune(r)
				dst = append(dst, fmt.Sprintf(`\u%04X\u%04X`, high, low)...)
				i += size - 1
				from = i + 1
				continue
			}
			dst = append(dst, fmt.Sprintf(`\u%04X`, c)...)
		}
	}
	return append(append(dst, s[from:]...), '"'), nil
}
