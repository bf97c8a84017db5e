package config

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Schema is a set of keys, immutable once made.
type Schema struct {
	names []string // sorted
	keys  map[string]Key
	// retired maps a name that is refused to what to do instead.
	retired map[string]string
	// open are prefixes of names that someone else knows.
	open []string
}

// NewSchema returns the schema of the given keys. It panics when two keys share
// a name or a default is not a value of its key: both are faults of the program.
func NewSchema(tables ...[]Key) *Schema {
	s := &Schema{keys: map[string]Key{}, retired: map[string]string{}}
	for _, table := range tables {
		for _, k := range table {
			if _, ok := s.keys[k.Name]; ok {
				panic("config: two keys named " + k.Name)
			}
			if err := k.Check(k.Default); err != nil && !k.Null {
				panic(fmt.Sprintf("config: default of %s: %v", k.Name, err))
			}
			s.keys[k.Name] = k
		}
	}
	s.names = slices.Sorted(maps.Keys(s.keys))
	return s
}

// Merge returns a schema with the keys of both. It panics when they share a name.
func (s *Schema) Merge(o *Schema) *Schema {
	merged := NewSchema(slices.Collect(s.Keys()), slices.Collect(o.Keys()))
	maps.Copy(merged.retired, s.retired)
	maps.Copy(merged.retired, o.retired)
	merged.open = slices.Concat(s.open, o.open)
	return merged
}

// Open returns a schema that also has every name with a prefix, such as "connect.", as a string: what it may be is for the program to know that reads
// those keys, with Values.Under. A name that tells of a secret is a password.
func (s *Schema) Open(prefix string) *Schema {
	r := *s
	r.open = append(slices.Clip(s.open), prefix)
	return &r
}

// secrets are parts of names whose values are not for logs.
var secrets = []string{"password", "secret", "token", "credential", "jaas"}

func (s *Schema) opened(name string) (Key, bool) {
	for _, prefix := range s.open {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			k := Key{Name: name, Type: String, Null: true}
			if slices.ContainsFunc(secrets, func(part string) bool { return strings.Contains(strings.ToLower(rest), part) }) {
				k.Type = Password
			}
			return k, true
		}
	}
	return Key{}, false
}

// Retire returns a schema that refuses the given names with a reason of their
// own ("removed in Kafka 4: …"), keyed by name.
func (s *Schema) Retire(reasons map[string]string) *Schema {
	r := *s
	r.retired = maps.Clone(s.retired)
	maps.Copy(r.retired, reasons)
	return &r
}

// Keys yields all keys by name.
func (s *Schema) Keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for _, name := range s.names {
			if !yield(s.keys[name]) {
				return
			}
		}
	}
}

// Len returns the number of keys.
func (s *Schema) Len() int { return len(s.names) }

// Lookup returns the key of that name. A key prefixed for one listener,
// listener.name.<listener>.<key> or listener.name.<listener>.<mechanism>.<key>
// (KIP-103), is the plain key under the full name.
func (s *Schema) Lookup(name string) (Key, bool) {
	if k, ok := s.keys[name]; ok {
		return k, true
	}
	if k, ok := s.opened(name); ok {
		return k, true
	}
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return Key{}, false
	}
	for range 2 {
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return Key{}, false
		}
		if k, ok := s.keys[rest]; ok {
			k.Name = name
			return k, true
		}
	}
	return Key{}, false
}

// Check reports why the schema refuses value for name, or nil. The fault has no place.
func (s *Schema) Check(name, value string) *Fault {
	k, ok := s.Lookup(name)
	if !ok {
		return s.unknown(name)
	}
	if err := k.Check(value); err != nil {
		return newFault(k, value, err)
	}
	return nil
}

func (s *Schema) unknown(name string) *Fault {
	if reason, ok := s.retired[name]; ok {
		return &Fault{Name: name, Reason: reason}
	}
	f := &Fault{Name: name, Reason: "unknown key"}
	if near := Nearest(name, slices.Values(s.names)); near != "" {
		f.Reason += ", did you mean " + near + "?"
	}
	return f
}

// Defaults returns the values of a process that configures nothing.
func (s *Schema) Defaults() Values { return Values{schema: s, given: map[string]given{}} }
