package converter

import (
	"fmt"
	"strconv"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

var jsonTypes = map[data.Type]string{
	data.TypeInt8: "int8", data.TypeInt16: "int16", data.TypeInt32: "int32", data.TypeInt64: "int64", data.TypeFloat32: "float",
	data.TypeFloat64: "double", data.TypeBoolean: "boolean", data.TypeString: "string", data.TypeBytes: "bytes", data.TypeArray: "array",
	data.TypeMap: "map", data.TypeStruct: "struct",
}

func jsonType(name string) (data.Type, error) {
	for t, n := range jsonTypes {
		if n == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%.40q is no type of a schema", name)
}

// schemaText returns the text of a schema.
func (c *jsonConverter) schemaText(s *data.Schema) ([]byte, error) {
	if text, ok := c.written[s]; ok {
		return text, nil
	}
	text, err := c.writeSchema(nil, s, "", false, 0)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	keep(c.written, c.cached, s, text)
	return text, nil
}

// writeSchema appends a schema; that of a field has its name besides.
func (c *jsonConverter) writeSchema(dst []byte, s *data.Schema, field string, isField bool, depth int) ([]byte, error) {
	if s == nil && depth == 0 {
		return append(dst, "null"...), nil
	}
	if depth >= data.MaxDepth {
		return dst, errDeep
	}
	if s == nil || jsonTypes[s.Type] == "" {
		return dst, fmt.Errorf("schema has no type")
	}
	dst = append(append(append(dst, `{"type":"`...), jsonTypes[s.Type]...), '"')
	dst, err := c.writeParts(dst, s, depth)
	if err != nil {
		return dst, err
	}
	dst = strconv.AppendBool(append(dst, `,"optional":`...), s.Optional)
	named := func(member, value string, there bool) {
		if there && err == nil {
			dst = append(append(append(dst, `,"`...), member...), `":`...)
			dst, err = writeString(dst, value)
		}
	}
	named("name", s.Name, s.Name != "")
	if s.Version != nil {
		dst = strconv.AppendInt(append(dst, `,"version":`...), int64(*s.Version), 10)
	}
	named("doc", s.Doc, s.Doc != "")
	if err == nil && len(s.Parameters) > 0 {
		dst, err = writeParameters(append(dst, `,"parameters":`...), s.Parameters)
	}
	if err == nil && s.Default != nil {
		dst, err = c.write(append(dst, `,"default":`...), s, s.Default, depth)
	}
	named("field", field, isField)
	return append(dst, '}'), err
}

func writeParameters(dst []byte, parameters []data.Parameter) ([]byte, error) {
	for i, p := range parameters {
		var err error
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		if dst, err = writeString(append(dst, separator), p.Name); err != nil {
			return dst, err
		}
		if dst, err = writeString(append(dst, ':'), p.Value); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (c *jsonConverter) writeParts(dst []byte, s *data.Schema, depth int) ([]byte, error) {
	part := func(member string, of *data.Schema) (err error) {
		dst = append(append(append(dst, `,"`...), member...), `":`...)
		dst, err = c.writeSchema(dst, of, "", false, depth+1)
		return err
	}
	var err error
	switch s.Type {
	case data.TypeArray:
		err = part("items", s.Value)
	case data.TypeMap:
		if err = part("keys", s.Key); err == nil {
			err = part("values", s.Value)
		}
	case data.TypeStruct:
		dst = append(dst, `,"fields":[`...)
		for i, f := range s.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = c.writeSchema(dst, f.Schema, f.Name, true, depth+1); err != nil {
				return dst, fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
		dst = append(dst, ']')
	}
	return dst, err
}

// readSchema reads a schema, nil for null.
func (c *jsonConverter) readSchema(r *reader, depth int) (*data.Schema, error) {
	s, _, err := c.readNamedSchema(r, depth)
	if err != nil || s == nil {
		return nil, err
	}
	if depth > 0 {
		return s, nil
	}
	return s, s.Check()
}

// readNamedSchema reads a schema and the name that it has as that of a field.
func (c *jsonConverter) readNamedSchema(r *reader, depth int) (s *data.Schema, field string, err error) {
	if depth >= data.MaxDepth {
		return nil, "", errDeep
	}
	if null, err := r.null(); err != nil || null {
		return nil, "", err
	}
	s = &data.Schema{}
	var defaulted *reader
	err = r.members(func(name string) error {
		if null, err := r.null(); err != nil || null {
			return err
		}
		var err error
		switch name {
		case "field":
			field, err = r.string()
		case "default":
			defaulted = &reader{text: r.text, at: r.at}
			err = r.skip(depth + 1)
		default:
			err = c.readSchemaMember(r, s, name, depth)
		}
		return err
	})
	if err != nil || defaulted == nil {
		return s, field, err
	}
	if err := s.Check(); err != nil {
		return nil, "", err
	}
	plain := *s // a struct that is a default is not to have itself in its schema
	s.Default, err = c.readValue(defaulted, &plain, depth)
	if err != nil {
		return nil, "", fmt.Errorf("default: %w", err)
	}
	return s, field, nil
}

// readSchemaMember reads a member of a schema that is not null. Others than these are passed over.
func (c *jsonConverter) readSchemaMember(r *reader, s *data.Schema, member string, depth int) error {
	var err error
	switch member {
	case "type":
		var name string
		if name, err = r.string(); err == nil {
			s.Type, err = jsonType(name)
		}
	case "optional":
		var optional any
		if optional, err = readBoolean(r); err == nil {
			s.Optional = optional.(bool)
		}
	case "name":
		s.Name, err = r.string()
	case "version":
		var version any
		if version, err = readInteger(r, data.TypeInt32); err == nil {
			s.Version = new(version.(int32))
		}
	case "doc":
		s.Doc, err = r.string()
	case "parameters":
		s.Parameters = nil
		err = r.members(func(name string) error {
			value, err := r.string()
			s.Parameters = append(s.Parameters, data.Parameter{Name: name, Value: value})
			return err
		})
	case "keys":
		s.Key, err = c.readSchema(r, depth+1)
	case "items", "values":
		s.Value, err = c.readSchema(r, depth+1)
	case "fields":
		s.Fields = nil
		err = r.elements(func() error {
			of, name, err := c.readNamedSchema(r, depth+1)
			if err == nil && (of == nil || name == "") {
				err = fmt.Errorf("a field lacks its name")
			}
			s.Fields = append(s.Fields, data.Field{Name: name, Schema: of})
			return err
		})
	default:
		err = r.skip(depth + 1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	return nil
}
