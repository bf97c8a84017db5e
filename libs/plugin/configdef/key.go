// Package configdef describes a configuration as data, with what Kafka's ConfigDef says of a key, and holds configurations
// against it: typed values for whoever uses them, faults and recommended values by key for whoever writes them.
package configdef

import (
	"errors"
	"fmt"
	"slices"
)

// Type is the type of a key's values, as Kafka Connect's REST API spells it.
type Type string

// The types of Kafka's configuration keys. Blanks around a value, and around the elements of a list, are dropped as in Kafka.
const (
	Boolean  Type = "BOOLEAN" // true or false, in any case
	String   Type = "STRING"
	Int      Type = "INT"   // 32 bits, signed
	Short    Type = "SHORT" // 16 bits, signed
	Long     Type = "LONG"  // 64 bits, signed
	Double   Type = "DOUBLE"
	List     Type = "LIST"     // comma separated; the empty text is the empty list
	Class    Type = "CLASS"    // the name of a plugin or of a Java class
	Password Type = "PASSWORD" // never shown
)

// Importance says how much whoever configures should care about a key.
type Importance string

// The degrees of importance.
const (
	High   Importance = "HIGH"
	Medium Importance = "MEDIUM"
	Low    Importance = "LOW"
)

// Width is how wide a form should show a key.
type Width string

// The widths of a key in a form.
const (
	NoWidth     Width = "NONE"
	ShortWidth  Width = "SHORT"
	MediumWidth Width = "MEDIUM"
	LongWidth   Width = "LONG"
)

// Key is one key of a configuration. Name, Type, Importance and Doc are always there.
type Key struct {
	Name string
	Type Type
	// Required keys must be given, and have no default. A key that is neither required nor has a default is null when
	// it is not given.
	Required bool
	// Default is how the default would be written; nil for none.
	Default    *string
	Importance Importance
	Doc        string
	// Group and Order are the heading of a form under which the key stands, and its place there.
	Group string
	Order int
	Width Width // NoWidth when empty
	// DisplayName is what a form calls the key; its name when empty.
	DisplayName string
	// Dependents are the keys whose recommended values or use depend on the value of this one.
	Dependents []string
	// Recommended are values to offer; any other valid one is taken, too.
	Recommended []string
	Valid       Rule
}

// Rule says which values of its type a key takes; the zero Rule takes all of them.
type Rule struct {
	// Min and Max bound a number, and are allowed themselves; nil for no bound.
	Min, Max *float64
	// OneOf are the only values, or elements of a list; nil for any.
	OneOf []string
	// IgnoreCase has OneOf match in upper and lower case.
	IgnoreCase bool
	// NonEmpty refuses the empty text and the empty list.
	NonEmpty bool
	// Pattern is a regular expression (RE2) that the whole text must match; empty for any.
	Pattern string
}

// Definition is the keys of a configuration, in the order in which they are shown. Configurations may have other keys
// besides.
type Definition []Key

var (
	types       = []Type{Boolean, String, Int, Short, Long, Double, List, Class, Password}
	importances = []Importance{High, Medium, Low}
	widths      = []Width{"", NoWidth, ShortWidth, MediumWidth, LongWidth}
)

// Check returns what is wrong with the definition itself: each is a fault of the program that made it.
func (d Definition) Check() error {
	seen := map[string]bool{}
	var faults []error
	for i := range d {
		k := &d[i]
		if seen[k.Name] {
			faults = append(faults, fmt.Errorf("key %q is there twice", k.Name))
		}
		seen[k.Name] = true
		if err := k.checkItself(); err != nil {
			faults = append(faults, fmt.Errorf("key %q: %w", k.Name, err))
		}
	}
	for i := range d {
		for _, name := range d[i].Dependents {
			if !seen[name] {
				faults = append(faults, fmt.Errorf("key %q: its dependent %q is no key", d[i].Name, name))
			}
		}
	}
	return errors.Join(faults...)
}

func (k *Key) checkItself() error {
	switch {
	case k.Name == "":
		return errors.New("it has no name")
	case !slices.Contains(types, k.Type):
		return fmt.Errorf("there is no type %q", k.Type)
	case !slices.Contains(importances, k.Importance):
		return fmt.Errorf("there is no importance %q", k.Importance)
	case !slices.Contains(widths, k.Width):
		return fmt.Errorf("there is no width %q", k.Width)
	case k.Doc == "":
		return errors.New("it is not documented")
	case k.Required && k.Default != nil:
		return errors.New("it is required and has a default")
	}
	if err := k.Valid.checkItself(k.Type); err != nil {
		return err
	}
	if k.Default == nil {
		return nil
	}
	if _, err := k.parse(*k.Default); err != nil {
		return fmt.Errorf("its default %w", err)
	}
	return nil
}

// Find returns the key of that name, or nil.
func (d Definition) Find(name string) *Key {
	if i := slices.IndexFunc(d, func(k Key) bool { return k.Name == name }); i >= 0 {
		return &d[i]
	}
	return nil
}
