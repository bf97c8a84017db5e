// Package predicate says of records whether a transform concerns them. These are Kafka's own predicates, under their Java class
// names.
package predicate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
)

// Predicate says whether it is true of a record.
type Predicate func(r *data.Record) bool

// Class is a kind of predicate.
type Class struct {
	// Name is that of Kafka's Java class.
	Name string
	// Doc is a sentence.
	Doc string
	// Definition is the keys of its configuration, without the prefix.
	Definition configdef.Definition

	make func(v configdef.Values) (Predicate, error)
}

const prefix = "org.apache.kafka.connect.transforms.predicates."

var classes = []Class{
	{
		Name: prefix + "HasHeaderKey", Doc: "True of records that have a header of a name.", make: newHasHeaderKey,
		Definition: configdef.Definition{{
			Name: "name", Type: configdef.String, Required: true, Importance: configdef.Medium, Valid: configdef.Rule{NonEmpty: true}, Doc: "The name of the header that a record is to have.",
		}},
	},
	{Name: prefix + "RecordIsTombstone", Doc: "True of records without a value.", make: newRecordIsTombstone},
	{
		Name: prefix + "TopicNameMatches", Doc: "True of records whose topic matches a regular expression.", make: newTopicNameMatches,
		Definition: configdef.Definition{{
			Name: "pattern", Type: configdef.String, Required: true, Importance: configdef.Medium, Valid: configdef.Rule{NonEmpty: true},
			Doc: "The regular expression, of Java's kind, that the whole topic is to match.",
		}},
	},
}

func newHasHeaderKey(v configdef.Values) (Predicate, error) {
	name := v.String("name")
	return func(r *data.Record) bool {
		return slices.ContainsFunc(r.Headers, func(h data.Header) bool { return h.Name == name })
	}, nil
}

func newRecordIsTombstone(configdef.Values) (Predicate, error) {
	return func(r *data.Record) bool { return r.Value.V == nil }, nil
}

func newTopicNameMatches(v configdef.Values) (Predicate, error) {
	pattern, err := javaregex.Compile(v.String("pattern"))
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	return func(r *data.Record) bool { return pattern.Matches(r.Topic) }, nil
}

// Classes returns all predicates, ordered by name.
func Classes() []Class { return slices.Clone(classes) }

// Find returns the predicate of a name: the class's full name or its last part.
func Find(name string) (Class, bool) {
	i := slices.IndexFunc(classes, func(c Class) bool { return name == c.Name || name == strings.TrimPrefix(c.Name, prefix) })
	if i < 0 {
		return Class{}, false
	}
	return classes[i], true
}

// New returns a predicate of a class. Its configuration has no prefix; keys that the class does not know are passed over.
func New(name string, config map[string]string) (Predicate, error) {
	c, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("there is no predicate %q", name)
	}
	v, err := c.Definition.Parse(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	made, err := c.make(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return made, nil
}
