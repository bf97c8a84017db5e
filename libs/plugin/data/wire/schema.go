package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// maxSchemaNodes bounds the schemas of a batch, counting what a schema consists of wherever it is referred to: a table of a
// hundred schemas could otherwise describe a tree of 2^100.
const maxSchemaNodes = 1 << 20

// schema returns the reference of a schema, 0 for none, which is added to the table after what it refers to.
func (e *Encoder) schema(s *data.Schema, depth int) (uint32, error) {
	if s == nil {
		return 0, nil
	}
	if s == e.last {
		return e.lastRef, nil
	}
	if ref, ok := e.schemas[s]; ok {
		e.last, e.lastRef = s, ref
		return ref, nil
	}
	if depth >= data.MaxDepth {
		return 0, fmt.Errorf("schema is nested more than %d deep", data.MaxDepth)
	}
	spec, err := e.spec(s, depth)
	if err != nil {
		return 0, err
	}
	ref, ok := e.specs[string(spec)]
	if !ok {
		ref = uint32(len(e.specs) + 1)
		e.specs[string(spec)] = ref
		e.table = tag(e.table, tableSchemas, protowire.BytesType)
		e.table = protowire.AppendBytes(e.table, spec)
	}
	e.schemas[s] = ref
	return ref, nil
}

// spec returns the message of a schema, in which other schemas are references.
func (e *Encoder) spec(s *data.Schema, depth int) ([]byte, error) {
	var dst []byte
	var err error
	var start int
	dst = number(dst, schemaType, uint64(s.Type))
	if s.Optional {
		dst = number(dst, schemaOptional, 1)
	}
	if dst, err = text(dst, schemaName, s.Name); err != nil {
		return nil, fmt.Errorf("name of a schema: %w", err)
	}
	if s.Version != nil {
		dst = number(dst, schemaVersion, uint64(int64(*s.Version)))
	}
	if dst, err = text(dst, schemaDoc, s.Doc); err != nil {
		return nil, fmt.Errorf("doc of a schema: %w", err)
	}
	for _, p := range s.Parameters {
		dst, start = open(dst, schemaParameters)
		if dst, err = text(dst, parameterName, p.Name); err == nil {
			dst, err = text(dst, parameterValue, p.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter of a schema: %w", err)
		}
		dst = end(dst, start)
	}
	if s.Default != nil {
		if dst, err = e.value(dst, schemaDefault, s.Default, depth); err != nil {
			return nil, fmt.Errorf("default of a schema: %w", err)
		}
	}
	return e.parts(dst, s, depth)
}

func (e *Encoder) parts(dst []byte, s *data.Schema, depth int) ([]byte, error) {
	for _, f := range s.Fields {
		ref, err := e.schema(f.Schema, depth+1)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		var start int
		dst, start = open(dst, schemaFields)
		if dst, err = text(dst, fieldName, f.Name); err != nil {
			return nil, fmt.Errorf("name of a field: %w", err)
		}
		dst = end(reference(dst, fieldSchema, ref), start)
	}
	key, err := e.schema(s.Key, depth+1)
	if err != nil {
		return nil, err
	}
	value, err := e.schema(s.Value, depth+1)
	return reference(reference(dst, schemaKey, key), schemaValue, value), err
}

// table reads a SchemaTable. What it returns at i has the reference i+1.
func (b *batch) table(bounds span) error {
	nodes := 0
	sizes := []int{}
	m := b.message(bounds)
	for m.next() {
		if m.field != tableSchemas {
			continue
		}
		s, size, err := b.schema(m.content(), sizes)
		if err != nil {
			return fmt.Errorf("schema %d: %w", len(sizes), err)
		}
		if nodes += size; nodes > maxSchemaNodes {
			return fmt.Errorf("schemas of more than %d parts", maxSchemaNodes)
		}
		if err := s.Check(); err != nil {
			return fmt.Errorf("schema %d: %w", len(sizes), err)
		}
		b.schemas, sizes = append(b.schemas, s), append(sizes, size)
	}
	return b.err
}

// schema reads a schema and tells its size in nodes, given those of the schemas before it.
func (b *batch) schema(bounds span, sizes []int) (*data.Schema, int, error) {
	s, size := &data.Schema{}, 1
	refer := func(ref uint64) *data.Schema {
		if ref > 0 && ref <= uint64(len(sizes)) {
			size += sizes[ref-1]
		}
		return b.reference(ref)
	}
	m := b.message(bounds)
	for m.next() {
		switch m.field {
		case schemaType:
			s.Type = data.Type(min(m.number(), 255))
		case schemaOptional:
			s.Optional = m.number() != 0
		case schemaName:
			s.Name = m.text()
		case schemaVersion:
			version := int32(m.number())
			s.Version = &version
		case schemaDoc:
			s.Doc = m.text()
		case schemaParameters:
			s.Parameters = append(s.Parameters, b.parameter(m.content()))
		case schemaDefault:
			s.Default = b.value(m.content(), 0)
		case schemaFields:
			name, ref := b.named(m.content(), fieldName, fieldSchema)
			s.Fields = append(s.Fields, data.Field{Name: name, Schema: refer(ref)})
		case schemaKey:
			s.Key = refer(m.number())
		case schemaValue:
			s.Value = refer(m.number())
		}
	}
	return s, size, b.err
}

func (b *batch) parameter(bounds span) (p data.Parameter) {
	m := b.message(bounds)
	for m.next() {
		switch m.field {
		case parameterName:
			p.Name = m.text()
		case parameterValue:
			p.Value = m.text()
		}
	}
	return p
}

// named reads a message that has a name and a reference.
func (b *batch) named(bounds span, nameField, refField protowire.Number) (name string, ref uint64) {
	m := b.message(bounds)
	for m.next() {
		switch m.field {
		case nameField:
			name = m.text()
		case refField:
			ref = m.number()
		}
	}
	return name, ref
}
