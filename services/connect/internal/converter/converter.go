// Package converter translates between what topics hold and what connectors work with: the bytes of keys, values and headers,
// and values with schemas. They are Kafka Connect's own converters, under their Java class names, and behave as those do.
package converter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Use is what a converter is for.
type Use string

// The uses of converters. In Kafka's configurations they are the prefixes key.converter, value.converter and header.converter.
const (
	Key    Use = "key"
	Value  Use = "value"
	Header Use = "header"
)

// Converter translates in both directions. It may be used by one goroutine at a time. Its errors are about the data, not
// about the moment: there is no use in trying again.
type Converter interface {
	// Encode returns the bytes of a value that goes to a topic, which may be the value's own and are only read; nil for null, which in a topic
	// is a tombstone.
	Encode(topic string, v data.Value) ([]byte, error)
	// Decode returns the value of bytes from a topic, which it may go on using: nothing is written to them any more.
	Decode(topic string, b []byte) (data.Value, error)
}

// Class is a kind of converter.
type Class struct {
	// Name is that of Kafka's Java class.
	Name string
	// Doc is a sentence or two.
	Doc string
	// HeaderOnly converters are none of keys and values.
	HeaderOnly bool
	// Definition is the keys of its configuration, without the prefix.
	Definition configdef.Definition

	make func(v configdef.Values, use Use) (Converter, error)
}

// Classes returns all converters, ordered by name.
func Classes() []Class { return slices.Clone(classes) }

var classes = []Class{
	{Name: "org.apache.kafka.connect.converters.BooleanConverter", Doc: "Booleans, as a byte.", make: fixed(data.TypeBoolean)},
	{Name: "org.apache.kafka.connect.converters.ByteArrayConverter", Doc: "Bytes, as they are.", make: func(configdef.Values, Use) (Converter, error) { return byteArray{}, nil }},
	{Name: "org.apache.kafka.connect.converters.DoubleConverter", Doc: "FLOAT64, as eight bytes.", make: fixed(data.TypeFloat64)},
	{Name: "org.apache.kafka.connect.converters.FloatConverter", Doc: "FLOAT32, as four bytes.", make: fixed(data.TypeFloat32)},
	{Name: "org.apache.kafka.connect.converters.IntegerConverter", Doc: "INT32, as four bytes.", make: fixed(data.TypeInt32)},
	{Name: "org.apache.kafka.connect.converters.LongConverter", Doc: "INT64, as eight bytes.", make: fixed(data.TypeInt64)},
	{Name: "org.apache.kafka.connect.converters.ShortConverter", Doc: "INT16, as two bytes.", make: fixed(data.TypeInt16)},
	{Name: "org.apache.kafka.connect.json.JsonConverter", Doc: "JSON, with or without a schema beside it.", Definition: jsonDefinition, make: newJSON},
	{Name: "org.apache.kafka.connect.storage.SimpleHeaderConverter", Doc: "Texts, of which is found out what they stand for: a number, a time, an array or whatever else. The default for headers.", HeaderOnly: true, make: func(configdef.Values, Use) (Converter, error) { return simpleHeader{}, nil }},
	{Name: "org.apache.kafka.connect.storage.StringConverter", Doc: "Texts. Of other values the text is written.", Definition: stringDefinition, make: newString},
}

// Find returns the converter of a name: the class's full name, its last part, or that without Converter, like Json.
func Find(name string) (Class, bool) {
	i := slices.IndexFunc(classes, func(c Class) bool {
		simple := c.Name[strings.LastIndex(c.Name, ".")+1:]
		return name == c.Name || name == simple || name == strings.TrimSuffix(simple, "Converter")
	})
	if i < 0 {
		return Class{}, false
	}
	return classes[i], true
}

// New returns a converter of a class. Its configuration has no prefix; keys that the class does not know are passed over.
func New(name string, use Use, config map[string]string) (Converter, error) {
	c, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("there is no converter %q", name)
	}
	if c.HeaderOnly && use != Header {
		return nil, fmt.Errorf("%s converts headers, no %ss", c.Name, use)
	}
	v, err := c.Definition.Parse(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	made, err := c.make(v, use)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return made, nil
}
