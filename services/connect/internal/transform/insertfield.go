package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

const suffixes = "Behind the name an exclamation mark makes the field required; without one, or with a question mark, it is optional."

var insertFieldDefinition = configdef.Definition{
	{Name: "topic.field", Type: configdef.String, Importance: configdef.Medium, Doc: "The field that gets the topic. " + suffixes},
	{Name: "partition.field", Type: configdef.String, Importance: configdef.Medium, Doc: "The field that gets the partition. " + suffixes},
	{Name: "offset.field", Type: configdef.String, Importance: configdef.Medium, Doc: "The field that gets the offset, which only a sink's records have. " + suffixes},
	{Name: "timestamp.field", Type: configdef.String, Importance: configdef.Medium, Doc: "The field that gets the record's timestamp. " + suffixes},
	{Name: "static.field", Type: configdef.String, Importance: configdef.Medium, Doc: "The field that gets static.value. " + suffixes},
	{Name: "static.value", Type: configdef.String, Importance: configdef.Medium, Doc: "What static.field gets."},
	replaceNullKey,
}

// insertion is a field to add and where it gets its value: nil where the record has none.
type insertion struct {
	name   string
	schema *data.Schema
	of     func(r *data.Record) (any, error)
}

// insertField is InsertField.
type insertField struct {
	of         side
	insertions []insertion
	replace    bool
	schemas    derived[*data.Schema]
}

func newInsertField(v configdef.Values, of side) (Transform, error) {
	t := &insertField{of: of, replace: v.Bool(replaceNull)}
	add := func(name string, schema *data.Schema, of func(r *data.Record) (any, error)) {
		if !v.Has(name) {
			return
		}
		field := v.String(name)
		trimmed, required := strings.CutSuffix(field, "!")
		if !required {
			trimmed = strings.TrimSuffix(field, "?")
		}
		t.insertions = append(t.insertions, insertion{trimmed, schema.WithOptional(!required), of})
	}
	add("topic.field", &data.Schema{Type: data.TypeString}, func(r *data.Record) (any, error) { return r.Topic, nil })
	add("partition.field", &data.Schema{Type: data.TypeInt32}, partitionOf)
	add("offset.field", &data.Schema{Type: data.TypeInt64}, offsetOf)
	add("timestamp.field", data.TimestampSchema(), timestampOf)
	add("static.field", &data.Schema{Type: data.TypeString}, func(*data.Record) (any, error) { return v.String("static.value"), nil })
	switch {
	case len(t.insertions) == 0:
		return nil, errors.New("it names no field to insert")
	case v.Has("static.field") && !v.Has("static.value"):
		return nil, errors.New("static.field needs static.value")
	}
	return t, nil
}

func partitionOf(r *data.Record) (any, error) {
	if r.Partition == data.NoPartition {
		return nil, nil
	}
	return r.Partition, nil
}

func offsetOf(r *data.Record) (any, error) {
	if r.Offset == data.NoOffset {
		return nil, errors.New("a source's record has no offset")
	}
	return r.Offset, nil
}

func timestampOf(r *data.Record) (any, error) {
	if r.TimestampMs == data.NoTimestamp {
		return nil, nil
	}
	return time.UnixMilli(r.TimestampMs).UTC(), nil
}

func (t *insertField) Apply(r data.Record) (data.Record, bool, error) {
	v := t.of.in(&r)
	if v.V == nil {
		return r, false, nil
	}
	var changed data.Value
	var err error
	if v.Schema == nil {
		changed, err = t.intoMap(&r, *v)
	} else {
		changed, err = t.intoStruct(&r, *v)
	}
	if err != nil {
		return r, false, fmt.Errorf("InsertField: %w", err)
	}
	*v = changed
	return r, false, nil
}

func (t *insertField) intoMap(r *data.Record, v data.Value) (data.Value, error) {
	m, err := mapOf(v, "InsertField")
	if err != nil {
		return v, err
	}
	m = maps.Clone(m)
	for _, insert := range t.insertions {
		field, err := insert.of(r)
		if err != nil {
			return v, err
		}
		if at, ok := field.(time.Time); ok {
			field = at.UnixMilli()
		}
		if field != nil {
			m[insert.name] = field
		}
	}
	return data.Value{V: m}, nil
}

func (t *insertField) intoStruct(r *data.Record, v data.Value) (data.Value, error) {
	s, err := structOf(v, "InsertField")
	if err != nil {
		return v, err
	}
	schema, err := t.schemas.get(v.Schema, t.schema)
	if err != nil {
		return v, err
	}
	changed := data.NewStruct(schema)
	for i := range s.Values {
		changed.Values[i] = fieldValue(s, i, t.replace)
	}
	for i, insert := range t.insertions {
		field, err := insert.of(r)
		if err == nil && field == nil && !insert.schema.Optional {
			err = fmt.Errorf("the record has nothing for the required field %q", insert.name)
		}
		if err != nil {
			return v, err
		}
		changed.Values[len(s.Values)+i] = field
	}
	return data.Value{Schema: schema, V: changed}, nil
}

func (t *insertField) schema(s *data.Schema) (*data.Schema, error) {
	made := basics(s)
	made.Fields = slices.Clone(s.Fields)
	for _, insert := range t.insertions {
		if err := addField(made, insert.name, insert.schema); err != nil {
			return nil, err
		}
	}
	return made, nil
}
