package transform

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strconv"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

var maskFieldDefinition = configdef.Definition{
	{
		Name: "fields", Type: configdef.List, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The fields to mask.",
	},
	{
		Name: "replacement", Type: configdef.String, Importance: configdef.Low, Valid: configdef.Rule{NonEmpty: true},
		Doc: "What takes the place of numbers and strings. Without it a value becomes the zero or the empty one of its type.",
	},
	replaceNullKey,
}

// maskField is MaskField.
type maskField struct {
	fields      map[string]bool
	replacement *string
	replace     bool
}

func newMaskField(v configdef.Values, of side) (Transform, error) {
	t := &maskField{fields: map[string]bool{}, replace: v.Bool(replaceNull)}
	for _, name := range v.List("fields") {
		t.fields[name] = true
	}
	if v.Has("replacement") {
		t.replacement = new(v.String("replacement"))
	}
	return onValue{of, t.apply}, nil
}

func (t *maskField) apply(v data.Value) (data.Value, error) {
	if v.Schema == nil {
		m, err := mapOf(v, "MaskField")
		if err != nil {
			return v, err
		}
		m = maps.Clone(m)
		for name := range t.fields {
			if m[name], err = t.masked(nil, m[name]); err != nil {
				return v, fmt.Errorf("MaskField: field %q: %w", name, err)
			}
		}
		return data.Value{V: m}, nil
	}
	s, err := structOf(v, "MaskField")
	if err != nil {
		return v, err
	}
	changed := data.NewStruct(v.Schema)
	for i, f := range v.Schema.Fields {
		field := fieldValue(s, i, t.replace)
		if t.fields[f.Name] {
			if field, err = t.masked(f.Schema, field); err != nil {
				return v, fmt.Errorf("MaskField: field %q: %w", f.Name, err)
			}
		}
		changed.Values[i] = field
	}
	return data.Value{Schema: v.Schema, V: changed}, nil
}

func (t *maskField) masked(s *data.Schema, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if t.replacement != nil {
		return replaced(s, v, *t.replacement)
	}
	switch v := v.(type) {
	case data.Decimal:
		if s == nil {
			v.Scale = 0
		}
		return data.Decimal{Unscaled: new(big.Int), Scale: v.Scale}, nil
	case time.Time:
		return time.UnixMilli(0).UTC(), nil
	case int8:
		return int8(0), nil
	case int16:
		return int16(0), nil
	case int32:
		return int32(0), nil
	case int64:
		return int64(0), nil
	case float32:
		return float32(0), nil
	case float64:
		return float64(0), nil
	case bool:
		return false, nil
	case string:
		return "", nil
	case []any:
		return []any{}, nil
	case map[any]any:
		return map[any]any{}, nil
	}
	return nil, fmt.Errorf("%s cannot be masked", data.Kind(v))
}

// replaced returns a replacement as a value of the type of v.
func replaced(s *data.Schema, v any, text string) (any, error) {
	switch v.(type) {
	case string:
		return text, nil
	case int8:
		n, err := strconv.ParseInt(text, 10, 8)
		return int8(n), err
	case int16:
		n, err := strconv.ParseInt(text, 10, 16)
		return int16(n), err
	case int32:
		n, err := strconv.ParseInt(text, 10, 32)
		return int32(n), err
	case int64:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err
	case float32:
		return parseJavaFloat(text, data.TypeFloat32)
	case float64:
		return parseJavaFloat(text, data.TypeFloat64)
	case data.Decimal:
		d, err := values.ParseDecimal(text)
		if err != nil || s == nil {
			return d, err
		}
		scale, err := s.Scale()
		if err != nil {
			return nil, err
		}
		n, whole := values.Whole(data.Decimal{Unscaled: d.Unscaled, Scale: d.Scale - scale})
		if !whole {
			return nil, errors.New("the replacement has more digits than the field's scale")
		}
		return data.Decimal{Unscaled: n, Scale: scale}, nil
	}
	return nil, fmt.Errorf("%s cannot be replaced", data.Kind(v))
}
