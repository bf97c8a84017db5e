package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// errNoSchema says that of a JSON text no schema can be found out.
var errNoSchema = errors.New("no schema describes it")

// expanded returns what a payload of JSON, an object or an array, stands for, with the schema that it is found to have. Any
// other payload, and one of which none is found, stays what it is.
func expanded(payload data.Value, nullBytes bool) data.Value {
	text, ok := payload.V.(string)
	if trimmed := strings.TrimSpace(text); !ok || !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return payload
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	tree, err := readTree(d, 0)
	if err != nil {
		return payload
	}
	if _, err := d.Token(); err != io.EOF {
		return payload
	}
	schema, err := infer(tree, "payload", nullBytes)
	if err != nil || schema == nil {
		return payload
	}
	return data.Value{Schema: schema, V: shaped(tree, schema)}
}

// member is a member of an object, whose order it keeps.
type member struct {
	name  string
	value any
}

// readTree reads a value: nil, bool, string, json.Number, []any or []member.
func readTree(d *json.Decoder, depth int) (any, error) {
	if depth >= data.MaxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", data.MaxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := readTree(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object := []member{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := readTree(d, depth+1)
			if err != nil {
				return nil, err
			}
			object = slices.DeleteFunc(object, func(m member) bool { return m.name == name })
			object = append(object, member{name.(string), value})
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}

// infer returns the schema of a value: nil where there is nothing to find it out from.
func infer(v any, name string, nullBytes bool) (*data.Schema, error) {
	switch v := v.(type) {
	case nil:
		if nullBytes {
			return &data.Schema{Type: data.TypeBytes, Optional: true}, nil
		}
		return nil, nil
	case bool:
		return &data.Schema{Type: data.TypeBoolean, Optional: true}, nil
	case string:
		return &data.Schema{Type: data.TypeString, Optional: true}, nil
	case json.Number:
		return &data.Schema{Type: numberType(v), Optional: true}, nil
	case []member:
		s := &data.Schema{Type: data.TypeStruct, Name: name, Optional: true}
		for _, m := range v {
			of, err := infer(m.value, name+"."+m.name, nullBytes)
			if err != nil {
				return nil, err
			}
			if of != nil {
				s.Fields = append(s.Fields, data.Field{Name: m.name, Schema: of})
			}
		}
		return s, nil
	}
	return inferArray(v.([]any), name, nullBytes)
}

func numberType(n json.Number) data.Type {
	if strings.ContainsAny(string(n), ".eE") {
		return data.TypeFloat64
	}
	if _, err := strconv.ParseInt(string(n), 10, 32); err == nil {
		return data.TypeInt32
	}
	if _, err := n.Int64(); err == nil {
		return data.TypeInt64
	}
	return data.TypeFloat64
}

// inferArray returns the schema of an array, nil of an empty one. Nulls have no part in it unless there is nothing else.
func inferArray(list []any, name string, nullBytes bool) (*data.Schema, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var common *data.Schema
	for _, element := range list {
		if element == nil {
			continue
		}
		of, err := infer(element, name, nullBytes)
		if err != nil {
			return nil, err
		}
		if common, err = merged(common, of); err != nil {
			return nil, err
		}
	}
	if common == nil && nullBytes {
		common = &data.Schema{Type: data.TypeBytes, Optional: true}
	}
	if common == nil {
		return nil, errNoSchema
	}
	return &data.Schema{Type: data.TypeArray, Optional: true, Value: common}, nil
}

// merged returns the schema that describes what either describes: of two structs that of the fields of both.
func merged(a, b *data.Schema) (*data.Schema, error) {
	switch {
	case a == nil || b != nil && a.Type == data.TypeBytes: // bytes stand for nulls
		return b, nil
	case b == nil || b.Type == data.TypeBytes || a.Equal(b):
		return a, nil
	case a.Type == data.TypeInt32 && b.Type == data.TypeInt64:
		return b, nil
	case a.Type == data.TypeInt64 && b.Type == data.TypeInt32:
		return a, nil
	case a.Type != b.Type:
		return nil, errNoSchema
	case a.Type == data.TypeArray:
		of, err := merged(a.Value, b.Value)
		return &data.Schema{Type: data.TypeArray, Optional: true, Value: of}, err
	}
	s := &data.Schema{Type: data.TypeStruct, Name: a.Name, Fields: slices.Clone(a.Fields)}
	for _, f := range b.Fields {
		i := s.FieldIndex(f.Name)
		if i < 0 {
			s.Fields = append(s.Fields, f)
			continue
		}
		of, err := merged(s.Fields[i].Schema, f.Schema)
		if err != nil {
			return nil, err
		}
		s.Fields[i].Schema = of
	}
	return s, nil
}

// shaped returns a value as one of the schema that was found for it.
func shaped(v any, s *data.Schema) any {
	switch v := v.(type) {
	case json.Number:
		switch n, _ := v.Int64(); s.Type {
		case data.TypeInt32:
			return int32(n)
		case data.TypeInt64:
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = shaped(v[i], s.Value)
		}
		return list
	case []member:
		made := data.NewStruct(s)
		for _, m := range v {
			if i := s.FieldIndex(m.name); i >= 0 {
				made.Values[i] = shaped(m.value, s.Fields[i].Schema)
			}
		}
		return made
	}
	return v
}
