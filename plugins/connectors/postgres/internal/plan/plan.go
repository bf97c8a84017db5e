// Package plan says how records of one pair of schemas are written to a table: by which columns, by which statements, and how
// their values are written as SQL has them.
package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// How records are written.
const (
	Insert = "insert"
	Upsert = "upsert"
	Update = "update"
)

// Where the primary key comes from.
const (
	KeyNone   = "none"
	KeyKafka  = "kafka"
	KeyRecord = "record_key"
	KeyValue  = "record_value"
)

// kafkaNames are the columns of the key of KeyKafka, unless others are named.
var kafkaNames = []string{"__connect_topic", "__connect_partition", "__connect_offset"}

// Options are the part of a configuration that plans follow.
type Options struct {
	Mode string
	// KeyMode and KeyFields say what the primary key is. Without KeyFields it is all fields of the key or the value.
	KeyMode   string
	KeyFields []string
	// Whitelist are the fields of the value to write, besides the key; empty for all.
	Whitelist []string
	// Delete has a record without a value delete the row of its key.
	Delete bool
	// KeepNulls writes a null as one where a field has a default.
	KeepNulls bool
	// Lower writes all names in lower case, as SQL takes names without quotes.
	Lower bool
	// Zone is the one in which columns without a zone are meant.
	Zone *time.Location
}

// Check says what does not go together in options: the name of what is wrong, and why.
func (o *Options) Check() (what string, err error) {
	switch {
	case o.Mode != Insert && o.KeyMode == KeyNone:
		return "pk.mode", fmt.Errorf("mode %s wants a primary key", o.Mode)
	case o.KeyMode == KeyKafka && len(o.KeyFields) != 0 && len(o.KeyFields) != len(kafkaNames):
		return "pk.fields", errors.New("three names are wanted, for topic, partition and offset")
	case o.Delete && o.KeyMode != KeyRecord:
		return "delete.enabled", fmt.Errorf("rows are deleted by the key of records, which needs pk.mode=%s", KeyRecord)
	}
	return "", nil
}

// origin is where a value is taken from.
type origin int

const (
	fromTopic origin = iota
	fromPartition
	fromOffset
	fromKey      // all of it
	fromKeyField // a field of it
	fromValueField
)

// Field is a column that a plan writes.
type Field struct {
	// Name is the column's.
	Name   string
	Schema *data.Schema
	// Key says that the column is part of the primary key.
	Key bool

	origin origin
	place  int // of a field in its struct
}

// Plan is how records of one pair of schemas are written.
type Plan struct {
	// Fields are the columns: those of the key first, then in the order of the value.
	Fields []Field
	// Keys is how many of them are of the key.
	Keys int

	options    *Options
	key, value *data.Schema
}

// ValueSchema is what a record's plan goes by: a null deletes whatever its schema is.
func ValueSchema(r *data.Record) *data.Schema {
	if r.Value.V == nil {
		return nil
	}
	return r.Value.Schema
}

// New returns the plan for records whose key and value have some schemas. The error is one of the records.
func New(o *Options, key, value *data.Schema) (*Plan, error) {
	p := &Plan{options: o, key: key, value: value}
	if err := p.addKey(); err != nil {
		return nil, err
	}
	p.Keys = len(p.Fields)
	if value == nil {
		if !o.Delete {
			return nil, errors.New("the value is null or has no schema, and delete.enabled is false")
		}
		return p, nil
	}
	if value.Type != data.TypeStruct {
		return nil, fmt.Errorf("the value is a %s, and a struct is wanted", value.Type)
	}
	for i, f := range value.Fields {
		if p.hasKey(p.name(f.Name)) || len(o.Whitelist) > 0 && !slices.Contains(o.Whitelist, f.Name) {
			continue
		}
		p.add(f.Name, f.Schema, false, fromValueField, i)
	}
	return p, p.check()
}

func (p *Plan) check() error {
	switch {
	case len(p.Fields) == 0:
		return errors.New("there is no field to write")
	case p.options.Mode == Update && len(p.Fields) == p.Keys:
		return errors.New("there is no field to update besides the key")
	}
	seen := map[string]bool{}
	for i := range p.Fields {
		f := &p.Fields[i]
		if seen[f.Name] {
			return fmt.Errorf("two fields have the name %s", f.Name)
		}
		seen[f.Name] = true
		if _, err := SQLType(f.Schema); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return nil
}

func (p *Plan) name(name string) string {
	if p.options.Lower {
		return strings.ToLower(name)
	}
	return name
}

func (p *Plan) hasKey(name string) bool {
	return slices.ContainsFunc(p.Fields[:p.Keys], func(f Field) bool { return f.Name == name })
}

func (p *Plan) add(name string, schema *data.Schema, key bool, from origin, place int) {
	p.Fields = append(p.Fields, Field{Name: p.name(name), Schema: schema, Key: key, origin: from, place: place})
}

func (p *Plan) addKey() error {
	names := p.options.KeyFields
	switch p.options.KeyMode {
	case KeyKafka:
		if len(names) == 0 {
			names = kafkaNames
		}
		p.add(names[0], &data.Schema{Type: data.TypeString}, true, fromTopic, 0)
		p.add(names[1], &data.Schema{Type: data.TypeInt32}, true, fromPartition, 0)
		p.add(names[2], &data.Schema{Type: data.TypeInt64}, true, fromOffset, 0)
	case KeyRecord:
		switch {
		case p.key == nil:
			return errors.New("the key has no schema")
		case p.key.Type == data.TypeStruct:
			return p.addKeyFields("key", p.key, fromKeyField)
		case len(names) != 1:
			return fmt.Errorf("the key is a %s, for which pk.fields must name one column", p.key.Type)
		}
		p.add(names[0], p.key, true, fromKey, 0)
		_, err := SQLType(p.key)
		return err
	case KeyValue:
		if p.value == nil || p.value.Type != data.TypeStruct {
			return errors.New("the value is no struct with a schema")
		}
		return p.addKeyFields("value", p.value, fromValueField)
	}
	return nil
}

func (p *Plan) addKeyFields(what string, s *data.Schema, from origin) error {
	names := p.options.KeyFields
	if len(names) == 0 {
		for _, f := range s.Fields {
			names = append(names, f.Name)
		}
	}
	for _, name := range names {
		i := s.FieldIndex(name)
		if i < 0 {
			return fmt.Errorf("the %s has no field %s, which is part of the primary key", what, name)
		}
		p.add(name, s.Fields[i].Schema, true, from, i)
	}
	if len(names) == 0 {
		return fmt.Errorf("the %s has no field", what)
	}
	return nil
}

// Deletes says whether a record deletes a row. The error is the record's.
func (p *Plan) Deletes(r *data.Record) (bool, error) {
	switch {
	case r.Value.V != nil && p.value == nil:
		return false, errors.New("the value has no schema")
	case r.Value.V != nil:
		return false, nil
	case !p.options.Delete:
		return false, errors.New("the value is null, and delete.enabled is false")
	}
	return true, nil
}

// Writes says whether records of the plan have a value; those that have none can only delete.
func (p *Plan) Writes() bool { return p.value != nil }

// For says whether the plan is the one for records of some schemas.
func (p *Plan) For(key, value *data.Schema) bool {
	return p.value.Equal(value) && (p.options.KeyMode != KeyRecord || p.key.Equal(key))
}
