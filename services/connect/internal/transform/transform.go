// Package transform changes records on their way between a connector and a topic. These are Kafka's own transformations (SMTs)
// and Debezium's for outbox tables, under their Java class names: what has the ending $Key changes keys, $Value values, and the
// others the record. FilterByExpression is ours.
//
// What Kafka turns silently into a value that its schema does not describe is refused here.
package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Transform changes a record. It may be used by one goroutine at a time.
type Transform interface {
	// Apply returns the changed record, or that it is dropped. The record that it is given stays as it is: what is changed in it
	// is a copy.
	Apply(r data.Record) (changed data.Record, dropped bool, err error)
}

// Class is a kind of transform.
type Class struct {
	// Name is that of the Java class, with its ending, or the like of it.
	Name string
	// Doc is a sentence or two.
	Doc string
	// Definition is the keys of its configuration, without the prefix.
	Definition configdef.Definition

	make func(v configdef.Values, of side) (Transform, error)
	of   side
}

// side says what of a record is changed.
type side int

const (
	wholeRecord side = iota
	key
	value
)

// in returns the key or the value of a record.
func (s side) in(r *data.Record) *data.Value {
	if s == key {
		return &r.Key
	}
	return &r.Value
}

// The packages of Kafka's classes and of ours.
const (
	prefix = "org.apache.kafka.connect.transforms."
	own    = "io.cauce.connect.transforms."
)

var classes = slices.Concat(
	sided("Cast", "Changes the types of fields, or of the whole. Integers lose the bits that do not fit, as in Java.", castDefinition, newCast),
	whole("DropHeaders", "Drops headers by their names.", dropHeadersDefinition, newDropHeaders),
	sided("ExtractField", "Puts a field in the place of the whole.", extractFieldDefinition, newExtractField),
	whole("Filter", "Drops records: used with a predicate, those that it is true of.", nil, func(configdef.Values, side) (Transform, error) { return filter{}, nil }),
	sided("Flatten", "Makes fields within fields fields of the whole. Arrays stay.", flattenDefinition, newFlatten),
	sided("HeaderFrom", "Makes headers of fields.", headerFromDefinition, newHeaderFrom),
	sided("HoistField", "Makes the whole the only field of a struct or, without a schema, of a map.", hoistFieldDefinition, newHoistField),
	sided("InsertField", "Adds what is known of the record as fields.", insertFieldDefinition, newInsertField),
	whole("InsertHeader", "Adds a header.", insertHeaderDefinition, newInsertHeader),
	sided("MaskField", "Replaces the values of fields.", maskFieldDefinition, newMaskField),
	whole("RegexRouter", "Changes topics by a regular expression.", regexRouterDefinition, newRegexRouter),
	sided("ReplaceField", "Takes fields away, and gives them other names.", replaceFieldDefinition, newReplaceField),
	sided("SetSchemaMetadata", "Changes name and version of the schema.", setSchemaMetadataDefinition, newSetSchemaMetadata),
	sided("TimestampConverter", "Changes the form of times.", timestampConverterDefinition, newTimestampConverter),
	whole("TimestampRouter", "Makes the timestamp part of the topic.", timestampRouterDefinition, newTimestampRouter),
	whole("ValueToKey", "Makes a key of fields of the value.", valueToKeyDefinition, newValueToKey),
	[]Class{
		{own + "FilterByExpression", "Keeps the records that a condition is true of.", filterByExpressionDefinition, newFilterByExpression, wholeRecord},
		{"io.debezium.transforms.outbox.EventRouter", "Makes the changes of an outbox table events on topics of their own; what is none of its changes passes.", eventRouterDefinition, newEventRouter, wholeRecord},
	},
)

type maker = func(v configdef.Values, of side) (Transform, error)

func sided(name, doc string, d configdef.Definition, make maker) []Class {
	return []Class{{prefix + name + "$Key", doc, d, make, key}, {prefix + name + "$Value", doc, d, make, value}}
}

func whole(name, doc string, d configdef.Definition, make maker) []Class {
	return []Class{{prefix + name, doc, d, make, wholeRecord}}
}

// Classes returns all transforms, Kafka's first.
func Classes() []Class { return slices.Clone(classes) }

// Find returns the transform of a name: the class's full name or its last part, like InsertField$Value.
func Find(name string) (Class, bool) {
	i := slices.IndexFunc(classes, func(c Class) bool { return name == c.Name || name == c.Name[strings.LastIndexByte(c.Name, '.')+1:] })
	if i < 0 {
		return Class{}, false
	}
	return classes[i], true
}

// New returns a transform of a class. Its configuration has no prefix; keys that the class does not know are passed over.
func New(name string, config map[string]string) (Transform, error) {
	c, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("there is no transformation %q", name)
	}
	v, err := c.Definition.Parse(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	made, err := c.make(v, c.of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return made, nil
}

// onValue is a transform of a key or a value that takes nothing else of the record.
type onValue struct {
	of    side
	apply func(v data.Value) (data.Value, error)
}

func (t onValue) Apply(r data.Record) (data.Record, bool, error) {
	changed, err := t.apply(*t.of.in(&r))
	if err != nil {
		return r, false, err
	}
	*t.of.in(&r) = changed
	return r, false, nil
}

// filter drops every record: it is used with a predicate.
type filter struct{}

func (filter) Apply(r data.Record) (data.Record, bool, error) { return r, true, nil }

// replaceNull is the key that most transforms share.
const replaceNull = "replace.null.with.default"

var replaceNullKey = configdef.Key{
	Name: replaceNull, Type: configdef.Boolean, Default: new("true"), Importance: configdef.Medium,
	Doc: "Whether the default of a field takes the place of its null.",
}

// fieldValue returns the value of field i, or its default in the place of null if replace is set.
func fieldValue(s *data.Struct, i int, replace bool) any {
	if replace {
		return s.Defaulted(i)
	}
	return s.Values[i]
}

// structOf returns a value as a struct: what says what is done with it.
func structOf(v data.Value, what string) (*data.Struct, error) {
	s, ok := v.V.(*data.Struct)
	if !ok || v.Schema.Type != data.TypeStruct {
		return nil, fmt.Errorf("%s takes a struct, this is %s", what, kind(v))
	}
	return s, s.Of(v.Schema)
}

// mapOf returns a value without a schema as a map.
func mapOf(v data.Value, what string) (map[any]any, error) {
	m, ok := v.V.(map[any]any)
	if !ok {
		return nil, fmt.Errorf("%s takes a map or, with a schema, a struct; this is %s", what, kind(v))
	}
	return m, nil
}

func kind(v data.Value) string {
	switch {
	case v.V == nil:
		return "null"
	case v.Schema != nil:
		return "a " + v.Schema.Type.String()
	}
	return "a value of type " + data.Kind(v.V) + " without a schema"
}

// basics returns the schema of a struct without fields that has name, version, doc and parameters of another.
func basics(s *data.Schema) *data.Schema {
	return &data.Schema{Type: data.TypeStruct, Name: s.Name, Version: s.Version, Doc: s.Doc, Parameters: s.Parameters}
}

// addField adds a field to a schema that is being made.
func addField(s *data.Schema, name string, of *data.Schema) error {
	if s.FieldIndex(name) >= 0 {
		return fmt.Errorf("there are two fields %q", name)
	}
	s.Fields = append(s.Fields, data.Field{Name: name, Schema: of})
	return nil
}

// maxDerived bounds the schemas that a transform remembers, as in Kafka.
const maxDerived = 16

// derived remembers what was made of schemas.
type derived[T any] struct{ of map[*data.Schema]T }

// get returns what make makes of a schema, or has made of it.
func (d *derived[T]) get(s *data.Schema, make func(s *data.Schema) (T, error)) (T, error) {
	if made, ok := d.of[s]; ok {
		return made, nil
	}
	made, err := make(s)
	if err != nil {
		return made, err
	}
	if d.of == nil || len(d.of) >= maxDerived {
		d.of = map[*data.Schema]T{}
	}
	d.of[s] = made
	return made, nil
}

// pairs splits elements of the form a:b. Both lists are as long as that of the elements.
func pairs(elements []string) (left, right []string, err error) {
	for _, e := range elements {
		a, b, ok := strings.Cut(e, ":")
		if !ok || strings.Contains(b, ":") {
			return nil, nil, fmt.Errorf("%q is no pair like a:b", e)
		}
		left, right = append(left, a), append(right, b)
	}
	return left, right, nil
}
