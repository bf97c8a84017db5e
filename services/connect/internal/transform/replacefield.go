package transform

import (
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

var replaceFieldDefinition = configdef.Definition{
	{Name: "exclude", Type: configdef.List, Default: new(""), Importance: configdef.Medium, Doc: "The fields to take away, even those that include names."},
	{Name: "include", Type: configdef.List, Default: new(""), Importance: configdef.Medium, Doc: "The only fields to keep; empty for all."},
	{Name: "renames", Type: configdef.List, Default: new(""), Importance: configdef.Medium, Doc: "Fields and their new names, as old:new."},
	replaceNullKey,
}

// replaceField is ReplaceField.
type replaceField struct {
	exclude, include []string
	renames          map[string]string
	replace          bool
	schemas          derived[*data.Schema]
}

func newReplaceField(v configdef.Values, of side) (Transform, error) {
	t := &replaceField{exclude: v.List("exclude"), include: v.List("include"), renames: map[string]string{}, replace: v.Bool(replaceNull)}
	from, to, err := pairs(v.List("renames"))
	if err != nil {
		return nil, fmt.Errorf("renames: %w", err)
	}
	for i := range from {
		t.renames[from[i]] = to[i]
	}
	return onValue{of, t.apply}, nil
}

func (t *replaceField) keeps(field string) bool {
	return !slices.Contains(t.exclude, field) && (len(t.include) == 0 || slices.Contains(t.include, field))
}

func (t *replaceField) renamed(field string) string {
	if to, ok := t.renames[field]; ok {
		return to
	}
	return field
}

func (t *replaceField) apply(v data.Value) (data.Value, error) {
	if v.V == nil {
		return v, nil
	}
	if v.Schema == nil {
		m, err := mapOf(v, "ReplaceField")
		if err != nil {
			return v, err
		}
		changed := map[any]any{}
		for _, k := range values.Keys(m) { // in order, so that it does not depend on chance which of two fields of a name stays
			field, isString := k.(string)
			switch {
			case !isString:
				return v, fmt.Errorf("ReplaceField takes maps with strings as keys, %v is of type %s", k, data.Kind(k))
			case t.keeps(field):
				changed[t.renamed(field)] = m[k]
			}
		}
		return data.Value{V: changed}, nil
	}
	s, err := structOf(v, "ReplaceField")
	if err != nil {
		return v, err
	}
	schema, err := t.schemas.get(v.Schema, t.schema)
	if err != nil {
		return v, err
	}
	changed := &data.Struct{Schema: schema, Values: make([]any, 0, len(schema.Fields))}
	for i, f := range v.Schema.Fields {
		if t.keeps(f.Name) {
			changed.Values = append(changed.Values, fieldValue(s, i, t.replace))
		}
	}
	return data.Value{Schema: schema, V: changed}, nil
}

func (t *replaceField) schema(s *data.Schema) (*data.Schema, error) {
	made := basics(s)
	for _, f := range s.Fields {
		if t.keeps(f.Name) {
			if err := addField(made, t.renamed(f.Name), f.Schema); err != nil {
				return nil, fmt.Errorf("ReplaceField: %w", err)
			}
		}
	}
	return made, nil
}
