package converter

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

func foldEqual(a, b string) bool { return strings.EqualFold(a, b) }

// readValue reads a value of a schema, or one without if that is nil.
func (c *jsonConverter) readValue(r *reader, s *data.Schema, depth int) (any, error) {
	if depth >= data.MaxDepth {
		return nil, errDeep
	}
	if s == nil {
		return c.readPlain(r, depth)
	}
	null, err := r.null()
	switch {
	case err != nil:
		return nil, err
	case null:
		return c.absent(s)
	case s.Logical():
		return readLogical(r, s)
	}
	switch s.Type {
	case data.TypeBoolean:
		return readBoolean(r)
	case data.TypeString:
		return asAny(r.string())
	case data.TypeBytes:
		return readBytes(r)
	case data.TypeFloat32, data.TypeFloat64:
		return readFloat(r, s.Type)
	case data.TypeArray:
		return c.readArray(r, s.Value, depth)
	case data.TypeMap:
		return c.readMap(r, s, depth)
	case data.TypeStruct:
		return c.readStruct(r, s, depth)
	}
	return readInteger(r, s.Type)
}

func asAny[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// absent is the value of a null, or of a field that is not there.
func (c *jsonConverter) absent(s *data.Schema) (any, error) {
	switch {
	case s.Default != nil && c.replaceNull:
		return s.Default, nil
	case s.Optional:
		return nil, nil
	}
	return nil, fmt.Errorf("null is no value of a %s that is not optional", s.Type)
}

// readPlain reads a value without a schema: integers are INT64, other numbers FLOAT64.
func (c *jsonConverter) readPlain(r *reader, depth int) (any, error) {
	switch r.peek() {
	case 'n':
		return nil, r.literal("null")
	case 't', 'f':
		return readBoolean(r)
	case '"':
		return asAny(r.string())
	case '[':
		return c.readArray(r, nil, depth)
	case '{':
		m := map[any]any{}
		err := r.members(func(name string) (err error) {
			m[name], err = c.readValue(r, nil, depth+1)
			return err
		})
		return m, err
	}
	text, err := r.number()
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(text, ".eE") {
		return parseFloat(text, 64)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%.40s does not fit 64 bits", text)
	}
	return n, nil
}

func readBoolean(r *reader) (any, error) {
	if r.peek() == 't' {
		return true, r.literal("true")
	}
	return false, r.literal("false")
}

func readBytes(r *reader) ([]byte, error) {
	text, err := r.string()
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("bytes are no base64: %w", err)
	}
	return b, nil
}

func parseFloat(text string, bits int) (any, error) {
	f, err := strconv.ParseFloat(text, bits)
	if err != nil {
		return nil, fmt.Errorf("%.40s does not fit %d bits", text, bits)
	}
	if bits == 32 {
		return float32(f), nil
	}
	return f, nil
}

// readFloat reads a number, or one of those that JSON lacks, as a string.
func readFloat(r *reader, t data.Type) (any, error) {
	var text string
	var err error
	if r.peek() == '"' {
		if text, err = r.string(); err == nil && text != "NaN" && text != "Infinity" && text != "-Infinity" {
			err = fmt.Errorf("%.40q is no number", text)
		}
	} else {
		text, err = r.number()
	}
	if err != nil {
		return nil, err
	}
	if t == data.TypeFloat32 {
		return parseFloat(text, 32)
	}
	return parseFloat(text, 64)
}

func readInteger(r *reader, t data.Type) (any, error) {
	text, err := r.number()
	if err != nil {
		return nil, err
	}
	d, err := values.ParseDecimal(text)
	if err != nil {
		return nil, err
	}
	n, whole := values.Whole(d)
	if !whole || !n.IsInt64() {
		return nil, fmt.Errorf("%.40s is no %s", text, t)
	}
	switch v := n.Int64(); {
	case t == data.TypeInt64:
		return v, nil
	case t == data.TypeInt32 && int64(int32(v)) == v:
		return int32(v), nil
	case t == data.TypeInt16 && int64(int16(v)) == v:
		return int16(v), nil
	case t == data.TypeInt8 && int64(int8(v)) == v:
		return int8(v), nil
	}
	return nil, fmt.Errorf("%.40s is no %s", text, t)
}

// readLogical reads a value of a logical type as it is stored. A decimal may be a number, too, of as many digits behind the
// point as its scale allows.
func readLogical(r *reader, s *data.Schema) (any, error) {
	if s.Name != data.DecimalName {
		stored, err := readInteger(r, s.Type)
		if err != nil {
			return nil, err
		}
		return s.FromStored(stored)
	}
	if r.peek() == '"' {
		stored, err := readBytes(r)
		if err != nil {
			return nil, err
		}
		return s.FromStored(stored)
	}
	text, err := r.number()
	if err != nil {
		return nil, err
	}
	d, err := values.ParseDecimal(text)
	if err != nil {
		return nil, err
	}
	scale, err := s.Scale()
	if err != nil {
		return nil, err
	}
	more := int64(scale) - int64(d.Scale)
	if more > math.MaxInt16 || more < -math.MaxInt16 {
		return nil, fmt.Errorf("%.40s is no decimal of scale %d", text, scale)
	}
	n, whole := values.Whole(data.Decimal{Unscaled: d.Unscaled, Scale: int32(-more)})
	if !whole {
		return nil, fmt.Errorf("%.40s has more digits than a scale of %d", text, scale)
	}
	return data.Decimal{Unscaled: new(big.Int).Set(n), Scale: scale}, nil
}

func (c *jsonConverter) readArray(r *reader, of *data.Schema, depth int) ([]any, error) {
	list := []any{}
	err := r.elements(func() error {
		v, err := c.readValue(r, of, depth+1)
		list = append(list, v)
		return err
	})
	return list, err
}

// readMap reads an object if keys are strings, else an array of pairs.
func (c *jsonConverter) readMap(r *reader, s *data.Schema, depth int) (map[any]any, error) {
	m := map[any]any{}
	if s.Key.Type == data.TypeString {
		return m, r.members(func(name string) (err error) {
			m[name], err = c.readValue(r, s.Value, depth+1)
			return err
		})
	}
	err := r.elements(func() error {
		var pair []any
		err := r.elements(func() error {
			if len(pair) == 2 {
				return fmt.Errorf("an entry of a map has more than a key and a value")
			}
			part := s.Key
			if len(pair) == 1 {
				part = s.Value
			}
			v, err := c.readValue(r, part, depth+1)
			pair = append(pair, v)
			return err
		})
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("an entry of a map is no key and value")
		}
		if err := data.CheckKey(pair[0]); err != nil {
			return err
		}
		m[pair[0]] = pair[1]
		return nil
	})
	return m, err
}

// readStruct reads an object. Members that are no fields are passed over.
func (c *jsonConverter) readStruct(r *reader, s *data.Schema, depth int) (*data.Struct, error) {
	v := data.NewStruct(s)
	seen := make([]bool, len(s.Fields))
	err := r.members(func(name string) error {
		i := s.FieldIndex(name)
		if i < 0 {
			return r.skip(depth + 1)
		}
		field, err := c.readValue(r, s.Fields[i].Schema, depth+1)
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		v.Values[i], seen[i] = field, true
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, f := range s.Fields {
		if seen[i] {
			continue
		}
		if v.Values[i], err = c.absent(f.Schema); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return v, nil
}
