package transform

import (
	"errors"
	"fmt"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

var setSchemaMetadataDefinition = configdef.Definition{
	{Name: "schema.name", Type: configdef.String, Importance: configdef.High, Doc: "The schema's new name."},
	{Name: "schema.version", Type: configdef.Int, Importance: configdef.High, Doc: "The schema's new version."},
	replaceNullKey,
}

// setSchemaMetadata is SetSchemaMetadata. Values of a logical type lose that with the name, and become what they are stored as.
type setSchemaMetadata struct {
	name    *string
	version *int32
	replace bool
	schemas derived[*data.Schema]
}

func newSetSchemaMetadata(v configdef.Values, of side) (Transform, error) {
	t := &setSchemaMetadata{replace: v.Bool(replaceNull)}
	if v.Has("schema.name") {
		t.name = new(v.String("schema.name"))
	}
	if v.Has("schema.version") {
		t.version = new(int32(v.Int("schema.version")))
	}
	if t.name == nil && t.version == nil {
		return nil, errors.New("it has neither schema.name nor schema.version")
	}
	return onValue{of, t.apply}, nil
}

func (t *setSchemaMetadata) apply(v data.Value) (data.Value, error) {
	if v.Schema == nil {
		if v.V == nil {
			return v, nil
		}
		return v, fmt.Errorf("SetSchemaMetadata: the value has no schema")
	}
	schema, err := t.schemas.get(v.Schema, t.schema)
	if err != nil {
		return v, err
	}
	changed := data.Value{Schema: schema, V: v.V}
	switch {
	case v.V == nil:
	case schema.Type == data.TypeStruct:
		s, err := structOf(v, "SetSchemaMetadata")
		if err != nil {
			return v, err
		}
		updated := data.NewStruct(schema)
		for i := range s.Values {
			updated.Values[i] = fieldValue(s, i, t.replace)
		}
		changed.V = updated
	case v.Schema.Name != schema.Name:
		if changed.V, err = v.Schema.ToStored(v.V); err == nil {
			changed.V, err = schema.FromStored(changed.V)
		}
	}
	return changed, err
}

func (t *setSchemaMetadata) schema(s *data.Schema) (*data.Schema, error) {
	changed := *s
	if t.name != nil {
		changed.Name = *t.name
	}
	if t.version != nil {
		changed.Version = t.version
	}
	if changed.Name != s.Name && changed.Default != nil && changed.Type != data.TypeStruct {
		stored, err := s.ToStored(s.Default)
		if err != nil {
			return nil, err
		}
		if changed.Default, err = changed.FromStored(stored); err != nil {
			return nil, err
		}
	}
	if d, ok := changed.Default.(*data.Struct); ok {
		plain := changed
		plain.Default = nil
		changed.Default = &data.Struct{Schema: &plain, Values: d.Values}
	}
	return &changed, changed.Check()
}
