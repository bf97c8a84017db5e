package transform

import (
	"fmt"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

var flattenDefinition = configdef.Definition{{
	Name: "delimiter", Type: configdef.String, Default: new("."), Importance: configdef.Medium,
	Doc: "What stands between the names of a field and of a field within it in the name that this gets.",
}}

// flatten is Flatten: fields of structs within a struct, or of maps within a map, become fields of the whole. Arrays stay.
type flatten struct {
	delimiter string
	schemas   derived[*data.Schema]
}

func newFlatten(v configdef.Values, of side) (Transform, error) {
	return onValue{of, (&flatten{delimiter: v.String("delimiter")}).apply}, nil
}

func (t *flatten) apply(v data.Value) (data.Value, error) {
	if v.V == nil {
		return v, nil
	}
	if v.Schema == nil {
		m, err := mapOf(v, "Flatten")
		if err != nil {
			return v, err
		}
		flat := map[any]any{}
		return data.Value{V: flat}, t.maps(m, "", flat, 0)
	}
	s, err := structOf(v, "Flatten")
	if err != nil {
		return v, err
	}
	schema, err := t.schemas.get(v.Schema, func(s *data.Schema) (*data.Schema, error) {
		made := basics(s)
		parent, _ := s.Default.(*data.Struct)
		return made, t.fields(s, "", s.Optional, parent, made)
	})
	if err != nil {
		return v, err
	}
	flat := &data.Struct{Schema: schema, Values: make([]any, 0, len(schema.Fields))}
	flat.Values = structs(v.Schema, s, flat.Values)
	return data.Value{Schema: schema, V: flat}, nil
}

func (t *flatten) name(prefix, field string) string {
	if prefix == "" {
		return field
	}
	return prefix + t.delimiter + field
}

func (t *flatten) maps(m map[any]any, prefix string, flat map[any]any, depth int) error {
	if depth >= data.MaxDepth {
		return fmt.Errorf("the map is nested more than %d deep", data.MaxDepth)
	}
	for _, k := range values.Keys(m) {
		field, ok := k.(string)
		if !ok {
			return fmt.Errorf("maps to flatten have strings as keys, %v is of type %s", k, data.Kind(k))
		}
		name := t.name(prefix, field)
		switch v := m[k].(type) {
		case map[any]any:
			if err := t.maps(v, name, flat, depth+1); err != nil {
				return err
			}
		case time.Time, data.Decimal, *data.Struct:
			return fmt.Errorf("field %q without a schema is of type %s", name, data.Kind(v))
		default:
			flat[name] = v
		}
	}
	return nil
}

// fields adds the fields of a struct's schema, which are optional if that or one around it is.
func (t *flatten) fields(s *data.Schema, prefix string, optional bool, defaults *data.Struct, flat *data.Schema) error {
	for i, f := range s.Fields {
		name := t.name(prefix, f.Name)
		fallback := f.Schema.Default
		if fallback == nil && defaults != nil {
			fallback = defaults.Values[i]
		}
		var err error
		switch f.Schema.Type {
		case data.TypeMap:
			err = fmt.Errorf("field %q is a MAP with a schema", name)
		case data.TypeStruct:
			parent, _ := fallback.(*data.Struct)
			err = t.fields(f.Schema, name, optional || f.Schema.Optional, parent, flat)
		default:
			of := f.Schema
			if of.Default == nil && fallback != nil || optional && !of.Optional {
				changed := *of
				changed.Default, changed.Optional = fallback, optional || of.Optional
				of = &changed
			}
			err = addField(flat, name, of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// structs appends the values of a struct, all of them null where it is null itself.
func structs(s *data.Schema, v *data.Struct, flat []any) []any {
	for i, f := range s.Fields {
		var field any
		if v != nil {
			field = v.Defaulted(i)
		}
		if f.Schema.Type == data.TypeStruct {
			within, _ := field.(*data.Struct)
			flat = structs(f.Schema, within, flat)
		} else {
			flat = append(flat, field)
		}
	}
	return flat
}
