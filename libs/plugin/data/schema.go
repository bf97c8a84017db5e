// Package data holds what connectors move: Kafka Connect's schemas and values (org.apache.kafka.connect.data in Kafka), and
// the records made of them.
//
// A value is a plain Go value; nil is null. Its type follows from its schema, and the same types stand for values that have
// none:
//
//	INT8 INT16 INT32 INT64   int8 int16 int32 int64
//	FLOAT32 FLOAT64          float32 float64
//	BOOLEAN STRING BYTES     bool string []byte
//	ARRAY MAP STRUCT         []any map[any]any *Struct
//	Decimal                  Decimal
//	Date Time Timestamp      time.Time
//
// The last two lines are logical types: schemas of these names, and their values. Keys of a map are booleans, numbers or
// strings, and no NaN. Nothing here copies: schemas and values that were passed on are no longer changed.
package data

import (
	"fmt"
	"slices"
)

// MaxDepth bounds how deep schemas and values are nested.
const MaxDepth = 100

// Type is the type of a schema.
type Type uint8

// The types of Kafka Connect. Their numbers are those of the plugin protocol.
const (
	TypeInt8 Type = iota + 1
	TypeInt16
	TypeInt32
	TypeInt64
	TypeFloat32
	TypeFloat64
	TypeBoolean
	TypeString
	TypeBytes
	TypeArray
	TypeMap
	TypeStruct
)

var typeNames = [...]string{
	TypeInt8: "INT8", TypeInt16: "INT16", TypeInt32: "INT32", TypeInt64: "INT64", TypeFloat32: "FLOAT32", TypeFloat64: "FLOAT64",
	TypeBoolean: "BOOLEAN", TypeString: "STRING", TypeBytes: "BYTES", TypeArray: "ARRAY", TypeMap: "MAP", TypeStruct: "STRUCT",
}

// String returns the type as Kafka spells it, for example INT32.
func (t Type) String() string {
	if t < TypeInt8 || t > TypeStruct {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeNames[t]
}

// Schema describes values. It is never changed once it is in use, so that it can be shared and compared by address first.
type Schema struct {
	Type Type
	// Optional values may be null.
	Optional bool
	// Name says what values mean. The names of logical types change the Go type of values; those of structs are the user's.
	Name string
	// Version is nil when the schema has none.
	Version *int32
	Doc     string
	// Parameters keep their order, which shows in JSON, but do not differ by it.
	Parameters []Parameter
	// Default takes the place of a null; nil is no default.
	Default any
	// Fields are a struct's.
	Fields []Field
	// Key is the schema of a map's keys.
	Key *Schema
	// Value is the schema of a map's values or an array's elements.
	Value *Schema
}

// Parameter is a name and its value, of which schemas may have any number.
type Parameter struct{ Name, Value string }

// Field is a field of a struct.
type Field struct {
	Name   string
	Schema *Schema
}

// Parameter returns the value of a parameter, and whether there is one of that name.
func (s *Schema) Parameter(name string) (string, bool) {
	for _, p := range s.Parameters {
		if p.Name == name {
			return p.Value, true
		}
	}
	return "", false
}

// FieldIndex returns the place of the field of a name, or -1.
func (s *Schema) FieldIndex(name string) int {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// WithOptional returns the schema itself, or a copy of it that differs in being optional.
func (s *Schema) WithOptional(optional bool) *Schema {
	if s.Optional == optional {
		return s
	}
	changed := *s
	changed.Optional = optional
	return &changed
}

// Check reports why the schema cannot describe anything: it lacks the schema of its elements, two of its fields have the
// same name, its default is no value of it.
func (s *Schema) Check() error { return s.check(0) }

func (s *Schema) check(depth int) error {
	if depth >= MaxDepth {
		return fmt.Errorf("schema is nested more than %d deep", MaxDepth)
	}
	if s == nil {
		return fmt.Errorf("schema is missing")
	}
	if s.Type < TypeInt8 || s.Type > TypeStruct {
		return fmt.Errorf("schema has no known type: %s", s.Type)
	}
	if err := s.checkParts(depth); err != nil {
		return err
	}
	if err := s.checkLogical(); err != nil {
		return err
	}
	if s.Default == nil {
		return nil
	}
	if err := s.validate(s.Default, depth); err != nil {
		return fmt.Errorf("default of a schema of %s: %w", s.Type, err)
	}
	return nil
}

func (s *Schema) checkParts(depth int) error {
	if hasValue := s.Type == TypeArray || s.Type == TypeMap; hasValue != (s.Value != nil) {
		return fmt.Errorf("schema of %s: schema of its values: %t", s.Type, s.Value != nil)
	}
	if hasKey := s.Type == TypeMap; hasKey != (s.Key != nil) {
		return fmt.Errorf("schema of %s: schema of its keys: %t", s.Type, s.Key != nil)
	}
	if s.Type != TypeStruct && len(s.Fields) > 0 {
		return fmt.Errorf("schema of %s has fields", s.Type)
	}
	for _, part := range []*Schema{s.Key, s.Value} {
		if part == nil {
			continue
		}
		if err := part.check(depth + 1); err != nil {
			return fmt.Errorf("in %s: %w", s.Type, err)
		}
	}
	names := make(map[string]bool, len(s.Fields))
	for _, f := range s.Fields {
		if names[f.Name] {
			return fmt.Errorf("struct has two fields %q", f.Name)
		}
		names[f.Name] = true
		if err := f.Schema.check(depth + 1); err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return nil
}

// Equal says whether both schemas are the same in everything, as Kafka compares them; both may be nil.
func (s *Schema) Equal(o *Schema) bool {
	if s == o {
		return true
	}
	if s == nil || o == nil || s.Type != o.Type || s.Optional != o.Optional || s.Name != o.Name || s.Doc != o.Doc {
		return false
	}
	return equalVersions(s.Version, o.Version) && equalParameters(s.Parameters, o.Parameters) && Equal(s.Default, o.Default) &&
		s.Key.Equal(o.Key) && s.Value.Equal(o.Value) &&
		slices.EqualFunc(s.Fields, o.Fields, func(a, b Field) bool { return a.Name == b.Name && a.Schema.Equal(b.Schema) })
}

func equalVersions(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalParameters(a, b []Parameter) bool {
	if len(a) != len(b) {
		return false
	}
	other := Schema{Parameters: b}
	return !slices.ContainsFunc(a, func(p Parameter) bool {
		value, ok := other.Parameter(p.Name)
		return !ok || value != p.Value
	})
}
