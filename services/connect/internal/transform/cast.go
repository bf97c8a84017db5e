package transform

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

var castDefinition = configdef.Definition{
	{
		Name: "spec", Type: configdef.List, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "What becomes of which type, as field:type, or one type for the whole key or value. Types are int8, int16, int32, int64, float32, float64, boolean and string.",
	},
	replaceNullKey,
}

var castTypes = map[string]data.Type{
	"INT8": data.TypeInt8, "INT16": data.TypeInt16, "INT32": data.TypeInt32, "INT64": data.TypeInt64, "FLOAT32": data.TypeFloat32,
	"FLOAT64": data.TypeFloat64, "BOOLEAN": data.TypeBoolean, "STRING": data.TypeString,
}

// cast is Cast: it changes types of fields, or of the whole. As in Java, integers lose the bits that do not fit.
type cast struct {
	fields  map[string]data.Type
	whole   data.Type
	replace bool
	schemas derived[*data.Schema]
}

func newCast(v configdef.Values, of side) (Transform, error) {
	t := &cast{fields: map[string]data.Type{}, replace: v.Bool(replaceNull)}
	spec := v.List("spec")
	for _, element := range spec {
		field, name, named := strings.Cut(element, ":")
		if !named {
			name = field
		}
		to, ok := castTypes[strings.ToUpper(strings.TrimSpace(name))]
		switch {
		case !ok:
			return nil, fmt.Errorf("spec: %q names no type to cast to", element)
		case named:
			t.fields[strings.TrimSpace(field)] = to
		case len(spec) > 1:
			return nil, fmt.Errorf("spec: %q casts the whole, and must stand alone", element)
		default:
			t.whole = to
		}
	}
	return onValue{of, t.apply}, nil
}

func (t *cast) apply(v data.Value) (data.Value, error) {
	switch {
	case v.V == nil:
		return v, nil
	case t.whole != 0:
		return t.castWhole(v)
	case v.Schema == nil:
		m, err := mapOf(v, "Cast of fields")
		if err != nil {
			return v, err
		}
		m = maps.Clone(m)
		for name, to := range t.fields {
			if m[name], err = castTo(nil, m[name], to); err != nil {
				return v, fmt.Errorf("field %q: %w", name, err)
			}
		}
		return data.Value{V: m}, nil
	}
	s, err := structOf(v, "Cast of fields")
	if err != nil {
		return v, err
	}
	schema, err := t.schemas.get(v.Schema, t.schema)
	if err != nil {
		return v, err
	}
	changed := data.NewStruct(schema)
	for i, f := range v.Schema.Fields {
		changed.Values[i] = fieldValue(s, i, t.replace)
		if to, ok := t.fields[f.Name]; ok {
			if changed.Values[i], err = castTo(f.Schema, changed.Values[i], to); err != nil {
				return v, fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
	}
	return data.Value{Schema: schema, V: changed}, nil
}

func (t *cast) castWhole(v data.Value) (data.Value, error) {
	changed, err := castTo(v.Schema, v.V, t.whole)
	if err != nil || v.Schema == nil {
		return data.Value{V: changed}, err
	}
	schema, err := t.schemas.get(v.Schema, func(s *data.Schema) (*data.Schema, error) {
		made, err := castSchema(s, t.whole)
		if err == nil && !s.Logical() {
			made.Name, made.Version, made.Doc, made.Parameters = s.Name, s.Version, s.Doc, s.Parameters
		}
		return made, err
	})
	return data.Value{Schema: schema, V: changed}, err
}

func (t *cast) schema(s *data.Schema) (*data.Schema, error) {
	made := basics(s)
	made.Optional, made.Default = s.Optional, nil
	for _, f := range s.Fields {
		of := f.Schema
		if to, ok := t.fields[f.Name]; ok {
			var err error
			if of, err = castSchema(of, to); err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
		made.Fields = append(made.Fields, data.Field{Name: f.Name, Schema: of})
	}
	return made, nil
}

func castSchema(s *data.Schema, to data.Type) (*data.Schema, error) {
	defaulted, err := castTo(s, s.Default, to)
	return &data.Schema{Type: to, Optional: s.Optional, Default: defaulted}, err
}

// castTo returns a value as one of another type.
func castTo(s *data.Schema, v any, to data.Type) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return castText(v, to)
	case []byte:
		if to == data.TypeString {
			return values.Text(v), nil
		}
	case bool:
		switch {
		case to == data.TypeString:
			return strconv.FormatBool(v), nil
		case to == data.TypeBoolean:
			return v, nil
		case v:
			return castInteger(1, to), nil
		}
		return castInteger(0, to), nil
	case int8, int16, int32, int64, float32, float64:
		return castNumber(v, to), nil
	case data.Decimal, time.Time:
		if s == nil {
			break
		}
		return castLogical(s, v, to)
	}
	return nil, fmt.Errorf("%s cannot be cast to %s", data.Kind(v), to)
}

func castLogical(s *data.Schema, v any, to data.Type) (any, error) {
	if d, ok := v.(data.Decimal); ok {
		switch to {
		case data.TypeString:
			return values.Decimal(d), nil
		case data.TypeFloat32, data.TypeFloat64:
			return parseJavaFloat(values.Decimal(d), to)
		}
		n, _ := values.Whole(d)
		low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)) // the lowest 64 bits, as in Java
		return castInteger(int64(low.Uint64()), to), nil
	}
	if to == data.TypeString {
		return values.Text(v), nil
	}
	stored, err := s.ToStored(v)
	if err != nil {
		return nil, err
	}
	return castNumber(stored, to), nil
}

func castNumber(v any, to data.Type) any {
	switch v := v.(type) {
	case float32:
		return castFloat(float64(v), 32, to)
	case float64:
		return castFloat(v, 64, to)
	case int8:
		return castInteger(int64(v), to)
	case int16:
		return castInteger(int64(v), to)
	case int32:
		return castInteger(int64(v), to)
	}
	return castInteger(v.(int64), to)
}

func castInteger(n int64, to data.Type) any {
	switch to {
	case data.TypeInt8:
		return int8(n)
	case data.TypeInt16:
		return int16(n)
	case data.TypeInt32:
		return int32(n)
	case data.TypeFloat32:
		return float32(n)
	case data.TypeFloat64:
		return float64(n)
	case data.TypeBoolean:
		return n != 0
	case data.TypeString:
		return strconv.FormatInt(n, 10)
	}
	return n
}

// castFloat cuts the fraction off for an integer. What is beyond INT32, for smaller types, or INT64 becomes the nearest of these
// first; NaN becomes 0.
func castFloat(f float64, bits int, to data.Type) any {
	switch to {
	case data.TypeFloat32:
		return float32(f)
	case data.TypeFloat64:
		return f
	case data.TypeString:
		return values.Float(f, bits)
	case data.TypeInt8, data.TypeInt16, data.TypeInt32:
		return castInteger(saturated(f, math.MinInt32, math.MaxInt32), to)
	}
	return castInteger(saturated(f, math.MinInt64, math.MaxInt64), to)
}

func saturated(f float64, least, most int64) int64 {
	switch {
	case f != f:
		return 0
	case f >= float64(most):
		return most
	case f <= float64(least):
		return least
	}
	return int64(f)
}

func castText(text string, to data.Type) (any, error) {
	bits := 64
	switch to {
	case data.TypeString:
		return text, nil
	case data.TypeBoolean:
		return strings.EqualFold(text, "true"), nil
	case data.TypeFloat32, data.TypeFloat64:
		return parseJavaFloat(text, to)
	case data.TypeInt8:
		bits = 8
	case data.TypeInt16:
		bits = 16
	case data.TypeInt32:
		bits = 32
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return nil, fmt.Errorf("%.40q is no %s", text, to)
	}
	return castInteger(n, to), nil
}

var javaFloat = regexp.MustCompile(`^[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?)$`)

// parseJavaFloat reads what Java's Double.parseDouble does.
func parseJavaFloat(text string, to data.Type) (any, error) {
	trimmed := strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	if !javaFloat.MatchString(trimmed) {
		return nil, fmt.Errorf("%.40q is no %s", text, to)
	}
	if !strings.HasSuffix(trimmed, "y") { // Infinity
		trimmed = strings.TrimRight(trimmed, "fFdD")
	}
	bits := 64
	if to == data.TypeFloat32 {
		bits = 32
	}
	f, _ := strconv.ParseFloat(trimmed, bits) // out of range it is an infinity, as in Java
	return castFloat(f, bits, to), nil
}
