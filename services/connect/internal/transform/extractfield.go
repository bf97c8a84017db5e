package transform

import (
	"fmt"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

var extractFieldDefinition = configdef.Definition{
	{Name: "field", Type: configdef.String, Required: true, Importance: configdef.Medium, Doc: "The field that takes the place of the whole."},
	fieldSyntaxKey, replaceNullKey,
}

// extractField is ExtractField.
type extractField struct {
	path    path
	replace bool
}

func newExtractField(v configdef.Values, of side) (Transform, error) {
	p, err := newPath(v.String("field"), v)
	if err != nil {
		return nil, err
	}
	return onValue{of, (&extractField{p, v.Bool(replaceNull)}).apply}, nil
}

func (t *extractField) apply(v data.Value) (data.Value, error) {
	if v.Schema == nil {
		if v.V == nil {
			return v, nil
		}
		m, err := mapOf(v, "ExtractField")
		if err != nil {
			return v, err
		}
		field, err := t.path.inMap(m)
		return data.Value{V: field}, err
	}
	if v.V != nil || v.Schema.Type != data.TypeStruct {
		if _, err := structOf(v, "ExtractField"); err != nil {
			return v, err
		}
	}
	schema, err := t.path.schema(v.Schema)
	if err != nil {
		return v, err
	}
	if schema == nil {
		return v, fmt.Errorf("ExtractField: there is no field %q", t.path.text)
	}
	field := t.path.in(v.V, t.replace)
	if field == nil && schema.Default == nil { // of a struct that is null itself
		schema = schema.WithOptional(true)
	}
	return data.Value{Schema: schema, V: field}, nil
}

var hoistFieldDefinition = configdef.Definition{{
	Name: "field", Type: configdef.String, Required: true, Importance: configdef.Medium, Doc: "The name of the only field of the struct or map that the whole becomes.",
}}

// hoistField is HoistField.
type hoistField struct {
	field   string
	schemas derived[*data.Schema]
}

func newHoistField(v configdef.Values, of side) (Transform, error) {
	return onValue{of, (&hoistField{field: v.String("field")}).apply}, nil
}

func (t *hoistField) apply(v data.Value) (data.Value, error) {
	if v.Schema == nil {
		return data.Value{V: map[any]any{t.field: v.V}}, nil
	}
	schema, err := t.schemas.get(v.Schema, func(s *data.Schema) (*data.Schema, error) {
		return &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: t.field, Schema: s}}}, nil
	})
	return data.Value{Schema: schema, V: &data.Struct{Schema: schema, Values: []any{v.V}}}, err
}
