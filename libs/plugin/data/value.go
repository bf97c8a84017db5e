package data

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Value is a value and the schema that describes it, nil for a value without one.
type Value struct {
	Schema *Schema
	V      any
}

// Validate reports why V is no value of Schema. Without a schema every value of the types of this package is valid.
func (v Value) Validate() error {
	if v.Schema == nil {
		return checkPlain(v.V, 0)
	}
	return v.Schema.Validate(v.V)
}

// Equal says whether schemas and values are the same.
func (v Value) Equal(o Value) bool { return v.Schema.Equal(o.Schema) && Equal(v.V, o.V) }

// Struct is a value of a struct schema.
type Struct struct {
	Schema *Schema
	// Values are those of the schema's fields, in their order.
	Values []any
}

// NewStruct returns a struct whose values are all null.
func NewStruct(s *Schema) *Struct { return &Struct{Schema: s, Values: make([]any, len(s.Fields))} }

// Get returns the value of a field, and whether there is a field of that name. A null stays null even where the field has
// a default: see [Struct.GetDefaulted].
func (s *Struct) Get(name string) (any, bool) {
	i := s.Schema.FieldIndex(name)
	if i < 0 {
		return nil, false
	}
	return s.Values[i], true
}

// GetDefaulted returns the value of a field or, where it is null, the default of the field's schema.
func (s *Struct) GetDefaulted(name string) (any, bool) {
	i := s.Schema.FieldIndex(name)
	if i < 0 {
		return nil, false
	}
	return s.Defaulted(i), true
}

// Defaulted returns the value of field i or, where it is null, the default of the field's schema.
func (s *Struct) Defaulted(i int) any {
	if s.Values[i] != nil {
		return s.Values[i]
	}
	return s.Schema.Fields[i].Schema.Default
}

// Set sets a field, whose value it validates.
func (s *Struct) Set(name string, value any) error {
	i := s.Schema.FieldIndex(name)
	if i < 0 {
		return fmt.Errorf("struct has no field %q", name)
	}
	if err := s.Schema.validateField(i, value, 0); err != nil {
		return err
	}
	s.Values[i] = value
	return nil
}

// Validate reports why a value is none of the schema: its Go type, a null that is neither optional nor has a default, a
// struct of another schema, and all this in what it consists of.
func (s *Schema) Validate(value any) error { return s.validate(value, 0) }

func (s *Schema) validate(value any, depth int) error {
	if depth >= MaxDepth {
		return fmt.Errorf("value is nested more than %d deep", MaxDepth)
	}
	if value == nil {
		if s.Optional || s.Default != nil {
			return nil
		}
		return fmt.Errorf("null is no value of a %s that is not optional", s.Type)
	}
	if s.Logical() {
		return s.validateLogical(value)
	}
	if t := typeOf(value); t != s.Type {
		return fmt.Errorf("%s is no value of %s", Kind(value), s.Type)
	}
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			if err := s.Value.validate(element, depth+1); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	case map[any]any:
		return s.validateMap(v, depth)
	case *Struct:
		return s.validateStruct(v, depth)
	}
	return nil
}

func (s *Schema) validateMap(m map[any]any, depth int) error {
	for key, element := range m {
		if err := CheckKey(key); err != nil {
			return err
		}
		if err := s.Key.validate(key, depth+1); err != nil {
			return fmt.Errorf("key %v: %w", key, err)
		}
		if err := s.Value.validate(element, depth+1); err != nil {
			return fmt.Errorf("value of key %v: %w", key, err)
		}
	}
	return nil
}

// Of reports why the struct is none of a schema, its values left aside. That schemas differ in their default does not matter:
// the struct that is a default does not have itself in its schema.
func (s *Struct) Of(schema *Schema) error {
	if s.Schema != schema {
		a, b := *s.Schema, *schema
		a.Default, b.Default = nil, nil
		if !a.Equal(&b) {
			return fmt.Errorf("struct is of another schema: %q, not %q", s.Schema.Name, schema.Name)
		}
	}
	if len(s.Values) != len(schema.Fields) {
		return fmt.Errorf("struct has %d values for %d fields", len(s.Values), len(schema.Fields))
	}
	return nil
}

func (s *Schema) validateStruct(v *Struct, depth int) error {
	if err := v.Of(s); err != nil {
		return err
	}
	for i, element := range v.Values {
		if err := s.validateField(i, element, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) validateField(i int, value any, depth int) error {
	if err := s.Fields[i].Schema.validate(value, depth+1); err != nil {
		return fmt.Errorf("field %q: %w", s.Fields[i].Name, err)
	}
	return nil
}

// typeOf returns the type of schemas whose values have a value's Go type; 0 for logical types and for what is no value.
func typeOf(value any) Type {
	switch v := value.(type) {
	case int8:
		return TypeInt8
	case int16:
		return TypeInt16
	case int32:
		return TypeInt32
	case int64:
		return TypeInt64
	case float32:
		return TypeFloat32
	case float64:
		return TypeFloat64
	case bool:
		return TypeBoolean
	case string:
		return TypeString
	case []byte:
		return TypeBytes
	case []any:
		return TypeArray
	case map[any]any:
		return TypeMap
	case *Struct:
		if v != nil && v.Schema != nil {
			return TypeStruct
		}
	}
	return 0
}

// Kind names the type of a value as people who use Connect know it: int8, int64, float64, boolean, string, bytes, array, map, struct, decimal, time (of Date,
// Time and Timestamp) or null. What is no value at all goes by its type in Go.
func Kind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case Decimal:
		return "decimal"
	case time.Time:
		return "time"
	case *Struct:
		return "struct"
	}
	if t := typeOf(value); t != 0 {
		return strings.ToLower(t.String())
	}
	return fmt.Sprintf("%T", value)
}

// CheckKey reports why a value cannot be a key of a map.
func CheckKey(key any) error {
	if t := typeOf(key); t == 0 || t >= TypeBytes {
		return fmt.Errorf("%s is the key of a map", Kind(key))
	}
	if key != key {
		return fmt.Errorf("NaN is the key of a map")
	}
	return nil
}

// checkPlain validates a value that has no schema.
func checkPlain(value any, depth int) error {
	if depth >= MaxDepth {
		return fmt.Errorf("value is nested more than %d deep", MaxDepth)
	}
	switch v := value.(type) {
	case nil, Decimal, time.Time:
	case []any:
		for i, element := range v {
			if err := checkPlain(element, depth+1); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	case map[any]any:
		for key, element := range v {
			if err := CheckKey(key); err != nil {
				return err
			}
			if err := checkPlain(element, depth+1); err != nil {
				return fmt.Errorf("value of key %v: %w", key, err)
			}
		}
	case *Struct:
		if typeOf(v) == 0 {
			return fmt.Errorf("struct has no schema")
		}
		return v.Schema.validateStruct(v, depth)
	default:
		if typeOf(value) == 0 {
			return fmt.Errorf("%T is the type of no value", value)
		}
	}
	return nil
}

// Equal says whether two values are the same: of one Go type, structs of equal schemas. A NaN equals a NaN and 0.0 differs
// from -0.0, as in Java. Times are compared to the millisecond. What is no value equals nothing.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case float32:
		b, ok := b.(float32)
		return ok && (math.Float32bits(a) == math.Float32bits(b) || a != a && b != b)
	case float64:
		b, ok := b.(float64)
		return ok && (math.Float64bits(a) == math.Float64bits(b) || a != a && b != b)
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[any]any:
		b, ok := b.(map[any]any)
		return ok && equalMaps(a, b)
	case *Struct:
		b, ok := b.(*Struct)
		return ok && (a == b || a != nil && b != nil && a.Schema.Equal(b.Schema) && slices.EqualFunc(a.Values, b.Values, Equal))
	case Decimal:
		b, ok := b.(Decimal)
		return ok && a.Equal(b)
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.UnixMilli() == b.UnixMilli()
	}
	return typeOf(a) != 0 && typeOf(a) == typeOf(b) && a == b
}

func equalMaps(a, b map[any]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok || !Equal(value, other) {
			return false
		}
	}
	return true
}
