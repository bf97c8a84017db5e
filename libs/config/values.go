package config

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values holds one value for each key of a schema. It is immutable and cheap to copy.
//
// The getters panic for a name that the schema does not know and for a key of
// another type: both are faults of the program. A null value reads as the zero
// value; Lookup tells null from zero where that matters.
type Values struct {
	schema *Schema
	given  map[string]given // what differs from the defaults, normalized
	// passedOver are the KAFKA_ variables that name no key.
	passedOver []string
}

type given struct{ value, where string }

// FromMap returns the defaults of schema overlaid with pairs, or Faults.
// It is Load without file and environment, for tests and embedding.
func FromMap(schema *Schema, pairs map[string]string) (Values, error) {
	return schema.Defaults().With(pairs, "set")
}

// With returns the values overlaid with pairs, which are said to come from where
// (a file and line, a flag), or Faults.
func (v Values) With(pairs map[string]string, where string) (Values, error) {
	r := Values{schema: v.schema, given: maps.Clone(v.given), passedOver: v.passedOver}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if f := r.set(name, pairs[name], where); f != nil {
			faults = append(faults, f)
		}
	}
	if faults != nil {
		return Values{}, faults
	}
	return r, nil
}

// set overlays one value of a Values under construction.
func (v Values) set(name, value, where string) *Fault {
	if f := v.schema.Check(name, value); f != nil {
		f.Where = where
		return f
	}
	k, _ := v.schema.Lookup(name)
	v.given[name] = given{k.Normalize(value), where}
	return nil
}

// Schema returns the keys these are values of.
func (v Values) Schema() *Schema { return v.schema }

// Lookup returns the text of a value, and false when it is null.
func (v Values) Lookup(name string) (string, bool) {
	k := v.key(name)
	if g, ok := v.given[name]; ok {
		return g.value, true
	}
	return k.Default, !k.Null
}

// Given reports whether the value was configured rather than defaulted, be it to the same text.
func (v Values) Given(name string) bool {
	v.key(name)
	_, ok := v.given[name]
	return ok
}

// Source names where the value was configured: "default", "server.properties:12",
// "env CAUCE_NODE_ID", "--set" or what With was told.
func (v Values) Source(name string) string {
	v.key(name)
	if g, ok := v.given[name]; ok {
		return g.where
	}
	return "default"
}

// PassedOver returns a line for each environment variable in the style of the apache/kafka image that names no key, in the
// order of the environment: what a process warns of when it starts.
func (v Values) PassedOver() []string { return v.passedOver }

// All yields the name and text of every configured value by name, secrets hidden.
// It is what a process logs when it starts.
func (v Values) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, name := range slices.Sorted(maps.Keys(v.given)) {
			value := v.given[name].value
			if v.key(name).Sensitive() {
				value = hidden
			}
			if !yield(name, value) {
				return
			}
		}
	}
}

// Under returns what was configured with a prefix, by the rest of the name, secrets not hidden.
func (v Values) Under(prefix string) map[string]string {
	under := map[string]string{}
	for name, g := range v.given {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			under[rest] = g.value
		}
	}
	return under
}

// Get returns the text of a value of any type, "" for null.
func (v Values) Get(name string) string {
	text, _ := v.Lookup(name)
	return text
}

// String returns the value of a string, class or password key.
func (v Values) String(name string) string { return v.text(name, String, Class, Password) }

// Int returns the value of an int or short key.
func (v Values) Int(name string) int { return int(v.integer(name, Int, Short)) }

// Long returns the value of a long, int or short key.
func (v Values) Long(name string) int64 { return v.integer(name, Long, Int, Short) }

// DurationMs returns the value of a long or int key that counts milliseconds.
func (v Values) DurationMs(name string) time.Duration { return v.Duration(name, time.Millisecond) }

// Duration returns the value of a long or int key that counts units. What a Duration cannot hold, such as Kafka's "for ever"
// (the greatest long), is capped at what it can, some 292 years, so that there is room for it between now and the end of
// a count of milliseconds.
func (v Values) Duration(name string, unit time.Duration) time.Duration {
	most := math.MaxInt64 / int64(unit)
	return time.Duration(min(max(v.Long(name), -most), most)) * unit
}

// Double returns the value of a double key.
func (v Values) Double(name string) float64 {
	n, _ := strconv.ParseFloat(v.text(name, Double), 64)
	return n
}

// Bool returns the value of a boolean key.
func (v Values) Bool(name string) bool { return v.text(name, Boolean) == "true" }

// List returns the elements of a list key, nil when empty. Some lists are of
// type string in Kafka (listener.security.protocol.map) and may be read so, too.
func (v Values) List(name string) []string { return Elements(v.text(name, List, String)) }

func (v Values) integer(name string, types ...Type) int64 {
	n, _ := strconv.ParseInt(v.text(name, types...), 10, 64)
	return n
}

func (v Values) text(name string, types ...Type) string {
	if k := v.key(name); !slices.Contains(types, k.Type) {
		panic(fmt.Sprintf("config: %s is of type %s, read as %s", name, k.Type, types[0]))
	}
	return v.Get(name)
}

func (v Values) key(name string) Key {
	k, ok := v.schema.Lookup(name)
	if !ok {
		panic("config: no such key: " + name)
	}
	return k
}

// EnvName returns the environment variable that sets the key of that name:
// CAUCE_ and the name in capitals with "_" for ".", "__" for "_" and "___" for "-".
func EnvName(name string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer("_", "__", "-", "___", ".", "_").Replace(name))
}
