package transform

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

var dropHeadersDefinition = configdef.Definition{{
	Name: "headers", Type: configdef.List, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
	Doc: "The names of the headers to drop.",
}}

// dropHeaders is DropHeaders.
type dropHeaders struct{ names []string }

func newDropHeaders(v configdef.Values, _ side) (Transform, error) {
	return dropHeaders{v.List("headers")}, nil
}

func (t dropHeaders) Apply(r data.Record) (data.Record, bool, error) {
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h data.Header) bool { return slices.Contains(t.names, h.Name) })
	return r, false, nil
}

var insertHeaderDefinition = configdef.Definition{
	{Name: "header", Type: configdef.String, Required: true, Importance: configdef.High, Doc: "The name of the header."},
	{
		Name: "value.literal", Type: configdef.String, Required: true, Importance: configdef.High,
		Doc: "The header's value as a text, of which is found out what it stands for: a number, a time, an array or whatever else.",
	},
}

// insertHeader is InsertHeader.
type insertHeader struct{ header data.Header }

func newInsertHeader(v configdef.Values, _ side) (Transform, error) {
	return insertHeader{data.Header{Name: v.String("header"), Value: values.Parse(v.String("value.literal"))}}, nil
}

func (t insertHeader) Apply(r data.Record) (data.Record, bool, error) {
	r.Headers = append(slices.Clip(r.Headers), t.header)
	return r, false, nil
}

const (
	moveFields = "move"
	copyFields = "copy"
)

var headerFromDefinition = configdef.Definition{
	{
		Name: "fields", Type: configdef.List, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The fields that become headers.",
	},
	{
		Name: "headers", Type: configdef.List, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The headers' names, in the order of the fields.",
	},
	{
		Name: "operation", Type: configdef.String, Required: true, Importance: configdef.High, Valid: configdef.Rule{OneOf: []string{moveFields, copyFields}},
		Doc: "move takes the fields away, copy leaves them.",
	},
	replaceNullKey,
}

// headerFrom is HeaderFrom.
type headerFrom struct {
	of              side
	fields, headers []string
	move, replace   bool
	schemas         derived[*data.Schema]
}

func newHeaderFrom(v configdef.Values, of side) (Transform, error) {
	t := &headerFrom{of: of, fields: v.List("fields"), headers: v.List("headers"), move: v.String("operation") == moveFields, replace: v.Bool(replaceNull)}
	if len(t.fields) != len(t.headers) {
		return nil, fmt.Errorf("there are %d fields and %d headers", len(t.fields), len(t.headers))
	}
	return t, nil
}

func (t *headerFrom) Apply(r data.Record) (data.Record, bool, error) {
	v := t.of.in(&r)
	if v.Schema == nil {
		m, err := mapOf(*v, "HeaderFrom")
		if err != nil {
			return r, false, err
		}
		left := maps.Clone(m)
		for i, name := range t.fields {
			t.add(&r, i, data.Value{V: m[name]})
			delete(left, name)
		}
		if t.move {
			v.V = left
		}
		return r, false, nil
	}
	s, err := structOf(*v, "HeaderFrom")
	if err != nil {
		return r, false, err
	}
	for i, name := range t.fields {
		at := v.Schema.FieldIndex(name)
		if at < 0 {
			return r, false, fmt.Errorf("HeaderFrom: there is no field %q", name)
		}
		t.add(&r, i, data.Value{Schema: v.Schema.Fields[at].Schema, V: fieldValue(s, at, t.replace)})
	}
	if t.move {
		*v, err = t.rest(s)
	}
	return r, false, err
}

func (t *headerFrom) add(r *data.Record, i int, v data.Value) {
	r.Headers = append(slices.Clip(r.Headers), data.Header{Name: t.headers[i], Value: v})
}

// rest returns a struct without the fields.
func (t *headerFrom) rest(s *data.Struct) (data.Value, error) {
	schema, err := t.schemas.get(s.Schema, func(s *data.Schema) (*data.Schema, error) {
		made := basics(s)
		for _, f := range s.Fields {
			if !slices.Contains(t.fields, f.Name) {
				made.Fields = append(made.Fields, f)
			}
		}
		return made, nil
	})
	if err != nil {
		return data.Value{}, err
	}
	left := &data.Struct{Schema: schema}
	for i, f := range s.Schema.Fields {
		if !slices.Contains(t.fields, f.Name) {
			left.Values = append(left.Values, fieldValue(s, i, t.replace))
		}
	}
	return data.Value{Schema: schema, V: left}, nil
}
