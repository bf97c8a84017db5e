package configdef

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Values are the typed values of a configuration. Asking for a key that the definition does not have, or has with another
// type, panics: it is a fault of the program.
type Values struct{ byName map[string]any }

// Parse returns the values of all keys of the definition, defaults included. The error has every fault, one a line.
func (d Definition) Parse(config map[string]string) (Values, error) {
	v := Values{byName: make(map[string]any, len(d))}
	var faults []error
	for i := range d {
		k := &d[i]
		text, given := config[k.Name]
		if !given && k.Default != nil {
			text, given = *k.Default, true
		}
		if !given {
			if k.Required {
				faults = append(faults, fmt.Errorf("%s is required", k.Name))
			}
			v.byName[k.Name] = k.Type
			continue
		}
		value, err := k.parse(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %w", k.Name, err))
		}
		v.byName[k.Name] = value
	}
	return v, errors.Join(faults...)
}

// get returns the value of a key, or the zero value of T for null. A key that is null is known by its type.
func get[T any](v Values, name string, allowed ...Type) T {
	var zero T
	value, known := v.byName[name]
	if !known {
		panic(fmt.Sprintf("configdef: there is no key %q", name))
	}
	if t, null := value.(Type); null {
		for _, a := range allowed {
			if a == t {
				return zero
			}
		}
		panic(fmt.Sprintf("configdef: key %q has type %s", name, t))
	}
	typed, ok := value.(T)
	if !ok {
		panic(fmt.Sprintf("configdef: key %q has a value of type %T, not %T", name, value, zero))
	}
	return typed
}

// Has says whether the key has a value: one that was given, or a default.
func (v Values) Has(name string) bool {
	value, known := v.byName[name]
	if !known {
		panic(fmt.Sprintf("configdef: there is no key %q", name))
	}
	_, null := value.(Type)
	return !null
}

// String returns the value of a key of type String, Class or Password; "" for null.
func (v Values) String(name string) string { return get[string](v, name, String, Class, Password) }

// Bool returns the value of a key of type Boolean; false for null.
func (v Values) Bool(name string) bool { return get[bool](v, name, Boolean) }

// Int returns the value of a key of type Short, Int or Long; 0 for null.
func (v Values) Int(name string) int64 { return get[int64](v, name, Short, Int, Long) }

// Float returns the value of a key of type Double; 0 for null.
func (v Values) Float(name string) float64 { return get[float64](v, name, Double) }

// List returns the elements of a key of type List; nil for null.
func (v Values) List(name string) []string { return get[[]string](v, name, List) }

// Millis returns the value of a key of type Short, Int or Long that counts milliseconds. What a Duration cannot hold, such as the
// greatest Long, is capped at what it can, some 292 years.
func (v Values) Millis(name string) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(v.Int(name), -most), most)) * time.Millisecond
}
