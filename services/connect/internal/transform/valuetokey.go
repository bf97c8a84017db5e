package transform

import (
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

var valueToKeyDefinition = configdef.Definition{
	{
		Name: "fields", Type: configdef.List, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The fields of the value that make the key.",
	},
	fieldSyntaxKey, replaceNullKey,
}

// valueToKey is ValueToKey.
type valueToKey struct {
	paths   []path
	replace bool
	schemas derived[*data.Schema]
}

func newValueToKey(v configdef.Values, _ side) (Transform, error) {
	t := &valueToKey{replace: v.Bool(replaceNull)}
	for _, field := range v.List("fields") {
		p, err := newPath(field, v)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(t.paths, func(o path) bool { return o.text == p.text }) {
			t.paths = append(t.paths, p)
		}
	}
	return t, nil
}

func (t *valueToKey) Apply(r data.Record) (data.Record, bool, error) {
	if r.Value.Schema == nil {
		m, err := mapOf(r.Value, "ValueToKey")
		if err != nil {
			return r, false, err
		}
		made := map[any]any{}
		for _, p := range t.paths {
			if made[p.text], err = p.inMap(m); err != nil {
				return r, false, fmt.Errorf("ValueToKey: %w", err)
			}
		}
		r.Key = data.Value{V: made}
		return r, false, nil
	}
	s, err := structOf(r.Value, "ValueToKey")
	if err != nil {
		return r, false, err
	}
	schema, err := t.schemas.get(r.Value.Schema, t.schema)
	if err != nil {
		return r, false, fmt.Errorf("ValueToKey: %w", err)
	}
	made := data.NewStruct(schema)
	for i, p := range t.paths {
		made.Values[i] = p.in(s, t.replace)
	}
	if err := schema.Validate(made); err != nil { // a field may be missing with the struct that it is in
		return r, false, fmt.Errorf("ValueToKey: %w", err)
	}
	r.Key = data.Value{Schema: schema, V: made}
	return r, false, nil
}

func (t *valueToKey) schema(s *data.Schema) (*data.Schema, error) {
	made := &data.Schema{Type: data.TypeStruct}
	for _, p := range t.paths {
		of, err := p.schema(s)
		if err == nil && of == nil {
			err = fmt.Errorf("there is no field %q", p.text)
		}
		if err == nil {
			err = addField(made, p.text, of)
		}
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}
